"""npm's `faktory-worker` 4.7.1 and `faktory-client` 0.6.1."""

import json
import re
from typing import Any

import pytest
import trustme

from tests.real.fetched import NODE
from tests.real.kit import NODE_KINDS, CallRefused, Peers, counts, take, until_counts, url
from tests.support.server import Server
from tests.support.tls import secured

PASSWORD = "sesame 123 %/@"
LATER = "2099-01-01T00:00:00Z"


def work_unit(jid: str, jobtype: str = "echo", *args: object, **fields: object) -> dict[str, Any]:
    return {"jid": jid, "jobtype": jobtype, "args": list(args), **fields}


def test_the_lock_file_pins_both_libraries_and_names_no_registry() -> None:
    text = (NODE / "package-lock.json").read_text()
    packages = json.loads(text)["packages"]
    assert packages["node_modules/faktory-worker"]["version"] == "4.7.1"
    assert packages["node_modules/faktory-client"]["version"] == "0.6.1"
    assert not re.search(r"https?://", text)
    assert all("integrity" in facts for name, facts in packages.items() if name)


# -- both ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NODE_KINDS)
def test_a_worker_acknowledges_what_went_well_and_fails_the_rest(
    peers: Peers, kind: str, server: Server
) -> None:
    worker = peers.worker(kind, url(server.port))
    client = peers.client(kind, url(server.port))
    client.call("connect")
    client.call("push", work_unit("job-well", "echo", "größe", {"a": 1}))
    client.call("push", work_unit("job-boom", "boom", retry=0))

    assert worker.ran(2) == {"job-well": ["größe", {"a": 1}], "job-boom": []}
    found = until_counts(server.port, total_processed=2, total_failures=1, working=0)
    assert (found["retries"], found["workers"]) == (0, 1)

    worker.terminate()
    worker.said("stopped")
    assert worker.wait() == 0
    until_counts(server.port, workers=0)


@pytest.mark.parametrize("kind", NODE_KINDS)
def test_a_client_fetches_settles_beats_asks_and_flushes(
    peers: Peers, kind: str, server: Server
) -> None:
    client = peers.client(kind, url(server.port), wid="client-1")
    client.call("connect")
    for jid in ("job-first", "job-second", "job-third"):
        assert client.call("push", work_unit(jid, retry=3)) == jid

    first = client.call("fetch", "empty", "default")
    assert first["jid"] == "job-first"
    assert client.call("ack", "job-first") == "OK"
    assert client.call("ack", "job-first") == "OK"

    assert client.call("fetch", "default")["jid"] == "job-second"
    assert client.call("fail", "job-second", "it broke") == "OK"
    with pytest.raises(CallRefused, match="Job not found job-second"):
        client.call("fail", "job-second", "again")

    assert client.call("beat") == "OK"
    facts = client.call("info")["faktory"]
    assert facts["sets"] == {"dead": 0, "retries": 1, "scheduled": 0, "working": 0}
    assert facts["tasks"]["Retries"]["size"] == 1
    assert (facts["total_processed"], facts["total_failures"]) == (2, 1)
    assert facts["queues"] == {"default": 1}

    assert client.call("flush") == "OK"
    assert client.call("fetch", "default") is None
    assert counts(server.port)["retries"] == 0


@pytest.mark.parametrize("kind", NODE_KINDS)
def test_a_password_opens_and_a_wrong_one_does_not(peers: Peers, kind: str) -> None:
    server = peers.server(password=PASSWORD)
    client = peers.client(kind, url(server.port), password=PASSWORD)
    assert client.call("connect") is True
    assert client.call("push", work_unit("job-secret")) == "job-secret"

    stranger = peers.client(kind, url(server.port), password="guess")
    with pytest.raises(CallRefused, match="Invalid password"):
        stranger.call("connect")


# -- faktory-worker --------------------------------------------------------------------------------


def test_a_password_in_the_address_may_be_escaped(peers: Peers) -> None:
    server = peers.server(password=PASSWORD)
    client = peers.client("faktory-worker", url(server.port, PASSWORD))
    assert client.call("connect") is True


def test_a_bulk_push_takes_the_good_and_names_the_bad(peers: Peers, server: Server) -> None:
    client = peers.client("faktory-worker", url(server.port))
    jobs = [work_unit(f"job-{n:05}", "echo", n) for n in range(1_000)]
    assert client.call("pushBulk", jobs) == {}
    rejected = client.call("pushBulk", [work_unit("job-good"), work_unit("bad")])
    assert rejected["bad"]["reason"] == "jobs must have a reasonable jid parameter"
    assert rejected["bad"]["payload"]["jobtype"] == "echo"
    assert client.call("info")["faktory"]["queues"] == {"default": 1_001}


