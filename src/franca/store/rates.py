"""Rates: what happened to the jobs of each queue and kind, a row a minute, one an hour."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from franca.core.history import (
    BUCKETS_MAX,
    HOUR_MS,
    MINUTE_MS,
    OTHER,
    RATE_NAMES,
    Rates,
    RatesQuery,
    Tallies,
    Tally,
)
from franca.core.model import Millis, State
from franca.store.ended import FAILED
from franca.store.rows import Row, seal

Happened = tuple[int, str, str, int, int, int]
"""A minute, a queue and a kind, how a job ended, and the buckets of its wait and of its run."""
OF = ("all", "queue", "kind")
STEPS: dict[Millis, Millis] = {
    MINUTE_MS: 24 * HOUR_MS,
    5 * MINUTE_MS: 24 * HOUR_MS,
    HOUR_MS: 31 * 24 * HOUR_MS,
}
"""The time that a row is about, and for how long it is kept. A chart of a day would otherwise be
made of more than a thousand rows."""
FOLDED_AT_ONCE = 1_000
"""Entries of what happened, or tallies of it, that are added up in one slice."""
READ_STEPS_MAX = 50_000
"""Steps of one answer."""
_SHIFT = 40
"""The bits of a row's key that are about its time; those above say which step it has."""
_DONE, _CANCELLED = int(State.DONE), int(State.CANCELLED)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Tallies).decode
_decode_names = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_decode_tally = msgspec.msgpack.Decoder(Tally).decode


class Slot(NamedTuple):
    """What a row is about: a minute or an hour (`step_ms`), and of what."""

    step_ms: Millis
    at: Millis
    of: str

    @property
    def id(self) -> int:
        """The key of its row: those of minutes come first, in order of their time."""
        return _first_id(self.step_ms, self.at) + OF.index(self.of)

    def is_old(self, latest: Millis) -> bool:
        """Whether it is not kept any more."""
        return self.at < latest - STEPS[self.step_ms]


Slots = dict[Slot, Tallies]


def fold(happened: Mapping[Happened, int], into: Slots) -> None:
    """Add what happened to jobs to minutes, hours, and what is in between."""
    for _ in folding(happened, into):
        pass


def folding(happened: Mapping[Happened, int], into: Slots) -> Iterator[None]:
    """The same in slices of some milliseconds; nothing is whole before the last one is done."""
    tallies: dict[tuple[int, str, str], Tally] = {}
    for number, entry in enumerate(happened.items(), 1):
        (minute, queue, kind, how, wait, ran), count = entry
        for key in (minute, "all", ""), (minute, "queue", queue), (minute, "kind", kind):
            tally = tallies.get(key)
            if tally is None:
                tally = tallies[key] = Tally()
            if how == _DONE:
                tally.done += count
                tally.waits[wait] = tally.waits.get(wait, 0) + count
                tally.runs[ran] = tally.runs.get(ran, 0) + count
            elif how == _CANCELLED:
                tally.cancelled += count
            elif how == FAILED:
                tally.failed += count
            else:
                tally.dead += count
        if number % FOLDED_AT_ONCE == 0:
            yield
    for number, ((minute, of, name), tally) in enumerate(tallies.items(), 1):
        for buckets in tally.waits, tally.runs:
            for unknown in [bucket for bucket in buckets if bucket > BUCKETS_MAX]:
                del buckets[unknown]
        fold_tally(minute * MINUTE_MS, of, name, tally, into)
        if number % FOLDED_AT_ONCE == 0:
            yield


def fold_noted(at: Millis, of: Mapping[str, Mapping[str, Tally]], into: Slots) -> None:
    """Add what was noted at a moment. That of all queues together is that of all jobs."""
    for what, tallies in of.items():
        for name, tally in tallies.items():
            fold_tally(at, what, name, tally, into)
    queues = of.get("queue", {}).values()
    everything = Tally()
    for tally in queues:
        everything.add(tally)
    everything.depth = sum(max(0, tally.depth) for tally in queues)
    fold_tally(at, "all", "", everything, into)


def fold_tally(at: Millis, of: str, name: str, tally: Tally, into: Slots) -> None:
    """Add a tally to its minute, its hour, and what is in between."""
    for step in STEPS:
        slot = Slot(step, at - at % step, of)
        add_to(into.setdefault(slot, {}), name, tally)


def add_to(tallies: Tallies, name: str, tally: Tally) -> None:
    """Count a tally among those of a row, under `OTHER` if it has names enough."""
    mine = tallies.get(name)
    if mine is None:
        if len(tallies) >= RATE_NAMES:
            name = OTHER
        mine = tallies.setdefault(name, Tally())
    mine.add(tally)


