"""The node's turn: what needs the disk waits for it, nothing else does, and order is kept."""

import asyncio

from franca.core.model import Millis, State
from franca.node.connection import FLOOD
from franca.store.memory import MemoryStore
from tests.node.fixtures import BROKEN, NodeFixture, SlowStore

# -- what waits and what does not ---------------------------------------------------------------------


async def test_an_answer_that_needs_the_disk_waits_for_the_commit(s: NodeFixture) -> None:
    guest = await s.writer("push a")
    await s.turns()
    assert guest.heard == ""
    await s.ends()
    await guest.hears("pushed a;")


async def test_an_answer_that_needs_no_disk_does_not_wait_for_somebody_elses(
    s: NodeFixture,
) -> None:
    writer, other = await s.writer("push a"), s.guest()
    await other.asks("ping", hears="pong;")
    assert writer.heard == ""


async def test_answers_to_one_peer_keep_their_order(s: NodeFixture) -> None:
    guest = await s.writer("ping", "push a", "ping")
    guest.says("ping")
    await s.turns()
    guest.says("push b")
    await s.turns()
    guest.says("ping")
    await s.turns()
    assert guest.heard == ""
    await s.ends()
    await s.reaches("commit")
    await guest.hears("pong;pushed a;pong;pong;")
    await s.ends()
    await guest.hears("pong;pushed a;pong;pong;pushed b;pong;")


async def test_what_is_long_is_said_in_its_own_pieces_and_in_its_place(s: NodeFixture) -> None:
    guest = s.guest()
    await guest.asks("ping", "bulk x", "ping", hears="pong;bulk x;pong;")
    assert guest.wire.writes == [b"pong;", b"bulk ", b"x", b";", b"pong;"]
    guest.says("ping", "ping")
    await s.turns()
    assert guest.wire.writes[5:] == [b"pong;pong;"]


async def test_what_is_long_waits_for_the_disk_with_what_it_was_said_with(s: NodeFixture) -> None:
    guest = await s.writer("bulk x", "push a")
    guest.says("bulk y")
    await s.turns()
    assert guest.heard == ""
    await s.ends()
    await guest.hears("bulk x;pushed a;bulk y;")


async def test_an_answer_given_before_the_disk_was_needed_leaves_at_once(s: NodeFixture) -> None:
    guest = s.guest()
    await guest.asks("ping", hears="pong;")
    guest.says("push a")
    await s.reaches("commit")
    await s.turns()
    assert guest.heard == "pong;"


async def test_what_comes_during_a_commit_is_made_durable_by_the_next_one(s: NodeFixture) -> None:
    first, second = await s.writer("push a"), s.guest()
    second.says("push b")
    await s.turns()
    await s.ends()
    await first.hears("pushed a;")
    await s.reaches("commit")
    await s.turns()
    assert second.heard == ""
    await s.ends()
    await second.hears("pushed b;")
    assert [job.body for job in s.store.held.values()] == [b"a", b"b"]


async def test_an_answer_about_what_is_being_committed_waits_though_it_changed_nothing(
    s: NodeFixture,
) -> None:
    """A repeated push is answered when the first one is durable, not before."""
    await s.writer("push a")
    second = s.guest()
    second.says("same")
    await s.turns()
    assert second.heard == ""
    await s.ends()
    await second.hears("same;")


async def test_an_answer_leaves_at_once_when_everything_is_durable(s: NodeFixture) -> None:
    guest = s.guest()
    await guest.asks("same", hears="same;")


async def test_answers_do_not_wait_for_the_store_to_tidy_up(s: NodeFixture) -> None:
    assert isinstance(s.store, SlowStore)
    s.store.untidy = True
    first, second, third = await s.writer("push a"), s.guest(), s.guest()
    await s.ends()
    await first.hears("pushed a;")
    await s.reaches("tidy")
    await second.asks("same", hears="same;")
    await second.asks("ping", hears="same;pong;")
    third.says("push b")
    await s.turns()
    assert third.heard == ""
    s.store.untidy = False
    await s.ends()
    await s.commits()
    await third.hears("pushed b;")


async def test_a_job_is_given_out_when_its_lease_is_durable(s: NodeFixture) -> None:
    worker, producer = s.guest(), s.guest()
    worker.says("take")
    await s.turns()
    producer.says("push a")
    await s.reaches("commit")
    await s.turns()
    assert worker.heard == ""
    await s.ends()
    await worker.hears("job a;")


async def test_a_store_that_is_instant_makes_nobody_wait() -> None:
    with NodeFixture(MemoryStore()) as s:
        guest = s.guest()
        await guest.asks("push a", "ping", hears="pushed a;pong;")


class QuickStore(MemoryStore):
    """Durable at once, or broken."""

    instant = False
    error: Exception | None = None

    def commit(self) -> None:
        if self.error is not None:
            raise self.error


async def test_a_disk_that_is_quick_is_waited_for_on_the_spot() -> None:
    with NodeFixture(QuickStore(), quick=True) as s:
        worker, producer = s.guest(), s.guest()
        worker.says("take")
        await producer.asks("push a", "ping", hears="pushed a;pong;")
        await worker.hears("job a;")
        assert [job.state for job in s.store.held.values()] == [State.LEASED]


async def test_a_quick_disk_that_breaks_ends_it_as_well() -> None:
    store = QuickStore()
    with NodeFixture(store, quick=True) as s:
        guest, other = s.guest(), s.guest()
        store.error = BROKEN
        guest.says("push a", "ping")
        await s.until(lambda: bool(s.failures))
        other.says("ping")
        await s.turns()
        assert (guest.heard, other.heard, s.failures) == ("", "", [BROKEN])
        assert {guest.wire.closed, other.wire.closed} == {"aborted"}


