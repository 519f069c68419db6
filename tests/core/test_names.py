"""Every function has a queue of its own, whatever bytes its name has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.core.names import Names, raw_of, renamed, text_of

ODD = [b"", b"plain", "grün".encode(), b"\xff", b"\xed\xb2\x80", b"a\tb", *(chr(c).encode() for c in (0xEF7F, 0xEF80, 0xEFFF))]  # fmt: skip


@given(st.binary(max_size=12) | st.text(alphabet="a\uef7f\uef80\uefff", max_size=5).map(str.encode))
def test_a_name_comes_back_as_it_went(raw: bytes) -> None:
    assert raw_of(text_of(raw)) == raw


@given(st.binary(max_size=12))
def test_a_name_can_be_written_down_as_text(raw: bytes) -> None:
    text = text_of(raw)
    assert text
    text.encode()


def test_a_name_in_utf8_is_the_queue_of_that_name() -> None:
    assert text_of("grün".encode()) == "grün"


def test_odd_names_do_not_meet() -> None:
    assert len({text_of(raw) for raw in ODD}) == len(ODD)


def test_what_is_remembered_of_names_is_bounded() -> None:
    names = Names()
    for number in range(10_000):
        assert names.raw(names.text(b"%d" % number)) == b"%d" % number
    assert len(names._texts) <= 4_096 >= len(names._raws)


@given(st.binary(max_size=12).map(lambda raw: raw + b"\xff") | st.binary(max_size=9).map(b"\xef\xbf\xbd".__add__))  # fmt: skip
def test_a_name_that_an_older_server_marked_is_written_as_names_are_now(raw: bytes) -> None:
    assert renamed("\ufffd" + raw.decode("latin-1")) == text_of(raw)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "grün",
        "\ufffd",
        "\ufffdplain",
        "\ufffdgr\u00c3\u00bcn",
        "\ufffd\u4e2d",
        text_of(b"\xff"),
    ],
)
def test_a_name_that_no_older_server_marked_stays_as_it_is(text: str) -> None:
    assert renamed(text) == text
