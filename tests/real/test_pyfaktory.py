"""PyPI's `pyfaktory` 0.2.13: what its documentation promises, against a real server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyfaktory import Client, Job, JobFilter, MutateOperation, Producer
from pyfaktory.models import Batch, TargetJob
from pyfaktory.util.exceptions import FaktroyWorkProtocolError

from tests.real.kit import Peers, counts, take, until_counts, url
from tests.support.faktory import Faktory
from tests.support.server import Server
from tests.support.shared import eventually


@contextmanager
def producer(address: str) -> Iterator[Producer]:
    with Client(faktory_url=address, role="producer") as client:
        yield Producer(client)


def fail_one(port: int) -> None:
    """A witness fetches the next job and fails it."""
    with Faktory(port) as witness:
        found = witness.hello(wid="witness-1").fetch("default")
        assert found is not None
        witness.fail(found["jid"])


def mutate(client: Client, cmd: str, target: str, **chosen: object) -> None:
    """MUTATE through its own models; a filter of theirs wants every field named."""
    wanted: JobFilter | None = None
    if chosen:
        wanted = JobFilter(**{"jids": None, "regexp": None, "jobtype": None, **chosen})
    assert client.mutate(MutateOperation(cmd=cmd, target=target, filter=wanted))


# -- jobs ------------------------------------------------------------------------------------


def test_a_pushed_job_is_run_by_a_consumer_and_acknowledged(peers: Peers, server: Server) -> None:
    worker = peers.worker("pyfaktory", url(server.port))
    with producer(url(server.port)) as jobs:
        assert jobs.push(Job(jid="job-one-1", jobtype="echo", args=[1, "two"]))

    assert worker.ran(1) == {"job-one-1": [1, "two"]}
    until_counts(server.port, total_processed=1, total_failures=0, working=0)


def test_a_job_goes_to_the_queue_it_names_and_keeps_its_fields(server: Server) -> None:
    custom = {"tenant": "größe", "trace": {"ids": [2**63, 1.0]}}
    with producer(url(server.port)) as jobs:
        jobs.push(
            Job(
                jid="job-fields", jobtype="echo", args=[], queue="slow.one-2_3",
                reserve_for=120, retry=-1, backtrace=7, custom=custom,
            )
        )  # fmt: skip

    found = take(server.port, "slow.one-2_3")
    del found["created_at"], found["enqueued_at"]
    assert found == {
        "jid": "job-fields", "jobtype": "echo", "args": [], "queue": "slow.one-2_3",
        "reserve_for": 120, "retry": -1, "backtrace": 7, "custom": custom,
    }  # fmt: skip


def test_a_bulk_push_takes_the_good_and_names_the_bad(server: Server) -> None:
    with producer(url(server.port)) as jobs:
        good = [Job(jobtype="echo", args=[n]) for n in range(500)]
        assert jobs.push_bulk(good) == {}

        bad = Job(jid="bad-queue", jobtype="echo", args=[], queue="no spaces please")
        refused = jobs.push_bulk([Job(jobtype="echo", args=[]), bad])

    assert list(refused) == ["bad-queue"]
    assert refused["bad-queue"].startswith('cannot get "no spaces please" queue')
    assert counts(server.port)["queue default"] == 501


def test_a_refused_push_raises_and_the_connection_goes_on(server: Server) -> None:
    with producer(url(server.port)) as jobs:
        with pytest.raises(FaktroyWorkProtocolError, match="jobs must have a reasonable jid"):
            jobs.push(Job(jid="short", jobtype="echo", args=[]))
        assert jobs.push(Job(jobtype="echo", args=[]))


def test_arguments_arrive_as_they_were_sent(peers: Peers, server: Server) -> None:
    worker = peers.worker("pyfaktory", url(server.port))
    args: list[Any] = [
        "ü€😀 \u2028\u0000\t\r\n\"\\ </script>&", 2**64 + 1, -(2**53) - 1, 1e-9, 1.0,
        {"z": {"y": None}, "a": [[[]]], "": ""}, True,
    ]  # fmt: skip
    with producer(url(server.port)) as jobs:
        jobs.push(Job(jid="job-odd-args", jobtype="echo", args=args))

    (arrived,) = worker.ran(1).values()
    assert arrived == args
    assert list(arrived[5]) == ["z", "a", ""]
    assert isinstance(arrived[4], float)


def test_a_huge_payload_is_taken(server: Server) -> None:
    """Its own reader takes a minute for as much as this; the witness does not."""
    huge = "x" * 5_000_000
    with producer(url(server.port)) as jobs:
        jobs.push(Job(jid="job-huge-1", jobtype="measure", args=[huge], queue="huge"))
    assert take(server.port, "huge")["args"] == [huge]


# -- failures and the sets -----------------------------------------------------------------------


def test_a_failed_job_waits_in_retries_with_what_its_consumer_said(
    peers: Peers, server: Server
) -> None:
    worker = peers.worker("pyfaktory", url(server.port))
    with producer(url(server.port)) as jobs:
        jobs.push(Job(jid="job-boom-1", jobtype="boom", args=[], retry=3))
    worker.ran(1)
    until_counts(server.port, retries=1, total_failures=1, total_processed=1, working=0)
    worker.terminate()
    assert worker.said("stopped") == {"event": "stopped", "terminated": False}

    with Client(faktory_url=url(server.port)) as client:
        mutate(client, "requeue", "retries")
    failure = take(server.port)["failure"]
    assert (failure["errtype"], failure["message"]) == ("ValueError", "boom")
    assert (failure["retry_count"], failure["remaining"]) == (0, 3)
    assert failure["backtrace"]


def test_a_job_without_retries_is_gone_and_one_below_zero_is_dead(server: Server) -> None:
    with producer(url(server.port)) as jobs:
        jobs.push(Job(jobtype="boom", args=[], retry=0))
        jobs.push(Job(jobtype="boom", args=[], retry=-1))
    fail_one(server.port)
    fail_one(server.port)
    found = counts(server.port)
    assert (found["retries"], found["dead"], found["total_failures"]) == (0, 1, 2)


def test_mutations_choose_by_jid_by_type_and_by_pattern(server: Server) -> None:
    later = "2099-01-01T00:00:00Z"
    with producer(url(server.port)) as jobs:
        jobs.push_bulk(
            [
                Job(jid=f"job-{kind}-{n}", jobtype=kind, args=[f"arg-{n}"], at=later)
                for kind in ("red", "blue")
                for n in range(4)
            ]
        )
        client = jobs.client
        mutate(client, "kill", "scheduled", jids=["job-red-0", "job-blue-0", "no-such-job"])
        assert (counts(server.port)["scheduled"], counts(server.port)["dead"]) == (6, 2)

        mutate(client, "discard", "scheduled", jobtype="red")
        assert counts(server.port)["scheduled"] == 3

        mutate(client, "requeue", "scheduled", regexp="*arg-2*")
        assert (counts(server.port)["scheduled"], counts(server.port)["queue default"]) == (2, 1)
        assert take(server.port)["jid"] == "job-blue-2"

        mutate(client, "clear", "scheduled")
        mutate(client, "requeue", "dead")
        found = counts(server.port)
        assert (found["scheduled"], found["dead"], found["queue default"]) == (0, 0, 2)


# -- steering --------------------------------------------------------------------------------------


def test_a_paused_queue_gives_no_jobs_until_it_is_resumed(peers: Peers, server: Server) -> None:
    with producer(url(server.port)) as jobs:
        jobs.push(Job(jid="job-paused", jobtype="echo", args=[]))
        jobs.client.queue_pause(queues=["default"])
        worker = peers.worker("pyfaktory", url(server.port), queues=["default", "open"])
        jobs.push(Job(jid="job-open-1", jobtype="echo", args=[], queue="open"))
        assert list(worker.ran(1)) == ["job-open-1"]
        until_counts(server.port, total_processed=1, working=0, **{"queue default": 1})

        jobs.client.queue_unpause(queues=["default"])
        assert list(worker.ran(1)) == ["job-paused"]


def test_queues_are_removed_by_name_and_all_at_once(server: Server) -> None:
    with producer(url(server.port)) as jobs:
        for name in ("one", "two", "three"):
            jobs.push(Job(jobtype="echo", args=[], queue=name))
        assert jobs.client.queue_remove(queues=["one"])
        assert sorted(jobs.client.info()["faktory"]["queues"]) == ["three", "two"]
        assert jobs.client.queue_pause(all_queues=True)
        assert jobs.client.queue_unpause(all_queues=True)
        assert jobs.client.queue_remove(all_queues=True)
        assert jobs.client.info()["faktory"]["queues"] == {}


def test_info_has_the_shape_of_the_original(peers: Peers, server: Server) -> None:
    peers.worker("pyfaktory", url(server.port))
    with producer(url(server.port)) as jobs:
        jobs.push(Job(jobtype="nobody", args=[], queue="waiting"))
        info = jobs.client.info()

    assert list(info) == ["now", "server_utc_time", "faktory", "server"]
    facts = info["faktory"]
    assert facts["queues"]["waiting"] == 1
    assert facts["tasks"]["Workers"]["size"] == 1
    assert facts["total_enqueued"] == 1
    assert list(facts["tasks"]) == ["Busy", "Dead", "Retries", "Scheduled", "Workers"]
    assert info["server"]["faktory_version"].startswith("1.")
    assert info["server"]["connections"] >= 2
    assert all(isinstance(info["server"][name], int) for name in ("uptime", "used_memory_mb"))


def test_batches_are_refused_in_the_words_of_the_open_server(server: Server) -> None:
    done = TargetJob(jobtype="done", args=[])
    with producer(url(server.port)) as jobs:
        with pytest.raises(FaktroyWorkProtocolError, match="only available in Faktory Enterprise"):
            jobs.batch_new(Batch(parent_bid=None, description="", success=done, complete=None))
        assert jobs.push(Job(jobtype="echo", args=[]))


# -- who may come in -------------------------------------------------------------------------------


def test_a_wrong_password_and_none_are_turned_away(peers: Peers) -> None:
    server = peers.server(password="sesame-123")
    with pytest.raises(FaktroyWorkProtocolError, match="Invalid password"):
        Client(faktory_url=url(server.port, "guess")).connect()
    with pytest.raises(ValueError, match="Password required"):
        Client(faktory_url=url(server.port)).connect()


def test_a_consumer_that_leaves_is_forgotten(peers: Peers, server: Server) -> None:
    worker = peers.worker("pyfaktory", url(server.port))
    until_counts(server.port, workers=1)
    with producer(url(server.port)) as jobs:
        jobs.push(Job(jid="job-echo-1", jobtype="echo", args=["here"]))
    worker.ran(1)  # from then on it listens to signals
    worker.terminate()
    worker.said("stopped")
    eventually(lambda: counts(server.port)["workers"] == 0, "no workers")
