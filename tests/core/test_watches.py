"""Watches: each hears the progress, and exactly one end for each watch."""

import pytest

from franca.core.errors import NotHeld
from franca.core.events import Finished, Progressed
from franca.core.model import Failure, OnHangUp, Progress, State
from tests.core.kit import SMALL, Bench, T

DONE, DEAD, CANCELLED = State.DONE, State.DEAD, State.CANCELLED


def test_every_watcher_hears_the_progress_and_the_end_in_order_of_arrival(bench: Bench) -> None:
    clients = [bench.worker() for _ in range(3)]
    job = bench.submit(watcher=clients[0])
    bench.broker.watch(job.id, clients[1])
    bench.broker.watch(job.id, clients[2])
    worker = bench.worker(takes=1)
    bench.broker.report(job, worker.holder, "data", b"half")
    bench.broker.finish(job, worker.holder, b"whole", T)
    heard = bench.events()
    progress = [(s, e.kind, e.data) for s, e in heard if isinstance(e, Progressed)]
    ends = [(s, e.state, e.result) for s, e in heard if isinstance(e, Finished)]
    assert progress == [(client, "data", b"half") for client in clients]
    assert ends == [(client, DONE, b"whole") for client in clients]
    assert not any(client.watches for client in clients)


def test_watching_twice_is_hearing_everything_twice(bench: Bench) -> None:
    client, worker = bench.worker(), bench.worker()
    job = bench.submit(watcher=client)
    bench.broker.watch(job.id, client)
    assert bench.broker.watchers_of(job.id) == 2
    bench.take(worker)
    bench.broker.report(job, worker.holder, "data", b"half")
    assert [type(event) for _, event in bench.events()] == [Progressed, Progressed]
    bench.broker.cancel(job, T)
    assert bench.ends(client) == [CANCELLED, CANCELLED]
    assert bench.broker.watchers_of(job.id) == 0


def test_how_far_a_run_is_stays_with_it_and_other_words_are_only_passed_on(bench: Bench) -> None:
    client = bench.worker()
    job, worker = bench.run(watcher=client)
    said = Progress(1, 2, "half of it", said=b"1/2")
    bench.broker.report_progress(job, worker.holder, said, T + 5)
    bench.broker.report(job, worker.holder, "data", b"a lot")
    assert job.progress == Progress(1, 2, "half of it", T + 5, b"1/2")
    heard = [e for _, e in bench.events() if isinstance(e, Progressed)]
    assert [(e.kind, e.data) for e in heard] == [("", b"1/2"), ("data", b"a lot")]
    assert [e.progress for e in heard] == [job.progress, None]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (0.5, 0.5), (-7, -7), (None, None), (float("nan"), None), (float("inf"), None),
        (1 << 53, 1 << 53), (-(1 << 64), -18446744073709551616.0), (10**400, float(1 << 1_023)),
    ],
)  # fmt: skip
def test_numbers_of_a_progress_are_such_that_every_store_has_room_for_them(
    bench: Bench, said: float | None, kept: float | None
) -> None:
    job, worker = bench.run()
    bench.broker.report_progress(job, worker.holder, Progress(said, said, "x" * 5_000), T)
    assert job.progress == Progress(kept, kept, "x" * bench.limits.error_text_chars, T)
    bench.broker.extend(job, worker.holder, T)
    bench.write()


def test_nobody_but_the_holder_says_how_far_a_run_is(bench: Bench) -> None:
    job, _ = bench.run()
    with pytest.raises(NotHeld):
        bench.broker.report_progress(job, "another", Progress(1), T)
    assert job.progress is None


@pytest.mark.parametrize("end", ["lose", "release", "put off", "give back", "fail", "expire"])
def test_what_was_reported_of_a_run_is_forgotten_with_it(bench: Bench, end: str) -> None:
    job, worker = bench.run(max_failures=3, lease_ms=1_000)
    bench.broker.report_progress(job, worker.holder, Progress(1, 2), T)
    bench.end(end, job)
    assert job.state <= State.READY
    assert job.progress is None


def test_those_who_watch_are_told_the_failure_in_the_workers_own_bytes(bench: Bench) -> None:
    client = bench.worker()
    job, worker = bench.run(watcher=client)
    bench.broker.fail(job, worker.holder, Failure("Boom", "text", data=b"\xff\0"), T)
    [(_, end)] = bench.events()
    assert isinstance(end, Finished)
    assert end.failure.data == b"\xff\0"


def test_who_watches_no_more_hears_nothing(bench: Bench) -> None:
    client = bench.worker()
    job = bench.submit(watcher=client)
    bench.broker.unwatch(job.id, client, T)
    bench.broker.unwatch(job.id, client, T)
    bench.broker.cancel(job, T)
    assert bench.events() == []


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("finish", DONE),
        ("fail", DEAD),
        ("lose", DEAD),
        ("cancel", CANCELLED),
        ("kill", DEAD),
        ("purge", CANCELLED),
        ("remove the queue", CANCELLED),
        ("flush", CANCELLED),
        ("remove", CANCELLED),
    ],
)
def test_whatever_ends_a_job_its_watcher_is_told_once(bench: Bench, end: str, state: State) -> None:
    client, worker = bench.worker(), bench.worker()
    job = bench.submit(watcher=client, key="u", max_losses=0)
    broker = bench.broker
    if end in ("finish", "fail", "lose"):
        bench.take(worker)
    bench.end(end, job)
    assert (bench.ends(client), broker.watches.by_job) == ([state], {})


