"""The turn: who is heard when, fair shares, held answers, links that are given up, what time brings."""

import gc
import weakref

import pytest

from franca.core.model import Job, JobQuery, Millis, State
from franca.core.wants import Recall, SupplyReady
from franca.engine.engine import SWEEP_MS, TICK_MS
from franca.protocols.conversation import Link
from tests.engine.fixtures import PEER, Stage, T, echo
from tests.sim.disk import Disk

# -- what came in ---------------------------------------------------------------------------


def test_a_greeting_is_said_at_once_and_everything_else_in_a_turn(stage: Stage) -> None:
    link = stage.engine.open_link("echo", "l", PEER, T)
    assert stage.said(link) == "hello\n"
    stage.say(link, "one\ntw")
    assert stage.said(link) == ""
    assert stage.engine.has_input()
    stage.engine.turn(T)
    assert stage.said(link) == "one\n"
    stage.say(link, "o\n")
    stage.engine.turn(T)
    assert stage.said(link) == "two\n"
    assert not stage.engine.has_input()


def test_a_link_speaks_once_a_turn_however_much_it_says(stage: Stage, link: Link) -> None:
    stage.say(link, "one\ntwo\n")
    stage.engine.turn(T)
    assert stage.engine.speaking == [link]
    assert not link.after_commit


def test_whatever_must_be_durable_first_holds_back_all_that_is_said_with_it(
    stage: Stage, link: Link
) -> None:
    stage.say(link, "one\npush\ntwo\n")
    stage.engine.turn(T)
    assert link.after_commit
    assert stage.said(link) == "one\ntaken\ntwo\n"


def test_a_flood_takes_its_share_of_a_turn_and_no_more() -> None:
    stage = Stage(turn_messages=3)
    flood, other = stage.open(), stage.open()
    stage.say(flood, "x\n" * 7)
    stage.say(other, "y\n")
    stage.engine.turn(T)
    assert (stage.said(flood), stage.said(other)) == ("x\n" * 3, "y\n")
    assert stage.engine.unfinished() == [flood]
    assert stage.engine.has_input()
    stage.engine.turn(T)
    stage.engine.turn(T)
    assert stage.said(flood) == "x\n" * 4
    assert not stage.engine.has_input()


def test_while_an_answer_is_owed_nothing_behind_it_is_acted_on(stage: Stage) -> None:
    worker, producer = stage.open(), stage.open()
    stage.say(worker, "take\nafter\n")
    stage.engine.turn(T)
    assert stage.said(worker) == ""
    assert not stage.engine.has_input()
    stage.say(producer, "push\n")
    stage.engine.turn(T)
    assert stage.said(worker) == "given\n"
    stage.engine.turn(T)
    assert stage.said(worker) == "after\n"


def test_a_conversation_may_ask_to_be_called_again_once_its_link_is_not_full(
    stage: Stage, link: Link
) -> None:
    stage.engine.turn(T)
    echo(link).reader.feed(b"later\n")
    link.call_next_turn()
    assert stage.engine.has_input()
    stage.engine.turn(T)
    assert stage.said(link) == "later\n"
    assert not stage.engine.has_input()

    stage.engine.hold_back(link)
    assert link.full
    echo(link).holding = True
    link.call_next_turn()
    stage.engine.turn(T)
    assert not stage.engine.has_input()
    echo(link).holding = False
    echo(link).reader.feed(b"at last\n")
    stage.engine.go_on(link)
    assert not link.full
    stage.engine.turn(T)
    assert stage.said(link) == "at last\n"


def test_a_link_that_asked_to_be_called_may_be_gone_by_then(stage: Stage, link: Link) -> None:
    link.call_next_turn()
    stage.engine.close_link(link, T, undelivered=False)
    stage.engine.turn(T)
    assert not stage.engine.has_input()


def test_a_demand_ends_when_its_time_is_over(stage: Stage) -> None:
    worker = stage.open()
    stage.say(worker, "take\n")
    for now in range(T, T + 1_000, TICK_MS):
        stage.engine.turn(now)
        assert stage.said(worker) == ""
    for now in range(T + 1_000, T + 1_151, TICK_MS):
        stage.engine.turn(now)
    assert stage.said(worker) == "none\n"


# -- links that end -------------------------------------------------------------------------


def test_whole_messages_that_came_before_the_end_are_acted_on_all_of_them() -> None:
    stage = Stage(turn_messages=3)
    link = stage.open()
    stage.say(link, "push\n" * 8 + "pus")
    stage.engine.close_link(link, T, undelivered=True)
    assert echo(link).heard == ["push"] * 8
    assert echo(link).hung_up == [True]
    assert stage.broker.queues["q"].ready == 8
    stage.engine.close_link(link, T, undelivered=False)
    assert echo(link).hung_up == [True]
    assert not stage.engine.links


def test_a_link_that_was_told_to_close_has_heard_what_was_sent_to_it() -> None:
    """Even if it had more than its share of that turn before: nothing more of it is acted on."""
    stage = Stage(turn_messages=3)
    link = stage.open()
    stage.say(link, "x\n" * 4)
    stage.say(link, "bye\n")
    stage.engine.turn(T)
    assert link.closing
    stage.said(link)
    stage.engine.close_link(link, T, undelivered=False)
    assert echo(link).hung_up == [False]


