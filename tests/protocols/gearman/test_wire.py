"""Messages are cut out of bytes the same way however the bytes come."""

import struct

import pytest

from franca.core.limits import Limits
from franca.protocols.gearman.wire import number_in, on_one_line, response
from tests.protocols.gearman.puppet import Puppet, World, err, res
from tests.support.gearman import Type, request, take_packet


def test_a_packet_is_magic_type_size_and_arguments_between_nuls() -> None:
    assert request(Type.SUBMIT_JOB, b"f", b"u", b"a\0b") == b"\0REQ\0\0\0\7\0\0\0\7f\0u\0a\0b"
    assert response(Type.NOOP) == b"\0RES\0\0\0\6\0\0\0\0"


def test_a_response_is_taken_when_all_of_it_is_there() -> None:
    unread = bytearray()
    taken = []
    for byte in response(Type.ECHO_RES, b"\0abc") + b"OK 7\n":
        unread.append(byte)
        taken.append(take_packet(unread))
    echo, line = filter(None, taken)
    assert (echo, line) == (res(Type.ECHO_RES, b"\0abc"), res(Type.TEXT, b"OK 7\n"))


def test_what_does_not_begin_as_a_response_is_none() -> None:
    with pytest.raises(ValueError, match="not a packet"):
        take_packet(bytearray(request(Type.NOOP)))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"7", 7), (b"  12abc", 12), (b"-5", -5), (b"+3", 3), (b"abc", 0), (b"", 0), (b"0.5", 0),
        (b"99999999999", 99_999_999_999), (b"9" * 100, (1 << 63) - 1), (b"-" + b"9" * 100, -(1 << 63)),
    ],
)  # fmt: skip
def test_numbers_are_read_as_c_reads_them(text: bytes, number: int) -> None:
    assert number_in(text) == number


def test_a_line_stays_a_line_and_keeps_its_tabs() -> None:
    assert on_one_line(b"a\tb\nc\rd\0e \xff") == b"a\tb?c?d?e \xff"


# -- cutting ---------------------------------------------------------------------------------------


def test_packets_and_lines_on_one_connection_are_answered_in_order(peer: Puppet) -> None:
    one, two = request(Type.ECHO_REQ, "1"), request(Type.ECHO_REQ, "2")
    peer.send(one + b"version\r\n" + two + b"getpid\n")
    kinds = (
        (Type.ECHO_RES, "1"),
        (Type.TEXT, "OK 2.0.0\n"),
        (Type.ECHO_RES, "2"),
        (Type.TEXT, "OK 4711\n"),
    )
    assert peer.heard() == [res(*kind) for kind in kinds]


def test_a_flood_is_acted_on_in_shares_and_in_order() -> None:
    world = World(limits=Limits(turn_messages=4))
    peer = world.connect()
    peer.begin(b"".join(request(Type.ECHO_REQ, str(n)) for n in range(50)))
    assert len(peer.link.out) == 4
    world.run()
    assert [message.body for message in peer.heard()] == [b"%d" % n for n in range(50)]


def test_the_body_of_a_packet_that_takes_none_is_passed_over(peer: Puppet) -> None:
    assert peer.call(Type.GRAB_JOB, "whatever") == res(Type.NO_JOB)


# -- what is no message -----------------------------------------------------------------------------


def test_the_magic_of_a_response_is_an_error_and_the_connection_stays(peer: Puppet) -> None:
    peer.send(response(Type.ECHO_REQ, b"x") + request(Type.ECHO_REQ, "y"))
    refused = err("INVALID_MAGIC", "Request magic expected")
    assert peer.heard() == [refused, res(Type.ECHO_RES, "y")]


@pytest.mark.parametrize("head", [b"\0XYZ", b"\0req", b"\0\0\0\0", b"\0RE\0"])
def test_any_other_magic_closes_the_connection_at_once(peer: Puppet, head: bytes) -> None:
    peer.send(head)
    assert (peer.bytes_heard(), peer.is_hung_up) == (b"", True)


@pytest.mark.parametrize("head", [b"\0REX", b"GET "])
def test_what_is_none_of_ours_closes_the_connection_however_slowly_it_comes(
    peer: Puppet, head: bytes
) -> None:
    for byte in head:
        assert not peer.is_hung_up
        peer.send(bytes([byte]))
    assert peer.is_hung_up


@pytest.mark.parametrize("magic", [b"\0REQ", b"\0RES"])
@pytest.mark.parametrize("number", [0, 43, 44, 1 << 31, (1 << 32) - 1])
def test_a_type_that_never_was_closes_the_connection_before_its_body_comes(
    peer: Puppet, magic: bytes, number: int
) -> None:
    peer.send(magic + struct.pack(">II", number, 1000))
    assert (peer.bytes_heard(), peer.is_hung_up) == (b"", True)


@pytest.mark.parametrize("number", [5, 6, 8, 10, 11, 17, 19, 20, 24, 27, 31, 40, 42])
def test_a_type_that_only_servers_say_is_not_expected(peer: Puppet, number: int) -> None:
    assert peer.call(number, "x") == err("INVALID_COMMAND", "Command not expected")
    assert peer.call(Type.ECHO_REQ, "y") == res(Type.ECHO_RES, "y")


@pytest.mark.parametrize("size", [65, (1 << 32) - 1])
def test_a_packet_that_is_announced_too_large_is_refused_before_it_comes(size: int) -> None:
    peer = World(limits=Limits(frame_bytes_max=12 + 64)).connect()
    assert peer.call(Type.ECHO_REQ, b"x" * 64) == res(Type.ECHO_RES, b"x" * 64)
    peer.send(b"\0REQ" + struct.pack(">II", Type.ECHO_REQ, size))
    refused = err("ARGUMENT_TOO_LARGE", f"a packet may have 64 bytes, not {size}")
    assert (peer.cut(), peer.is_hung_up) == (refused, True)


def test_a_line_that_does_not_end_closes_the_connection(peer: Puppet) -> None:
    peer.send(b"x" * 8_191)
    assert not peer.is_hung_up
    peer.send(b"x")
    assert peer.is_hung_up


def test_a_line_of_more_than_five_words_closes_the_connection(peer: Puppet) -> None:
    assert peer.say_line("show a b c d") == b"ERR UNKNOWN_SHOW_ARGUMENTS\r\n"
    assert (peer.say_line("show a b c d e"), peer.is_hung_up) == (b"", True)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH"])
def test_a_web_page_cannot_speak_to_us(world: World, peer: Puppet, method: str) -> None:
    peer.send(f"{method} / HTTP/1.1\r\n\r\n".encode() + request(Type.SUBMIT_JOB_BG, "f", "", "x"))
    assert (peer.bytes_heard(), peer.is_hung_up, world.broker.jobs) == (b"", True, {})


# -- patience ----------------------------------------------------------------------------------------


def test_a_client_may_be_silent_until_it_has_a_job(world: World, peer: Puppet) -> None:
    world.pass_time(60_000, step=1_000)
    assert not peer.is_hung_up
    peer.submit()


def test_a_packet_that_is_begun_must_be_finished(world: World, peer: Puppet) -> None:
    peer.send(request(Type.ECHO_REQ, "whole")[:-1])
    world.pass_time(world.limits.frame_ms + 5_000, step=1_000)
    assert peer.is_hung_up
