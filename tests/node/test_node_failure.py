"""After the store has failed a node says nothing more to anybody."""

import asyncio

import pytest

from franca.core.model import JobQuery
from franca.node.sockets import is_of_a_socket, keep_alive
from franca.store import files
from franca.store.memory import MemoryStore
from tests.node.fixtures import BROKEN, NodeFixture, SlowStore


async def test_after_a_commit_that_failed_nothing_is_said_to_anybody(s: NodeFixture) -> None:
    first, second, third = await s.writer("push a", "ping"), s.guest(), s.guest()
    second.says("push b")
    await s.turns()
    await s.ends(BROKEN)
    third.says("ping")
    await s.turns()
    assert [guest.heard for guest in (first, second, third)] == ["", "", ""]
    assert {guest.wire.closed for guest in (first, second, third)} == {"aborted"}
    assert s.failures == [BROKEN]


async def test_after_a_write_that_failed_nothing_is_said_to_anybody(s: NodeFixture) -> None:
    assert isinstance(s.store, SlowStore)
    s.store.write_error = BROKEN
    guest, other = s.guest(), s.guest()
    guest.says("push a")
    await s.until(lambda: bool(s.failures))
    other.says("ping")
    await s.turns()
    assert (guest.heard, other.heard, s.failures) == ("", "", [BROKEN])


async def test_tidying_up_that_failed_ends_it_too(s: NodeFixture) -> None:
    assert isinstance(s.store, SlowStore)
    s.store.untidy = True
    guest, other = await s.writer("push a"), s.guest()
    await s.ends()
    await guest.hears("pushed a;")
    await s.reaches("tidy")
    other.says("push b")
    await s.turns()
    await s.ends(BROKEN)
    await s.turns()
    assert (other.heard, s.failures) == ("", [BROKEN])


@pytest.mark.parametrize("asked", ["ask", "recall"])
async def test_an_operator_who_waits_for_a_commit_that_fails_is_told(
    s: NodeFixture, asked: str
) -> None:
    await s.writer("push a")
    if asked == "ask":
        answer = asyncio.create_task(s.operators.ask(lambda engine, now: 7))
    else:
        answer = asyncio.create_task(s.operators.recall(JobQuery(), lambda jobs, now: 7))
    await s.turns()
    await s.ends(BROKEN)
    done, _ = await asyncio.wait([answer], timeout=1)
    assert done
    assert answer.exception() is not None


class MuteStore(MemoryStore):
    """Commits at once, and cannot say whether it has something to do."""

    instant = False
    quick = True
    broken = ""

    def wants_tidying(self) -> bool:
        return self._say("wants_tidying")

    def has_leftovers(self) -> bool:
        return self._say("has_leftovers")

    def _say(self, what: str) -> bool:
        if self.broken == what:
            raise OSError("no descriptor left")
        return False


@pytest.mark.parametrize("what", ["wants_tidying", "has_leftovers"])
async def test_a_store_that_cannot_say_what_it_has_to_do_has_failed(what: str) -> None:
    store = MuteStore()
    with NodeFixture(store, quick=True) as s:
        guest = s.guest()
        store.broken = what
        if what == "wants_tidying":
            guest.says("push a")
        else:
            s.node._tick()
        await s.until(lambda: bool(s.failures))
        assert [str(failure) for failure in s.failures] == ["no descriptor left"]
        assert (guest.heard, guest.wire.closed) == ("", "aborted")


class DeadSocket:
    """A socket whose peer is gone already."""

    family = 0

    def setsockopt(self, *_: object) -> None:
        raise OSError("invalid argument")


def test_only_errors_of_connections_concern_a_peer_alone() -> None:
    with pytest.raises(OSError) as of_a_file:
        files.sync("/nonexistent")
    with pytest.raises(OSError) as of_a_peer:
        keep_alive(DeadSocket())  # type: ignore[arg-type]
    assert (is_of_a_socket(of_a_file.value), is_of_a_socket(of_a_peer.value)) == (False, True)
    assert is_of_a_socket(ConnectionResetError("of the loop"))
    assert not is_of_a_socket(ValueError("a mistake"))