def test_floods_of_those_who_are_gone_have_one_share_of_a_turn_together() -> None:
    stage = Stage(turn_messages=3)
    gone, there = [stage.open() for _ in range(3)], stage.open()
    for link in gone:
        stage.say(link, "x\n" * 300)
        stage.engine.close_link(link, T, undelivered=True)
    acted = [len(echo(link).heard) for link in gone]
    stage.say(there, "y\n" * 6)
    stage.engine.turn(T)
    assert sum(len(echo(link).heard) for link in gone) == sum(acted) + 3
    stage.engine.turn(T)
    assert stage.said(there) == "y\n" * 6
    for _ in range(300):
        stage.engine.turn(T)
    assert [len(echo(link).heard) for link in gone] == [300] * 3
    assert not stage.engine.has_input()


def test_what_comes_after_the_end_is_nothing(stage: Stage, link: Link) -> None:
    stage.engine.close_link(link, T, undelivered=False)
    stage.say(link, "push\n")
    stage.engine.turn(T)
    assert not stage.broker.queues


def test_a_link_that_hangs_up_hears_nothing_more(stage: Stage, link: Link) -> None:
    stage.say(link, "one\nbye\ntwo\n")
    stage.engine.turn(T)
    assert stage.said(link) == "one\n"
    assert link.closing
    stage.say(link, "three\n")
    stage.engine.turn(T)
    assert stage.said(link) == ""


def test_a_worker_that_goes_gives_its_job_to_the_next_in_the_same_step(stage: Stage) -> None:
    first, second = stage.open(), stage.open()
    stage.say(first, "push\ntake\n")
    stage.say(second, "take\n")
    stage.engine.turn(T)
    assert stage.said(first) == "taken\ngiven\n"
    stage.engine.close_link(first, T, undelivered=False)
    assert stage.said(second) == "given\n"


def test_a_closed_link_and_its_conversation_can_be_let_go(stage: Stage) -> None:
    link = stage.open()
    stage.say(link, "push\ntake\ntake\n")
    stage.engine.turn(T)
    stage.engine.close_link(link, T, undelivered=False)
    stage.said(link)
    gone = weakref.ref(link.conversation)
    stage.engine.turn(T + TICK_MS)
    del link
    gc.collect()
    assert gone() is None


# -- links that are given up ------------------------------------------------------------------


def sweeps(stage: Stage, since: Millis, ms: int) -> None:
    for now in range(since, since + ms + 1, SWEEP_MS):
        stage.engine.turn(now)


def test_those_who_never_say_who_they_are_are_hung_up_on() -> None:
    stage = Stage(handshake_ms=5_000)
    stranger, known = stage.open(), stage.open()
    known.known = True
    sweeps(stage, T, 5_000)
    assert not stranger.closing
    sweeps(stage, T + 6_000, 0)
    assert stranger.closing
    assert not known.closing


def test_those_who_may_be_silent_are_hung_up_on_only_where_there_are_too_many() -> None:
    stage = Stage(handshake_ms=5_000, unknown_max=2, stranger_ms=10**9)
    links = [stage.open() for _ in range(5)]
    for link in links:
        link.conversation.silent_ok = True
    links[1].known = True
    sweeps(stage, T, 5_000)
    assert not any(link.closing for link in links)
    sweeps(stage, T + 6_000, 60_000)
    assert [link.closing for link in links] == [True, False, True, False, False]


def test_too_many_strangers_make_the_oldest_go() -> None:
    stage = Stage(unknown_max=2)
    old = [stage.open(T), stage.open(T)]
    later = T + stage.limits.stranger_ms + 1
    old[0].known = True
    assert not stage.open(later).closing
    assert not old[1].closing
    stage.open(later)
    assert [link.closing for link in old] == [False, True]


def test_a_message_that_is_never_finished_ends_its_link() -> None:
    stage = Stage(frame_ms=30_000, handshake_ms=10**9)
    link = stage.open()
    stage.say(link, "half")
    sweeps(stage, T, 30_000)
    assert not link.closing
    sweeps(stage, T + 31_000, 2_000)
    assert link.closing


def test_a_link_that_always_has_half_a_message_but_finishes_them_goes_on() -> None:
    stage = Stage(frame_ms=30_000, handshake_ms=10**9)
    link = stage.open()
    stage.say(link, "ha")
    for now in range(T, T + 300_000, SWEEP_MS):
        stage.say(link, "lf\nha")
        stage.engine.turn(now)
    assert not link.closing


def trickle(stage: Stage, link: Link, bytes_per_s: int, ms: int) -> None:
    """Send so many bytes of one message a second, for so long."""
    for now in range(T, T + ms + 1, SWEEP_MS):
        stage.say(link, "x" * bytes_per_s)
        stage.engine.turn(now)


