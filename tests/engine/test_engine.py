"""The turn: who is heard when, fair shares, held answers, links that are given up, what time brings."""

import gc
import weakref

import pytest

from franca.core.model import Job, JobQuery, Millis, State
from franca.core.wants import Recall, SupplyReady
from franca.engine.engine import SWEEP_MS, TICK_MS
from franca.protocols.conversation import Link
from tests.engine.fixtures import PEER, T, World, echo
from tests.sim.disk import Disk

# -- what came in ---------------------------------------------------------------------------


def test_a_greeting_is_said_at_once_and_everything_else_in_a_turn(world: World) -> None:
    link = world.engine.open_link("echo", "l", PEER, T)
    assert world.said(link) == "hello\n"
    world.say(link, "one\ntw")
    assert world.said(link) == ""
    assert world.engine.has_input()
    world.engine.turn(T)
    assert world.said(link) == "one\n"
    world.say(link, "o\n")
    world.engine.turn(T)
    assert world.said(link) == "two\n"
    assert not world.engine.has_input()


def test_a_link_speaks_once_a_turn_however_much_it_says(world: World, link: Link) -> None:
    world.say(link, "one\ntwo\n")
    world.engine.turn(T)
    assert world.engine.with_output == [link]
    assert not link.after_commit


def test_whatever_must_be_durable_first_holds_back_all_that_is_said_with_it(
    world: World, link: Link
) -> None:
    world.say(link, "one\npush\ntwo\n")
    world.engine.turn(T)
    assert link.after_commit
    assert world.said(link) == "one\ntaken\ntwo\n"


def test_a_flood_takes_its_share_of_a_turn_and_no_more() -> None:
    world = World(turn_messages=3)
    flood, other = world.open(), world.open()
    world.say(flood, "x\n" * 7)
    world.say(other, "y\n")
    world.engine.turn(T)
    assert (world.said(flood), world.said(other)) == ("x\n" * 3, "y\n")
    assert world.engine.unfinished() == [flood]
    assert world.engine.has_input()
    world.engine.turn(T)
    world.engine.turn(T)
    assert world.said(flood) == "x\n" * 4
    assert not world.engine.has_input()


def test_while_an_answer_is_owed_nothing_behind_it_is_acted_on(world: World) -> None:
    worker, producer = world.open(), world.open()
    world.say(worker, "take\nafter\n")
    world.engine.turn(T)
    assert world.said(worker) == ""
    assert not world.engine.has_input()
    world.say(producer, "push\n")
    world.engine.turn(T)
    assert world.said(worker) == "given\n"
    world.engine.turn(T)
    assert world.said(worker) == "after\n"


def test_a_conversation_may_ask_to_be_called_again_once_its_link_is_not_full(
    world: World, link: Link
) -> None:
    world.engine.turn(T)
    echo(link).reader.feed(b"later\n")
    link.call_next_turn()
    assert world.engine.has_input()
    world.engine.turn(T)
    assert world.said(link) == "later\n"
    assert not world.engine.has_input()

    world.engine.hold_back(link)
    assert link.full
    echo(link).holding = True
    link.call_next_turn()
    world.engine.turn(T)
    assert not world.engine.has_input()
    echo(link).holding = False
    echo(link).reader.feed(b"at last\n")
    world.engine.go_on(link)
    assert not link.full
    world.engine.turn(T)
    assert world.said(link) == "at last\n"


def test_a_link_that_asked_to_be_called_may_be_gone_by_then(world: World, link: Link) -> None:
    link.call_next_turn()
    world.engine.close_link(link, T, undelivered=False)
    world.engine.turn(T)
    assert not world.engine.has_input()


def test_a_demand_ends_when_its_time_is_over(world: World) -> None:
    worker = world.open()
    world.say(worker, "take\n")
    for now in range(T, T + 1_000, TICK_MS):
        world.engine.turn(now)
        assert world.said(worker) == ""
    for now in range(T + 1_000, T + 1_151, TICK_MS):
        world.engine.turn(now)
    assert world.said(worker) == "none\n"


# -- links that end -------------------------------------------------------------------------


def test_whole_messages_that_came_before_the_end_are_acted_on_all_of_them() -> None:
    world = World(turn_messages=3)
    link = world.open()
    world.say(link, "push\n" * 8 + "pus")
    world.engine.close_link(link, T, undelivered=True)
    assert echo(link).heard == ["push"] * 8
    assert echo(link).hung_up == [True]
    assert world.broker.queues["q"].ready == 8
    world.engine.close_link(link, T, undelivered=False)
    assert echo(link).hung_up == [True]
    assert not world.engine.links


def test_a_link_that_was_told_to_close_has_heard_what_was_sent_to_it() -> None:
    """Even if it had more than its share of that turn before: nothing more of it is acted on."""
    world = World(turn_messages=3)
    link = world.open()
    world.say(link, "x\n" * 4)
    world.say(link, "bye\n")
    world.engine.turn(T)
    assert link.closing
    world.said(link)
    world.engine.close_link(link, T, undelivered=False)
    assert echo(link).hung_up == [False]


