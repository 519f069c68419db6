"""T7 in its quick form. The long one, and its planted bugs: `make prove`."""

from hypothesis import settings

from tests.core.machine import BrokerMachine

TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None, derandomize=True, database=None
)
