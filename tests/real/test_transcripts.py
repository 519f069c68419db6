"""What each real client says and what it is answered, word for word, kept as files.

A difference is a failure; UPDATE_TRANSCRIPTS=1 writes the files anew, to be read before they are
committed.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import faktory
import pytest
from faktory.exceptions import FaktoryAuthenticationError
from pyfaktory import Client, Job, JobFilter, MutateOperation, Producer
from pyfaktory.util.exceptions import FaktroyWorkProtocolError

from franca.control import client as control
from tests.real.kit import PYTHON_KINDS, CallRefused, Program, Stage, eventually, url
from tests.real.proxy import SERVER, Proxy
from tests.real.transcript import Transcript
from tests.support.server import Server

FOLDER = Path(__file__).with_name("transcripts")
LATER = "2099-01-01T00:00:00Z"
PASSWORD = "sesame-123"
WID = "worker-1"


def test_pyfaktory(stage: Stage) -> None:
    server = stage.server()
    record = Transcript("pyfaktory 0.2.13 from PyPI")
    with (
        record.act("A producer pushes jobs", server.port) as proxy,
        Client(faktory_url=url(proxy.port), role="producer") as client,
    ):
        producer = Producer(client)
        producer.push(Job(jid="job-echo", jobtype="echo", args=[1, "größe"], custom={"a": 1.0}))
        with pytest.raises(FaktroyWorkProtocolError):
            producer.push(Job(jid="short", jobtype="echo", args=[]))
        producer.push_bulk(
            [
                Job(jid="job-boom", jobtype="boom", args=[], retry=3),
                Job(jid="job-later", jobtype="echo", args=[], at=LATER),
                Job(jid="job-bad-queue", jobtype="echo", args=[], queue="bad queue"),
            ]
        )
    _worker_act(stage, record, server, "pyfaktory")
    with (
        record.act("Somebody looks around and tidies up", server.port) as proxy,
        Client(faktory_url=url(proxy.port), role="producer") as client,
    ):
        client.info()
        client.queue_pause(queues=["default", "other"])
        client.queue_unpause(all_queues=True)
        wanted = JobFilter(jids=None, regexp=None, jobtype="boom")
        client.mutate(MutateOperation(cmd="kill", target="retries", filter=wanted))
        client.mutate(MutateOperation(cmd="discard", target="dead"))
        client.mutate(MutateOperation(cmd="clear", target="scheduled"))
        client.queue_remove(queues=["default"])
        client.info()
    _asked_act(stage, record, server, "pyfaktory")

    def knock(address: str) -> None:
        with Client(faktory_url=address, role="producer"):
            pass

    _password_acts(stage, record, knock, FaktroyWorkProtocolError)
    _compare("pyfaktory", record)


def test_faktory(stage: Stage) -> None:
    server = stage.server()
    record = Transcript("faktory 1.0.0 from PyPI")
    with (
        record.act("A producer pushes jobs", server.port) as proxy,
        faktory.connection(url(proxy.port)) as client,
    ):
        client.queue("echo", args=(1, "größe"), jid="job-echo", custom={"a": 1.0})
        client.queue("echo", jid="short")
        client.queue("boom", jid="job-boom", retry=3)
        client.queue("echo", jid="job-later", at=LATER)
    _worker_act(stage, record, server, "faktory")
    title = "It has no words for INFO, but its connection says what it is told"
    with (
        record.act(title, server.port) as proxy,
        faktory.connection(url(proxy.port)) as client,
    ):
        client.faktory.reply("INFO")
        assert next(client.faktory.get_message()).startswith("{")
    _asked_act(stage, record, server, "faktory")

    def knock(address: str) -> None:
        with faktory.connection(address):
            pass

    _password_acts(stage, record, knock, FaktoryAuthenticationError)
    _compare("faktory", record)


def test_faktory_worker(stage: Stage) -> None:
    server = stage.server()
    record = Transcript("faktory-worker 4.7.1 from npm")
    with record.act("A producer connects, and pushes jobs", server.port) as proxy:
        client = stage.client("faktory-worker", url(proxy.port))
        client.call("connect")
        client.call("push", _job("job-echo", "echo", 1, "größe", custom={"a": 1.5}))
        with pytest.raises(CallRefused):
            client.call("push", _job("short", "echo"))
        boom, later = _job("job-boom", "boom", retry=3), _job("job-later", "echo", at=LATER)
        client.call("pushBulk", [boom, later, _job("job-bad-queue", "echo", queue="bad queue")])
        _leave(client)
    _worker_act(stage, record, server, "faktory-worker")
    with record.act("Somebody looks around and tidies up", server.port) as proxy:
        client = stage.client("faktory-worker", url(proxy.port))
        client.call("info")
        client.call("queue", "PAUSE", "default")
        client.call("queue", "RESUME", "*")
        client.call("mutate", "retries", "requeue", {"ofType": "boom"})
        client.call("mutate", "scheduled", "kill", {"withJids": ["job-later"]})
        client.call("mutate", "dead", "discard", {"matching": "*later*"})
        client.call("fetch", "urgent", "default")
        client.call("fail", "job-boom", "it broke")
        client.call("flush")
        client.call("info")
        _leave(client)
    _asked_act(stage, record, server, "faktory-worker")
    _password_acts(stage, record, _node_knock(stage, "faktory-worker"), CallRefused)
    _compare("faktory-worker", record)


def test_faktory_client(stage: Stage) -> None:
    server = stage.server()
    record = Transcript("faktory-client 0.6.1 from npm")
    with record.act("A producer pushes jobs", server.port) as proxy:
        client = stage.client("faktory-client", url(proxy.port))
        client.call("connect")
        client.call("push", _job("job-echo", "echo", 1, "größe", custom={"a": 1.5}))
        with pytest.raises(CallRefused):
            client.call("push", _job("short", "echo"))
        client.call("push", _job("job-boom", "boom", retry=3))
        client.call("push", _job("job-later", "echo", at=LATER))
        _leave(client)
    _worker_act(stage, record, server, "faktory-client")
    with record.act("Somebody looks around and tidies up", server.port) as proxy:
        client = stage.client("faktory-client", url(proxy.port))
        client.call("connect")
        client.call("info")
        client.call("flush")
        client.call("info")
        _leave(client)
    _asked_act(stage, record, server, "faktory-client")
    _password_acts(stage, record, _node_knock(stage, "faktory-client"), CallRefused)
    _compare("faktory-client", record)


# -- acts that all of them play --------------------------------------------------------------------


def _worker_act(stage: Stage, record: Transcript, server: Server, kind: str) -> None:
    with record.act("A worker runs them; one of them fails", server.port) as proxy:
        worker = stage.worker(kind, url(proxy.port), wid=WID, hold=True)
        if kind in PYTHON_KINDS:
            _first_beat(proxy)
            worker.tell("go")
        worker.ran(2)
        eventually(lambda: b"$-1\r\n" in proxy.said(SERVER), "a FETCH that brings nothing")
        worker.terminate()
        worker.said("stopped")
        assert worker.wait() == 0


def _asked_act(stage: Stage, record: Transcript, server: Server, kind: str) -> None:
    with record.act("An operator asks a worker to be quiet, then to leave", server.port) as proxy:
        if kind in PYTHON_KINDS:
            worker = stage.worker(kind, url(proxy.port), wid=WID, hold=True)
            _first_beat(proxy)
        else:
            worker = stage.client(kind, url(proxy.port), wid=WID)
            if kind == "faktory-client":
                worker.call("connect")
            assert worker.call("beat") == "OK"
        for what, state in (("quiet", "quiet"), ("stop", "terminate")):
            control.call(str(server.data), f"workers.{what}", {"workers": [WID], "all": False})
            if kind in PYTHON_KINDS:
                worker.tell("beat")
                worker.said("beat")
            else:
                assert worker.call("beat") == state
        if kind in PYTHON_KINDS:
            worker.tell("go")
            assert worker.said("stopped")["terminated"]
            worker.wait()
        else:
            _leave(worker)


def _password_acts(
    stage: Stage, record: Transcript, knock: Callable[[str], None], error: type[Exception]
) -> None:
    server = stage.server(password=PASSWORD)
    with record.act("A client that knows the password", server.port) as proxy:
        knock(url(proxy.port, PASSWORD))
    with record.act("A client that does not", server.port) as proxy, pytest.raises(error):
        knock(url(proxy.port, "guess"))


def _first_beat(proxy: Proxy) -> None:
    """Both Python workers beat before they run; one of them from a thread, in its own time."""
    eventually(lambda: proxy.said(SERVER).count(b"+OK\r\n") == 2, "the answer to a BEAT")


def _node_knock(stage: Stage, kind: str) -> Callable[[str], None]:
    def knock(address: str) -> None:
        client = stage.client(kind, address)
        try:
            client.call("connect")
        finally:
            _leave(client)

    return knock


def _leave(client: Program) -> None:
    """The end of its input is the end of its work."""
    assert client.process.stdin is not None
    client.process.stdin.close()
    client.wait()


def _job(jid: str, jobtype: str, *args: object, **fields: object) -> dict[str, object]:
    return {"jid": jid, "jobtype": jobtype, "args": args, **fields}


def _compare(name: str, record: Transcript) -> None:
    path = FOLDER / f"{name}.txt"
    found = record.text()
    if os.environ.get("UPDATE_TRANSCRIPTS") == "1":
        path.write_text(found, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    if found != kept:
        changes = difflib.unified_diff(
            kept.splitlines(), found.splitlines(), "as kept", "as heard now", lineterm=""
        )
        pytest.fail("\n".join([f"{path} differs", *changes]), pytrace=False)
