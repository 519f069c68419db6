"""Headers: written in the one deterministic way, read in any, and nothing else read at all."""

import io

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from franca.core.names import text_of
from franca.protocols.memodb import cbor, wire
from franca.protocols.memodb.cbor import Malformed
from franca.protocols.memodb.messages import DISCONNECT, HEARTBEAT, JOB, READY, RESULT, Header
from tests.support import memodb as m

ID = bytes.fromhex("2a9f0c7b")
GOLDEN = {
    "84666d656d6f303101408267736d6f75742e7868616c6976652e7476": m.ready("smout.x", "alive.tv"),
    "85666d656d6f3031024068616c6976652e7476191388": m.job("alive.tv"),
    "85666d656d6f303102442a9f0c7b68616c6976652e7476191388": (
        wire.begin(JOB, 5) + cbor.of_bytes(ID) + wire.task("alive.tv", 5_000)
    ),
    "83666d656d6f303103442a9f0c7b": m.result(ID),
    "84666d656d6f303103442a9f0c7bf5": m.result(ID, leaving=True),
    "83666d656d6f30310340": wire.RESULT_HEAD,
    "83666d656d6f303104442a9f0c7b": wire.begin(HEARTBEAT, 3) + cbor.of_bytes(ID),
    "83666d656d6f303105442a9f0c7b": wire.encode_disconnect(ID),
}


def read(raw: bytes) -> Header:
    return wire.read_header(raw, 0, len(raw), 1_024)


@pytest.mark.parametrize("text", GOLDEN)
def test_every_message_is_written_as_it_was_seen(text: str) -> None:
    assert GOLDEN[text].hex() == text


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.text(max_size=3), st.binary(max_size=3), st.integers(0, 100))
def test_what_is_written_is_what_others_call_canonical(
    number: int, text: str, raw: bytes, times: int
) -> None:
    text, raw = text * times, raw * times
    assert cbor.head(cbor.UINT, number) == cbor2.dumps(number, canonical=True)
    assert cbor.of_text(text.encode()) == cbor2.dumps(text, canonical=True)
    assert cbor.of_bytes(raw) == cbor2.dumps(raw, canonical=True)


def test_a_number_that_cbor_does_not_have_is_not_written() -> None:
    with pytest.raises(ValueError, match="too large"):
        cbor.head(cbor.UINT, 2**64)


names = st.text(min_size=1, max_size=60)
ids = st.binary(max_size=30)
headers = st.one_of(
    st.tuples(st.just(READY), ids, st.lists(names, max_size=30)).map(list),
    st.tuples(st.just(JOB), ids, names, st.integers(0, 2**64 - 1)).map(list),
    st.tuples(st.just(RESULT), ids).map(list),
    st.tuples(st.just(RESULT), ids, st.booleans()).map(list),
    st.tuples(st.sampled_from([HEARTBEAT, DISCONNECT]), ids).map(list),
)


def loosely(value: object, draw: st.DataObject) -> bytes:
    """A value in some way that CBOR allows: lengths too long, or open."""

    def head(major: int, number: int) -> bytes:
        widths = [w for w in (0, 1, 2, 4, 8) if number < (24 if w == 0 else 1 << 8 * w)]
        width = draw.draw(st.sampled_from(widths))
        if not width:
            return bytes([major << 5 | number])
        return bytes([major << 5 | 23 + (1, 2, 4, 8).index(width) + 1]) + number.to_bytes(
            width, "big"
        )

    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, list):
        items = b"".join(loosely(item, draw) for item in value)
        if draw.draw(st.booleans()):
            return b"\x9f" + items + b"\xff"
        return head(4, len(value)) + items
    major = 2 if isinstance(value, bytes) else 3
    raw = value.encode() if isinstance(value, str) else value
    assert isinstance(raw, bytes)
    if draw.draw(st.booleans()):
        cut = draw.draw(st.integers(0, len(raw)))
        pieces = [raw[:cut], raw[cut:]]
        return (
            bytes([major << 5 | 31]) + b"".join(head(major, len(p)) + p for p in pieces) + b"\xff"
        )
    return head(major, len(raw)) + raw


@settings(deadline=None)
@given(headers, st.binary(max_size=20), st.data())
def test_any_cbor_header_is_read(values: list[object], payload: bytes, data: st.DataObject) -> None:
    raw = loosely(["memo01", *values], data)
    for written in (raw, cbor2.dumps(["memo01", *values], canonical=True)):
        header = wire.read_header(b"??" + written + payload, 2, 2 + len(written + payload), 1_024)
        assert (header.end, header.op, header.id) == (2 + len(written), values[0], values[1])
        if header.op == READY:
            assert isinstance(values[2], list)
            assert header.services == tuple(dict.fromkeys(values[2]))
        elif header.op == JOB:
            assert [header.service, header.timeout_ms] == values[2:]
        elif header.op == RESULT:
            assert header.leaving == (values[2] if len(values) > 2 else False)


