"""Lines with a counted body, as they come: whole, cut anywhere, too long, too large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.core.errors import WireError
from franca.protocols.buffer import BodyReader, LineReader, LineTooLong, LineWithBody
from franca.protocols.gathering import Gathering

Message = tuple[bytes, bytes] | LineWithBody | LineTooLong
LINE_MAX = 30
BODY_MAX = 100


def size_of(word: bytes, rest: bytes) -> int | None:
    """As beanstalkd has it: `put <pri> <delay> <ttr> <bytes>`."""
    return int(rest.split()[-1]) if word == b"put" else None


def put(body: bytes, end: bytes = b"\r\n") -> bytes:
    return b"put 0 0 60 %d\r\n%b%b" % (len(body), body, end)


def read(data: bytes, cuts: list[int]) -> list[Message]:
    """What is read of the data, if it comes in pieces of these sizes."""
    reader = BodyReader(LINE_MAX, BODY_MAX, size_of)
    found: list[Message] = []
    pieces = []
    for size in cuts:
        pieces.append(data[:size])
        data = data[size:]
    for piece in [*pieces, data]:
        message = reader.next_message(piece)
        while message is not None:
            found.append(message)
            message = reader.next_message() if reader.has_input else None
    assert len(reader) == 0
    return found


INPUTS: list[tuple[bytes, Message]] = [
    (b"reserve\r\n", (b"reserve", b"")),
    (b"use a tube\r\n", (b"use", b"a tube")),
    (b"quit\n", (b"quit", b"")),
    (put(b""), LineWithBody(b"put", b"0 0 60 0", b"", True)),
    (put(b"a\r\nb\n"), LineWithBody(b"put", b"0 0 60 5", b"a\r\nb\n", True)),
    (put(b"x" * BODY_MAX), LineWithBody(b"put", b"0 0 60 100", b"x" * BODY_MAX, True)),
    (put(b"x" * (BODY_MAX + 1)), LineWithBody(b"put", b"0 0 60 101", None, True)),
    (put(b"body", b"xy"), LineWithBody(b"put", b"0 0 60 4", b"body", False)),
    (b"y" * 200 + b"\r\n", LineTooLong()),
]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50, 10_000])
def test_lines_and_bodies_are_the_same_however_they_are_cut(step: int) -> None:
    data = b"".join(sent for sent, _ in INPUTS)
    assert read(data, [step] * (len(data) // step)) == [message for _, message in INPUTS]


@given(st.lists(st.sampled_from(INPUTS), max_size=6), st.lists(st.integers(1, 150), max_size=20))
def test_any_of_them_in_any_order(inputs: list[tuple[bytes, Message]], cuts: list[int]) -> None:
    data = b"".join(sent for sent, _ in inputs)
    assert read(data, cuts) == [message for _, message in inputs]


def test_a_body_that_is_too_large_is_not_kept() -> None:
    reader = BodyReader(LINE_MAX, BODY_MAX, size_of)
    assert reader.next_message(b"put 0 0 60 1000000\r\n") is None
    for _ in range(1_000):
        assert (reader.next_message(b"x" * 1_000), len(reader)) == (None, 1)
    assert reader.next_message(b"\r\nstats\r\n") == LineWithBody(
        b"put", b"0 0 60 1000000", None, True
    )
    assert reader.next_message() == (b"stats", b"")


def test_a_line_that_is_too_long_is_not_kept() -> None:
    reader = BodyReader(LINE_MAX, BODY_MAX, size_of)
    for _ in range(100):
        assert (reader.next_message(b"x" * 100), len(reader)) == (None, 0)
    assert reader.next_message(b"\n") == LineTooLong()


def test_where_lines_have_no_bodies_one_that_is_too_long_is_the_end() -> None:
    reader = LineReader(LINE_MAX)
    assert reader.next_message(b"PUSH x\r\n") == (b"PUSH", b"x")
    with pytest.raises(WireError):
        reader.next_message(b"x" * (LINE_MAX + 2))


def test_bytes_that_are_not_kept_are_counted_all_the_same() -> None:
    dropped, kept = Gathering(10, keeps=False), Gathering(10)
    for one in (dropped, kept):
        assert (one.feed(b"12345678"), one.feed(b"90abc"), one.is_whole) == (8, 2, True)
    assert (dropped.kept, dropped.value()) == (0, b"")
    assert (kept.kept, kept.value()) == (10, b"1234567890")
