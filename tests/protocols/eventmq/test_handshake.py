"""Sockets that connect: who is let in, and who is hung up on without a word."""

import pytest

from franca.protocols.eventmq import zmtp
from tests.protocols.eventmq.puppet import Puppet, World
from tests.support.eventmq import message


def test_nothing_is_said_before_the_peer_has_signed() -> None:
    peer = World().stranger()
    peer.send(zmtp.GREETING[:9])
    assert peer.unread == b""
    peer.send(zmtp.GREETING[9:10])
    assert peer.unread.startswith(zmtp.GREETING)


def test_the_handshake_may_come_byte_by_byte() -> None:
    peer = World().stranger()
    for byte in zmtp.GREETING + zmtp.ready(b"DEALER", b"me"):
        peer.send(bytes((byte,)))
    assert (peer.link.known, peer.is_hung_up) == (True, False)
    peer.read_handshake()


def test_a_first_message_may_come_with_the_handshake(world: World) -> None:
    peer = world.stranger()
    status = message(b"STATUS", b"id")
    peer.send(zmtp.GREETING + zmtp.ready(b"DEALER") + status)
    peer.read_handshake()
    assert [reply[2] for reply in peer.heard()] == [b"REPLY"]


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\n", b"PUSH {}\r\n", b"\0REQ"]
)
def test_who_speaks_another_protocol_is_hung_up_on_without_a_word(data: bytes) -> None:
    for door in ("eventmq", "eventmq_publish", "eventmq_subscribe"):
        peer = World().stranger(door)
        peer.send(data)
        assert (peer.is_hung_up, bytes(peer.unread)) == (True, b"")


@pytest.mark.parametrize("socket_type", ["DEALER", "REQ", "ROUTER", "dealer"])
def test_sockets_that_request_are_let_in(socket_type: str) -> None:
    for door in ("eventmq", "eventmq_publish"):
        peer = World().peer(socket_type, door=door)
        assert not peer.is_hung_up


@pytest.mark.parametrize(
    ("door", "socket_type"),
    [
        ("eventmq", b"SUB"),
        ("eventmq", b"PUSH"),
        ("eventmq", b""),
        ("eventmq_subscribe", b"DEALER"),
        ("eventmq_subscribe", b"PUB"),
    ],
)
def test_sockets_of_other_types_are_told_so_and_hung_up_on(door: str, socket_type: bytes) -> None:
    peer = World().stranger(door)
    peer.send(zmtp.GREETING + zmtp.ready(socket_type))
    assert peer.is_hung_up
    assert b"\x05ERROR\x13Invalid socket type" in peer.unread


@pytest.mark.parametrize(
    "data",
    [
        message(b"STATUS", b"id"),
        zmtp.command(b"SUBSCRIBE", b"x"),
        zmtp.ready(b"DEALER", b"x" * 256),
        zmtp.command(b"READY", b"\xff"),
        b"\x04\x00",
    ],
)
def test_whatever_is_not_a_proper_ready_ends_the_handshake(data: bytes) -> None:
    peer = World().stranger()
    peer.send(zmtp.GREETING + data)
    assert peer.is_hung_up


def test_a_ping_is_answered_before_and_after_ready() -> None:
    peer = World().stranger()
    peer.send(zmtp.GREETING + zmtp.command(b"PING", b"\x00\x00one") + zmtp.ready(b"DEALER"))
    peer.read_handshake()
    peer.send(zmtp.command(b"PING", b"\x00\x00two"))
    peer.heard()
    assert peer.commands == [b"\x04PONGone", b"\x04PONGtwo"]


def test_an_error_of_the_peer_ends_the_dialogue_and_other_commands_do_not(peer: Puppet) -> None:
    peer.send(zmtp.command(b"PONG") + zmtp.command(b"NEWS", b"x"))
    assert not peer.is_hung_up
    peer.send(zmtp.error(b"no"))
    assert peer.is_hung_up


def test_any_identity_is_accepted_and_one_may_be_used_twice(world: World) -> None:
    identity = b"\x00\xab\xcd\xef\x01"
    first = world.worker((10, "default"), slots=1, identity=identity)
    second = world.worker((10, "default"), slots=1, identity=identity)
    client = world.peer(identity=identity)
    client.request(b"1")
    client.request(b"2")
    assert [first.take().body, second.take().body] == [b"1", b"2"]
    names = world.peer().ask("ROUTER_SHOW_WORKERS")["connected_workers"]
    assert len(names) == 2


def test_who_connects_and_sends_no_eventmq_message_is_kept(peer: Puppet, world: World) -> None:
    """A client may connect long before its first job; hanging up could lose that one."""
    world.pass_time(60_000, step=1_000)
    assert not peer.is_hung_up


def test_who_never_finishes_the_handshake_is(world: World) -> None:
    peer = world.stranger()
    peer.send(zmtp.GREETING)
    world.pass_time(10_000, step=500)
    assert peer.is_hung_up
