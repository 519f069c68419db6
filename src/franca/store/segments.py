"""The history of ended jobs in segments: what a search must know to leave most of it unread.

Pieces (`store/ended.py`) are written with their groups. Behind them some thousand jobs at a time
become a segment: the range of their ids and moments, how many there are of each queue, kind and
state, their ids, and checksums of their names. What is behind the last segment is in memory in the
same form, and is made anew from the pieces at the start.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple, Self
from zlib import crc32

import msgspec
from msgspec.structs import astuple

from franca.core.history import MINUTE_MS, Past, Tally
from franca.core.model import NEVER, Millis, State
from franca.store.ended import DIED, FAILED, Ended, Note, read_notes, read_piece
from franca.store.port import Bounds
from franca.store.rates import Happened
from franca.store.rows import Row, seal

SEGMENT_JOBS = 8_192
SEGMENT_BYTES = 4 * 1024 * 1024
SEGMENT_MS: Millis = 15 * MINUTE_MS
"""A segment ends with the piece that makes it have so many jobs or bytes, or be so old."""
SEGMENT_PART = 10
"""Of a history that is to be short it has no more than a tenth: it goes as a whole."""
NAMES_MAX = 2_000
BOTH_MAX = 250
"""A segment of more queues, or kinds, does not say which, nor one of more combinations of both."""
COUNTED_AT_ONCE = 512
COUNTED_BYTES = 256 * 1024
"""So many ended jobs, or pieces of so many bytes, are counted at once."""
CANCELLED = int(State.CANCELLED)
ID, QUEUE, KIND, NAME, STATE, READY_AT, STARTED_AT, ENDED_AT = (
    Ended.__struct_fields__.index(name)
    for name in ("id", "queue", "kind", "name", "state", "ready_at", "started_at", "ended_at")
)
"""Where a piece has them."""

_encode = msgspec.msgpack.Encoder().encode


class Counts(msgspec.Struct, array_like=True, gc=False):
    """How many jobs are done and cancelled, by queue, by kind, and by both; None if unknown."""

    queues: dict[str, tuple[int, int]] | None
    kinds: dict[str, tuple[int, int]] | None
    both: list[tuple[str, str, int, int]] | None


_decode_counts = msgspec.msgpack.Decoder(Counts).decode


class Segment(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """What is known of a segment without its keys. `id` is that of its last piece."""

    id: int
    first_piece: int
    jobs: int
    cancelled: int
    size: int
    min_id: int
    max_id: int
    min_at: Millis
    max_at: Millis
    counts: bytes

    def counted(self) -> Counts:
        """How many jobs there are of what."""
        return _decode_counts(self.counts)


SEGMENT_COLUMNS = ", ".join((*Segment.__struct_fields__, "crc"))


def read_segment(row: Row) -> Segment:
    """The segment of a row of SEGMENT_COLUMNS. ValueError if it is damaged."""
    *values, crc = row
    if seal(values) != crc:
        raise ValueError("the index of ended jobs is damaged")
    return Segment(*values)


class Keys(NamedTuple):
    """The ids of a segment's jobs, the checksums of their names, and the sizes of its pieces."""

    sizes: array[int]
    ids: array[int]
    names: array[int]

    def pieces_of(self, places: Sequence[int]) -> set[int]:
        """Which of the pieces have the jobs at these places."""
        found: set[int] = set()
        rest = iter(sorted(places))
        place, end = next(rest, None), 0
        for number, size in enumerate(self.sizes):
            end += size
            while place is not None and place < end:
                found.add(number)
                place = next(rest, None)
        return found


KEY_COLUMNS = "sizes, ids, names, keys_crc"


def read_keys(segment: Segment, row: Row) -> Keys:
    """The keys of a segment, of a row of KEY_COLUMNS. ValueError if they are damaged."""
    *columns, crc = row
    if seal((segment.id, *columns)) != crc:
        raise ValueError("the index of ended jobs is damaged")
    keys = Keys(array("I"), array("q"), array("I"))
    for values, column in zip(keys, columns, strict=True):
        values.frombytes(column)
    return keys


def name_sum(name: str) -> int:
    """What a segment knows of a name."""
    return crc32(name.encode())


