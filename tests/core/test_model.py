"""T7 in its quick form. The long one: `python -m tests.sim model --examples 20000`."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.core.machine import BrokerMachine
from tests.core.mutants import MUTANTS, is_caught

TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None, derandomize=True, database=None
)


@pytest.mark.parametrize("name", MUTANTS.names)
def test_the_model_catches_a_planted_bug(name: str) -> None:
    assert is_caught(name, examples=1_500)
