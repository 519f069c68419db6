"""Of a connection that is gone nothing is left in memory, whatever was said on it."""

from __future__ import annotations

import gc
import weakref

import pytest

from tests.prove.fuzz import Stage
from tests.prove.hostile import of
from tests.support.protocols import PROTOCOLS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_goes_with_its_link(protocol: str) -> None:
    gone, kept = [], []
    for exchange in of(protocol).exchanges:
        steps = tuple(step._replace(link=f"{protocol}/{step.link}") for step in exchange)
        stage = Stage(steps)
        stage.play()
        assert stage._links
        gone += [weakref.ref(link.conversation) for link in stage._links.values()]
        stage._links.clear()
        stage.engine.notices.clear()
        kept.append(stage)
    gc.collect()
    assert [conversation() for conversation in gone] == [None] * len(gone)