class Growing:
    """The pieces behind the last segment, or those of a segment that is not written yet.

    A commit only notes what has ended: it is counted many at a time, or when somebody wants to know
    (`counted`).
    """

    def __init__(self, first_piece: int) -> None:
        self.first_piece = first_piece
        self.sizes, self.ids, self.names = array("I"), array("q"), array("I")
        self.happened: Counter[Happened] = Counter()
        self.jobs = self.bytes = self.cancelled = self.notes = 0
        self.min_at: Millis = 1 << 62
        self.max_at = self.last_at = NEVER
        self._lock = Lock()
        self._new: list[Row] = []
        self._new_bytes = 0

    def add(self, ended: Sequence[Row], size: int) -> None:
        """One more piece, of jobs as the piece has them (`ended.rows_of`)."""
        self.jobs += len(ended)
        first, last = ended[0][ENDED_AT], ended[-1][ENDED_AT]
        self._add_piece(len(ended), size, first, last)
        with self._lock:
            self._new.extend(ended)
        self._new_bytes += size
        if len(self._new) >= COUNTED_AT_ONCE or self._new_bytes >= COUNTED_BYTES:
            self._new_bytes = 0
            self.counted()

    def counted(self) -> Self:
        """This, with all that was added to it counted. May be called on another thread."""
        with self._lock:
            if self._new:
                self._count(self._new)
                self._new.clear()
        return self

    def _count(self, ended: Sequence[Row]) -> None:
        happened, count_of = self.happened, self.happened.get
        low, high = self.min_at, self.max_at
        for row in ended:
            ended_at, started_at, state = row[ENDED_AT], row[STARTED_AT], row[STATE]
            if ended_at < low:
                low = ended_at
            if ended_at > high:
                high = ended_at
            if state == CANCELLED:
                self.cancelled += 1
            # How long it waited and ran, as by `bucket_of`, without a call.
            waited, ran = started_at - row[READY_AT], ended_at - started_at
            waited, ran = (waited * waited).bit_length(), (ran * ran).bit_length()
            key = ended_at // MINUTE_MS, row[QUEUE], row[KIND], state, waited, ran
            happened[key] = count_of(key, 0) + 1
        self.min_at, self.max_at = low, high
        self.ids.extend([row[ID] for row in ended])
        self.names.extend([crc32(row[NAME].encode()) for row in ended])

    def add_notes(self, notes: Sequence[Note], size: int) -> None:
        """A piece that has no jobs."""
        with self._lock:
            for minute, queue, kind, what, count in notes:
                self.happened[minute, queue, kind, what, 0, 0] += count
        self.notes += len(notes)
        minutes = [minute for minute, *_ in notes]
        self._add_piece(0, size, min(minutes) * MINUTE_MS, max(minutes) * MINUTE_MS)

    def _add_piece(self, jobs: int, size: int, first_at: Millis, last_at: Millis) -> None:
        self.sizes.append(jobs)
        self.bytes += size
        self.min_at = min(self.min_at, first_at)
        self.max_at = max(self.max_at, last_at)
        self.last_at = last_at

    def segment(self) -> Segment:
        """What is to be written of it."""
        self.counted()
        return Segment(
            self.first_piece + len(self.sizes) - 1,
            self.first_piece,
            self.jobs,
            self.cancelled,
            self.bytes,
            min(self.ids, default=0),
            max(self.ids, default=-1),
            self.min_at,
            self.max_at,
            _encode(self._counts()),
        )

    def _counts(self) -> Counts:
        done: Counter[tuple[str, str]] = Counter()
        cancelled: Counter[tuple[str, str]] = Counter()
        for (_, queue, kind, state, _, _), count in self.happened.items():
            if state not in (FAILED, DIED):
                (cancelled if state == CANCELLED else done)[queue, kind] += count
        queues: dict[str, tuple[int, int]] = {}
        kinds: dict[str, tuple[int, int]] = {}
        both = [(*key, done[key], cancelled[key]) for key in done.keys() | cancelled.keys()]
        for queue, kind, number, other in both:
            for names, name in ((queues, queue), (kinds, kind)):
                before = names.get(name, (0, 0))
                names[name] = (before[0] + number, before[1] + other)
        return Counts(
            queues if len(queues) <= NAMES_MAX else None,
            kinds if len(kinds) <= NAMES_MAX else None,
            both if len(both) <= BOTH_MAX else None,
        )

    def keys_row(self, segment: Segment) -> Row:
        """The values of KEY_COLUMNS."""
        columns = (self.sizes.tobytes(), self.ids.tobytes(), self.names.tobytes())
        return (*columns, seal((segment.id, *columns)))


class Noted(NamedTuple):
    """What whoever runs the store has noted of queues and kinds at a moment."""

    at: Millis
    of: dict[str, dict[str, Tally]]


