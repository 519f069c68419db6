"""What an operator asks of a node is answered when it is durable, and harms nobody else."""

import asyncio

import pytest

from franca.core.model import Job, JobQuery, Millis, State
from tests.node.fixtures import NodeFixture


async def test_an_operators_answer_comes_when_what_it_changed_is_durable(s: NodeFixture) -> None:
    guest = await s.writer("push a")
    await s.ends()
    await guest.hears("pushed a;")
    answer = asyncio.create_task(s.operators.ask(lambda engine, now: engine.broker.pause("q")))
    await s.reaches("commit")
    assert not answer.done()
    await s.ends()
    await answer
    assert s.store.queues["q"].paused is True


async def test_jobs_are_recalled_from_the_store_and_what_is_done_to_them_is_durable(
    s: NodeFixture,
) -> None:
    guest = await s.writer("push a")
    await s.ends()
    await guest.hears("pushed a;")
    broker = s.broker

    def kill(jobs: list[Job], now: Millis) -> int:
        for job in jobs:
            broker.kill(job, now)
        return len(jobs)

    answer = asyncio.create_task(s.operators.recall(JobQuery(states=(State.READY,)), kill))
    await s.commits()
    await s.reaches("commit")
    assert not answer.done()
    await s.ends()
    assert (await answer, [job.state for job in s.store.tail.values()]) == (1, [State.DEAD])


async def test_a_mistake_in_what_an_operator_does_reaches_the_operator_alone(
    s: NodeFixture,
) -> None:
    guest = s.guest()

    def wrong(jobs: list[Job], now: Millis) -> None:
        raise KeyError("mistake")

    answer = asyncio.create_task(s.operators.recall(JobQuery(), wrong))
    await s.commits()
    with pytest.raises(KeyError, match="mistake"):
        await answer
    await guest.asks("ping", hears="pong;")
    assert s.failures == []


async def test_the_node_is_settled_when_everything_said_so_far_is_durable(s: NodeFixture) -> None:
    guest = await s.writer("push a")
    settled = asyncio.create_task(s.operators.settle())
    await s.turns()
    assert not settled.done()
    await s.ends()
    await settled
    assert guest.heard == "pushed a;"
