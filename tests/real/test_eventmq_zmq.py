"""EventMQ with raw sockets of libzmq, in the types and numbers in which they come in life."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from tests.prove.observe import ask
from tests.support.eventmq import call
from tests.support.server import Server

WAIT_MS = 10_000
Socket = zmq.Socket[bytes]
Connect = Callable[..., Socket]


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """A socket of this type on one of the server's listeners, closed with the test."""
    context = zmq.Context()
    context.max_sockets = 2_000
    sockets: list[Socket] = []

    def make(kind: int, listener: str = "eventmq", watch: int = 0, **options: Any) -> Socket:
        made = context.socket(kind)
        sockets.append(made)
        if watch:
            made.get_monitor_socket(watch)  # before it connects: what happens at once counts too
        made.linger = 0
        made.rcvtimeo = made.sndtimeo = WAIT_MS
        for name, value in options.items():
            made.setsockopt(getattr(zmq, name), value)
        path = server.data.parent / "emq.sock"
        made.connect(
            f"ipc://{path}" if listener == "ipc" else f"tcp://127.0.0.1:{server.ports[listener]}"
        )
        return made

    yield make
    for made in sockets:
        made.close(0)
    context.term()


def say(peer: Socket, command: str, *parts: bytes | str, msgid: str = "") -> str:
    msgid = msgid or str(uuid.uuid4())
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    head = [] if peer.type == zmq.REQ else [b""]  # a REQ socket puts the empty frame on itself
    peer.send_multipart([*head, b"eMQP/1.0", command.encode(), msgid.encode(), *raw])
    return msgid


def hear(peer: Socket) -> list[bytes]:
    """The next message that is no heartbeat, without the empty frame."""
    while True:
        frames = peer.recv_multipart()
        frames = frames[1:] if not frames[0] else frames
        assert frames[0] == b"eMQP/1.0"
        if frames[1] != b"HEARTBEAT":
            return frames


def worker(connect: Connect, slots: int = 1, listener: str = "eventmq", **options: Any) -> Socket:
    peer = connect(zmq.DEALER, listener, **options)
    msgid = say(peer, "INFORM", '[[10, "default"]]', "worker")
    ack = hear(peer)
    assert (ack[1], ack[3]) == (b"ACK", msgid.encode())
    for _ in range(slots):
        say(peer, "READY")
    return peer


def work(peer: Socket, count: int = 1, result: bytes = b'{"value": 1}') -> list[list[bytes]]:
    """Do so many jobs; what each was."""
    done = []
    for _ in range(count):
        job = hear(peer)
        assert job[1] == b"REQUEST"
        say(peer, "REPLY", result, job[2])
        say(peer, "READY")
        done.append(job[2:])
    return done


def happened(peer: Socket, events: int, within_ms: int = WAIT_MS) -> bool:
    """Whether one of these events of the transport comes, or came since the socket is watched."""
    monitor = peer.get_monitor_socket(events)
    try:
        return bool(monitor.poll(within_ms))
    finally:
        peer.disable_monitor()
        monitor.close(0)


# -- sockets of each type --------------------------------------------------------------------------


@pytest.mark.parametrize("listener", ["eventmq", "eventmq_publish", "ipc"])
def test_dealers_with_automatic_identities(connect: Connect, listener: str) -> None:
    at_work, client = worker(connect, listener=listener), connect(zmq.DEALER, listener)
    msgid = say(client, "REQUEST", "default", "reply-requested", call("os.path.basename", "/a"))
    work(at_work, result=b'{"value": "a"}')
    assert hear(client)[3:] == [msgid.encode()]
    assert hear(client)[3:] == [b'{"value": "a"}', msgid.encode()]


