"""What the contract of `protocols/conversation.py` asks of every protocol, said in words that all of them share."""

from __future__ import annotations

from random import Random
from sys import getrefcount
from unittest.mock import patch

import pytest

from franca.core.model import State
from franca.protocols.conversation import Peer
from franca.protocols.numbers import NAMES, name_of
from franca.protocols.registry import PROTOCOLS as REGISTERED
from franca.protocols.service import RunView, WorkerView, state_of
from tests.protocols.hotpath import JOBS_A_TURN, HotPath
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_is_remembered_and_counted_whose_worker_ran_a_job(protocol: str) -> None:
    path = HotPath(protocol)
    with patch.object(
        path.world.broker.lifecycle, "end", wraps=path.world.broker.lifecycle.end
    ) as end:
        path.play()
    jobs = [call.args[0] for call in end.call_args_list]
    assert {(job.state, name_of(job.by)) for job in jobs} == {(State.DONE, protocol)}
    (queue,) = [queue for queue in path.world.broker.queues.values() if queue.done]
    assert (queue.pushed, queue.done, queue.failed, queue.died) == (JOBS_A_TURN, JOBS_A_TURN, 0, 0)
    (origins,) = path.world.broker.crossings.values()
    assert origins == {protocol: JOBS_A_TURN}


def test_every_protocol_has_a_number_that_stays() -> None:
    assert [NAMES.index(protocol) for protocol in ("", *REGISTERED)] == [0, 1, 2, 3, 4, 5, 6]
    assert [name_of(number) for number in (0, 7, -1, 99)] == ["", "rest", "", ""]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_operators_see_what_a_worker_runs_and_when_it_last_asked(protocol: str) -> None:
    path = HotPath(protocol)
    service = path.world.engine.services[protocol]

    def seen() -> WorkerView:
        views = [view for view in service.workers(path.world.now) if "bench" in view.queues]
        return max(views, key=lambda view: len(view.running))

    path.world.now += 1_000
    path.submit(1)
    answers = path.turn("submit")
    if not path.worker.report_asks:
        path.worker.take()
        answers += path.turn("take")
    (grant,) = [answer.grant for answer in answers if isinstance(answer, Granted)]
    (job,) = path.world.broker.jobs.values()
    assert seen().state == "busy"
    assert seen().running == [RunView(job.id, job.kind, "bench", job.started_at)]
    assert path.world.now - 1_000 <= seen().fetched_at <= path.world.now
    path.worker.report(grant, "ack", b"y")
    path.turn("report")
    assert (seen().state, seen().running) == ("idle", [])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("idle", {}), ("stalled", {"stalled": True}), ("quiet", {"quiet": True, "stalled": True}),
        ("stopping", {"stopping": True, "quiet": True, "stalled": True}),
    ],
)  # fmt: skip
def test_what_a_worker_was_asked_to_do_goes_before_what_it_does(
    state: str, words: dict[str, bool]
) -> None:
    run = RunView(1, "k", "q", 1)
    assert state_of([], **words) == state
    assert state_of([run], **words) == ("busy" if state == "idle" else state)