def test_a_job_keeps_its_fields(peers: Peers, server: Server) -> None:
    client = peers.client("faktory-worker", url(server.port))
    custom = {"z": [1, {"b": None}], "a": "größe"}
    job = work_unit("job-fields", queue="mail", reserveFor=90, retry=-1, custom=custom)
    client.call("push", job | {"priority": 9})
    found = take(server.port, "mail")
    del found["created_at"], found["enqueued_at"]
    assert found == {
        "jid": "job-fields", "jobtype": "echo", "args": [], "queue": "mail",
        "reserve_for": 90, "retry": -1, "custom": custom,
    }  # fmt: skip


def test_mutations_choose_by_type_by_jid_and_by_pattern(peers: Peers, server: Server) -> None:
    client = peers.client("faktory-worker", url(server.port))
    for kind in ("red", "blue"):
        for n in range(4):
            client.call("push", work_unit(f"job-{kind}-{n}", kind, f"arg-{n}", at=LATER))

    client.call("mutate", "scheduled", "kill", {"withJids": ["job-red-0", "job-blue-0"]})
    client.call("mutate", "scheduled", "discard", {"ofType": "red"})
    assert (counts(server.port)["dead"], counts(server.port)["scheduled"]) == (2, 3)

    client.call("mutate", "scheduled", "requeue", {"matching": '*"args":\\["arg-2"\\]*'})
    assert take(server.port)["jid"] == "job-blue-2"

    client.call("mutate", "dead", "requeue")
    client.call("mutate", "scheduled", "clear")
    found = counts(server.port)
    assert (found["dead"], found["scheduled"], found["queue default"]) == (0, 0, 2)


def test_retries_are_killed_and_requeued(peers: Peers, server: Server) -> None:
    client = peers.client("faktory-worker", url(server.port), wid="client-1")
    client.call("push", work_unit("job-boom", retry=3))
    client.call("fetch", "default")
    client.call("fail", "job-boom", "it broke")
    client.call("mutate", "retries", "requeue")
    again = client.call("fetch", "default")
    assert again["failure"]["message"] == "it broke"
    assert again["failure"]["backtrace"][0] == "Error: it broke"
    client.call("fail", "job-boom", "it broke again")
    client.call("mutate", "retries", "kill", {"ofType": "echo"})
    assert counts(server.port)["dead"] == 1


def test_queues_are_paused_resumed_and_removed(peers: Peers, server: Server) -> None:
    client = peers.client("faktory-worker", url(server.port))
    client.call("push", work_unit("job-held"))
    assert client.call("queue", "PAUSE", "default") == "OK"
    assert client.call("fetch", "default") is None
    assert client.call("queue", "RESUME", "*") == "OK"
    assert json.loads(client.call("queue", "LATENCY", "default"))["default"] > 0
    assert client.call("fetch", "default")["jid"] == "job-held"
    assert client.call("queue", "REMOVE", "default") == "OK"
    with pytest.raises(CallRefused, match="no such QUEUE subcommand: FREEZE"):
        client.call("queue", "FREEZE", "default")


def test_it_verifies_the_servers_certificate(peers: Peers, ca: trustme.CA) -> None:
    server = peers.server(args=secured(peers.folder, ca).flags)
    trusting = {"ca": ca.cert_pem.bytes().decode()}
    worker = peers.worker("faktory-worker", url(server.port), tlsOptions=trusting)
    client = peers.client("faktory-worker", url(server.port), tlsOptions=trusting)
    client.call("push", work_unit("job-hidden"))
    assert list(worker.ran(1)) == ["job-hidden"]

    doubting = peers.client("faktory-worker", url(server.port), tlsOptions={})
    with pytest.raises(CallRefused, match="certificate"):
        doubting.call("connect")


def test_many_jobs_at_once_are_each_run_once(peers: Peers, server: Server) -> None:
    worker = peers.worker("faktory-worker", url(server.port), concurrency=10)
    client = peers.client("faktory-worker", url(server.port))
    client.call("pushBulk", [work_unit(f"job-{n:05}", "echo", n) for n in range(300)])
    assert worker.ran(300) == {f"job-{n:05}": [n] for n in range(300)}
    until_counts(server.port, total_processed=300, total_failures=0, working=0)
