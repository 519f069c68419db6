"""What each real client says and what it is answered, word for word, kept as files that people can read and diff.

`C:` is a command and `S:` its answer, as they were sent, but for three liberties. What differs from
run to run stands as `<...>`. A worker that has nothing to do asks again and again: of the FETCHes
in a row that brought nothing, one is shown. And long lines are wrapped.

A difference is a failure; UPDATE_TRANSCRIPTS=1 writes the files anew, to be read before they are
committed.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import faktory
import pytest
from faktory.exceptions import FaktoryAuthenticationError
from pyfaktory import Client, Job, JobFilter, MutateOperation, Producer
from pyfaktory.util.exceptions import FaktroyWorkProtocolError

from franca.control import client as control
from tests.real.kit import PYTHON_KINDS, CallRefused, Peers, Program, compare, url
from tests.real.relay import CLIENT, SERVER, Relay, Side, Tape
from tests.support.server import Server
from tests.support.shared import eventually

FOLDER = Path(__file__).with_name("transcripts")
LATER = "2099-01-01T00:00:00Z"
"""The one moment that clients name themselves, so it is shown."""
PASSWORD = "sesame-123"
WID = "worker-1"


def test_pyfaktory(peers: Peers, server: Server) -> None:
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
    _worker_act(peers, record, server, "pyfaktory")
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
    _asked_act(peers, record, server, "pyfaktory")

    def knock(address: str) -> None:
        with Client(faktory_url=address, role="producer"):
            pass

    _password_acts(peers, record, knock, FaktroyWorkProtocolError)
    compare(FOLDER / "pyfaktory.txt", record.text())


def test_faktory(peers: Peers, server: Server) -> None:
    record = Transcript("faktory 1.0.0 from PyPI")
    with (
        record.act("A producer pushes jobs", server.port) as proxy,
        faktory.connection(url(proxy.port)) as client,
    ):
        client.queue("echo", args=(1, "größe"), jid="job-echo", custom={"a": 1.0})
        client.queue("echo", jid="short")
        client.queue("boom", jid="job-boom", retry=3)
        client.queue("echo", jid="job-later", at=LATER)
    _worker_act(peers, record, server, "faktory")
    title = "It has no words for INFO, but its connection says what it is told"
    with record.act(title, server.port) as proxy, faktory.connection(url(proxy.port)) as client:
        client.faktory.reply("INFO")
        assert next(client.faktory.get_message()).startswith("{")
    _asked_act(peers, record, server, "faktory")

    def knock(address: str) -> None:
        with faktory.connection(address):
            pass

    _password_acts(peers, record, knock, FaktoryAuthenticationError)
    compare(FOLDER / "faktory.txt", record.text())


def test_faktory_worker(peers: Peers, server: Server) -> None:
    record = Transcript("faktory-worker 4.7.1 from npm")
    with record.act("A producer connects, and pushes jobs", server.port) as proxy:
        client = peers.client("faktory-worker", url(proxy.port))
        client.call("connect")
        client.call("push", _job("job-echo", "echo", 1, "größe", custom={"a": 1.5}))
        with pytest.raises(CallRefused):
            client.call("push", _job("short", "echo"))
        boom, later = _job("job-boom", "boom", retry=3), _job("job-later", "echo", at=LATER)
        client.call("pushBulk", [boom, later, _job("job-bad-queue", "echo", queue="bad queue")])
        _leave(client)
    _worker_act(peers, record, server, "faktory-worker")
    with record.act("Somebody looks around and tidies up", server.port) as proxy:
        client = peers.client("faktory-worker", url(proxy.port))
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
    _asked_act(peers, record, server, "faktory-worker")
    _password_acts(peers, record, _node_knock(peers, "faktory-worker"), CallRefused)
    compare(FOLDER / "faktory-worker.txt", record.text())


def test_faktory_client(peers: Peers, server: Server) -> None:
    record = Transcript("faktory-client 0.6.1 from npm")
    with record.act("A producer pushes jobs", server.port) as proxy:
        client = peers.client("faktory-client", url(proxy.port))
        client.call("connect")
        client.call("push", _job("job-echo", "echo", 1, "größe", custom={"a": 1.5}))
        with pytest.raises(CallRefused):
            client.call("push", _job("short", "echo"))
        client.call("push", _job("job-boom", "boom", retry=3))
        client.call("push", _job("job-later", "echo", at=LATER))
        _leave(client)
    _worker_act(peers, record, server, "faktory-client")
    with record.act("Somebody looks around and tidies up", server.port) as proxy:
        client = peers.client("faktory-client", url(proxy.port))
        client.call("connect")
        client.call("info")
        client.call("flush")
        client.call("info")
        _leave(client)
    _asked_act(peers, record, server, "faktory-client")
    _password_acts(peers, record, _node_knock(peers, "faktory-client"), CallRefused)
    compare(FOLDER / "faktory-client.txt", record.text())


# -- acts that all of them play --------------------------------------------------------------------


def _worker_act(peers: Peers, record: Transcript, server: Server, kind: str) -> None:
    with record.act("A worker runs them; one of them fails", server.port) as proxy:
        worker = peers.worker(kind, url(proxy.port), wid=WID, hold=True)
        if kind in PYTHON_KINDS:
            _first_beat(proxy)
            worker.tell("go")
        worker.ran(2)
        eventually(lambda: b"$-1\r\n" in proxy.said(SERVER), "a FETCH that brings nothing")
        worker.terminate()
        worker.said("stopped")
        assert worker.wait() == 0


def _asked_act(peers: Peers, record: Transcript, server: Server, kind: str) -> None:
    with record.act("An operator asks a worker to be quiet, then to leave", server.port) as proxy:
        worker: Program
        if kind in PYTHON_KINDS:
            worker = peers.worker(kind, url(proxy.port), wid=WID, hold=True)
            _first_beat(proxy)
        else:
            worker = peers.client(kind, url(proxy.port), wid=WID)
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
    peers: Peers, record: Transcript, knock: Callable[[str], None], error: type[Exception]
) -> None:
    server = peers.server(password=PASSWORD)
    with record.act("A client that knows the password", server.port) as proxy:
        knock(url(proxy.port, PASSWORD))
    with record.act("A client that does not", server.port) as proxy, pytest.raises(error):
        knock(url(proxy.port, "guess"))


def _first_beat(proxy: Relay) -> None:
    """Both Python workers beat before they run; one of them from a thread, in its own time."""
    eventually(lambda: proxy.said(SERVER).count(b"+OK\r\n") == 2, "the answer to a BEAT")


def _node_knock(peers: Peers, kind: str) -> Callable[[str], None]:
    def knock(address: str) -> None:
        client = peers.client(kind, address)
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


# -- what was said, as text ---------------------------------------------------------------------------

_DIFFERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "<time>"),
        (r"\d\d:\d\d:\d\d UTC", "<time> UTC"),
        (r'("(?:uptime|connections|command_count|used_memory_mb)":)\d+', r"\1<number>"),
        (r'("pid": ?)\d+', r"\1<pid>"),
        (r'("hostname": ?)"[^"]*"', r'\1"<host>"'),
        (r'("i":)\d+', r"\1<rounds>"),
        (r'("s":)"[0-9a-f]+"', r'\1"<salt>"'),
        (r'("pwdhash": ?)"[0-9a-f]{64}"', r'\1"<hash>"'),
    )
)

_IDLE = "S: $-1"
_WIDTH = 100


class Transcript:
    """The acts of one client, each with its connections."""

    def __init__(self, heading: str) -> None:
        self._blocks = [f"# {heading}\n#\n{_INTRODUCTION}"]

    @contextmanager
    def act(self, title: str, server_port: int) -> Iterator[Relay]:
        """Write down what passes through this proxy under a title."""
        with Relay(server_port) as proxy:
            yield proxy
        self._blocks.append(f"== {title}")
        for number, tape in enumerate(proxy.tapes, 1):
            label = f"-- connection {number}\n" if len(proxy.tapes) > 1 else ""
            self._blocks.append(label + "\n".join(wrapped(line) for line in shown(tape)))

    def text(self) -> str:
        return "\n\n".join(self._blocks) + "\n"


_INTRODUCTION = """\
# C: is what the client sent, S: what the server answered; a bulk answer is one line, its size
# and its text. <...> stands for what differs from run to run. Of the FETCHes that bring nothing
# in a row, one is shown. A long line goes on in the next one, behind three spaces.
# Recorded by tests/real/test_transcripts.py; UPDATE_TRANSCRIPTS=1 writes it anew."""


