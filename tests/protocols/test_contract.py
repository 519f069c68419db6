"""What the contract of `protocols/conversation.py` asks of every protocol, said in words that all of them share."""

from __future__ import annotations

from random import Random
from sys import getrefcount

import pytest

from franca.core.model import State
from franca.protocols.conversation import Peer
from tests.protocols.hotpath import HotPath
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.prove.hostile import of
from tests.support.peer import Granted
from tests.support.protocols import PROTOCOLS, listeners


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_half_a_message_counts_as_unread(protocol: str) -> None:
    """Or the peer is not hung up on that never sends the other half."""
    hostility = of(protocol)
    for end in range(1, len(hostility.small)):
        world = AnyWorld()
        world.serve(listeners(protocol, world.broker, Random(1)))
        puppet = world.add(
            AnyPuppet(world, world.open_link(protocol, Peer("127.0.0.1:9", local=True)))
        )
        puppet.send(hostility.hello)
        assert not puppet.conversation.unread()
        puppet.send(hostility.small[:end])
        assert puppet.conversation.unread(), hostility.small[:end]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_job_is_given_once_the_server_stops(protocol: str) -> None:
    path = HotPath(protocol)
    path.world.engine.stop(path.world.now)
    for link in path.world.engine.with_output:
        link.forget_said()  # a farewell, where the protocol has one
    path.world.engine.with_output.clear()
    path.submit(1)
    assert not [one for one in (*path.turn("submit"), *path.take()) if isinstance(one, Granted)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_job_whose_delivery_never_left_is_as_if_it_was_never_given(protocol: str) -> None:
    path = HotPath(protocol)
    (worker,) = (link for link, peer in path.peers.items() if peer is path.worker)
    path.worker.take()
    path.submit(1)
    engine = path.world.engine
    while engine.has_input():
        engine.turn(path.world.now)
    assert worker.out
    engine.close_link(worker, path.world.now, undelivered=True)
    (job,) = path.world.broker.jobs.values()
    assert (job.state, job.attempts, job.losses) == (State.READY, 0, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_connection_does_not_keep_a_job_that_ended_elsewhere(protocol: str) -> None:
    """It may be large, and nothing counts it any more."""
    path = HotPath(protocol)
    path.submit(1)
    path.turn("submit")
    path.worker.take()
    path.turn("take")
    engine, broker = path.world.engine, path.world.broker
    (job,) = broker.jobs.values()
    assert job.state is State.LEASED
    broker.cancel(job, path.world.now)
    broker.drain()
    engine.tick(path.world.now)
    assert getrefcount(job) == 2  # here, and where it is counted
