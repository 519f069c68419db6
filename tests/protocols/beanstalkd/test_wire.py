"""Commands out of bytes, however they are cut."""

import pytest

from franca.protocols.beanstalkd import messages as m
from franca.protocols.beanstalkd.wire import (
    BAD_FORMAT,
    BAD_PAUSE,
    BAD_PUT,
    EXPECTED_CRLF,
    JOB_TOO_BIG,
    LINE_BYTES_MAX,
    LONG_BYTES,
    UNKNOWN_COMMAND,
    CommandReader,
    job_reply,
    yaml_dict,
    yaml_list,
)

LIMIT = 100
ALL = (1 << 64) - 1
U32 = (1 << 32) - 1


def read(data: bytes, size: int = 0) -> list[object]:
    """Every message of these bytes, which come `size` at a time."""
    reader = CommandReader(LIMIT)
    found: list[object] = []
    for at in range(0, len(data), size or len(data)):
        message = reader.next_message(data[at : at + (size or len(data))])
        while message is not None:
            found.append(message)
            message = reader.next_message() if reader.has_input else None
    return found


CASES: list[tuple[bytes, object]] = [
    (b"put 1 2 3 4\r\nbody\r\n", m.Put(1, 2, 3, b"body")),
    (b"put  001  0 0 0\r\n\r\n", m.Put(1, 0, 0, b"")),
    (b"put 4294967295 4294967295 4294967295 2\r\n\r\n\r\n", m.Put(U32, U32, U32, b"\r\n")),
    (b"put 1 0 1 1 x\r\n", BAD_PUT),
    (b"put 1 0 1 1\0\r\n", BAD_FORMAT),
    (b"put 4294967296 0 1 1\r\n", BAD_FORMAT),
    (b"put 1 0 1 99999999999999999999\r\n", BAD_FORMAT),
    (b"put 1 0 1\r\n", BAD_FORMAT),
    (b"put -1 0 1 1\r\n", BAD_FORMAT),
    (b"put\r\n", UNKNOWN_COMMAND),
    (b"put 1 0 1 1\r\nabc", EXPECTED_CRLF),
    (b"put 1 0 1 101\r\n" + b"x" * 103, JOB_TOO_BIG),
    (b"use tube\r\n", m.Use("tube")),
    (b"use " + b"t" * 200 + b"\r\n", m.Use("t" * 200)),
    (b"use " + b"t" * 201 + b"\r\n", BAD_FORMAT),
    (b"use -tube\r\n", BAD_FORMAT),
    (b"use t\xff\r\n", BAD_FORMAT),
    (b"use t\0\r\n", BAD_FORMAT),
    (b"use t\n\r\n", BAD_FORMAT),
    (b"watch a+b/c;d.e$f_g(h)-\r\n", m.Watch("a+b/c;d.e$f_g(h)-")),
    (b"ignore tube\r\n", m.Ignore("tube")),
    (b"reserve\r\n", m.Reserve()),
    (b"reserve \r\n", BAD_FORMAT),
    (b"reservex\r\n", BAD_FORMAT),
    (b"reserve-with-timeout 10\r\n", m.ReserveWithTimeout(10)),
    (b"reserve-with-timeout -1\r\n", m.ReserveWithTimeout(-1)),
    (b"reserve-with-timeout x\r\n", m.ReserveWithTimeout(0)),
    (b"reserve-with-timeout 7x\r\n", m.ReserveWithTimeout(7)),
    (b"reserve-with-timeout 9223372036854775808\r\n", BAD_FORMAT),
    (b"reserve-with-timeout\r\n", BAD_FORMAT),
    (b"reserve-job 18446744073709551615\r\n", m.ReserveJob(ALL)),
    (b"reserve-job 18446744073709551616\r\n", BAD_FORMAT),
    (b"delete  5\r\n", m.Delete(5)),
    (b"delete 5 \r\n", BAD_FORMAT),
    (b"release 1 2 3\r\n", m.Release(1, 2, 3)),
    (b"release 1 2 4294967296\r\n", BAD_FORMAT),
    (b"bury 1 2\r\n", m.Bury(1, 2)),
    (b"touch 1\r\n", m.Touch(1)),
    (b"kick 3 x\r\n", m.Kick(3)),
    (b"kick -1\r\n", m.Kick(U32)),
    (b"kick x\r\n", BAD_FORMAT),
    (b"kick-job 3\r\n", m.KickJob(3)),
    (b"peek 3\r\n", m.Peek(3)),
    (b"peek-ready\r\n", m.PeekReady()),
    (b"peek-delayed\r\n", m.PeekDelayed()),
    (b"peek-buried\r\n", m.PeekBuried()),
    (b"stats\r\n", m.Stats()),
    (b"stats-job 3\r\n", m.StatsJob(3)),
    (b"stats-job\r\n", BAD_FORMAT),
    (b"stats-tube tube\r\n", m.StatsTube("tube")),
    (b"list-tubes\r\n", m.ListTubes()),
    (b"list-tube-used\r\n", m.ListTubeUsed()),
    (b"list-tubes-watched\r\n", m.ListTubesWatched()),
    (b"pause-tube tube 5\r\n", m.PauseTube("tube", 5)),
    (b"pause-tube -tube 5\r\n", BAD_PAUSE),
    (b"pause-tube tube\r\n", BAD_FORMAT),
    (b"quit\r\n", m.Quit()),
    (b"quit now\r\n", m.Quit()),
    (b"\r\n", UNKNOWN_COMMAND),
    (b"RESERVE\r\n", UNKNOWN_COMMAND),
    (b"x" * (LINE_BYTES_MAX - 2) + b"\r\n", UNKNOWN_COMMAND),
    (b"x" * (LINE_BYTES_MAX - 1) + b"\r\n", BAD_FORMAT),
    (b"x" * 10_000 + b"\r\n", BAD_FORMAT),
]


@pytest.mark.parametrize(("data", "message"), CASES)
def test_one_command(data: bytes, message: object) -> None:
    assert read(data) == [message]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 100, 223, 224, 225])
def test_all_commands_one_after_the_other(size: int) -> None:
    assert read(b"".join(data for data, _ in CASES), size) == [message for _, message in CASES]


@pytest.mark.parametrize(("head", "kept"), [(b"put 1 0 1 4294967295\r\n", 0), (b"x", 1)])
def test_a_body_or_a_line_that_is_too_long_is_not_kept(head: bytes, kept: int) -> None:
    reader = CommandReader(LIMIT)
    assert reader.next_message(head) is None
    for _ in range(10):
        assert reader.next_message(b"x" * 65_536) is None
        assert len(reader) <= kept


def test_replies() -> None:
    assert job_reply(b"RESERVED", 7, b"a\r\nb") == (b"RESERVED 7 4\r\na\r\nb\r\n",)
    long = b"x" * (LONG_BYTES + 1)
    assert job_reply(b"FOUND", 7, long) == (b"FOUND 7 %d\r\n" % len(long), long, b"\r\n")
    assert yaml_list(["a", "b"]) == b"OK 12\r\n---\n- a\n- b\n\r\n"
    assert yaml_dict([("a", 1), ("b", "c")]) == b"OK 14\r\n---\na: 1\nb: c\n\r\n"
