"""While jobs are run that need no disk, those who wait for the disk anyway stand behind them."""

import pytest

from franca.node import node
from franca.node.group import URGENT_MS
from tests.node.fixtures import Guest, NodeFixture


async def is_urgent(s: NodeFixture) -> Guest:
    """A peer whose answer waits for the next group, while somebody is in a hurry."""
    other, writer = s.guest(), s.guest()
    await other.asks("brief x", hears="took x;")
    writer.says("push a")
    await s.reaches("commit")
    assert s.node.is_urgent
    return writer


async def test_who_waits_for_the_disk_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "GATHER_S", 60.0)
    with NodeFixture() as s:
        writer, other = await is_urgent(s), s.guest()
        writer.says("push b")
        await other.asks("ping", hears="pong;")
        await s.turns()
        assert s.broker.totals.pushed == 2, "the second push must not have been looked at"
        await s.ends()
        await s.reaches("commit")
        assert s.broker.totals.pushed == 3
        await s.ends()
        await writer.hears("pushed a;pushed b;")


async def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "GATHER_S", 0.001)
    with NodeFixture() as s:
        writer = await is_urgent(s)
        writer.says("push b")
        await s.turns()
        await s.until(lambda: s.broker.totals.pushed == 3)
        assert writer.heard == ""


async def test_words_of_one_peer_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "GATHER_S", 60.0)
    with NodeFixture() as s:
        writer, other = await is_urgent(s), s.guest()
        writer.says("push b")
        await other.asks("ping", hears="pong;")
        # Told of something that needs no disk, it would no longer count as one that waits.
        writer.connection.needs_disk = False
        writer.says("ping")
        await s.turns()
        assert s.broker.totals.pushed == 2
        await s.ends()
        await s.commits()
        await writer.hears("pushed a;pushed b;pong;")


async def test_what_a_peer_said_before_it_vanished_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "GATHER_S", 60.0)
    with NodeFixture() as s:
        writer = await is_urgent(s)
        writer.says("push b")
        writer.vanishes()
        await s.turns()
        assert s.broker.totals.pushed == 3


@pytest.mark.parametrize(
    ("others", "rests"), [(node.SMALL_GROUP, False), (node.SMALL_GROUP + 1, True)]
)
async def test_the_disk_rests_after_a_large_group_and_only_then(
    others: int, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "REST_S", 60.0)

    with NodeFixture() as s:
        writer = await is_urgent(s)
        many = [s.guest() for _ in range(others)]
        for number, guest in enumerate(many):
            guest.says(f"push {number}")
        await s.turns()
        await s.ends()
        await s.commits()
        for number, guest in enumerate(many):
            await guest.hears(f"pushed {number};")
        writer.says("push z")
        await s.turns()
        assert s.node.busy
        if rests:
            assert s.broker.totals.pushed == 2 + others
        else:
            await s.reaches("commit")


async def test_without_a_hurry_all_are_heard_as_before(
    s: NodeFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await is_urgent(s)
    s.broker.volatile.last_at -= 2 * URGENT_MS
    writer.says("push b")
    await s.turns()
    await s.ends()
    await s.reaches("commit")
    assert not s.node.is_urgent
    await s.ends()
    await writer.hears("pushed a;pushed b;")