@pytest.mark.parametrize("options", [{}, {"REQ_CORRELATE": 1, "REQ_RELAXED": 1}])
def test_a_req_socket_has_one_answer_for_each_request(
    connect: Connect, options: dict[str, int]
) -> None:
    at_work, client = worker(connect), connect(zmq.REQ, **options)
    for number in range(5):
        msgid = say(client, "REQUEST", "default", "", b"%d" % number)
        assert hear(client)[3:] == [msgid.encode()]
        work(at_work)
        msgid = say(client, "REQUEST", "default", "reply-requested", b"%d" % number)
        work(at_work)
        assert hear(client)[3:] == [b'{"value": 1}', msgid.encode()]


def test_a_router_socket_as_a_client(connect: Connect) -> None:
    at_work, client = worker(connect), connect(zmq.ROUTER, CONNECT_ROUTING_ID=b"franca")
    time.sleep(0.3)  # a ROUTER drops what it sends before it is connected
    client.send_multipart([b"franca", b"", b"eMQP/1.0", b"REQUEST", b"id", b"default", b"", b"x"])
    work(at_work)
    assert client.recv_multipart()[3] == b"REPLY"


def test_two_sockets_of_one_identity_are_two_peers(connect: Connect) -> None:
    one, two = (worker(connect, IDENTITY=b"same") for _ in range(2))
    client = connect(zmq.DEALER, IDENTITY=b"same")
    ids = [say(client, "REQUEST", "default", "", b"x").encode() for _ in range(2)]
    # Each is ready for one job, whichever READY comes first: so each has one of the two.
    jobs = [hear(peer) for peer in (one, two)]
    assert sorted(job[2] for job in jobs) == sorted(ids)
    for peer, job in zip((one, two), jobs, strict=True):
        say(peer, "REPLY", b'{"value": 1}', job[2])
    assert sorted(hear(client)[3] for _ in ids) == sorted(ids)


def test_subscribers_by_prefix_and_no_longer(connect: Connect) -> None:
    subscriber = connect(zmq.SUB, "eventmq_subscribe", SUBSCRIBE=b"news")
    publisher = connect(zmq.DEALER, "eventmq_publish")
    other = connect(zmq.XSUB, "eventmq_subscribe")
    other.send(b"\x01news.uk")
    # Until both subscriptions have arrived, what is published is nobody's.
    subscriber.rcvtimeo = other.rcvtimeo = 100
    for peer in (subscriber, other):
        for _ in range(50):
            say(publisher, "PUBLISH", "news.uk", '"early"')
            try:
                assert peer.recv_multipart() == [b"news.uk", b'"early"']
                break
            except zmq.Again:
                continue
    _drain(subscriber)
    _drain(other)
    subscriber.rcvtimeo = other.rcvtimeo = WAIT_MS
    say(publisher, "PUBLISH", "weather", '"no"')
    say(publisher, "PUBLISH", "news.de", '"only one"')
    say(publisher, "PUBLISH", "news.uk", "headers", '"both"')
    assert subscriber.recv_multipart() == [b"news.de", b'"only one"']
    assert subscriber.recv_multipart() == [b"news.uk", b'"both"']
    assert other.recv_multipart() == [b"news.uk", b'"both"']
    subscriber.setsockopt(zmq.UNSUBSCRIBE, b"news")
    subscriber.setsockopt(zmq.SUBSCRIBE, b"end")
    subscriber.rcvtimeo = 100
    for _ in range(50):
        say(publisher, "PUBLISH", "end", "1")
        try:
            assert subscriber.recv_multipart() == [b"end", b"1"]
            return
        except zmq.Again:
            continue
    raise AssertionError("never subscribed")


def _drain(peer: Socket) -> None:
    try:
        while True:
            peer.recv_multipart()
    except zmq.Again:
        pass


def test_the_transports_own_heartbeats_are_answered(connect: Connect) -> None:
    client = connect(zmq.DEALER, HEARTBEAT_IVL=100, HEARTBEAT_TIMEOUT=1_000, HEARTBEAT_TTL=3_000)
    say(client, "STATUS")
    hear(client)
    assert not happened(client, zmq.EVENT_DISCONNECTED, within_ms=2_500)
    say(client, "STATUS")
    assert hear(client)[1] == b"REPLY"


