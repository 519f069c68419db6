"""Of a connection that is gone nothing is left in memory, whatever was said on it."""

from __future__ import annotations

import gc
import weakref

import pytest

from tests.prove.fuzz import Stage
from tests.prove.fuzzing import PROTOCOLS, of


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_goes_with_its_link(protocol: str) -> None:
    for exchange in of(protocol).EXCHANGES:
        steps = tuple(step._replace(link=f"{protocol}/{step.link}") for step in exchange)
        stage = Stage(steps)
        stage.play()
        gone = [weakref.ref(link.conversation) for link in stage._links.values()]
        assert gone
        stage._links.clear()
        stage.engine.notices.clear()
        gc.collect()
        assert [conversation() for conversation in gone] == [None] * len(gone)
