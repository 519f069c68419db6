"""The bytes of every command in both dialects, fed whole, byte by byte and with more behind them."""

import struct
from functools import partial

import pytest

from tests.protocols.periodic.puppet import NOW_S, Puppet, World
from tests.support.periodic import CRC, DOC, framed, packed, str8

HANDLE = str8("f") + str8("n")
JOB = packed("f", "n", b"abc")
AT = struct.pack(">q", NOW_S)


req, old_req = partial(framed, CRC), partial(framed, DOC)


def res(payload: bytes) -> bytes:
    return b"\0RES" + req(payload)[4:]


def old_res(payload: bytes) -> bytes:
    return b"\0RES" + old_req(payload)[4:]


def success(*msgids: bytes) -> bytes:
    return b"".join(res(msgid + b"\x10") for msgid in msgids)


WORKER = bytes.fromhex("00524551 00000001 3C0C8EA1 02")
# From the facts, to the byte.
SUBMIT = bytes.fromhex(
    "00524551 00000021 0243a5eb 00000001 0d 04 6563686f 02 6e31 00000003 616263 000000006553f100 02 0000000a"
)
SUBMITTED = res(b"\0\0\0\1\x10")
CAN_DO = req(b"aaaa\x07\x01f")
GRAB = req(b"gggg\x01")
TASK = b"\x01f\x01n\0\0\0\x03abc" + AT + b"\x02\0\0\x02\x58"
ASSIGN = res(b"gggg\x05" + TASK)
GIVEN = CAN_DO + req(b"ssss\x0d" + JOB) + GRAB
GIVEN_SAID = success(b"aaaa", b"ssss", b"gggg") + ASSIGN
LOCK = str8("lock") + b"\0\1" + HANDLE

