"""T7 in its quick form. The long one: `python -m tests.sim model --examples 20000`."""

from __future__ import annotations

from hypothesis import settings

from tests.core.machine import BrokerMachine

TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, derandomize=True, database=None
)
