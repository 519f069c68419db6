"""The bytes of every packet and command, fed whole and split at every offset.

One connection is client, worker and operator at once, so that one stream of bytes is a whole
exchange. Handles are those of a server named `box` and of the first seed.
"""

import pytest

from franca.core.limits import Limits
from tests.protocols.gearman.puppet import World
from tests.protocols.world import START
from tests.support.gearman import said

H1, H2, H3 = (b"H:box:719629470698%d" % n for n in (1, 2, 3))
LATER = b"%d" % (START // 1000 + 60)


# NOOP, WORK_STATUS, WORK_COMPLETE, WORK_FAIL, WORK_EXCEPTION, WORK_DATA, WORK_WARNING
UNASKED = [bytes([number]) for number in (6, 12, 13, 14, 25, 28, 29)]


def req(number: int, body: bytes = b"") -> bytes:
    return b"\0REQ" + number.to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def res(number: int, body: bytes = b"") -> bytes:
    return b"\0RES" + req(number, body)[4:]


CAN = req(1, b"rev")
GRAB = req(9)
MADE = res(8, H1)
GIVEN = res(11, H1 + b"\0rev\0hello")
NOT_EXPECTED = res(19, b"INVALID_COMMAND\0Command not expected")
TOO_FEW = res(19, b"INVALID_PACKET\0The packet has too few arguments")
NOT_FOUND = res(19, b"JOB_NOT_FOUND\0Job given in work result not found")
NO_SUCH_JOB = res(19, b"JOB_NOT_FOUND\0Job does not exist on server")


def submit(number: int, body: bytes = b"rev\0u\0hello") -> bytes:
    return req(number, body)


EXCHANGES: list[tuple[str, bytes, bytes]] = [
    ("1 CAN_DO", CAN, b""),
    ("2 CANT_DO", CAN + submit(18) + req(2, b"rev") + GRAB, MADE + res(10)),
    ("3 RESET_ABILITIES", CAN + submit(18) + req(3) + GRAB, MADE + res(10)),
    ("4 PRE_SLEEP, and work comes", CAN + req(4) + submit(7), MADE + res(6)),
    ("4 PRE_SLEEP, and work is there", CAN + submit(7) + req(4), MADE + res(6)),
    ("5 unused", req(5), NOT_EXPECTED),
    ("6 NOOP", req(6), NOT_EXPECTED),
    ("7 SUBMIT_JOB", submit(7), MADE),
    ("8 JOB_CREATED", req(8, H1), NOT_EXPECTED),
    ("9 GRAB_JOB", CAN + GRAB + submit(7) + GRAB, res(10) + MADE + GIVEN),
    ("10 NO_JOB", req(10), NOT_EXPECTED),
    ("11 JOB_ASSIGN", req(11, b"H\0f\0x"), NOT_EXPECTED),
    ("12 WORK_STATUS", CAN + submit(7) + GRAB + req(12, H1 + b"\x001\x002") + req(15, H1),
     MADE + GIVEN + res(20, H1 + b"\x001\x001\x001\x002") + res(12, H1 + b"\x001\x002")),
    ("13 WORK_COMPLETE", CAN + submit(7) + GRAB + req(13, H1 + b"\0olleh"),
     MADE + GIVEN + res(13, H1 + b"\0olleh")),
    ("14 WORK_FAIL", CAN + submit(7) + GRAB + req(14, H1), MADE + GIVEN + res(14, H1)),
    ("15 GET_STATUS", submit(18) + req(15, H1), MADE + res(20, H1 + b"\x001\x000\x000\x000")),
    ("15 of nobody", req(15, b"H:x:1"), res(20, b"H:x:1\x000\x000\x000\x000")),
    ("16 ECHO_REQ", req(16, b"a\0b\n"), res(17, b"a\0b\n")),
    ("17 ECHO_RES", req(17, b"x"), NOT_EXPECTED),
    ("18 SUBMIT_JOB_BG", submit(18) + CAN + GRAB, MADE + GIVEN),
    ("19 ERROR", req(19, b"a\0b"), NOT_EXPECTED),
    ("20 STATUS_RES", req(20, b"a"), NOT_EXPECTED),
    ("21 SUBMIT_JOB_HIGH", submit(21) + CAN + GRAB, MADE + GIVEN),
    ("22 SET_CLIENT_ID", req(22, b"me") + b"workers\n", b"1 127.0.0.1 me :\n.\n"),
    ("23 CAN_DO_TIMEOUT", req(23, b"rev\x005000") + submit(7) + GRAB, MADE + GIVEN),
    ("24 ALL_YOURS", req(24), NOT_EXPECTED),
    ("25 WORK_EXCEPTION, not asked for, then WORK_FAIL",
     CAN + submit(7) + GRAB + req(25, H1 + b"\0boom") + req(14, H1) + req(16, b"x"),
     MADE + GIVEN + res(17, b"x") + res(14, H1)),
    ("25 WORK_EXCEPTION, asked for",
     req(26, b"exceptions") + CAN + submit(7) + GRAB + req(25, H1 + b"\0boom"),
     res(27, b"exceptions") + MADE + GIVEN + res(25, H1 + b"\0boom")),
    ("26 OPTION_REQ", req(26, b"Exceptions\0"), res(27, b"Exceptions\0")),
    ("26 other", req(26, b"x"), res(19, b"UNKNOWN_OPTION\0Server does not recognize given option")),
    ("27 OPTION_RES", req(27, b"x"), NOT_EXPECTED),
    ("28 WORK_DATA, 29 WORK_WARNING",
     CAN + submit(7) + GRAB + req(28, H1 + b"\0a\0b") + req(29, H1 + b"\0w"),
     MADE + GIVEN + res(28, H1 + b"\0a\0b") + res(29, H1 + b"\0w")),
    ("30 GRAB_JOB_UNIQ", CAN + submit(7) + req(30), MADE + res(31, H1 + b"\0rev\0u\0hello")),
    ("30 in vain", CAN + req(30), res(10)),
    ("31 JOB_ASSIGN_UNIQ", req(31, b"x"), NOT_EXPECTED),
    ("32 SUBMIT_JOB_HIGH_BG", submit(32) + CAN + GRAB, MADE + GIVEN),
    ("33 SUBMIT_JOB_LOW", submit(33) + CAN + GRAB, MADE + GIVEN),
    ("34 SUBMIT_JOB_LOW_BG", submit(34) + CAN + GRAB, MADE + GIVEN),
    ("35 SUBMIT_JOB_SCHED",
     CAN + req(35, b"rev\0u\x0015\x0014\0*\0\x000\0hello") + GRAB + req(15, H1),
     MADE + res(10) + res(20, H1 + b"\x001\x000\x000\x000")),
    ("35 never", req(35, b"rev\0u\0*\0*\x0031\x002\0*\0hello"),
     res(19, b"INVALID_ARGUMENT\0No minute ever matches these five fields")),
    ("36 SUBMIT_JOB_EPOCH, now", CAN + req(36, b"rev\0u\x000\0hello") + GRAB, MADE + GIVEN),
    ("36 SUBMIT_JOB_EPOCH, later", CAN + req(36, b"rev\0u\0" + LATER + b"\0hello") + GRAB,
     MADE + res(10)),
    ("37 SUBMIT_REDUCE_JOB, 39 GRAB_JOB_ALL", CAN + req(37, b"rev\0u\0sum\0\0hello") + req(39),
     MADE + res(40, H1 + b"\0rev\0u\0sum\0hello")),
    ("38 SUBMIT_REDUCE_JOB_BACKGROUND, 30 GRAB_JOB_UNIQ",
     CAN + req(38, b"rev\0u\0sum\0\0hello") + req(30),
     MADE + res(31, H1 + b"\0rev\0u\0hello")),
    ("39 GRAB_JOB_ALL without a reducer", CAN + submit(7) + req(39) + req(39),
     MADE + res(31, H1 + b"\0rev\0u\0hello") + res(10)),
    ("40 JOB_ASSIGN_ALL", req(40), NOT_EXPECTED),
    ("41 GET_STATUS_UNIQUE", submit(7) + submit(7) + req(41, b"u"),
     MADE + MADE + res(42, b"u\x001\x000\x000\x000\x002")),
    ("41 of nobody", req(41, b"u"), res(42, b"u\x000\x000\x000\x000\x000")),
    ("42 STATUS_RES_UNIQUE", req(42, b"u"), NOT_EXPECTED),
    (
        "priorities",
        CAN
        + submit(34, b"rev\0\0l") + submit(18, b"rev\0\0n") + submit(32, b"rev\0\0h")
        + GRAB * 4,
        MADE + res(8, H2) + res(8, H3) + res(11, H3 + b"\0rev\0h") + res(11, H2 + b"\0rev\0n")
        + res(11, H1 + b"\0rev\0l") + res(10),
    ),
    ("joined", submit(7) + submit(18) + submit(21), MADE * 3),
    ("not joined", submit(7, b"rev\0\0x") * 2, MADE + res(8, H2)),
    ("joined by the workload", submit(7, b"rev\0-\0x") * 2 + submit(7, b"rev\0-\0y"),
     MADE * 2 + res(8, H2)),
    ("a unique too large", submit(7, b"rev\0" + b"u" * 65 + b"\0x"),
     res(19, b"ARGUMENT_TOO_LARGE\0Unique value too large")),
    ("too few arguments", req(7, b"rev") + req(16, b"x"), TOO_FEW + res(17, b"x")),
    ("nobody's job", req(13, H1 + b"\0r") + req(14, H1) + req(12, H1 + b"\0a\0b"), NOT_FOUND * 3),
    ("nobody's data", req(28, H1 + b"\0r") + req(29, H1 + b"\0r"), NO_SUCH_JOB * 2),
    ("nobody's exception", req(25, H1 + b"\0r"),
     res(19, b"JOB_NOT_FOUND\0An exception was received for a job that does not exist")),
    ("a response", res(16, b"abc") + req(16, b"x"),
     res(19, b"INVALID_MAGIC\0Request magic expected") + res(17, b"x")),
    ("text and packets", b"version\r\n" + req(16, b"x") + b"getpid\n" + submit(7) + b"status\n",
     b"OK 2.0.0\n" + res(17, b"x") + b"OK 4711\n" + MADE + b"rev\t1\t0\t0\n.\n"),
    ("status", CAN + submit(7) + b"status\nprioritystatus\n",
     MADE + b"rev\t1\t0\t1\n.\nrev\t0\t1\t0\t1\n.\n"),
    ("workers", CAN + req(1, b"zzz") + b"workers\n", b"1 127.0.0.1 - : zzz rev\n.\n"),
    ("show", submit(7) + submit(18, b"g\0v\0x") + b"show jobs\nshow unique jobs\n",
     MADE + res(8, H2) + H1 + b"\t0\t0\t0\n" + H2 + b"\t0\t0\t1\n.\n" + b"u\nv\n.\n"),
    ("cancel job", submit(7) + b"cancel job " + H1 + b"\r\n" + GRAB,
     MADE + b"OK\r\n" + res(10) + res(14, H1)),
    ("cancel job of nobody", b"cancel job H:x:1\nversion\n", b"ERR UNKNOWN_JOB\r\nOK 2.0.0\n"),
    ("functions", b"create function reverse\ndrop function reverse\r\ndrop function reverse\n",
     b"OK\r\nOK\r\nERR function not found\r\n"),
    ("maxqueue", CAN + b"maxqueue rev 1\n" + submit(7) + submit(7) + submit(7, b"rev\0\0x"),
     b"OK\r\n" + MADE * 2 + res(19, b"QUEUE_ERROR\0Job queue is full")),
    ("unknown", b"hello there\n\n\r\n",
     b"ERR UNKNOWN_COMMAND Unknown+server+commandhello\r\n"
     + b"ERR UNKNOWN_COMMAND Unknown+server+command\r\n" * 2),
    ("shutdown", b"shutdown\n", b"OK\r\n"),
    ("another magic", req(16, b"x") + b"\0ABC" + req(16, b"y"), res(17, b"x")),
    ("type 43", req(16, b"x") + req(43) + req(16, b"y"), res(17, b"x")),
    ("the web", req(16, b"x") + b"GET / HTTP/1.1\r\n\r\n" + req(16, b"y"), res(17, b"x")),
    ("too large", req(16, b"x") + b"\0REQ\0\0\0\x10\xff\xff\xff\xff" + req(16, b"y"),
     res(17, b"x") + res(19, b"ARGUMENT_TOO_LARGE\0a packet may have 8180 bytes, not 4294967295")),
]  # fmt: skip


def converse(*pieces: bytes) -> bytes:
    """All that a peer hears who sends these pieces."""
    peer = World(limits=Limits(frame_bytes_max=8_192)).connect()
    for piece in pieces:
        peer.send(piece)
    return peer.bytes_heard()


@pytest.mark.parametrize(
    ("sent", "answer"), [e[1:] for e in EXCHANGES], ids=[e[0] for e in EXCHANGES]
)
def test_an_exchange_to_the_byte(sent: bytes, answer: bytes) -> None:
    heard = converse(sent)
    assert (sorted(heard), sorted_by_message(heard)) == (sorted(answer), sorted_by_message(answer))


@pytest.mark.parametrize("sent", [e[1] for e in EXCHANGES], ids=[e[0] for e in EXCHANGES])
def test_a_stream_means_the_same_wherever_it_is_cut(sent: bytes) -> None:
    """Split at every offset, and byte by byte. What happened to a job is told between two reads,
    so it may stand before answers that the whole stream would have got first: only the order of
    answers is the same."""
    whole = sorted_by_message(converse(sent))
    for at in range(1, len(sent)):
        assert sorted_by_message(converse(sent[:at], sent[at:])) == whole, f"split at {at}"
    assert sorted_by_message(converse(*(sent[n : n + 1] for n in range(len(sent))))) == whole


def sorted_by_message(stream: bytes) -> tuple[list[bytes], list[bytes]]:
    """Answers in their order, and what is told unasked in its own."""
    answers: list[bytes] = []
    told: list[bytes] = []
    for message in said(stream):
        (told if message[:1] in UNASKED else answers).append(message)
    return answers, told
