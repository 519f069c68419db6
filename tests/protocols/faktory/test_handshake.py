"""Greeting, password, HELLO: who is let in, and who is hung up on without a word."""

import json
import re
from collections.abc import Callable

import pytest

from franca.core.limits import Limits
from franca.protocols.faktory.settings import FaktorySettings
from franca.protocols.faktory.wire import password_hash
from tests.protocols.faktory.puppet import OK, Puppet, World, err
from tests.support.faktory import hello_line

SECRET = FaktorySettings(password="s3cret")
REFUSED = err("Invalid password")


@pytest.fixture
def stranger(world: World) -> Puppet:
    """A client that was greeted and has said nothing yet."""
    client = world.connect()
    assert client.bytes_heard() == b'+HI {"v":2}\r\n'
    return client


def greet(world: World) -> tuple[Puppet, str, int]:
    client = world.connect()
    greeting = client.bytes_heard()
    match = re.fullmatch(rb'\+HI (\{"v":2,"i":\d+,"s":"[0-9a-f]{32}"\})\r\n', greeting)
    assert match, greeting
    asked = json.loads(match[1])
    return client, asked["s"], asked["i"]


def test_each_connection_gets_its_own_salt_and_a_modest_number_of_rounds() -> None:
    world = World(settings=SECRET)
    greetings = [greet(world) for _ in range(50)]
    assert len({salt for _, salt, _ in greetings}) == 50
    assert all(1_000 <= rounds <= 2_000 for _, _, rounds in greetings)


def test_the_right_hash_is_let_in() -> None:
    client, salt, rounds = greet(World(settings=SECRET))
    assert client.call(hello_line(pwdhash=password_hash("s3cret", salt, rounds))) == OK
    assert client.link.known


@pytest.mark.parametrize(
    "change",
    [str.upper, lambda right: right[:-1], lambda _: "0" * 64, lambda right: right + "\n",
     lambda _: "é" * 64, lambda _: "", lambda _: None],
)  # fmt: skip
def test_a_wrong_hash_is_told_and_hung_up_on(change: Callable[[str], str | None]) -> None:
    client, salt, rounds = greet(World(settings=SECRET))
    said = change(password_hash("s3cret", salt, rounds))
    assert client.call(hello_line(pwdhash=said)) == REFUSED
    assert (client.is_hung_up, client.link.known) == (True, False)


def test_a_hash_is_worth_nothing_on_another_connection() -> None:
    world = World(settings=SECRET)
    _, salt, rounds = greet(world)
    other, _, _ = greet(world)
    hello = hello_line(pwdhash=password_hash("s3cret", salt, rounds))
    assert other.call(hello) == REFUSED


@pytest.mark.parametrize("version", [b"", b'"v":0,', b'"v":1,', b'"v":null,'])
def test_an_old_client_hashes_once(version: bytes) -> None:
    client, salt, _ = greet(World(settings=SECRET))
    once = password_hash("s3cret", salt, 1).encode()
    assert client.call(b'HELLO {%b"pwdhash":"%b"}' % (version, once)) == OK


def test_a_new_client_does_not_get_away_with_one_round() -> None:
    client, salt, _ = greet(World(settings=SECRET))
    assert client.call(hello_line(pwdhash=password_hash("s3cret", salt, 1))) == REFUSED


def test_old_clients_can_be_shut_out() -> None:
    settings = FaktorySettings(password="s3cret", allow_v1_passwords=False)
    client, salt, _ = greet(World(settings=settings))
    once = password_hash("s3cret", salt, 1)
    assert client.call(f'HELLO {{"pwdhash":"{once}"}}') == REFUSED


@pytest.mark.parametrize(
    "hello",
    [b"HELLO {}", b'HELLO {"v":2}', b'HELLO {"v":99}', b'HELLO {"wid":""}',
     b'HELLO {"wid":null,"pwdhash":null,"labels":null,"hostname":null}',
     b'HELLO {"V":2,"Wid":"w1","HostName":"h","PID":1,"Labels":["a",null]}',
     b'HELLO {"v":2,"username":"u","rss_kb":5,"unknown":{"x":[1]}}'],
)  # fmt: skip
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_hello_in_all_accepted_forms(stranger: Puppet, hello: bytes, end: bytes) -> None:
    stranger.send(hello + end)
    assert (stranger.bytes_heard(), stranger.is_hung_up) == (b"+OK\r\n", False)