# -- rows --------------------------------------------------------------------------------------


def write(db: sqlite3.Connection, slots: Slots, latest: Millis) -> int:
    """Add to what the rows say, and make those that are missing; returns how many bytes these are.

    What is too old to be kept is left out.
    """
    size = 0
    for slot, tallies in slots.items():
        if slot.is_old(latest):
            continue
        row = db.execute("SELECT * FROM rates WHERE id = ?", (slot.id,)).fetchone()
        merged = {} if row is None else read_row(row)
        for name, tally in tallies.items():
            add_to(merged, name, tally)
        values = (slot.id, _encode(merged))
        db.execute("INSERT OR REPLACE INTO rates VALUES (?, ?, ?)", (*values, seal(values)))
        size += len(values[1])
    return size


def trim(db: sqlite3.Connection, latest: Millis, rows: int) -> None:
    """Delete some of the rows that are too old to be kept."""
    for step, kept in STEPS.items():
        first, last = _first_id(step, 0), _first_id(step, max(0, latest - kept))
        these = "SELECT id FROM rates WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
        db.execute(f"DELETE FROM rates WHERE id IN ({these})", (first, last, rows))


def read(db: sqlite3.Connection, query: RatesQuery) -> Iterator[tuple[Slot, Tallies]]:
    """What the rows say of some time. ValueError if one of them is damaged.

    There is one of all for each step of which anything is known.
    """
    step = step_read(query)
    ends = _first_id(step, query.since), _first_id(step, query.until + step - 1)
    offset = OF.index(query.of)
    for row in db.execute("SELECT * FROM rates WHERE id >= ? AND id < ? ORDER BY id", ends):
        of = row[0] % 4
        if of in (0, offset):
            at = row[0] % (1 << _SHIFT) // 4 * MINUTE_MS
            yield Slot(step, at, OF[of]), read_row(row, query.names) if of == offset else {}


def read_row(row: Row, names: Sequence[str] = ()) -> Tallies:
    """The tallies of a row, or of these names only. ValueError if it is damaged."""
    *values, crc = row
    if seal(values) != crc:
        raise ValueError("the rates are damaged")
    if not names:
        return _decode(values[1])
    there = _decode_names(values[1])
    return {name: _decode_tally(there[name]) for name in names if name in there}


def _first_id(step: Millis, at: Millis) -> int:
    minute = at // step * (step // MINUTE_MS)
    return (list(STEPS).index(step) << _SHIFT) + minute * 4


# -- answers -----------------------------------------------------------------------------------


def step_read(query: RatesQuery) -> Millis:
    """The longest rows that answer it."""
    return max(step for step in STEPS if query.step_ms % step == 0 or step == MINUTE_MS)


def answer(query: RatesQuery, found: Iterable[tuple[Slot, Tallies]]) -> Rates:
    """What was found, step by step. Of more names than may be, those with the most are told."""
    step = max(MINUTE_MS, query.step_ms - query.step_ms % MINUTE_MS)
    first, read = query.since - query.since % step, step_read(query)
    count = min(READ_STEPS_MAX, max(0, -(-(query.until - first) // step)))
    steps: list[Tallies | None] = [None] * count
    wanted = frozenset(query.names)
    for slot, tallies in found:
        place = (slot.at - first) // step
        if slot.step_ms != read or slot.of not in ("all", query.of) or not 0 <= place < count:
            continue
        into = steps[place]
        if into is None:
            into = steps[place] = {}
        for name, tally in tallies.items() if slot.of == query.of else ():
            if not wanted or name in wanted:
                into.setdefault(name, Tally()).add(tally)
    _bound_names(steps)
    return Rates(step, [first + number * step for number in range(count)], steps)


def _bound_names(steps: list[Tallies | None]) -> None:
    totals: dict[str, int] = {}
    for tallies in filter(None, steps):
        for name, tally in tallies.items():
            totals[name] = totals.get(name, 0) + tally.done + tally.failed + tally.pushed
    if len(totals) <= RATE_NAMES:
        return
    totals.pop(OTHER, None)
    told = set(sorted(totals, key=lambda name: totals[name], reverse=True)[: RATE_NAMES - 1])
    for tallies in filter(None, steps):
        for name in [name for name in tallies if name not in told and name != OTHER]:
            tallies.setdefault(OTHER, Tally()).add(tallies.pop(name))