@pytest.mark.parametrize(("bytes_per_s", "in_time"), [(100, True), (16, True), (15, False)])
def test_a_message_that_takes_long_may_take_its_time_at_a_fair_pace(
    bytes_per_s: int, in_time: bool
) -> None:
    stage = Stage(frame_ms=30_000, frame_bytes_per_s=16, handshake_ms=10**9)
    link = stage.open()
    trickle(stage, link, bytes_per_s, 300_000)
    assert link.closing is not in_time
    assert bool(stage.engine.notices) is not in_time


def test_a_message_that_came_fast_and_stops_is_late_after_the_next_time() -> None:
    stage = Stage(frame_ms=30_000, frame_bytes_per_s=16, handshake_ms=10**9)
    link = stage.open()
    trickle(stage, link, 1_000, 10_000)
    sweeps(stage, T + 11_000, 50_000)
    assert not link.closing
    sweeps(stage, T + 62_000, 3_000)
    assert link.closing


def test_time_in_which_nothing_is_read_is_not_the_peers() -> None:
    stage = Stage(frame_ms=30_000, handshake_ms=10**9)
    link = stage.open()
    stage.say(link, "half")
    sweeps(stage, T, 20_000)
    link.paused = True
    sweeps(stage, T + 21_000, 600_000)
    assert not link.closing
    link.paused = False
    sweeps(stage, T + 622_000, 8_000)
    assert not link.closing
    sweeps(stage, T + 631_000, 2_000)
    assert link.closing


def test_what_was_read_of_a_link_is_let_go_with_it(stage: Stage, link: Link) -> None:
    stage.say(link, "half")
    stage.engine.turn(T)
    assert link.conversation.unread() == 4
    stage.engine.close_link(link, T, undelivered=False)
    assert link.conversation.unread() == 0


def test_the_oldest_stranger_is_who_has_not_said_who_it_is_for_longest(stage: Stage) -> None:
    assert stage.engine.oldest_stranger() is None
    known, closing, first, _second = (stage.open(T + number) for number in range(4))
    known.known = True
    closing.close()
    assert stage.engine.oldest_stranger() is first


def test_a_link_that_waits_for_its_answer_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(frame_ms=30_000, handshake_ms=10**9)
    link = stage.open()
    stage.say(link, "take\nhalf")
    monkeypatch.setattr(stage.broker, "demand", lambda demand, now: None)
    sweeps(stage, T, 60_000)
    assert not link.closing


# -- time, the store, the end -------------------------------------------------------------------


def test_time_is_looked_at_once_a_tick_and_the_next_moment_is_never_past(stage: Stage) -> None:
    for ms in range(0, 200, 10):
        stage.engine.turn(T + ms)
        assert stage.engine.next_wake() > T + ms
    assert stage.service.ticks == [T, T + 50, T + 100, T + 150]


def test_what_the_store_brings_is_given_to_those_who_wait() -> None:
    stage = Stage(window_jobs=2, supply_jobs=1)
    disk = Disk()
    producer, worker = stage.open(), stage.open()
    stage.say(producer, "push\n" * 3)
    stage.say(worker, "take\ntake\ntake\n")
    for _ in range(3):
        stage.engine.turn(T)
    assert stage.said(worker) == "given\ngiven\n"
    wants = stage.broker.take_wants()
    assert [type(want) for want in wants] == [SupplyReady]
    for want, jobs in zip(wants, disk.write(stage.broker.drain(), wants), strict=True):
        stage.engine.supplied(want, jobs, T)
    assert stage.said(worker) == "given\n"


def test_recalled_jobs_reach_whoever_recalled_them(stage: Stage, link: Link) -> None:
    stage.say(link, "push\n")
    stage.engine.turn(T)
    (job,) = stage.broker.jobs.values()
    seen: list[Job] = []

    class Visitor:
        def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
            seen.extend(jobs)
            stage.broker.cancel(jobs[0], now)

    stage.engine.supplied(Recall(JobQuery(), Visitor()), [job], T)
    assert seen == [job]
    assert job.state is State.CANCELLED


def test_stopping_asks_every_service_and_counts_who_is_left(stage: Stage) -> None:
    stage.open()
    stage.engine.stop(T)
    assert stage.service.stopped
    assert stage.engine.consumers() == 3


@pytest.mark.parametrize("closed_first", [True, False])
def test_a_link_that_is_closed_has_something_to_say_even_if_it_said_nothing(
    closed_first: bool, stage: Stage, link: Link
) -> None:
    if closed_first:
        link.close()
    link.write(b"last words")
    link.close()
    assert link in stage.engine.speaking


def test_the_end_of_a_peers_input_is_noticed_after_all_of_it(stage: Stage) -> None:
    worker, producer = stage.open(), stage.open()
    for text in ("one\n", "two\ntake\nthree\n", ""):
        stage.say(worker, text)
    stage.engine.turn(T)
    assert (stage.said(worker), worker.input_ended) == ("one\ntwo\n", True)
    stage.say(producer, "push\n")
    stage.engine.turn(T)
    stage.engine.turn(T)
    assert stage.said(worker) == "given\nthree\n"
    assert not stage.engine.has_input()
