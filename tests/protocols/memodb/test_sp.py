"""SP's bytes: handshake, frames over both kinds of sockets, however they are cut, and stacks."""

import pytest

from franca.core.errors import WireError
from franca.core.limits import Limits
from franca.protocols.memodb.sp import HELLO_OF_CLIENT, LOST, NOBODY, Hello, Inbox, Parts, stack_end
from tests.protocols.memodb.puppet import Puppet, World
from tests.support import memodb as m
from tests.support.memodb import stack
from tests.support.memory import traced

MIB = 1024 * 1024

# As NNG 1.11 sent them: `alive.tv`, 5000 ms and four bytes, over TCP and over a unix socket.
JOB = bytes.fromhex("85666d656d6f3031024068616c6976652e7476191388") + b"body"
OVER_TCP = bytes.fromhex("000000000000001ecb27560b") + JOB
OVER_IPC = bytes.fromhex("01000000000000001edeb76b37") + JOB


def test_both_say_at_once_what_they_are(world: World) -> None:
    peer = world.connect()
    assert peer.unread == bytes.fromhex("0053500000310000")
    assert not peer.link.known
    peer.send(bytes.fromhex("0053500000300000"))
    assert (peer.link.known, peer.is_hung_up) == (True, False)


@pytest.mark.parametrize(
    "hello",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST",
        b"\0REQ\0\0\0\x01",
        b"\xff\0\0\0\0\0\0\0\x01\x7f",
        bytes.fromhex("0053500000310000"),  # another REP
        bytes.fromhex("0053500000200000"),  # PUB
        bytes.fromhex("0053500000300001"),
        b"\0SP\x01",
    ],
)
def test_whoever_is_no_req_socket_is_cut_off_by_the_first_byte_that_says_so(hello: bytes) -> None:
    peer = World().connect()
    peer.send(hello)
    assert peer.is_hung_up


def test_a_handshake_may_come_byte_by_byte() -> None:
    peer = World().connect()
    for byte in bytes.fromhex("00535000003000"):
        peer.send(bytes([byte]))
        assert not peer.link.known
    peer.send(b"\0")
    assert peer.link.known


@pytest.mark.parametrize(("unix", "frame"), [(False, OVER_TCP), (True, OVER_IPC)])
def test_a_request_is_the_same_wherever_it_is_cut(unix: bool, frame: bytes) -> None:
    for cut in range(len(frame) + 1):
        world = World()
        peer = world.peer(unix=unix)
        peer.send(frame[:cut])
        assert len(world.all_jobs) == (cut == len(frame))
        assert peer.conversation.unread() == (0 if cut == len(frame) else cut)
        peer.send(frame[cut:])
        (job,) = world.all_jobs
        assert (job.queue, job.body, job.policy.lease_ms) == ("alive.tv", b"body", 5_000)
        assert peer.conversation.unread() == 0


@pytest.mark.parametrize("size", [1, 7, 100, 65_536, 65_537, 300_000])
def test_many_requests_in_pieces_of_any_size_are_the_same_requests(size: int) -> None:
    bodies = [b"%d" % n * (n * 37 % 5_000) for n in range(60)] + [b"z" * 200_000, b"last"]
    bodies = bodies[:20] if size == 1 else bodies
    world = World()
    peer = world.peer()
    raw = b"".join(peer.asking(n, m.job("s", body, 1)) for n, body in enumerate(bodies))
    for at in range(0, len(raw), size):
        peer.send(raw[at : at + size])
    assert [job.body for job in world.all_jobs] == bodies


@pytest.mark.parametrize(
    ("size", "behind"),
    [
        *((size, b"") for size in (2**30 + 1, 2**63 - 1, 2**64 - 1)),
        *((size, stack(1) + m.job("s", b"x" * 200, 1)) for size in (1_065_537, 2**30)),
    ],
)
def test_what_is_too_large_is_refused_by_its_length_or_its_first_bytes(
    size: int, behind: bytes
) -> None:
    world = World(Limits(body_bytes_max=1_000_000) if behind else None)
    peer = world.peer()
    peer.send(size.to_bytes(8, "big") + behind)
    assert peer.is_hung_up
    assert str(size) in world.engine.notices[-1].reason