def test_floods_of_those_who_are_gone_have_one_share_of_a_turn_together() -> None:
    world = World(turn_messages=3)
    gone, there = [world.open() for _ in range(3)], world.open()
    for link in gone:
        world.say(link, "x\n" * 300)
        world.engine.close_link(link, T, undelivered=True)
    acted = [len(echo(link).heard) for link in gone]
    world.say(there, "y\n" * 6)
    world.engine.turn(T)
    assert sum(len(echo(link).heard) for link in gone) == sum(acted) + 3
    world.engine.turn(T)
    assert world.said(there) == "y\n" * 6
    for _ in range(300):
        world.engine.turn(T)
    assert [len(echo(link).heard) for link in gone] == [300] * 3
    assert not world.engine.has_input()


def test_what_comes_after_the_end_is_nothing(world: World, link: Link) -> None:
    world.engine.close_link(link, T, undelivered=False)
    world.say(link, "push\n")
    world.engine.turn(T)
    assert not world.broker.queues


def test_a_link_that_hangs_up_hears_nothing_more(world: World, link: Link) -> None:
    world.say(link, "one\nbye\ntwo\n")
    world.engine.turn(T)
    assert world.said(link) == "one\n"
    assert link.closing
    world.say(link, "three\n")
    world.engine.turn(T)
    assert world.said(link) == ""


def test_a_worker_that_goes_gives_its_job_to_the_next_in_the_same_step(world: World) -> None:
    first, second = world.open(), world.open()
    world.say(first, "push\ntake\n")
    world.say(second, "take\n")
    world.engine.turn(T)
    assert world.said(first) == "taken\ngiven\n"
    world.engine.close_link(first, T, undelivered=False)
    assert world.said(second) == "given\n"


def test_a_closed_link_and_its_conversation_can_be_let_go(world: World) -> None:
    link = world.open()
    world.say(link, "push\ntake\ntake\n")
    world.engine.turn(T)
    world.engine.close_link(link, T, undelivered=False)
    world.said(link)
    gone = weakref.ref(link.conversation)
    world.engine.turn(T + TICK_MS)
    del link
    gc.collect()
    assert gone() is None


# -- links that are given up ------------------------------------------------------------------


def sweeps(world: World, since: Millis, ms: int) -> None:
    for now in range(since, since + ms + 1, SWEEP_MS):
        world.engine.turn(now)


def test_those_who_never_say_who_they_are_are_hung_up_on() -> None:
    world = World(handshake_ms=5_000)
    stranger, known = world.open(), world.open()
    known.known = True
    sweeps(world, T, 5_000)
    assert not stranger.closing
    sweeps(world, T + 6_000, 0)
    assert stranger.closing
    assert not known.closing


def test_those_who_may_be_silent_are_hung_up_on_only_where_there_are_too_many() -> None:
    world = World(handshake_ms=5_000, unknown_max=2, stranger_ms=10**9)
    links = [world.open() for _ in range(5)]
    for link in links:
        link.conversation.silent_ok = True
    links[1].known = True
    sweeps(world, T, 5_000)
    assert not any(link.closing for link in links)
    sweeps(world, T + 6_000, 60_000)
    assert [link.closing for link in links] == [True, False, True, False, False]


def test_too_many_strangers_make_the_oldest_go() -> None:
    world = World(unknown_max=2)
    old = [world.open(T), world.open(T)]
    later = T + world.limits.stranger_ms + 1
    old[0].known = True
    assert not world.open(later).closing
    assert not old[1].closing
    world.open(later)
    assert [link.closing for link in old] == [False, True]


def test_a_message_that_is_never_finished_ends_its_link() -> None:
    world = World(frame_ms=30_000, handshake_ms=10**9)
    link = world.open()
    world.say(link, "half")
    sweeps(world, T, 30_000)
    assert not link.closing
    sweeps(world, T + 31_000, 2_000)
    assert link.closing


def test_a_link_that_always_has_half_a_message_but_finishes_them_goes_on() -> None:
    world = World(frame_ms=30_000, handshake_ms=10**9)
    link = world.open()
    world.say(link, "ha")
    for now in range(T, T + 300_000, SWEEP_MS):
        world.say(link, "lf\nha")
        world.engine.turn(now)
    assert not link.closing


def trickle(world: World, link: Link, bytes_per_s: int, ms: int) -> None:
    """Send so many bytes of one message a second, for so long."""
    for now in range(T, T + ms + 1, SWEEP_MS):
        world.say(link, "x" * bytes_per_s)
        world.engine.turn(now)