_REFUSED = "S: -ERR Invalid password"


def shown(tape: Tape) -> list[str]:
    """The lines of one connection."""
    return [normal(line) for line in _without_idling(list(_lines(tape)))]


def wrapped(line: str) -> str:
    """A long line in pieces, cut behind commas where there are some."""
    pieces = []
    while len(line) > _WIDTH:
        cut = line.rfind(",", _WIDTH // 2, _WIDTH) + 1 or _WIDTH
        pieces.append(line[:cut])
        line = "   " + line[cut:]
    return "\n".join([*pieces, line])


def normal(line: str) -> str:
    """A line without what differs from run to run."""
    changed = _without_trace(line).replace(LATER, "<fixed>")
    for pattern, text in _DIFFERS:
        changed = pattern.sub(text, changed)
    changed = changed.replace("<fixed>", LATER)
    if changed != line:
        changed = re.sub(r"^S: \$\d+ ", "S: $<size> ", changed)
    return changed


def _lines(pieces: Iterable[tuple[Side, bytes]]) -> Iterator[str]:
    """Whole commands and whole answers, in the order in which they were complete."""
    unread = {"C": bytearray(), "S": bytearray()}
    for side, data in pieces:
        rest = unread[side]
        rest += data
        if side == CLIENT:
            *commands, rest[:] = rest.split(b"\r\n")
            yield from (f"C: {command.decode()}" for command in commands)
        elif (end := _end_of_answer(rest)) is not None:
            # Some clients take one read for one answer and lose what comes with it.
            assert end == len(rest), f"more than one answer at once: {bytes(rest)!r}"
            yield "S: " + rest[:-2].decode().replace("\r\n", " ", 1)
            rest.clear()
    assert not any(unread.values()), f"half a line at the end: {unread}"


def _end_of_answer(data: bytes | bytearray) -> int | None:
    """Where the first answer ends, or None while it has not come whole."""
    line_end = data.find(b"\r\n") + 2
    if line_end < 2:
        return None
    if not data.startswith(b"$") or data.startswith(b"$-1"):
        return line_end
    end = line_end + int(data[1 : line_end - 2]) + 2
    if len(data) < end:
        return None
    assert data[end - 2 : end] == b"\r\n", f"a wrong size: {bytes(data[:line_end])!r}"
    return end


def _without_idling(lines: list[str]) -> list[str]:
    """Only the first of several idle FETCHes; one that was left unanswered at the end is idle."""
    kept: list[str] = []
    for index, line in enumerate(lines):
        after_idle = len(kept) >= 2 and kept[-1] == _IDLE and kept[-2] == line
        answer = lines[index + 1] if index + 1 < len(lines) else "C:"
        if after_idle and (answer == _IDLE or answer.startswith("C:")):
            continue
        if line == _IDLE and kept and kept[-1] in (_IDLE, "C: END"):
            continue
        if line == "C: END" and kept and kept[-1] == _REFUSED:
            continue  # the server hangs up at once: the client's last word may come too late
        kept.append(line)
    return kept


def _without_trace(line: str) -> str:
    """A backtrace names files and lines that are nobody's business here; that it is a list is."""
    match = re.search(r'"backtrace": ?(?=\[)', line)
    if match is None:
        return line
    trace, size = json.JSONDecoder().raw_decode(line[match.end() :])
    assert all(isinstance(each, str) for each in trace), line
    return f"{line[: match.end()]}[<trace>]{line[match.end() + size :]}" if trace else line


# -- that text: what is smoothed over in it, and what is not ----------------------------------------------


def tape(*pieces: tuple[Side, bytes]) -> Tape:
    return Tape(pieces)


def test_the_proxy_notes_both_sides_in_order_and_changes_nothing() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Relay(listener.getsockname()[1]) as proxy,
    ):
        client = socket.create_connection(("127.0.0.1", proxy.port))
        server, _ = listener.accept()
        with client, server:
            server.sendall(b"+HI\r\n")
            assert client.recv(100) == b"+HI\r\n"
            client.sendall(b"INFO\r\n")
            assert server.recv(100) == b"INFO\r\n"
            server.sendall(b"$2\r\n{}\r\n")
            assert client.recv(100) == b"$2\r\n{}\r\n"
    assert shown(proxy.tapes[0]) == ["S: +HI", "C: INFO", "S: $2 {}"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('S: +HI {"v":2}', 'S: +HI {"v":2}'),
        ('S: +HI {"v": 2}', 'S: +HI {"v": 2}'),
        ('S: +HI {"v":2,"i":1500,"s":"0af"}', 'S: +HI {"v":2,"i":<rounds>,"s":"<salt>"}'),
        ('S: $17 {"state":"quiet"}', 'S: $17 {"state":"quiet"}'),
        ('S: $9 {"at":"2026-11-15T22:34:41.527Z"}', 'S: $<size> {"at":"<time>"}'),
        ('C: PUSH {"at":"2099-01-01T00:00:00Z"}', 'C: PUSH {"at":"2099-01-01T00:00:00Z"}'),
        ('C: FAIL {"backtrace":["a]","b"],"jid":"j"}', 'C: FAIL {"backtrace":[<trace>],"jid":"j"}'),
        ('C: FAIL {"backtrace": []}', 'C: FAIL {"backtrace": []}'),
    ],
)
def test_only_what_differs_from_run_to_run_is_smoothed_over(line: str, kept: str) -> None:
    assert normal(line) == kept