def test_sockets_that_belong_elsewhere_are_not_let_in(connect: Connect) -> None:
    refused = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_DISCONNECTED
    lost = connect(zmq.SUB, "eventmq", watch=refused, SUBSCRIBE=b"")
    assert happened(lost, refused)


# -- sizes and numbers -------------------------------------------------------------------------------


def test_large_messages_of_many_frames(connect: Connect) -> None:
    at_work, client = worker(connect), connect(zmq.DEALER)
    body, more = uuid.uuid4().bytes * 600_000, [b"", b"x" * 65_000, b"y" * 255, b"z" * 256]
    msgid = say(client, "REQUEST", "default", "reply-requested", body, *more)
    answer = b"r" * 5_000_000
    (job,) = work(at_work, result=answer)
    assert job[3:] == [body, *more]
    hear(client)
    assert hear(client)[3:] == [answer, msgid.encode()]


def test_500_peers_at_once(connect: Connect, server: Server) -> None:
    server.restart()  # it counts what it processed since it started
    workers, clients = 100, 400
    at_work = [connect(zmq.DEALER) for _ in range(workers)]
    asking = [connect(zmq.DEALER) for _ in range(clients)]
    began = time.monotonic()
    poller = zmq.Poller()
    for peer in at_work:
        say(peer, "INFORM", "", "worker")
        poller.register(peer, zmq.POLLIN)
    wanted: set[str] = set()
    for peer in asking:
        poller.register(peer, zmq.POLLIN)
        wanted |= {say(peer, "REQUEST", "default", "reply-requested", b"x") for _ in range(5)}
    runs: dict[str, int] = {}
    handed, answered = set[str](), set[str]()
    while len(answered) < len(wanted):
        events = dict(poller.poll(WAIT_MS))
        assert events, f"{len(answered)} of {len(wanted)} answered"
        for peer in events:
            frames = peer.recv_multipart()[1:]
            if frames[1] == b"ACK":
                say(peer, "READY")
            elif frames[1] == b"REQUEST":
                runs[frames[2].decode()] = runs.get(frames[2].decode(), 0) + 1
                say(peer, "REPLY", b"done", frames[2])
                say(peer, "READY")
            elif frames[1] == b"REPLY":
                (handed if len(frames) == 4 else answered).add(frames[-1].decode())
    seconds = time.monotonic() - began
    assert wanted == answered == handed == set(runs)
    assert set(runs.values()) == {1}
    print(f"peers={workers + clients} jobs={len(wanted)} twice=0 seconds={seconds:.1f}")
    status = _ask(asking[0], "STATUS")
    assert status["processed_messages_by_queue"] == {"default": len(wanted)}
    assert status["inflight_messages_by_queue"] == {}


def _ask(peer: Socket, command: str) -> dict[str, Any]:
    say(peer, command)
    answer: dict[str, Any] = json.loads(hear(peer)[3])
    return answer


def test_a_client_that_never_reads_is_served_for_ever(connect: Connect, server: Server) -> None:
    """As the original's clients do. What they are told piles up and is dropped; jobs are not."""
    server.restart()  # its memory says nothing of others
    count = 6_000
    client = connect(zmq.DEALER, RCVHWM=10, RCVBUF=4_096)
    helper = worker(connect, slots=200)
    poller = zmq.Poller()
    poller.register(helper, zmq.POLLIN)
    done = 0
    for number in range(count):
        say(client, "REQUEST", "default", "reply-requested", b"%d" % number)
        while poller.poll(0):
            work(helper, result=b"r" * 5_000)
            done += 1
    while done < count:
        work(helper, result=b"r" * 5_000)
        done += 1
    assert server.rss_kib() < 400_000


# -- lives and deaths ---------------------------------------------------------------------------------


def test_three_requests_on_two_slots(connect: Connect) -> None:
    at_work, client = worker(connect, slots=2), connect(zmq.DEALER)
    ids = [say(client, "REQUEST", "default", "", b"%d" % n) for n in range(3)]
    assert [hear(client)[3].decode() for _ in range(2)] == ids[:2]
    assert not client.poll(300)
    work(at_work, 3)
    assert hear(client)[3].decode() == ids[2]


