"""Text that is not Unicode, and JSON that nobody should be given: however it is cut into steps."""

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.core.errors import Refused
from franca.protocols.faktory import go_json
from franca.protocols.faktory.go_json import check, may_be_unfit, repaired, run_steps

STEPS = st.integers(12, 40)
CHARACTERS = st.text(st.sampled_from('a"\\ö😀\ud83d\ude00\ud800\n[]{}'), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('a"\\[]{}e09'), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        (b"", b""),
        (b"plain", b"plain"),
        ("größe 😀".encode(), "größe 😀".encode()),
        (b"\xff", "\ufffd".encode()),
        (b"a\xffb\xfec", "a\ufffdb\ufffdc".encode()),
        # One for each byte, as the original's decoder does.
        (b"\xe2\x82", "\ufffd\ufffd".encode()),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd".encode()),
        (rb"a\ud800b", "a\ufffdb".encode()),
        (rb"\ud83d\ude00", rb"\ud83d\ude00"),
        (rb"\uD83D\uDE00", rb"\uD83D\uDE00"),
        (rb"\ude00\ud83d", "\ufffd\ufffd".encode()),
        (rb"\ud83d\ud83d\ude00", "\ufffd".encode() + rb"\ud83d\ude00"),
        (rb"\\ud800", rb"\\ud800"),
        (rb"\\\ud800", rb"\\" + "\ufffd".encode()),
        (rb"\\ud83d\ude00", rb"\\ud83d" + "\ufffd".encode()),
        (rb"\u0041\n\"\udfff", rb"\u0041\n\"" + "\ufffd".encode()),
        (rb"\uzzzz\ud800", rb"\uzzzz\ud800"),
        (b"\\", b"\\"),
    ],
)
def test_only_what_is_not_unicode_is_replaced(broken: bytes, whole: bytes) -> None:
    assert run_steps(repaired(broken)) == whole


@given(CHARACTERS, STEPS)
def test_what_is_mended_is_what_a_decoder_reads_but_lone_surrogates(said: str, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(go_json, "STEP_BYTES", step)
        whole = run_steps(repaired(json.dumps(said).encode()))
    read = re.sub("[\ud800-\udfff]", "\ufffd", json.loads(json.dumps(said)))
    assert json.loads(whole.decode()) == read


@given(st.binary(max_size=60), STEPS)
def test_bytes_that_are_no_utf8_are_replaced_one_by_one_in_any_cut(raw: bytes, step: int) -> None:
    decoded = raw.decode("utf-8", "surrogateescape")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(go_json, "STEP_BYTES", step)
        whole = run_steps(go_json.as_utf8(raw))
    assert whole == re.sub("[\udc80-\udcff]", "\ufffd", decoded).encode()


def test_a_text_of_rubbish_alone_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_json, "GROWTH_BYTES_MAX", 100)
    assert run_steps(repaired(b"\xff" * 50)) == "\ufffd".encode() * 50
    with pytest.raises(go_json.Unreadable):
        run_steps(repaired(b"\xff" * 51))


@given(JSON, st.integers(0, 4), STEPS, st.booleans())
def test_depth_and_numbers_are_those_of_a_decoder(
    value: object, most: int, step: int, is_ascii: bool
) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(go_json, "STEP_BYTES", step)
        if levels(value) > most:
            assert may_be_unfit(data, most) or len(data) <= 2 * most
            with pytest.raises(go_json.Unfit):
                run_steps(check(data, most))
        else:
            run_steps(check(data, most))


def levels(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return 1 + max((levels(each) for each in value), default=0)
    return 0


NUMBERS = [
    ("1e308", True), ("1e309", False), ("-1e308", True), ("-1e999", False), ("1E+400", False),
    ("1e-400", True), ("0e999", True), ("1e0000000400", False), ("17e307", True), ("18e307", False),
    ("9" * 308, True), ("9" * 309, False), ("9" * 250, True), ("9" * 250 + "e99", False),
    ("9" * 209 + "e99", True), ("9" * 210 + "e99", False),
    ("9" * 310 + "e-300", True), ("0." + "0" * 350 + "1e400", True), ("0." + "1" * 900, True),
    ("0." + "1" * 1_000, False), ("9" * 5_000, False), ("1e" + "9" * 400, False),
]  # fmt: skip


@pytest.mark.parametrize(("number", "fits"), NUMBERS)
@pytest.mark.parametrize("shape", ["[%s]", '["1e999",%s]', '[{"e":[true,%s]}, 1]', "[ %s , 1.5 ]"])
@pytest.mark.parametrize("step", [12, 1_000_000])
def test_numbers_that_are_no_doubles_are_refused(
    monkeypatch: pytest.MonkeyPatch, number: str, fits: bool, shape: str, step: int
) -> None:
    monkeypatch.setattr(go_json, "STEP_BYTES", step)
    data = (shape % number).encode()
    is_long = len(number) > go_json.NUMBER_CHARS_MAX
    assert fits == (not is_long and not math.isinf(float(number)))
    if fits:
        run_steps(check(data, 127))
    else:
        assert may_be_unfit(data, 127)
        with pytest.raises(Refused):
            run_steps(check(data, 127))


def test_most_texts_need_not_be_looked_at_closely() -> None:
    assert not may_be_unfit(b'["a string",1.5,{"key":[true,null]}]', 127)
    assert not may_be_unfit(b'["' + b"x" * 10_000 + b'"]', 127)
    assert may_be_unfit(b"[" * 200 + b"]" * 200, 127)


@given(st.lists(JSON.filter(lambda value: isinstance(value, dict)), max_size=5), STEPS)
def test_the_elements_of_an_array_end_where_they_do(units: list[object], step: int) -> None:
    texts = [json.dumps(unit) for unit in units]
    data = f"[{', '.join(texts)}]".encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(go_json, "STEP_BYTES", step)
        *ends, last = [end for end in go_json.ends_of_elements(data, 0, 1_000) if end]
    assert last == -len(data)
    start = 1
    for end, unit in zip(ends, texts, strict=True):
        assert data[start:end].decode() == unit
        start = end + 2