def test_of_idle_fetches_in_a_row_one_is_shown() -> None:
    idle: list[tuple[Side, bytes]] = [(CLIENT, b"FETCH a\r\n"), (SERVER, b"$-1\r\n")]
    once = ["C: FETCH a", "S: $-1"]
    assert shown(tape(*idle, *idle, *idle)) == once
    assert shown(tape(*idle, *idle[:1])) == once
    assert shown(tape(*idle, *idle[:1], (CLIENT, b"END\r\n"))) == [*once, "C: END"]
    assert shown(tape(*idle[:1])) == ["C: FETCH a"]
    job = (SERVER, b"$2\r\n{}\r\n")
    assert shown(tape(*idle, *idle[:1], job)) == [*once, "C: FETCH a", "S: $2 {}"]


def test_two_answers_in_one_piece_are_an_error() -> None:
    with pytest.raises(AssertionError, match="more than one answer"):
        shown(tape((CLIENT, b"INFO\r\nINFO\r\n"), (SERVER, b"+OK\r\n+OK\r\n")))


def test_an_answer_of_the_wrong_size_is_an_error() -> None:
    with pytest.raises(AssertionError, match="wrong size"):
        shown(tape((SERVER, b"$1\r\n{}\r\n")))
    with pytest.raises(AssertionError, match="half a line"):
        shown(tape((SERVER, b"$9\r\n{}\r\n")))


def test_a_wrapped_line_can_be_put_together_again() -> None:
    line = "S: " + ",".join(["0123456789"] * 40)
    pieces = wrapped(line).split("\n")
    assert all(len(piece) <= 100 for piece in pieces)
    assert "".join([pieces[0], *(piece[3:] for piece in pieces[1:])]) == line
