"""Of a connection that is gone nothing is left in memory, whatever was said on it."""

from __future__ import annotations

import gc
import weakref

import pytest

from tests.prove.fuzz import World
from tests.prove.hostile import of
from tests.support.protocols import PROTOCOLS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_goes_with_its_link(protocol: str) -> None:
    gone, kept = [], []
    for exchange in of(protocol).exchanges:
        steps = tuple(step._replace(link=f"{protocol}/{step.link}") for step in exchange)
        world = World(steps)
        world.play()
        assert world._by_name
        gone += [weakref.ref(puppet.conversation) for puppet in world._by_name.values()]
        world._by_name.clear()
        world.puppets.clear()
        world.engine.notices.clear()
        kept.append(world)
    gc.collect()
    assert [conversation() for conversation in gone] == [None] * len(gone)
