"""The next minute that five fields name, on the clocks of a zone."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from franca.protocols.gearman import sched
from franca.protocols.gearman.sched import next_match

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text: str, zone: ZoneInfo | None = None) -> int:
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=zone or UTC)).timestamp() * 1000)


def found(fields: str, after: str, zone: ZoneInfo | None = None) -> str | None:
    moment = next_match(fields.encode().split(b" "), zone or UTC, ms(after, zone))
    if moment is None:
        return None
    return datetime.fromtimestamp(moment / 1000, zone or UTC).isoformat()[:16]


@pytest.mark.parametrize(
    ("fields", "after", "expected"),
    [
        ("* * * * *", "2026-09-21T14:13:20", "2026-09-21T14:14"),
        ("* * * * *", "2026-09-21T14:13:00", "2026-09-21T14:14"),
        ("13 14 * * *", "2026-09-21T14:12:59.999", "2026-09-21T14:13"),
        ("13 14 * * *", "2026-09-21T14:13:00", "2026-09-22T14:13"),
        ("0 * * * *", "2026-09-21T23:59:59", "2026-09-22T00:00"),
        ("0 0 1 1 *", "2026-09-21T14:13:20", "2027-01-01T00:00"),
        ("30 8 * * 0", "2026-09-21T14:13:20", "2026-09-28T08:30"),
        ("30 8 * * 6", "2026-09-21T14:13:20", "2026-09-27T08:30"),
        ("0 0 13 * 4", "2026-09-21T14:13:20", "2026-11-13T00:00"),
        ("0 0 31 * *", "2026-09-21T14:13:20", "2026-10-31T00:00"),
        ("0 0 29 2 *", "2026-09-21T14:13:20", "2028-02-29T00:00"),
        ("0 0 29 2 0", "2076-03-01T00:00:00", "2112-02-29T00:00"),
        ("* * * 12 *", "2026-09-21T14:13:20", "2026-12-01T00:00"),
        ("05 09 * * *", "2026-09-21T14:13:20", "2026-09-22T09:05"),
    ],
)
def test_the_next_match(fields: str, after: str, expected: str) -> None:
    assert found(fields, after) == expected


def test_an_empty_field_matches_everything() -> None:
    assert next_match([b"", b"", b"", b"", b""], UTC, 0) == 60_000


@pytest.mark.parametrize("day", range(7))
def test_monday_is_0(day: int) -> None:
    moment = found(f"0 0 * * {day}", "2026-09-21T14:13:20")
    assert datetime.fromisoformat(moment or "").weekday() == day


@pytest.mark.parametrize(
    "fields",
    ["60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 7",
     "-1 * * * *", "x * * * *", "1-5 * * * *", "*/5 * * * *", "1,2 * * * *", "001 * * * *", "² * * * *",
     "0 0 30 2 *", "0 0 31 4 *"],
)  # fmt: skip
def test_what_makes_no_sense_matches_never(fields: str) -> None:
    assert found(fields, "2026-09-21T14:13:20") is None


def test_the_clocks_are_those_of_the_zone() -> None:
    assert found("0 3 * * *", "2026-07-01T12:00:00", BERLIN) == "2026-07-02T03:00"
    three = next_match([b"0", b"3", b"*", b"*", b"*"], BERLIN, ms("2026-07-01T12:00:00"))
    assert three == ms("2026-07-02T01:00:00")


def test_a_time_that_clocks_leave_out_waits_for_the_next_day() -> None:
    # In Berlin there is no half past two on 29 March 2026.
    assert found("30 2 * * *", "2026-03-29T00:00:00", BERLIN) == "2026-03-30T02:30"
    assert found("30 2 29 3 *", "2026-03-29T00:00:00", BERLIN) == "2027-03-29T02:30"


def test_a_time_that_clocks_show_twice_is_the_first_of_the_two_that_is_still_to_come() -> None:
    # In Berlin 02:30 comes twice on 25 October 2026, at 00:30 and 01:30 UTC.
    fields = [b"30", b"2", b"*", b"*", b"*"]
    first, second = ms("2026-10-25T00:30:00"), ms("2026-10-25T01:30:00")
    assert next_match(fields, BERLIN, first - 1) == first
    assert next_match(fields, BERLIN, first) == second
    assert next_match(fields, BERLIN, second) == ms("2026-10-26T01:30:00")


@pytest.mark.parametrize("zone", [UTC, BERLIN])
def test_the_next_of_all_minutes_is_found(zone: tzinfo, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    later = sched._later

    def counted(at: datetime, minutes: int) -> datetime:
        looked_at.append(at)
        return later(at, minutes)

    monkeypatch.setattr(sched, "_later", counted)
    after = ms("2026-09-21T14:58:20")
    assert next_match([b""] * 5, zone, after) == ms("2026-09-21T14:59:00")
    assert not looked_at
    assert next_match([b"57", b"", b"", b"", b""], zone, after) == ms("2026-09-21T15:57:00")
    assert len(looked_at) == 1


def test_a_field_of_many_spaces_is_not_looked_at() -> None:
    fields = [b"*", b"*", b" 7 ", b"*", b"*"]
    assert next_match(fields, UTC, ms("2026-09-21T14:13:20")) == ms("2026-10-07T00:00")
    fields[2] = b" " * 1_000 + b"7"
    assert next_match(fields, UTC, ms("2026-09-21T14:13:20")) is None
