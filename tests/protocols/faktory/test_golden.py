"""The bytes of every command and every refusal, fed whole, byte by byte and among others."""

import pytest

from franca.core.limits import Limits
from tests.protocols.faktory.puppet import Puppet, World

STAMP = b"2026-09-21T14:13:20.000Z"
UNIT = (
    b'{"enqueued_at":"' + STAMP + b'","retry":25,"jid":"jid-0001","queue":"default",'
    b'"jobtype":"type","created_at":"' + STAMP + b'","args":[1],"reserve_for":1800}'
)
PUSH = b'PUSH {"jid":"jid-0001","jobtype":"type","args":[1]}\r\n'
DELIVERY = b"$%d\r\n%b\r\n" % (len(UNIT), UNIT)
OK = b"+OK\r\n"
NULL = b"$-1\r\n"
TRACK = b"-ERR tracking subsystem is only available in Faktory Enterprise\r\n"
NOT_A_JID = b"-ERR jobs must have a reasonable jid parameter\r\n"
DEEP = b"[" * 200 + b"]" * 200


def err(text: bytes) -> bytes:
    return b"-ERR " + text + b"\r\n"


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def push(members: bytes) -> bytes:
    return b'PUSH {"jid":"jid-0001","jobtype":"type","args":[],%b}\r\n' % members