class History:
    """The books of all pieces: which segments there are, and what is still to be made one.

    All but the last of `growing` are to be written as segments. Another thread may read that list
    and `noted` while it holds `lock`; whoever writes them into the store holds it until the store
    has them and these do not. `cancelled` counts those of segments alone. `latest` is the last
    moment that was heard of: a clock that is set back is believed.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.lock = Lock()
        self.segments: deque[Segment] = deque()
        self.noted: deque[Noted] = deque()
        self.last_piece = 0
        self.latest: Millis = NEVER
        self.jobs = self.cancelled = self.bytes = 0
        self.growing = [Growing(1)]
        self._oldest_at: Millis = NEVER
        self._segment_jobs = min(SEGMENT_JOBS, max(1, bounds.jobs // SEGMENT_PART))
        self._segment_bytes = min(SEGMENT_BYTES, max(1, bounds.bytes // SEGMENT_PART))
        self._segment_ms = min(SEGMENT_MS, max(1, bounds.ms // SEGMENT_PART))

    def add(self, piece: bytes, ended: Sequence[Row]) -> None:
        """The next piece has been written, or will be."""
        last = self.growing[-1]
        last.add(ended, len(piece))
        self.jobs += len(ended)
        self._added(last, len(piece))

    def add_notes(self, piece: bytes, notes: Sequence[Note]) -> None:
        """The next piece has been written, or will be, and has no jobs."""
        last = self.growing[-1]
        last.add_notes(notes, len(piece))
        self._added(last, len(piece))

    def _added(self, last: Growing, size: int) -> None:
        self.last_piece += 1
        self.bytes += size
        self.latest = last.last_at
        is_full = last.jobs >= self._segment_jobs or last.bytes >= self._segment_bytes
        if is_full or last.notes >= SEGMENT_JOBS:
            self.growing.append(Growing(self.last_piece + 1))

    def learn_segment(self, segment: Segment) -> None:
        """Know of a segment that was written before. ValueError if one is missing before it."""
        if self.segments and segment.first_piece != self.last_piece + 1:
            raise ValueError("a part of the history of ended jobs is missing")
        self.segments.append(segment)
        self._oldest_at = self.segments[0].min_at
        self._count(segment, 1)
        self.last_piece = segment.id
        self.latest = segment.max_at
        self.growing = [Growing(segment.id + 1)]

    def learn_piece(self, row: Row) -> None:
        """Know of a row of `ended` behind the last segment. ValueError if it is damaged."""
        jobs = read_piece(row)
        if not self.last_piece:
            self.last_piece = row[0] - 1
            self.growing = [Growing(row[0])]
        if row[0] != self.last_piece + 1:
            raise ValueError("a part of the history of ended jobs is missing")
        if jobs:
            self.add(row[2], [astuple(job) for job in jobs])
        else:
            self.add_notes(row[2], read_notes(row))

    def note(self, at: Millis, queues: dict[str, Tally], kinds: dict[str, Tally]) -> None:
        """Have these tallies of a minute written with the next segment, or before."""
        self.latest = at
        self.noted.append(Noted(at, {"queue": queues, "kind": kinds}))

    def has_work(self) -> bool:
        """Whether there is anything to be written, or dropped."""
        return len(self.growing) > 1 or bool(self.noted) or self._is_old() or self.has_surplus()

    def end_old(self) -> None:
        """What is old enough is to be written, though it is small."""
        if self._is_old():
            self.growing.append(Growing(self.last_piece + 1))

    def _is_old(self) -> bool:
        last = self.growing[-1]
        return len(last.sizes) > 0 and last.min_at < self.latest - self._segment_ms

    def written(self, segment: Segment) -> None:
        """The first of `growing` is a segment now."""
        self.segments.append(segment)
        self.cancelled += segment.cancelled
        self._oldest_at = self.segments[0].min_at
        del self.growing[0]

    def has_surplus(self) -> bool:
        """Whether the oldest segment is more than is to be kept."""
        if not self.segments:
            return False
        oldest, bounds = self.segments[0], self.bounds
        return (
            self.jobs - oldest.jobs >= bounds.jobs
            or self.bytes > bounds.bytes
            or oldest.max_at < self.latest - bounds.ms
        )

    def dropped(self) -> None:
        """The oldest segment is gone."""
        self._count(self.segments.popleft(), -1)
        self._oldest_at = self.segments[0].min_at if self.segments else NEVER

    def _count(self, segment: Segment, times: int) -> None:
        self.jobs += times * segment.jobs
        self.cancelled += times * segment.cancelled
        self.bytes += times * segment.size

    def flushed(self) -> None:
        """All of it is gone."""
        self.segments.clear()
        self._oldest_at = NEVER
        self.noted.clear()
        self.growing = [Growing(self.last_piece + 1)]
        self.jobs = self.cancelled = self.bytes = 0

    def past(self) -> Past:
        """What is kept. Those that wait to be written as segments are not indexed."""
        waiting = self.growing[:-1]
        oldest = self._oldest_at or self.growing[0].min_at
        behind = max(0, self.latest - waiting[0].max_at) if waiting else 0
        cancelled = self.cancelled + sum(part.counted().cancelled for part in self.growing)
        return Past(
            self.jobs - cancelled,
            cancelled,
            self.bytes,
            oldest if self.jobs else NEVER,
            sum(growing.jobs for growing in waiting),
            behind,
        )