MODERN: list[tuple[str, bytes, bytes]] = [
    ("ping", req(b"abcd\x09"), res(b"abcd\x0a")),
    ("an id of any bytes", req(b"\0\1\0\1\x09"), res(b"\0\1\0\1\x0a")),
    ("sleep", req(b"abcd\x0b"), res(b"abcd\0")),
    ("submit, as the facts have it", SUBMIT, SUBMITTED),
    ("a life", GIVEN + req(b"dddd\x03" + HANDLE), GIVEN_SAID + success(b"dddd")),
    ("a result", GIVEN + req(b"dddd\x03" + HANDLE + b"\0any"), GIVEN_SAID + success(b"dddd")),
    ("a failure", GIVEN + req(b"dddd\x04" + HANDLE), GIVEN_SAID + success(b"dddd")),
    ("later", GIVEN + req(b"dddd\x02" + HANDLE + struct.pack(">qh", 60, 1)) + req(b"eeee\x0e"),
     GIVEN_SAID + success(b"dddd") + res(b"eeee\x1ef,1,1,0,0,%d" % (NOW_S + 60))),
    ("it arrived", GIVEN + req(b"gggg\x21"), GIVEN_SAID),
    (
        "a counter and a timeout",
        CAN_DO + req(b"ssss\x0d" + packed("f", "n", b"abc", count=7, timeout=9)) + GRAB,
        success(b"aaaa", b"ssss", b"gggg")
        + res(b"gggg\x05\x01f\x01n\0\0\0\x03abc" + AT + b"\x03\0\0\0\x07\0\0\0\x09"),
    ),
    ("can't do", CAN_DO + req(b"cccc\x08\x01f"), success(b"aaaa", b"cccc")),
    ("can't do what one never could", req(b"cccc\x08\x01f"), success(b"cccc")),
    ("broadcast", req(b"bbbb\x15\x01f"), success(b"bbbb")),
    ("status of nothing", req(b"abcd\x0e"), res(b"abcd\x1e")),
    ("status",
     req(b"ssss\x0d" + JOB) + CAN_DO + req(b"bbbb\x07\x01b") + req(b"abcd\x0e"),
     success(b"ssss", b"aaaa", b"bbbb") + res(b"abcd\x1eb,1,0,0,0,%d\nf,1,1,0,0,%d" % (NOW_S, NOW_S))),
    ("remove", req(b"ssss\x0d" + JOB) + req(b"rrrr\x11" + HANDLE), success(b"ssss", b"rrrr")),
    ("remove nothing", req(b"rrrr\x11" + HANDLE), success(b"rrrr")),
    ("drop", req(b"ssss\x0d" + JOB) + req(b"dddd\x0f\x01f"), success(b"ssss", b"dddd")),
    ("drop nothing", req(b"dddd\x0f\x01f"), success(b"dddd")),
    ("dump of nothing", req(b"dddd\x12"), res(b"dddd\x1e" + bytes(8))),
    (
        "dump",
        req(b"ssss\x0d" + packed("f", "n", b"abc", at=NOW_S + 9, count=2)) + req(b"dddd\x12"),
        success(b"ssss")
        + res(b"dddd\x1e\0\0\0\0\0\0\0\1" + packed("f", "n", b"abc", at=NOW_S + 9, count=2)),
    ),
    ("load", req(b"llll\x13" + struct.pack(">q", 2) + JOB + packed("g", "m")) + req(b"abcd\x0e"),
     success(b"llll") + res(b"abcd\x1ef,0,1,0,0,%d\ng,0,1,0,0,%d" % (NOW_S, NOW_S))),
    ("config", req(b"cccc\x16\x07timeout"), res(b"cccc\x18\0\0\x02\x58")),
    ("config of nothing", req(b"cccc\x16\x05never"), res(b"cccc\x18\0\0\0\0")),
    ("config set", req(b"cccc\x17\x07timeout\0\0\0\x5a") + req(b"dddd\x16\x07timeout"),
     success(b"cccc") + res(b"dddd\x18\0\0\0\x5a")),
    ("run without a worker", req(b"rrrr\x19" + JOB), res(b"rrrr\x1d")),
    ("run", CAN_DO + req(b"rrrr\x19" + JOB) + GRAB + req(b"dddd\x03" + HANDLE + b"done!"),
     success(b"aaaa", b"gggg") + ASSIGN + success(b"dddd") + res(b"rrrr\x1edone!")),
    ("a lock", GIVEN + req(b"llll\x1b" + LOCK), GIVEN_SAID + res(b"llll\x1a\1")),
    ("a lock for nobody", GIVEN + req(b"llll\x1b\4lock\0\0" + HANDLE), GIVEN_SAID + res(b"llll\x1a\0")),
    ("a lock without a job", req(b"llll\x1b" + LOCK), res(b"llll\x1a\0")),
    ("unlock", GIVEN + req(b"llll\x1b" + LOCK) + req(b"uuuu\x1c\4lock" + HANDLE),
     GIVEN_SAID + res(b"llll\x1a\1") + success(b"uuuu")),
    ("a stream without a worker", req(b"rrrr\x1f" + JOB), res(b"rrrr\x1d")),
    ("unknown", req(b"abcd\x0c"), res(b"abcd\x0c")),
    ("a number that is no command", req(b"abcd\xf0"), res(b"abcd\x0c")),
    ("what only the server says", req(b"abcd\x10"), res(b"abcd\x0c")),
    ("a job without a name", req(b"ssss\x0d\x01f\0"), res(b"ssss\x0c")),
    ("a job that is cut short", req(b"ssss\x0d" + JOB[:-1]), res(b"ssss\x0c")),
    ("a job of no version", req(b"ssss\x0d" + JOB[:-1] + b"\x07"), res(b"ssss\x0c")),
    ("a function without a name", req(b"aaaa\x07"), res(b"aaaa\x0c")),
    ("a list longer than its frame", req(b"llll\x13\x7f\0\0\0\0\0\0\0"), res(b"llll\x0c")),
    ("a handle that is cut short", req(b"dddd\x03\x09f"), res(b"dddd\x0c")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "answer"), [row[1:] for row in MODERN], ids=[row[0] for row in MODERN]
)
@pytest.mark.parametrize("feed", ["whole", "bytes", "trailing"])
def test_todays_dialect(said: bytes, answer: bytes, feed: str) -> None:
    peer = World().connect()
    # A worker that begins with a PING is never one of those who want no confirmations.
    _feed(peer, WORKER + req(b"ping\x09") + said, feed)
    heard = peer.bytes_heard()
    welcome, heard = heard[:16], heard[16:]
    assert (welcome[:8], welcome[12:13]) == (b"\0RES\0\0\0\4", b"\x1e")
    assert heard == res(b"ping\x0a") + answer
    assert not peer.is_hung_up


# -- the document's --------------------------------------------------------------------------------

DOC_JOB = b'{"name":"n","func":"f","workload":"abc","sched_at":0}'
DOC_GIVEN = old_req(b"1\0\1\x0d\0\1" + DOC_JOB) + old_req(b"2\0\1\x07\0\1f") + old_req(b"3\0\1\x01")
DOC_SHOWN = (
    b'{"job_id":1,"name":"n","func":"f","workload":"abc","timeout":0,"sched_at":%d,"run_at":%d,'
    b'"counter":0,"status":"processing"}'
) % (NOW_S, NOW_S)
DOC_GIVEN_SAID = old_res(b"1\0\1\x10") + old_res(b"3\0\1\x05\0\x011\0\1" + DOC_SHOWN)
UUID = b"6c84fb90-12c4-11e1-840d-7b25c5ee775a"