EXCHANGES: list[tuple[str, bytes, bytes]] = [
    ("push", PUSH, OK),
    ("push, LF alone", PUSH.replace(b"\r\n", b"\n"), OK),
    ("push and fetch", PUSH + b"FETCH default\r\n", OK + DELIVERY),
    ("bare fetch scans default", PUSH + b"FETCH\r\n", OK + DELIVERY),
    ("fetch without names scans default", PUSH + b"FETCH \r\n", OK + DELIVERY),
    ("fetch in vain", b"FETCH a b\r\n", NULL),
    ("fetch, a queue said twice", b"FETCH a a\r\n", NULL),
    ("a life", PUSH + b'FETCH\r\nACK {"jid":"jid-0001"}\r\n', OK + DELIVERY + OK),
    ("ack with spaces", PUSH + b'FETCH\r\nACK { "jid" : "jid-0001" }\r\n', OK + DELIVERY + OK),
    ("ack of nobody", b'ACK {"jid":"unknown-1"}\r\n', OK),
    ("ack with more strings", b'ACK {"jid":"unknown-1","x":"y","z":null}\r\n', OK),
    ("ack null", b'ACK {"jid":null}\r\n', OK),
    ("ack without jid", b'ACK {"x":"y"}\r\n', err(b'invalid ACK {"x":"y"}')),
    ("ack in capitals", b'ACK {"JID":"y"}\r\n', err(b'invalid ACK {"JID":"y"}')),
    ("ack number", b'ACK {"jid":1}\r\n', err(b'invalid ACK {"jid":1}')),
    ("ack other number", b'ACK {"jid":"j","n":1}\r\n', err(b'invalid ACK {"jid":"j","n":1}')),
    ("ack no JSON", b"ACK jid\r\n", err(b"invalid ACK jid")),
    ("ack bare", b"ACK\r\n", err(b"invalid ACK ")),
    ("fail", PUSH + b'FETCH\r\nFAIL {"jid":"jid-0001","message":"m","errtype":"e"}\r\n',
     OK + DELIVERY + OK),
    ("fail any case", PUSH + b'FETCH\r\nFAIL {"JID":"jid-0001"}\r\n', OK + DELIVERY + OK),
    ("fail of nobody", b'FAIL {"jid":"unknown-1"}\r\n', err(b"Job not found unknown-1")),
    ("fail without jid", b'FAIL {"message":"m"}\r\n', err(b"missing JID")),
    ("fail empty", b"FAIL {}\r\n", err(b"missing JID")),
    ("fail null", b"FAIL null\r\n", err(b"missing JID")),
    ("fail wrong type", b'FAIL {"jid":1}\r\n', err(b'invalid FAIL {"jid":1}')),
    ("fail wrong trace", b'FAIL {"jid":"j","backtrace":"x"}\r\n',
     err(b'invalid FAIL {"jid":"j","backtrace":"x"}')),
    ("fail bare", b"FAIL\r\n", err(b"invalid FAIL ")),
    ("beat of nobody", b'BEAT {"wid":"w9"}\r\n', err(b"unknown worker w9")),
    ("beat float", b'BEAT {"wid":"w9","rss_kb":1.5}\r\n',
     err(b'invalid BEAT {"wid":"w9","rss_kb":1.5}')),
    ("beat bare", b"BEAT\r\n", err(b"invalid BEAT ")),
    ("flush", PUSH + b"FLUSH\r\nFETCH\r\n", OK + OK + NULL),
    ("flush does not take words", b"FLUSH default\r\n", err(b"FLUSH takes no arguments")),
    ("info does not take words", b"INFO x\r\n", err(b"INFO takes no arguments")),
    ("end does not take words", b"END x\r\n", err(b"END takes no arguments")),
    ("hello twice", b'HELLO {"v":2}\r\n', err(b"unknown command HELLO")),
    ("lower case", b"push {}\r\n", err(b"unknown command push")),
    ("empty line", b"\r\n", err(b"unknown command ")),
    ("empty line, LF", b"\n", err(b"unknown command ")),
    ("unknown", b"NOSUCH x y\r\n", err(b"unknown command NOSUCH")),
    ("not UTF-8", b"\xff\xfe\r\n", err("unknown command ��".encode())),
    ("NUL", b"A\0B\r\n", err(b"unknown command A B")),
    ("CR inside", b"A\rB\r\n", err(b"unknown command A B")),
    ("track", b"TRACK GET x\r\n", TRACK),
    ("batch", b"BATCH NEW {}\r\n", err(b"batch subsystem is only available in Faktory Enterprise")),
    ("pause", PUSH + b"QUEUE PAUSE default\r\nFETCH\r\n", OK + OK + NULL),
    ("pause nobody", b"QUEUE PAUSE nosuch\r\n", OK),
    ("pause all", PUSH + b"QUEUE PAUSE *\r\nFETCH\r\n", OK + OK + NULL),
    ("queue in lower case", PUSH + b"QUEUE pause *\r\nFETCH\r\n", OK + OK + NULL),
    ("resume", PUSH + b"QUEUE PAUSE default\r\nQUEUE RESUME default\r\nFETCH\r\n",
     OK + OK + OK + DELIVERY),
    ("resume all", PUSH + b"QUEUE PAUSE *\r\nQUEUE RESUME *\r\nFETCH\r\n", OK * 3 + DELIVERY),
    ("remove", PUSH + b"QUEUE REMOVE default\r\nFETCH\r\n", OK + OK + NULL),
    ("remove all", PUSH + b"QUEUE REMOVE *\r\nFETCH\r\n", OK + OK + NULL),
    ("latency", PUSH + b"QUEUE LATENCY b default a\r\n", OK + bulk(b'{"a":0,"b":0,"default":0.0}')),
    ("latency of nothing", b"QUEUE LATENCY\r\n", bulk(b"{}")),
    ("latency of all", b"QUEUE LATENCY *\r\n", err(b"QUEUE LATENCY does not support wildcards")),
    ("queue what", b"QUEUE FOO x\r\n", err(b"no such QUEUE subcommand: FOO")),
    ("queue bare", b"QUEUE\r\n", err(b"no such QUEUE subcommand: ")),
    ("pause bare", b"QUEUE PAUSE\r\n", err(b"QUEUE PAUSE needs the name of a queue, or *")),
    ("mutate", b'MUTATE {"cmd":"clear","target":"dead"}\r\n', OK),
    ("mutate with spaces", b'MUTATE { "cmd": "clear", "target": "dead" }\r\n', OK),
    ("mutate what", b'MUTATE {"cmd":"x","target":"dead"}\r\n', err(b"unknown mutate operation")),
    ("mutate nothing", b"MUTATE {}\r\n", err(b"unknown mutate operation")),
    ("mutate where", b'MUTATE {"cmd":"kill","target":"queue"}\r\n',
     err(b"invalid target for mutation command")),
    ("many", b'PUSHB [{"jid":"jid-0001","jobtype":"type","args":[1]}]\r\nFETCH\r\n', bulk(b"{}") + DELIVERY),
    ("none of many", b"PUSHB []\r\n", bulk(b"{}")),
    ("null of many", b"PUSHB null\r\n", bulk(b"{}")),
    ("some of many",
     b'PUSHB [{"jid":"jid-0001","jobtype":"type","args":[1]},{"jid":"short"},{},'
     b'{"jid":"jid-0002","args":[]}]\r\nFETCH\r\nFETCH\r\n',
     bulk(b'{"":"jobs must have a reasonable jid parameter",'
          b'"jid-0002":"jobs must have a jobtype parameter",'
          b'"short":"jobs must have a reasonable jid parameter"}') + DELIVERY + NULL),
    ("push nothing", b"PUSH {}\r\n", NOT_A_JID),
    ("push null", b"PUSH null\r\n", NOT_A_JID),
    ("jid too short", b'PUSH {"jid":"1234567","jobtype":"t","args":[]}\r\n', NOT_A_JID),
    ("jid counted in bytes", 'PUSH {"jid":"öööö","jobtype":"t","args":[]}\r\n'.encode(), OK),
    ("jid null", b'PUSH {"jid":null,"jobtype":"t","args":[]}\r\n', NOT_A_JID),
    ("no jobtype", b'PUSH {"jid":"jid-0001","args":[]}\r\n',
     err(b"jobs must have a jobtype parameter")),
    ("empty jobtype", b'PUSH {"jid":"jid-0001","jobtype":"","args":[]}\r\n',
     err(b"jobs must have a jobtype parameter")),
    ("no args", b'PUSH {"jid":"jid-0001","jobtype":"t"}\r\n',
     err(b"jobs must have an args parameter")),
    ("null args", b'PUSH {"jid":"jid-0001","jobtype":"t","args":null}\r\n',
     err(b"jobs must have an args parameter")),
    ("reserved too long", push(b'"reserve_for":86401'),
     err(b"jobs cannot be reserved for more than one day")),
    ("reserved a day", push(b'"reserve_for":86400'), OK),
    ("bad time", push(b'"at":"tomorrow"'),
     err(b"invalid timestamp for 'at': \"tomorrow\": parsing time \"tomorrow\" as RFC3339")),
    ("a date is no time", push(b'"at":"2026-09-21"'),
     err(b"invalid timestamp for 'at': \"2026-09-21\": parsing time \"2026-09-21\" as RFC3339")),
    ("no time", push(b'"at":""'), OK),
    ("bad queue", push(b'"queue":"bad queue"'),
     err(b'cannot get "bad queue" queue: queue names must match \\A[a-zA-Z0-9._-]+\\z')),
    ("members in any case", b'PUSH {"JID":"jid-0001","JobType":"t","Args":[]}\r\n', OK),
    ("unknown members", push(b'"priority":5,"x":{"y":[1]}'), OK),
    ("custom of another type", push(b'"custom":[]'), err(b"invalid JSON: custom must be an object")),
    ("args of another type", b'PUSH {"jid":"jid-0001","jobtype":"t","args":{}}\r\n', err(b"invalid JSON: args must be an array")),
    ("args a string", b'PUSHB [{"jid":"jid-0001","jobtype":"t","args":"x"}]\r\n', err(b"invalid JSON: args must be an array")),
    ("args not UTF-8", b'PUSH {"jid":"jid-0001","jobtype":"t","args":["\xff"]}\r\n', OK),
    ("a number that is no double", b'PUSH {"jid":"jid-0001","jobtype":"t","args":[1e400]}\r\n', err(b"invalid JSON: cannot read number 1e400 as a double")),
    ("too deep", push(b'"custom":{"x":%b}' % DEEP), err(b"jobs cannot be nested deeper than 128 levels")),
    ("too deep", b'PUSH {"jid":"jid-0001","jobtype":"t","args":%b}\r\n' % DEEP, err(b"jobs cannot be nested deeper than 128 levels")),
    ("NUL in a jid", b'PUSH {"jid":"jid-\\u0000001","jobtype":"t","args":[]}\r\n', err(b"jid and jobtype cannot contain NUL")),
]  # fmt: skip


