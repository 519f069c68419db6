"""The notes themselves: what is smoothed over in them, and what is not."""

from __future__ import annotations

import socket

import pytest

from tests.real.proxy import CLIENT, SERVER, Proxy, Side, Tape
from tests.real.transcript import normal, shown, wrapped


def tape(*pieces: tuple[Side, bytes]) -> Tape:
    noted = Tape()
    for side, data in pieces:
        noted.note(side, data)
    return noted


def test_the_proxy_notes_both_sides_in_order_and_changes_nothing() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Proxy(listener.getsockname()[1]) as proxy,
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
