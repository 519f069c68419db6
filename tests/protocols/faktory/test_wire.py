"""Bytes for both roles: what a client writes, what it reads, and lines that stay lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.protocols.faktory import wire
from tests.support import faktory
from tests.support.faktory import Reply, take_reply


@pytest.mark.parametrize(
    ("password", "salt", "rounds", "digest"),
    [
        ("foobar", "55104dc76695721d", 1545, "6d877f8e5544b1f2598768f817413ab8a357afffa924dedae99eb91472d4ec30"),
        ("abcde123", "123", 3, "ef646abadf4ffba660d9bbb8de8e45576970de917b4c9da8cad96b49e64636d9"),
    ],
)  # fmt: skip
def test_the_originals_password_hash(password: str, salt: str, rounds: int, digest: str) -> None:
    assert wire.password_hash(password, salt, rounds) == digest


def test_the_greeting_has_no_space_and_its_members_in_order() -> None:
    assert wire.greeting() == b'+HI {"v":2}\r\n'
    assert wire.greeting(1545, "ab12") == b'+HI {"v":2,"i":1545,"s":"ab12"}\r\n'


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (faktory.hello_line(), 'HELLO {"v":2}'),
        (
            faktory.hello_line("w1", pid=7),
            'HELLO {"v":2,"wid":"w1","hostname":"prove","pid":7,"labels":["prove"]}',
        ),
        (faktory.push_line({"jid": "j"}), 'PUSH {"jid":"j"}'),
        (faktory.push_many_line([{"jid": "j"}]), 'PUSHB [{"jid":"j"}]'),
        (faktory.ack_line("j"), 'ACK {"jid":"j"}'),
        (faktory.fail_line("j", "m", "e"), 'FAIL {"jid":"j","message":"m","errtype":"e"}'),
        (
            faktory.mutate_line("kill", "dead", jids=["a"]),
            'MUTATE {"cmd":"kill","target":"dead","filter":{"jids":["a"]}}',
        ),
    ],
)
def test_a_client_writes_one_line_per_command(command: str, line: str) -> None:
    assert faktory.in_bytes(command, command.encode()) == (line.encode() + b"\r\n") * 2


@given(st.text())
def test_an_error_is_one_line_whatever_it_quotes(text: str) -> None:
    line = wire.error(text)
    assert (line.startswith(b"-ERR "), line.endswith(b"\r\n")) == (True, True)
    assert not set(line[:-2]) & set(b"\r\n\0")
    line.decode()


@given(
    st.lists(
        st.one_of(
            st.binary().map(lambda body: (wire.bulk(body), Reply("$", body))),
            st.just((wire.NULL, Reply("$", None))),
            st.just((wire.OK, Reply("+", b"OK"))),
            st.just((wire.error("x y"), Reply("-", b"ERR x y"))),
        )
    ),
    st.data(),
)
def test_replies_are_read_the_same_however_they_are_cut(
    pairs: list[tuple[bytes, Reply]], data: st.DataObject
) -> None:
    stream = b"".join(written for written, _ in pairs)
    unread = bytearray()
    replies = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        unread += stream[:size]
        stream = stream[size:]
        while (reply := take_reply(unread)) is not None:
            replies.append(reply)
    assert replies == [reply for _, reply in pairs]
    assert not unread


def test_what_is_no_reply_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a reply"):
        take_reply(bytearray(b":5\r\n"))