WRONG: list[object] = [
    *([], {}, "memo01", b"memo01", 17, -1, None, 1.5, ["memo01"], ["memo01", 4]),
    *([magic, HEARTBEAT, b""] for magic in ("memo02", "memo0", b"memo01")),
    *(["memo01", op, b""] for op in (0, 6, 2**63, -4, "4", READY)),
    *(["memo01", HEARTBEAT, *rest] for rest in ([""], [None], [b"", 0], [cbor2.CBORTag(2, b"")])),
    ["memo01", DISCONNECT, b"x" * 1_025],
    *(["memo01", RESULT, b"", *rest] for rest in ([1], [None], [True, True])),
    *(["memo01", READY, b"", wrong] for wrong in ("s", [b"s"], [""], ["s", ["t"]], {"s": "t"})),
    ["memo01", READY, b"", ["s" * 1_025]],
    ["memo01", READY, b"", ["s"], 1],
    ["memo01", READY, b"", [f"s{n}" for n in range(wire.SERVICES_MAX + 1)]],
    *(["memo01", JOB, b"", *rest] for rest in (["s"], ["", 1], [b"s", 1], ["s", 1, 2])),
    *(["memo01", JOB, b"", "s", timeout] for timeout in (-1, 2**64, 1.0, "1")),
    cbor2.CBORTag(42, ["memo01", HEARTBEAT, b""]),
]


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_every_other_shape_is_malformed(value: object) -> None:
    with pytest.raises(Malformed):
        read(cbor2.dumps(value, canonical=True))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"\x9f",
        b"\x9f\x66memo01\x04\x40",  # no break
        b"\x9f\x66memo01\x04\x40\x00\xff",  # an item too many
        b"\x9f\x66memo01\x03\x40\xf5\xf5\xff",
        b"\x83\x7f\x66memo01",  # an open text that does not end
        b"\x83\x7f\x7f\x66memo01\xff\xff\x04\x40",  # one inside another
        b"\x83\x7f\x46memo01\xff\x04\x40",  # bytes inside a text
        b"\x83\x66memo01\x1f\x40",  # an open number
        b"\x83\x66memo01\x1c\x40",  # a length of a kind that is not in use
        b"\x83\x66memo01\x04\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x83\x66memo01\x04\x5a\x00\x00",
        b"\x84\x66memo01\x01\x40\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x84\x66memo01\x01\x40\x9f" + b"\x61s" * (wire.SERVICES_MAX + 1) + b"\xff",
        b"\x83\x7f" + b"\x60" * 20_000 + b"\x66memo01\xff\x04\x40",  # too many pieces
        b"\x81" * 100_000,
        b"\x9f" * 100_000,
        b"\xc1" * 100_000,
    ],
)
def test_bytes_that_are_no_header_are_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        read(raw)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_whatever_comes_it_is_a_header_or_malformed(raw: bytes) -> None:
    for data in (raw, b"\x84\x66memo01\x01\x40" + raw, b"\x85\x66memo01\x02" + raw):
        try:
            header = read(data)
        except Malformed:
            continue
        values = cbor2.CBORDecoder(io.BytesIO(data), str_errors="replace").decode()
        assert values[1:3] == [header.op, header.id]


@pytest.mark.parametrize("text", GOLDEN)
def test_half_a_header_is_none(text: str) -> None:
    raw = bytes.fromhex(text)
    assert read(raw).end == len(raw)
    for cut in range(len(raw)):
        with pytest.raises(Malformed):
            read(raw[:cut])


def test_a_service_that_is_named_twice_is_offered_once() -> None:
    assert read(m.ready("b", "a", "b")).services == ("b", "a")


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xed\xa0\x80", "ü\uef80".encode(), b"plain"])
def test_a_name_that_is_not_utf8_is_the_same_in_every_protocol(raw: bytes) -> None:
    data = b"\x85\x66memo01\x02\x40" + bytes((0x60 | len(raw),)) + raw + b"\x01"
    header = wire.read_header(data, 0, len(data), 1_024)
    assert header.service == text_of(raw)
    assert wire.task(header.service, 1) == bytes((0x60 | len(raw),)) + raw + b"\x01"