def test_a_worker_that_closes_its_socket_leaves_its_job_to_another(connect: Connect) -> None:
    lost, client = worker(connect), connect(zmq.DEALER)
    msgid = say(client, "REQUEST", "default", "reply-requested", b"x")
    assert hear(lost)[2] == msgid.encode()
    other = worker(connect)
    lost.close(0)
    work(other)
    assert hear(client)[3:] == [msgid.encode()]
    assert hear(client)[4] == msgid.encode()


def test_a_result_finds_a_named_socket_again_after_kill_9(connect: Connect, server: Server) -> None:
    client, at_work = connect(zmq.DEALER, IDENTITY=b"the-client"), worker(connect)
    msgid = say(client, "REQUEST", "default", "reply-requested", b"x")
    assert hear(client)[3:] == [msgid.encode()]
    server.restart()
    at_work.close(0)
    work(worker(connect), result=b'{"value": 2}')
    assert hear(client)[3:] == [b'{"value": 2}', msgid.encode()]


def test_a_socket_that_is_made_anew_with_the_same_name_hears_what_was_kept(
    connect: Connect, server: Server
) -> None:
    client, at_work = connect(zmq.DEALER, IDENTITY=b"the-client"), worker(connect)
    msgid = say(client, "REQUEST", "default", "reply-requested", b"x")
    assert hear(client)[3:] == [msgid.encode()]
    client.close(0)
    # libzmq closes the connection when it comes to it.
    deadline = time.monotonic() + 10
    while ask(server, "server.status")["connections"] > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    work(at_work, result=b'{"value": 2}')
    assert hear(connect(zmq.DEALER, IDENTITY=b"the-client"))[3:] == [
        b'{"value": 2}', msgid.encode()
    ]  # fmt: skip


def test_buffered_requests_and_rules_survive_kill_9(connect: Connect, server: Server) -> None:
    client = connect(zmq.DEALER)
    ids = {say(client, "REQUEST", "default", "", b"%d" % n) for n in range(500)}
    say(client, "SCHEDULE", "default", "nohaste", "1", b"rule", "")
    assert _ask(client, "STATUS")["waiting_messages_by_queue"] == {"default": 500}
    server.restart()
    runs: list[str] = []
    at_work = worker(connect, slots=10)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and (len(runs) < 500 or not any(_ruled(r) for r in runs)):
        runs += [job[0].decode() for job in work(at_work)]
    plain = [run for run in runs if not _ruled(run)]
    assert sorted(plain) == sorted(ids)


def _ruled(msgid: str) -> bool:
    return msgid.startswith("job:")


def test_sockets_come_back_by_themselves_after_a_restart(connect: Connect, server: Server) -> None:
    client, at_work = connect(zmq.DEALER), worker(connect)
    say(client, "REQUEST", "default", "", b"1")
    hear(client)
    work(at_work)
    while _ask(client, "STATUS")["inflight_messages_by_queue"]:
        pass
    server.restart()
    say(client, "REQUEST", "default", "", b"2")
    say(at_work, "INFORM", "", "worker")
    say(at_work, "READY")
    while hear(at_work)[1] != b"REQUEST":
        pass
    assert hear(client)[1] == b"REPLY"


def test_an_administrators_disconnect_stops_the_server(connect: Connect, server: Server) -> None:
    at_work, admin, client = worker(connect), connect(zmq.DEALER), connect(zmq.DEALER)
    say(client, "REQUEST", "default", "reply-requested", b"x")
    job = hear(at_work)
    say(admin, "HELLO", msgid="admin:1")
    say(admin, "DISCONNECT", msgid="admin:2")
    assert hear(admin)[3] == b"admin:2"
    assert hear(at_work)[1] == b"KBYE"
    say(at_work, "REPLY", b"done", job[2])
    assert [len(hear(client)) for _ in range(3)] == [4, 3, 5]  # handed over, KBYE, the result
    assert server.wait(15.0) == 0