@pytest.mark.parametrize("end", ["purge", "flush", "remove", "cancel", "run"])
def test_whoever_joins_a_job_in_the_tail_hears_its_end_too(end: str) -> None:
    bench = Bench(**SMALL)
    for number in range(7):
        bench.submit(key=f"u{number}")
    bench.write()
    client = bench.worker()
    joined = bench.submit(key="u6", watcher=client)
    assert joined.id not in bench.broker.jobs
    broker = bench.broker
    bench.end(end, bench.recall(ids=(joined.id,))[0] if end == "cancel" else joined)
    bench.write()
    assert bench.ends(client) == [DONE if end == "run" else CANCELLED]
    assert (broker.watches.by_job, client.watches) == ({}, {})


@pytest.mark.parametrize("known_by", ["its key", "its name"])
@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("end", ["purge", "flush", "run", "nothing"])
def test_who_watches_a_job_in_the_tail_hears_its_end(
    known_by: str, written: bool, end: str
) -> None:
    bench = Bench(**SMALL, recent_names=1)
    fields = {"key": "u"} if known_by == "its key" else {"name": "n", "once": True}
    bench.submit_many(9)
    job = bench.submit(**fields)
    if written:
        bench.write()
    assert job.id not in bench.broker.jobs
    client, broker = bench.worker(), bench.broker
    again = bench.submit(**fields)
    assert again.id == job.id
    broker.watch(again.id, client)
    bench.submit(name="other")  # the name is not among the last few any more
    assert list(broker.watches.in_store) == [job.id]
    if end == "nothing":
        broker.close_session(client, T)
    else:
        bench.end(end, job)
    bench.write()
    ends = {"purge": [CANCELLED], "flush": [CANCELLED], "run": [DONE], "nothing": []}
    assert (bench.ends(client), broker.watches.by_job) == (ends[end], {})
    assert not broker.watches.in_store


@pytest.mark.parametrize("written", [True, False])
def test_the_end_of_a_watched_job_is_told_though_the_tail_is_emptied_unseen(written: bool) -> None:
    bench = Bench(**SMALL)
    client = bench.worker()
    jobs = [bench.submit(watcher=client, run_at=T + 1 if n % 2 else 0) for n in range(30)]
    if written:
        bench.write()
    assert sum(job.id in bench.broker.jobs for job in jobs) < 20
    bench.broker.purge_queues(("q",), T)
    assert len(bench.ends(client)) == 15
    bench.broker.flush(T)
    assert (len(bench.ends(client)), client.watches) == (15, {})
    assert not bench.broker.watches.in_store


def test_nothing_is_left_of_a_watch_in_the_tail_that_was_given_up(small: Bench) -> None:
    client = small.worker()
    for number in range(9):
        small.submit(key=f"u{number}", watcher=client)
    assert small.broker.watches.in_store
    small.broker.close_session(client, T)
    assert not small.broker.watches.in_store
    assert not small.broker.watches.by_job


def test_a_supplied_job_that_is_watched_now_is_supplied_once(small: Bench) -> None:
    for number in range(6):
        small.submit(key=f"u{number}", priority=5)
    small.write()
    small.worker(takes=3)
    small.write()
    client = small.worker()
    watched = small.submit(key="u5", watcher=client)
    assert watched.id in small.broker.jobs
    small.submit_many(9, priority=1)
    small.write()
    assert [job.id for job in small.take_all()].count(watched.id) == 1
    small.write()


# -- jobs that live for their watchers, or fail for them --------------------------------------


def test_a_job_that_dies_unwatched_ends_with_its_last_watcher_unless_it_runs(bench: Bench) -> None:
    one, other, worker = bench.worker(), bench.worker(), bench.worker()
    waits, runs = (
        bench.submit(queue, watcher=one, durable=False, dies_unwatched=True)
        for queue in ("waits", "runs")
    )
    bench.broker.watch(waits.id, other)
    bench.take(worker, "runs")
    bench.broker.close_session(one, T)
    assert (waits.state, runs.state) == (State.READY, State.LEASED)
    bench.broker.close_session(other, T)
    assert (waits.state, runs.state) == (CANCELLED, State.LEASED)
    bench.broker.close_session(worker, T)
    assert runs.state is CANCELLED, "nobody waits for another run"
    assert not bench.broker.jobs


@pytest.mark.parametrize(
    "how", ["release", "put off", "give back", "lock", "fail", "lose", "expire", "retry"]
)
def test_what_would_run_again_ends_if_nobody_waits_for_it_any_more(bench: Bench, how: str) -> None:
    broker, client, worker = bench.broker, bench.worker(), bench.worker()
    other = bench.submit("other") and bench.take(worker, "other")
    assert broker.lock(other, worker.holder, "l", 1, T)
    job = bench.submit(
        watcher=client, durable=False, dies_unwatched=True, max_failures=-1, lease_ms=1_000
    )
    bench.take(worker)
    broker.close_session(client, T)
    if how == "lock":
        assert not broker.lock(job, worker.holder, "l", 1, T)
    else:
        bench.end(how, job)
    assert job.state is CANCELLED
    assert job.id not in broker.jobs
    assert (broker.volatile.bytes, broker.locks.waits_for) == (0, {})


def test_a_watched_job_may_fail_at_once_where_an_unwatched_one_is_retried(bench: Bench) -> None:
    client = bench.worker()
    for watcher, state in ((client, CANCELLED), (None, State.WAITING)):
        job = bench.submit(max_failures=-1, no_retry_if_watched=True, watcher=watcher)
        worker = bench.worker(on_hang_up=OnHangUp.KEEP, takes=1)
        bench.broker.fail(job, worker.holder, Failure("No", "not today"), T)
        assert job.state is state
    assert bench.ends(client) == [CANCELLED]