DOCUMENT: list[tuple[str, bytes, bytes]] = [
    ("ping", old_req(b"1\0\1\x09"), old_res(b"1\0\1\x0a")),
    ("ping by UUID", old_req(UUID + b"\0\1\x09"), old_res(UUID + b"\0\1\x0a")),
    ("ping by raw UUID", old_req(bytes(range(2, 18)) + b"\0\1\x09"), old_res(bytes(range(2, 18)) + b"\0\1\x0a")),
    ("submit, as the facts have it",
     b'\0REQ\0\0\0\x371\0\1\r\0\1{"name":"n1","func":"echo","sched_at":1700000000}',
     old_res(b"1\0\1\x10")),
    ("a life", DOC_GIVEN + old_req(b"3\0\1\x03\0\x011") + old_req(b"4\0\1\x09"), DOC_GIVEN_SAID + old_res(b"4\0\1\x0a")),
    ("a failure", DOC_GIVEN + old_req(b"3\0\1\x04\0\x011"), DOC_GIVEN_SAID),
    ("later", DOC_GIVEN + old_req(b"3\0\1\x02\0\x011\0\x0160") + old_req(b"4\0\1\x0e"),
     DOC_GIVEN_SAID + old_res(b"4\0\1f,1,1,0\n")),
    ("sleep", old_req(b"1\0\1\x0b"), old_res(b"1\0\1\0")),
    ("status of nothing", old_req(b"1\0\1\x0e"), old_res(b"1\0\1")),
    ("status", DOC_GIVEN + old_req(b"4\0\1\x0e"), DOC_GIVEN_SAID + old_res(b"4\0\1f,1,1,1\n")),
    ("drop", old_req(b"1\0\1\x0f\0\1f"), old_res(b"1\0\1\x10")),
    ("remove", old_req(b"1\0\1\x11\0\1" + DOC_JOB), old_res(b"1\0\1\x10")),
    ("dump of nothing", old_req(b"1\0\1\x12"), old_res(b"1\0\1EOF")),
    (
        "dump",
        old_req(b'1\0\1\x0d\0\1{"name":"n","func":"f","sched_at":%d}' % (NOW_S + 5)) + old_req(b"2\0\1\x12"),
        old_res(b"1\0\1\x10")
        + old_res(
            b'2\0\1{"jobs":[{"job_id":1,"name":"n","func":"f","workload":"","timeout":0,"sched_at":%d,'
            b'"run_at":%d,"counter":0,"status":"ready"}]}' % (NOW_S + 5, NOW_S + 5)
        )
        + old_res(b"2\0\1EOF"),
    ),
    ("load has no answer", old_req(b'1\0\1\x13\0\1{"jobs":[%b]}' % DOC_JOB) + old_req(b"2\0\1\x0e"),
     old_res(b"2\0\1f,0,1,0\n")),
    ("can do has no answer", old_req(b"1\0\1\x07\0\1f") + old_req(b"1\0\1\x08\0\1f"), b""),
    ("a grab waits", old_req(b"1\0\1\x07\0\1f") + old_req(b"2\0\1\x01"), b""),
    ("no command", old_req(b"1\0\1\x09") + old_req(b"2\0\1xyz"), old_res(b"1\0\1\x0a") + old_res(b"2\0\1\x0c")),
    ("a command of today's dialect", old_req(b"1\0\1\x19\0\1" + DOC_JOB), old_res(b"1\0\1\x0c")),
    ("a job without a name", old_req(b'1\0\1\x0d\0\1{"func":"f"}'), old_res(b"1\0\1\x0c")),
    ("no JSON", old_req(b"1\0\1\x0d\0\1{"), old_res(b"1\0\1\x0c")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "answer"), [row[1:] for row in DOCUMENT], ids=[row[0] for row in DOCUMENT]
)
@pytest.mark.parametrize("feed", ["whole", "bytes", "trailing"])
def test_the_documents_dialect(said: bytes, answer: bytes, feed: str) -> None:
    peer = World().connect("doc")
    _feed(peer, b"\0REQ\0\0\0\1\2" + said, feed)
    assert (peer.bytes_heard(), peer.is_hung_up) == (answer, False)


def _feed(peer: Puppet, data: bytes, feed: str) -> None:
    pieces = {
        "whole": [data],
        "bytes": [data[i : i + 1] for i in range(len(data))],
        "trailing": [data + b"\0REQ\0\0"],
    }
    for piece in pieces[feed]:
        peer.send(piece)
