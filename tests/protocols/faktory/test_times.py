"""RFC 3339 both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.protocols.faktory.times import Stamps, parse_rfc3339

LATEST = 253_402_300_799_999


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T00:00:00.0001Z", 1),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:01.999000000Z", 1_999),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("2026-11-15T19:23:23.341271808Z", 1_794_770_603_342),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        (f"1970-01-01T00:00:00.{'0' * 43}Z", 0),
    ],
)
def test_a_moment_is_never_read_as_an_earlier_one(text: str, moment: int) -> None:
    assert parse_rfc3339(text) == moment


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-09-21", "2026-09-21T14:13:20", "2026-09-21 14:13:20Z", "2026-09-21t14:13:20z",
     "2026-13-21T14:13:20Z", "2026-02-30T14:13:20Z", "2026-09-21T24:13:20Z", "2026-09-21T14:13:60Z",
     "2026-09-21T14:13:20.Z", "2026-09-21T14:13:20+0200", "2026-09-21T14:13:20+02:60", "0000-01-01T00:00:00Z",
     "2026-09-21T14:13:20Z ", "1790000000", "２026-09-21T14:13:20Z", "2026-09-21T14:13:20+25:00",
     f"2026-09-21T14:13:20.{'1' * 44}Z"],
)  # fmt: skip
def test_what_is_no_moment_is_none(text: str) -> None:
    assert parse_rfc3339(text) is None


@given(st.lists(st.integers(0, LATEST), max_size=5))
def test_a_moment_survives_being_written(moments: list[int]) -> None:
    stamps = Stamps()
    for moment in moments * 2:
        text = stamps.text(moment)
        assert len(text) == 24
        assert parse_rfc3339(text) == moment