@pytest.mark.parametrize(("bytes_per_s", "in_time"), [(100, True), (16, True), (15, False)])
def test_a_message_that_takes_long_may_take_its_time_at_a_fair_pace(
    bytes_per_s: int, in_time: bool
) -> None:
    world = World(frame_ms=30_000, frame_bytes_per_s=16, handshake_ms=10**9)
    link = world.open()
    trickle(world, link, bytes_per_s, 300_000)
    assert link.closing is not in_time
    assert bool(world.engine.notices) is not in_time


def test_a_message_that_came_fast_and_stops_is_late_after_the_next_time() -> None:
    world = World(frame_ms=30_000, frame_bytes_per_s=16, handshake_ms=10**9)
    link = world.open()
    trickle(world, link, 1_000, 10_000)
    sweeps(world, T + 11_000, 50_000)
    assert not link.closing
    sweeps(world, T + 62_000, 3_000)
    assert link.closing


def test_time_in_which_nothing_is_read_is_not_the_peers() -> None:
    world = World(frame_ms=30_000, handshake_ms=10**9)
    link = world.open()
    world.say(link, "half")
    sweeps(world, T, 20_000)
    link.paused = True
    sweeps(world, T + 21_000, 600_000)
    assert not link.closing
    link.paused = False
    sweeps(world, T + 622_000, 8_000)
    assert not link.closing
    sweeps(world, T + 631_000, 2_000)
    assert link.closing


def test_what_was_read_of_a_link_is_let_go_with_it(world: World, link: Link) -> None:
    world.say(link, "half")
    world.engine.turn(T)
    assert link.conversation.unread() == 4
    world.engine.close_link(link, T, undelivered=False)
    assert link.conversation.unread() == 0


def test_the_oldest_stranger_is_who_has_not_said_who_it_is_for_longest(world: World) -> None:
    assert world.engine.oldest_stranger() is None
    known, closing, first, _second = (world.open(T + number) for number in range(4))
    known.known = True
    closing.close()
    assert world.engine.oldest_stranger() is first


def test_a_link_that_waits_for_its_answer_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(frame_ms=30_000, handshake_ms=10**9)
    link = world.open()
    world.say(link, "take\nhalf")
    monkeypatch.setattr(world.broker, "demand", lambda demand, now: None)
    sweeps(world, T, 60_000)
    assert not link.closing


# -- time, the store, the end -------------------------------------------------------------------


def test_time_is_looked_at_once_a_tick_and_the_next_moment_is_never_past(world: World) -> None:
    for ms in range(0, 200, 10):
        world.engine.turn(T + ms)
        assert world.engine.next_wake() > T + ms
    assert world.service.ticks == [T, T + 50, T + 100, T + 150]


def test_what_the_store_brings_is_given_to_those_who_wait() -> None:
    world = World(window_jobs=2, supply_jobs=1)
    disk = Disk()
    producer, worker = world.open(), world.open()
    world.say(producer, "push\n" * 3)
    world.say(worker, "take\ntake\ntake\n")
    for _ in range(3):
        world.engine.turn(T)
    assert world.said(worker) == "given\ngiven\n"
    wants = world.broker.take_wants()
    assert [type(want) for want in wants] == [SupplyReady]
    for want, jobs in zip(wants, disk.write(world.broker.drain(), wants), strict=True):
        world.engine.supplied(want, jobs, T)
    assert world.said(worker) == "given\n"


def test_recalled_jobs_reach_whoever_recalled_them(world: World, link: Link) -> None:
    world.say(link, "push\n")
    world.engine.turn(T)
    (job,) = world.broker.jobs.values()
    seen: list[Job] = []

    class Visitor:
        def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
            seen.extend(jobs)
            world.broker.cancel(jobs[0], now)

    world.engine.supplied(Recall(JobQuery(), Visitor()), [job], T)
    assert seen == [job]
    assert job.state is State.CANCELLED


def test_stopping_asks_every_service_and_counts_who_is_left(world: World) -> None:
    world.open()
    world.engine.stop(T)
    assert world.service.stopped
    assert world.engine.consumers() == 3


@pytest.mark.parametrize("closed_first", [True, False])
def test_a_link_that_is_closed_has_something_to_say_even_if_it_said_nothing(
    closed_first: bool, world: World, link: Link
) -> None:
    if closed_first:
        link.close()
    link.write(b"last words")
    link.close()
    assert link in world.engine.with_output


def test_the_end_of_a_peers_input_is_noticed_after_all_of_it(world: World) -> None:
    worker, producer = world.open(), world.open()
    for text in ("one\n", "two\ntake\nthree\n", ""):
        world.say(worker, text)
    world.engine.turn(T)
    assert (world.said(worker), worker.input_ended) == ("one\ntwo\n", True)
    world.say(producer, "push\n")
    world.engine.turn(T)
    world.engine.turn(T)
    assert world.said(worker) == "given\nthree\n"
    assert not world.engine.has_input()
