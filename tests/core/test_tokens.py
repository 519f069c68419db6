"""Work without a connection: whoever knows the token of a lease holds it, and nobody else."""

import pytest

from franca.core.errors import NotHeld
from franca.core.events import Granted
from franca.core.model import NEVER, Demand, Failure, Job, Millis, OnHangUp, Progress, State
from franca.protocols.tokens import holder_of, holder_with, worker_in
from tests.core.kit import Bench, T

LEASE = 30_000


def lease(bench: Bench, token: str, now: Millis = T) -> Job:
    """What is to be done for a request of work: its session is closed when it is answered."""
    broker = bench.broker
    session = broker.open_session(holder_of(token, "rest", "me"), OnHangUp.KEEP, None)
    answer = broker.demand(Demand(session, ("q",), until=now), now)
    broker.close_session(session, now)
    assert isinstance(answer, Granted)
    return answer.job


def test_whoever_knows_the_token_may_say_what_a_holder_may(bench: Bench) -> None:
    for _ in range(3):
        bench.submit(lease_ms=LEASE, max_failures=3, delay_ms=1_000)
    broker, jobs = bench.broker, [lease(bench, token) for token in "abc"]
    assert broker.extend(jobs[0], holder_with("a", jobs[0]), T + 2 * LEASE) == T + 2 * LEASE
    broker.report_progress(jobs[0], holder_with("a", jobs[0]), Progress(1, 2), T)
    broker.finish(jobs[0], holder_with("a", jobs[0]), b"result", T)
    broker.fail(jobs[1], holder_with("b", jobs[1]), Failure("E", "no"), T)
    broker.release(jobs[2], holder_with("c", jobs[2]), NEVER, T)
    assert [job.state for job in jobs] == [State.DONE, State.WAITING, State.READY]
    assert (jobs[0].result, jobs[0].progress) == (b"result", Progress(1, 2, at=T))


@pytest.mark.parametrize("verb", ["finish", "fail", "extend", "report_progress"])
def test_an_old_token_is_refused_when_the_job_was_given_to_another(bench: Bench, verb: str) -> None:
    bench.submit(lease_ms=LEASE)
    job = lease(bench, "old")
    old = job.holder
    for now in (T, T + LEASE + 1_000):
        bench.broker.tick(now)
    with pytest.raises(NotHeld):
        holder_with("old", job)
    assert lease(bench, "new", T + LEASE + 1_000) is job
    with pytest.raises(NotHeld):
        holder_with("old", job)
    said: dict[str, tuple[object, ...]] = {
        "finish": (b"", T), "fail": (Failure(), T), "extend": (T,), "report_progress": (Progress(), T),
    }  # fmt: skip
    with pytest.raises(NotHeld):
        getattr(bench.broker, verb)(job, old, *said[verb])
    assert (holder_with("new", job), job.state) == (job.holder, State.LEASED)


def test_a_token_outlives_its_server(bench: Bench) -> None:
    job_id = bench.submit(lease_ms=LEASE).id
    lease(bench, "token")
    bench.restart()
    job = bench.broker.jobs[job_id]
    bench.broker.extend(job, holder_with("token", job), T + 9 * LEASE)
    bench.restart()
    job = bench.broker.jobs[job_id]
    assert job.until == T + 9 * LEASE
    bench.broker.finish(job, holder_with("token", job), b"", T)
    with pytest.raises(NotHeld):
        holder_with("token", job)


def test_the_token_is_not_in_what_is_stored_and_shown(bench: Bench) -> None:
    bench.submit(lease_ms=LEASE)
    job = lease(bench, "a-secret")
    assert "a-secret" not in job.holder
    assert worker_in(job.holder) == "me"
    with pytest.raises(NotHeld):
        holder_with(job.holder.split()[2], job)


@pytest.mark.parametrize("holder", ["w1", "", "link 7-9", "periodic link 7-9", "a link of mine"])
def test_no_token_is_of_a_lease_that_has_none(bench: Bench, holder: str) -> None:
    job, _ = bench.run(holder=holder)
    for token in ("", "7-9", holder):
        with pytest.raises(NotHeld):
            holder_with(token, job)
    assert worker_in(job.holder) == job.holder
