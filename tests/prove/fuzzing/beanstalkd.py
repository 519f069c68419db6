"""beanstalkd: lines of words, and bodies behind `put`."""

from __future__ import annotations

from tests.prove.fuzzing import Exchange, Message, Seeds, Step
from tests.support.beanstalkd import said


def _line(text: bytes) -> Message:
    return tuple(text.split(b" "))


def _put(numbers: bytes, body: bytes) -> Message:
    return (b"put", *numbers.split(b" "), b"%d\r\n%b" % (len(body), body))


_EXCHANGES: tuple[Exchange, ...] = (
    (
        Step("p", (_line(b"use q"), _put(b"10 0 60", b"hello"), _put(b"5 0 60", b"world"), _line(b"list-tube-used"))),
        Step("w", (_line(b"watch q"), _line(b"ignore default"), _line(b"reserve"), _line(b"stats-job 1"))),
        Step("w", (_line(b"release 2 3 0"), _line(b"reserve-with-timeout 1"), _line(b"touch 2"), _line(b"bury 2 9"))),
        Step("p", (_line(b"peek-buried"), _line(b"kick 5"), _line(b"stats-tube q"), _line(b"delete 1"))),
        Step("w", (_line(b"reserve-job 2"), _line(b"delete 2"), _line(b"quit"))),
    ),
    (
        Step("w", (_line(b"watch q"), _line(b"reserve"))),
        Step("p", (_line(b"use q"), _put(b"1 0 1", b"a\r\nb"), _line(b"peek-ready"), _line(b"pause-tube q 10"))),
        Step("w", (_line(b"reserve-with-timeout 3"), _line(b"reserve"),), pass_ms=2_000),
        Step("p", (_line(b"stats"), _line(b"list-tubes"), _line(b"pause-tube q 0")), pass_ms=3_000),
        Step("w", (_line(b"list-tubes-watched"), _line(b"ignore q"), _line(b"ignore default")), pass_ms=9_000),
    ),
    (
        Step("p", (_line(b"use q"), _put(b"0 100 60", b"later"), _line(b"peek-delayed"), _line(b"kick-job 1"))),
        Step("p", (_put(b"4294967295 4294967295 4294967295", b""), _line(b"peek 2"), _line(b"stats-job 2"))),
        Step("w", (_line(b"watch q"), _line(b"reserve-with-timeout 0"), _line(b"release 1 0 5"))),
        Step("w", (_line(b"reserve"), _line(b"delete 1")), pass_ms=6_000),
        Step("p", (_put(b"1 0 1", b"x" * 70_000), _line(b"nonsense"), _line(b"kick 1"), _line(b"reserve-job 2"))),
    ),
)  # fmt: skip

_VALUES: tuple[bytes, ...] = (
    b"-1", b"0", b"4294967296", b"9" * 50, b"18446744073709551616", b"1e9", b"0x10", b" 1", b"1 ", b"\xef\xbc\x91",
    b"x" * 200, b"x" * 201, b"x" * 230, b"-tube", b"a,b", b"\xff", b"q\0", b"\r", b"\n", b"1\r\n", b"65536\r\n", b"",
    b"GET", b"65535\r\n" + b"y" * 65_535,
)  # fmt: skip


SEEDS = Seeds(
    exchanges=_EXCHANGES,
    values=_VALUES,
    frame=lambda words: b" ".join(words) + b"\r\n",
    answers=said,
)
