"""A lease's end is acted on within 100 ms, and never before."""

import pytest

from franca.core.model import Demand, NewJob, Policy, State
from franca.protocols.conversation import Link
from tests.engine.fixtures import T, World, echo

SAID_MS = 1_000


@pytest.mark.parametrize("begin", [0, 1, 24, 25, 49, 50, 51, 73, 99])
def test_a_lease_ends_within_a_tenth_of_a_second_of_its_time(
    begin: int, world: World, link: Link
) -> None:
    began = T + begin
    world.engine.turn(T)
    job = world.broker.submit(NewJob("q", "k", b"", Policy(lease_ms=SAID_MS)), began)
    world.broker.demand(Demand(echo(link).session, ("q",)), began)
    now = began
    while job.state is State.LEASED:
        now += 1
        world.engine.turn(now)
    assert SAID_MS <= now - began <= SAID_MS + 100
