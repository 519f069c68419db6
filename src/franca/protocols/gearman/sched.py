"""When a SUBMIT_JOB_SCHED is to run: once, at the next minute that all five fields name."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from franca.core.model import Millis

_RANGES: Final = (range(60), range(24), range(1, 32), range(1, 13), range(7))
_LEAP_YEAR: Final = 2024
_MONTHS_AHEAD: Final = 41 * 12
"""A 29th of February on a given weekday may be forty years away, and no other date further."""
_CLOCKS_GO_BACK_H: Final = 3
_FIELD_BYTES_MAX: Final = 64
"""Two digits and some spaces: a longer field makes no sense, and is not looked at."""
_DAY_S: Final = 24 * 3600


def next_match(fields: Sequence[bytes], zone: tzinfo, after: Millis) -> Millis | None:
    """The first minute that begins later than `after` and matches minute, hour, day of the month,
    month and day of the week (0 is Monday) on the clocks of `zone`.

    `*` and an empty field match everything. None if a field is no number of its range, or if no
    day ever matches.
    """
    chosen = [_read(field, among) for field, among in zip(fields, _RANGES, strict=True)]
    if not all(chosen):
        return None
    minutes, hours, days, months, weekdays = chosen
    if not any(min(days) <= monthrange(_LEAP_YEAR, month)[1] for month in months):
        return None
    start = datetime.fromtimestamp(after / 1000, UTC).astimezone(zone)
    for day in _days(start.date(), days, months, weekdays):
        goes_back = _clocks_go_back(day, zone)
        soonest = (0, 0)
        if day == start.date():
            # What clocks have shown today they show again only if they go back.
            soonest = (
                (start.hour - _CLOCKS_GO_BACK_H, 0) if goes_back else (start.hour, start.minute)
            )
        # Those of each fold are in order; most days have no second one.
        firsts = [
            next(
                (
                    m
                    for m in _moments(day, _times(hours, minutes, soonest), zone, fold)
                    if m > after
                ),
                None,
            )
            for fold in ((0, 1) if goes_back else (0,))
        ]
        later = [moment for moment in firsts if moment is not None]
        if later:
            return min(later)
    return None


def _clocks_go_back(day: date, zone: tzinfo) -> bool:
    begins = datetime(day.year, day.month, day.day, tzinfo=zone)
    ends = (begins + timedelta(days=1)).replace(fold=1)
    return ends.timestamp() - begins.timestamp() > _DAY_S


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


def _times(
    hours: Sequence[int], minutes: Sequence[int], soonest: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    for hour in hours:
        if hour >= soonest[0]:
            for minute in minutes:
                if (hour, minute) >= soonest:
                    yield hour, minute


def _moments(
    day: date, shown: Iterable[tuple[int, int]], zone: tzinfo, fold: int
) -> Iterator[Millis]:
    """Every moment of the day at which the clocks show one of these times, in order.

    A time that clocks leave out when they go forward is no moment; one that they show twice is
    one of each fold.
    """
    for hour, minute in shown:
        at = datetime(day.year, day.month, day.day, hour, minute, fold=fold, tzinfo=zone)
        moment = at.timestamp()
        again = datetime.fromtimestamp(moment, zone)
        if (again.hour, again.minute, again.fold) == (hour, minute, fold):
            yield int(moment) * 1000