def answer(sent: list[bytes], expected: bytes) -> bytes:
    world = World(limits=Limits(turn_messages=3))
    client = world.peer()
    for piece in sent:
        client.send(piece)
    for _ in range(3):
        if len(client.unread) < len(expected):
            world.pass_time(2_000)
    world.pass_time(2_000)
    assert not client.is_hung_up
    return client.bytes_heard()


IDS = [name for name, _, _ in EXCHANGES]
CASES = [(sent, expected) for _, sent, expected in EXCHANGES]


@pytest.mark.parametrize(("sent", "expected"), CASES, ids=IDS)
def test_an_exchange_fed_whole(sent: bytes, expected: bytes) -> None:
    assert answer([sent], expected) == expected


@pytest.mark.parametrize(("sent", "expected"), CASES, ids=IDS)
def test_an_exchange_fed_byte_by_byte(sent: bytes, expected: bytes) -> None:
    assert answer([sent[i : i + 1] for i in range(len(sent))], expected) == expected


@pytest.mark.parametrize(("sent", "expected"), CASES, ids=IDS)
def test_an_exchange_between_two_others(sent: bytes, expected: bytes) -> None:
    sent = b"TRACK x\r\n" + sent + b"TRACK y\r\n"
    expected = TRACK + expected + TRACK
    assert answer([sent], expected) == expected