# -- hanging up ------------------------------------------------------------------------------------------


async def test_a_peer_that_is_to_go_hears_what_it_was_owed_first(s: NodeFixture) -> None:
    guest = await s.writer("push a", "end")
    await s.turns()
    assert (guest.heard, guest.wire.closed) == ("", "")
    await s.ends()
    await s.until(lambda: bool(guest.wire.closed))
    assert (guest.heard, guest.wire.closed) == ("pushed a;", "closed")


async def test_a_peer_that_says_goodbye_while_its_answer_waits_hears_it_first(
    s: NodeFixture,
) -> None:
    guest = await s.writer("push a")
    guest.says("end")
    await s.until(lambda: guest.connection.link.closing)
    await s.turns()
    assert (guest.heard, guest.wire.closed) == ("", "")
    await s.ends()
    await s.until(lambda: bool(guest.wire.closed))
    assert (guest.heard, guest.wire.closed) == ("pushed a;", "closed")


async def test_a_peer_that_is_owed_nothing_goes_at_once(s: NodeFixture) -> None:
    await s.writer("push a")
    guest = s.guest()
    guest.says("ping", "end")
    await s.until(lambda: bool(guest.wire.closed))
    assert (guest.heard, guest.wire.closed) == ("pong;", "closed")


async def test_a_peer_that_was_lost_while_its_answer_waited_did_not_hear_it(s: NodeFixture) -> None:
    guest, other = s.guest(), s.guest()
    guest.says("push a")
    other.says("push b")
    await s.reaches("commit")
    guest.vanishes()
    assert guest.conversation.hung_up == [True]
    await s.ends()
    await other.hears("pushed b;")


async def test_a_peer_that_was_lost_after_its_answer_left_heard_it(s: NodeFixture) -> None:
    guest = await s.writer("push a")
    await s.ends()
    await guest.hears("pushed a;")
    guest.vanishes()
    assert guest.conversation.hung_up == [False]


async def test_a_peer_that_was_lost_right_after_it_spoke_did_not_hear_the_answer(
    s: NodeFixture,
) -> None:
    """Its words are acted on when it is gone, and what they brought it never left."""
    producer, worker = await s.writer("push a"), s.guest()
    await s.ends()
    await producer.hears("pushed a;")
    worker.says("take")
    worker.vanishes()
    assert worker.conversation.hung_up == [True]


async def test_a_wire_that_died_unnoticed_takes_no_other_answer_with_it(s: NodeFixture) -> None:
    guests = [s.guest() for _ in range(3)]
    for guest in guests:
        guest.says("push a")
    await s.reaches("commit")
    guests[1].wire.dead = True
    await s.ends()
    await guests[2].hears("pushed a;")
    assert guests[0].heard == "pushed a;"


async def test_one_connection_too_many_is_told_so_and_has_no_part_in_anything() -> None:
    with NodeFixture(connections_max=2) as s:
        guests = [s.guest() for _ in range(3)]
        assert (guests[2].heard, guests[2].wire.closed) == ("too many;", "closed")
        guests[2].connection.connection_lost(None)
        assert len(s.engine.links) == 2


async def test_of_a_peer_that_says_a_lot_no_more_is_read_before_the_others_are_heard() -> None:
    with NodeFixture(MemoryStore()) as s:
        guest, other = s.guest(), s.guest()
        guest.says("ping " + "x" * 600_000)
        assert guest.wire.reading
        guest.says("ping " + "x" * 600_000)
        assert not guest.wire.reading
        await other.asks("ping", hears="pong;")
        await guest.hears("pong;pong;")
        assert guest.wire.reading
        # What it said before is forgotten, and small words are not counted.
        guest.says("ping " + "x" * 600_000)
        for _ in range(100):
            guest.says("ping " + "x" * 10_000)
        assert guest.wire.reading


async def test_a_peer_that_says_a_lot_and_is_paused_for_another_reason_stays_so() -> None:
    with NodeFixture(MemoryStore()) as s:
        guest = s.guest()
        guest.says("ping " + "x" * 1_100_000)
        guest.connection.hold(FLOOD)
        await s.turns()
        assert not guest.wire.reading
        guest.connection.release(FLOOD)
        assert guest.wire.reading


async def test_names_of_links_are_never_used_twice(s: NodeFixture) -> None:
    names = {s.node.next_link_id() for _ in range(100)}
    assert (len(names), all(name.startswith("boot-") for name in names)) == (100, True)


async def test_every_answer_that_waits_for_a_commit_is_sent_before_the_end(s: NodeFixture) -> None:
    await s.writer("push x")
    guest = s.guest()
    for word in ("push a", "push b", "end"):
        guest.says(word)
        await s.turns()
    await s.ends()
    await s.commits()
    await guest.hears("pushed a;pushed b;")
    assert guest.wire.closed


async def test_ticks_add_no_turns_to_one_that_is_about_to_begin(s: NodeFixture) -> None:
    turns = 0
    turn = s.engine.turn

    def counted(now: Millis) -> None:
        nonlocal turns
        turns += 1
        turn(now)

    s.engine.turn = counted  # type: ignore[method-assign]
    for _ in range(3):
        s.node.soon()
        s.node._tick()
    await asyncio.sleep(0)
    assert turns == 1
