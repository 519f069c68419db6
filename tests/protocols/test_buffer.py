"""Lines that are too long, and bytes that are not kept."""

from __future__ import annotations

import pytest

from franca.core.errors import WireError
from franca.protocols.buffer import LineReader, PartialBytes

LINE_MAX = 30


def test_a_line_that_is_too_long_is_the_end() -> None:
    reader = LineReader(LINE_MAX)
    assert reader.next_message(b"PUSH x\r\n") == (b"PUSH", b" ", b"x")
    with pytest.raises(WireError):
        reader.next_message(b"x" * (LINE_MAX + 2))


def test_bytes_that_are_not_kept_are_counted_all_the_same() -> None:
    dropped, kept = PartialBytes(10, keeps=False), PartialBytes(10)
    for one in (dropped, kept):
        assert (one.feed(b"12345678"), one.feed(b"90abc"), one.is_whole) == (8, 2, True)
    assert (dropped.kept, dropped.value()) == (0, b"")
    assert (kept.kept, kept.value()) == (10, b"1234567890")