@pytest.mark.parametrize(
    "line",
    [b"hello {}", b"HELLO  {}", b"HELLO{}", b"HELLO", b"HELLO []", b"HELLO {", b'HELLO {"pid":"1"}',
     b'HELLO {"pid":1.5}', b'HELLO {"labels":"x"}', b'HELLO {"v":"2"}', b'HELLO {"v":256}', b'HELLO {"v":2} x',
     b'HELLO {"wid":"\xff', b'HELLO {"x":' + b"[" * 60_000, b'PUSH {"jid":"jid-0001","jobtype":"t","args":[]}',
     b"FETCH default", b"INFO", b"END", b"", b"GET / HTTP/1.1", b"POST /queues HTTP/1.1",
     b"\x16\x03\x01\x02\x00\x01\x00", b"\0\0\0", b"HELLO {" + b" " * 70_000 + b"}"],
)  # fmt: skip
def test_a_stranger_who_says_anything_else_is_hung_up_on(
    world: World, stranger: Puppet, line: bytes
) -> None:
    stranger.say(line, hello_line())
    assert (stranger.bytes_heard(), stranger.is_hung_up, world.jobs()) == (b"", True, [])


def test_a_stranger_may_not_pile_up_bytes(stranger: Puppet) -> None:
    stranger.send(b"HELLO {" + b" " * 70_000)
    assert (stranger.bytes_heard(), stranger.is_hung_up) == (b"", True)


def test_a_stranger_who_says_nothing_is_hung_up_on_after_a_while(
    world: World, stranger: Puppet
) -> None:
    world.pass_time(7_000)
    assert stranger.is_hung_up


def test_commands_right_behind_hello_are_acted_on(stranger: Puppet) -> None:
    stranger.say(hello_line(), "TRACK x")
    assert [reply.kind for reply in stranger.heard()] == ["+", "-"]


# The last are what connections without a name are called, and those of another protocol.
@pytest.mark.parametrize("wid", ["w" * 1025, "a\0b", "link l1", "other link l1"])
def test_a_worker_with_an_impossible_name_is_refused(
    world: World, stranger: Puppet, wid: str
) -> None:
    assert (stranger.call(hello_line(wid)).kind, stranger.is_hung_up) == ("-", True)
    assert not list(world.service.workers())
    for name in ("link", "linked 1", "Link 1", "blink 1", "a link"):
        world.peer(name)


def test_a_line_that_never_ends_is_refused_and_hung_up_on() -> None:
    world = World(limits=Limits(frame_bytes_max=1_000))
    client = world.peer()
    client.send(b"PUSH " + b"x" * 2_000)
    assert (client.cut(), client.is_hung_up) == (err("a line of more than 1000 bytes"), True)


@pytest.mark.parametrize("size", [999, 1_000, 1_001, 1_002])
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_long_line_is_judged_the_same_however_it_is_cut(size: int, end: bytes) -> None:
    line = b"TRACK " + b"x" * (size - 6) + end
    heard = set()
    for step in (1, 7, len(line) - 1, len(line)):
        client = World(limits=Limits(frame_bytes_max=1_000)).peer()
        for start in range(0, len(line), step):
            client.send(line[start : start + step])
        heard.add((client.bytes_heard(), client.is_hung_up))
    assert len(heard) == 1


def test_half_a_line_and_then_silence_is_hung_up_on(world: World, client: Puppet) -> None:
    client.send(b"PUSH {")
    world.pass_time(33_000, step=500)
    assert (client.bytes_heard(), client.is_hung_up) == (b"", True)


def test_end_is_not_answered(client: Puppet) -> None:
    client.say("END\r\nTRACK x")
    assert (client.bytes_heard(), client.is_hung_up) == (b"", True)
