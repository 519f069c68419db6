"""PyPI's `faktory` 1.0.0: it says no version, so it hashes a password once, and never says END."""

import faktory
import pytest
from faktory.exceptions import FaktoryAuthenticationError

from tests.real.kit import Peers, counts, take, until_counts, url
from tests.support.server import Server

PASSWORD = "sesame-123"


# -- the client ------------------------------------------------------------------------------------


def test_a_queued_job_arrives_with_its_fields(server: Server) -> None:
    with faktory.connection(url(server.port)) as client:
        assert client.queue(
            "echo", args=(1, "größe"), queue="mail", jid="job-fields", priority=9,
            custom={"b": 1, "a": 2**63}, reserve_for=90, retry=2, backtrace=4,
        )  # fmt: skip

    found = take(server.port, "mail")
    del found["created_at"], found["enqueued_at"]
    assert found == {
        "jid": "job-fields", "jobtype": "echo", "args": [1, "größe"], "queue": "mail",
        "custom": {"b": 1, "a": 2**63}, "reserve_for": 90, "retry": 2, "backtrace": 4,
    }  # fmt: skip


def test_a_refused_job_is_false_and_the_connection_goes_on(server: Server) -> None:
    with faktory.connection(url(server.port)) as client:
        assert client.queue("echo", jid="short") is False
        assert client.queue("echo", at="tomorrow") is False
        assert client.queue("echo") is True
    assert counts(server.port)["queue default"] == 1


def test_a_client_connects_by_itself_for_one_job(server: Server) -> None:
    client = faktory.get_client(url(server.port))
    assert client.queue("echo", jid="job-one-1")
    assert not client.is_connected
    assert take(server.port)["jid"] == "job-one-1"


# -- who may come in -------------------------------------------------------------------------------


@pytest.mark.parametrize("password", ["guess", ""])
def test_a_wrong_password_and_none_are_turned_away(peers: Peers, password: str) -> None:
    server = peers.server(password=PASSWORD)
    with pytest.raises(FaktoryAuthenticationError, match="wrong password"):
        faktory.get_client(url(server.port, password)).connect()


def test_an_operator_may_refuse_a_password_that_is_hashed_once(peers: Peers) -> None:
    off = {"FRANCA_FAKTORY__ALLOW_V1_PASSWORDS": "false"}
    server = peers.server(password=PASSWORD, env=off)
    with pytest.raises(FaktoryAuthenticationError):
        faktory.get_client(url(server.port, PASSWORD)).connect()


# -- the worker ------------------------------------------------------------------------------------


@pytest.mark.parametrize("forks", [False, True], ids=["threads", "processes"])
def test_a_worker_acknowledges_what_went_well_and_fails_the_rest(
    peers: Peers, forks: bool, server: Server
) -> None:
    worker = peers.worker("faktory", url(server.port), forks=forks)
    with faktory.connection(url(server.port)) as client:
        client.queue("echo", args=["well"], jid="job-well")
        client.queue("boom", args=["bad"], jid="job-boom")
        client.queue("nobody knows", args=[], jid="job-unknown")

    assert worker.ran(2) == {"job-well": ["well"], "job-boom": ["bad"]}
    found = until_counts(server.port, total_processed=3, working=0)
    assert (found["total_failures"], found["retries"], found["dead"]) == (2, 2, 0)

    worker.terminate()
    worker.said("stopped")
    until_counts(server.port, workers=0)


def test_a_worker_that_beats_stays_known(peers: Peers, server: Server) -> None:
    """Its loop beats too late for a test; the beat itself is public."""
    peers.worker("faktory", url(server.port), wid="beating-1", beat_s=0.2)
    until_counts(server.port, workers=1)
    with faktory.connection(url(server.port)) as client:
        # The client has no words for it, but its connection says what it is told.
        client.faktory.reply("BEAT", {"wid": "beating-1"})
        assert next(client.faktory.get_message()) == "OK"
        client.faktory.reply("BEAT", {"wid": "nobody-1"})
        assert next(client.faktory.get_message()) == "ERR unknown worker nobody-1"
