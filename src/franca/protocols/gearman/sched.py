"""When a SUBMIT_JOB_SCHED is to run: once, at the next minute that all five fields name."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import date, datetime, tzinfo
from typing import Final

from franca.core.model import Millis

_RANGES: Final = (range(60), range(24), range(1, 32), range(1, 13), range(7))
_LEAP_YEAR: Final = 2024
_MONTHS_AHEAD: Final = 41 * 12
"""A 29th of February on a given weekday may be forty years away, and no other date further."""
_FIELD_BYTES_MAX: Final = 64
"""Two digits and some spaces: a longer field makes no sense, and is not looked at."""
_MINUTE_MS: Final = 60_000


def next_match(fields: Sequence[bytes], zone: tzinfo, after: Millis) -> Millis | None:
    """The first minute that begins later than `after` and matches minute, hour, day of the month,
    month and day of the week (0 is Monday) on the clocks of `zone`.

    `*` and an empty field match everything. None if a field is no number of its range, or if no
    day ever matches. A time that clocks skip never matches, and one that they show twice matches
    twice.
    """
    chosen = [_read(field, among) for field, among in zip(fields, _RANGES, strict=True)]
    if not all(chosen):
        return None
    minutes, hours, days, months, weekdays = chosen
    if not any(min(days) <= monthrange(_LEAP_YEAR, month)[1] for month in months):
        return None
    at = datetime.fromtimestamp((after // _MINUTE_MS + 1) * 60, zone)
    for day in _days(at.date(), days, months, weekdays):
        if day > at.date():
            at = _later(datetime(day.year, day.month, day.day, tzinfo=zone), 0)
        while at.date() == day:
            if at.hour not in hours:
                step = 60 - at.minute
            elif at.minute not in minutes:
                step = min((minute - at.minute) % 60 for minute in minutes)
            else:
                return int(at.timestamp()) * 1000
            then = _later(at, step)
            # Where clocks change meanwhile, each minute is looked at.
            at = then if then.utcoffset() == at.utcoffset() else _later(at, 1)
    return None


def _later(at: datetime, minutes: int) -> datetime:
    """What clocks show so many minutes later."""
    return datetime.fromtimestamp(at.timestamp() + 60 * minutes, at.tzinfo)


def _read(field: bytes, among: range) -> Sequence[int]:
    """The numbers that a field stands for; none if it makes no sense."""
    if len(field) > _FIELD_BYTES_MAX:
        return ()
    text = field.strip(b" ")
    if text in (b"", b"*"):
        return among
    if not text.isdigit() or len(text) > 2 or int(text) not in among:
        return ()
    return (int(text),)


def _days(
    first: date, days: Sequence[int], months: Sequence[int], weekdays: Sequence[int]
) -> Iterator[date]:
    for ahead in range(_MONTHS_AHEAD):
        years, month = divmod(first.month - 1 + ahead, 12)
        year, month = first.year + years, month + 1
        if month in months:
            for number in days:
                if number <= monthrange(year, month)[1]:
                    day = date(year, month, number)
                    if day >= first and day.weekday() in weekdays:
                        yield day
