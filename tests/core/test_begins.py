"""Who submitted a job may hear, once, that somebody runs it, or that nobody ever will."""

from franca.core.events import Begun, Event, Granted
from franca.core.model import Demand, Job, Session, State
from tests.core.kit import Bench, T


def begun(events: list[tuple[Session, Event]]) -> list[tuple[Session, int]]:
    return [(session, event.job.id) for session, event in events if isinstance(event, Begun)]


def awaited(bench: Bench, client: Session) -> Job:
    job = bench.submit()
    bench.broker.await_begin(job, client)
    return job


def test_the_submitter_hears_that_a_worker_was_given_its_job(bench: Bench) -> None:
    client, worker = bench.worker(), bench.worker()
    job = awaited(bench, client)
    assert bench.events() == []
    bench.take(worker)
    assert begun(bench.events()) == [(client, job.id)]


def test_a_job_that_is_run_already_is_told_of_at_once(bench: Bench) -> None:
    client, worker = bench.worker(), bench.worker()
    bench.ask(worker)
    job = awaited(bench, client)
    assert begun(bench.events()) == [(client, job.id)]


def test_a_second_run_is_not_told_of(bench: Bench) -> None:
    client, worker, other = bench.worker(), bench.worker(), bench.worker()
    awaited(bench, client)
    bench.take(worker)
    bench.events()
    bench.broker.close_session(worker, T)
    bench.take(other)
    assert begun(bench.events()) == []


def test_a_submitter_that_is_gone_leaves_nothing_behind(bench: Bench) -> None:
    client, worker = bench.worker(), bench.worker()
    awaited(bench, client)
    bench.broker.close_session(client, T)
    bench.take(worker)
    assert (begun(bench.events()), client.awaits) == ([], {})


def test_a_job_that_ends_without_a_run_is_told_of_as_ended(bench: Bench) -> None:
    client = bench.worker()
    job = awaited(bench, client)
    bench.broker.cancel(job, T)
    assert (bench.ends(client), client.awaits) == ([State.CANCELLED], {})


def test_the_end_of_a_job_that_began_is_for_those_who_watch_it(bench: Bench) -> None:
    client, worker = bench.worker(), bench.worker()
    job = awaited(bench, client)
    bench.take(worker)
    bench.events()
    bench.broker.finish(job, worker.holder, b"", T)
    assert bench.events() == []


def test_flushing_forgets_who_waits(bench: Bench) -> None:
    client = bench.worker()
    awaited(bench, client)
    bench.broker.flush(T)
    assert client.awaits == {}


def test_whoever_asks_last_is_told(bench: Bench) -> None:
    first, second, worker = bench.worker(), bench.worker(), bench.worker()
    job = awaited(bench, first)
    bench.broker.await_begin(job, second)
    bench.take(worker)
    assert (begun(bench.events()), first.awaits) == ([(second, job.id)], {})


def test_a_job_of_the_tail_is_told_of_when_its_turn_comes(small: Bench) -> None:
    client, worker = small.worker(), small.worker()
    jobs = [awaited(small, client) for _ in range(10)]
    small.write()
    told: list[int] = []
    for _ in jobs:
        answer = small.broker.demand(Demand(worker, ("q",)), T)
        if answer is None:
            small.write()
        told += [job_id for _, job_id in begun(small.events())]
        granted = worker.leases.values()
        assert answer is None or isinstance(answer, Granted)
        for job in list(granted):
            small.broker.finish(job, worker.holder, b"", T)
    assert told == [job.id for job in jobs]


def test_no_more_are_awaited_than_the_limit() -> None:
    bench = Bench(begins_awaited=2)
    client = bench.worker()
    assert [bench.broker.await_begin(bench.submit(), client) for _ in range(3)] == [
        True,
        True,
        False,
    ]
    assert len(client.awaits) == 2