@pytest.mark.parametrize(("sent", "expected"), CASES, ids=IDS)
def test_each_reply_is_one_piece(
    world: World, monkeypatch: pytest.MonkeyPatch, sent: bytes, expected: bytes
) -> None:
    client = world.peer()
    pieces: list[bytes] = []
    monkeypatch.setattr(client, "receive", pieces.extend)
    client.send(sent)
    world.pass_time(4_000)
    assert b"".join(pieces) == expected
    for piece in pieces:
        assert piece.endswith(b"\r\n")
        assert piece.count(b"\r\n") == (2 if piece[:1] == b"$" and piece != NULL else 1)


@pytest.mark.parametrize(
    "text",
    [b"{", b"[]", b'"x"', b"1", b"tru", b'{"jid":}', b'{"jid":"a"} x', b"\xff", b"", b"[" * 100_000,
     b'{"jid":1}', b'{"jid":"jid-0001","jobtype":"t","args":[01]}',
     b'{"jid":"jid-0001","jobtype":"t","args":["\\ud80"]}',
     b'{"jid":"jid-0001","jobtype":"t","args":[NaN]}',
     b'{"jid":"jid-0001","jobtype":"t","args":[],"retry":"5"}',
     b'{"jid":"jid-0001","jobtype":"t","args":[],"retry":9223372036854775808}',
     b'{"jid":"jid-0001","jobtype":"t","args":[],"at":5}',
     b'{"jid":"jid-0001","jobtype":"t","args":[],"x":' + b"[" * 50_000],
)  # fmt: skip
@pytest.mark.parametrize("verb", [b"PUSH ", b"PUSHB "])
def test_what_is_no_job_is_refused_in_one_line(
    world: World, client: Puppet, verb: bytes, text: bytes
) -> None:
    if verb == b"PUSHB " and text == b"[]":
        text = b"{}"
    reply = client.call(verb + text)
    assert (reply.kind, reply.text[:18]) == ("-", "ERR invalid JSON: ")
    assert (client.call("TRACK").kind, world.jobs()) == ("-", [])