def test_a_body_beyond_the_limit_is_refused_though_its_frame_is_not() -> None:
    world = World(limits=Limits(body_bytes_max=1_000))
    peer = world.peer()
    peer.job(b"x" * 1_000)
    assert len(world.all_jobs) == 1
    peer.job(b"x" * 1_001)
    assert peer.is_hung_up


def test_who_sends_only_a_messages_length_is_hung_up_on(peer: Puppet, world: World) -> None:
    peer.send((100).to_bytes(8, "big"))
    world.pass_time(40_000)
    assert peer.is_hung_up


def test_a_length_that_is_claimed_takes_no_memory() -> None:
    inbox = Inbox(2**30, unix=False)
    with traced() as memory:
        inbox.feed(HELLO_OF_CLIENT)
        assert isinstance(inbox.cut(), Hello)
        inbox.feed((2**30).to_bytes(8, "big") + b"abc")
        assert inbox.cut() is None
    assert memory.peak < 10_000
    assert len(inbox) == 11


def test_a_message_in_single_bytes_takes_no_more_memory_than_one_in_one_piece() -> None:
    size = MIB // 8
    parts = Parts(size)
    with traced() as memory:
        for _ in range(size):
            parts.feed(b"x")
    assert parts.is_whole
    assert memory.peak < 1.5 * size
    assert parts.rest(size - 3) == b"xxx"


@pytest.mark.parametrize("size", [1, 20_000, 70_000])
def test_parts_give_back_what_they_were_fed(size: int) -> None:
    whole = bytes(n * 31 % 251 for n in range(200_000))
    parts = Parts(len(whole))
    for at in range(0, len(whole), size):
        parts.feed(whole[at : at + size])
    assert not parts.feed(b"not ours")
    assert parts.head(100)[:100] == whole[:100]
    assert parts.head(10**9) == whole
    for at in (0, 1, 19_999, 20_000, 65_536, 199_999, 200_000):
        assert parts.rest(at) == whole[at:]


def test_a_message_on_a_unix_socket_begins_with_01() -> None:
    with pytest.raises(WireError):
        inbox = Inbox(100, unix=True)
        inbox.feed(HELLO_OF_CLIENT + b"\x02" + bytes(8))
        inbox.cut()
        inbox.cut()
    peer = World().peer(unix=True)
    peer.send(peer.asking(1, m.job("s", b"", 1)) + OVER_TCP)
    assert peer.is_hung_up


# -- stacks -----------------------------------------------------------------------------------


def test_a_reply_goes_back_through_the_devices_that_the_request_came_through(world: World) -> None:
    peer, worker = world.peer(), world.peer()
    peer.ask(m.job("s", b"in", 1_000), 7, 0x11111111, 0x22222222)
    worker.ready()
    worker.result(worker.given(), b"out")
    assert peer.unread == bytes.fromhex("0000000000000019111111112222222280000007") + (
        bytes.fromhex("83666d656d6f30310340") + b"out"
    )


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ([0x80000000], 4),
        ([1] * 8 + [0xFFFFFFFF], 36),
        ([1] * 9 + [0xFFFFFFFF], LOST),
        ([1] * 3, NOBODY),
        ([], NOBODY),
    ],
)
def test_where_a_stack_ends(words: list[int], end: int) -> None:
    data = b"".join(word.to_bytes(4, "big") for word in words)
    assert stack_end(b"...." + data, 4, 4 + len(data)) == (end + 4 if end > 0 else end)


def test_a_request_through_too_many_devices_is_dropped(world: World, peer: Puppet) -> None:
    peer.ask(m.job("s", b"", 1), 1, *[5] * 9)
    assert (world.all_jobs, peer.is_hung_up) == ([], False)
    peer.ask(m.job("s", b"", 1), 1, *[5] * 8)
    assert len(world.all_jobs) == 1


@pytest.mark.parametrize("body", [b"", b"\x80\0", b"\0\0\0\x01", b"\0" * 16])
def test_a_request_without_an_id_ends_the_connection(peer: Puppet, body: bytes) -> None:
    peer.send(peer.frame(body))
    assert peer.is_hung_up


def test_nothing_is_heard_of_a_peer_after_its_garbage(world: World, peer: Puppet) -> None:
    peer.send(peer.frame(b"") + peer.asking(1, m.ready("s")))
    assert not list(world.service.workers())
