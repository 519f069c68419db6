"""What every store must answer of the jobs that it knows, and remember of those that have ended."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from franca.core.history import (
    HOUR_MS,
    MINUTE_MS,
    OTHER,
    BadCursor,
    Past,
    RatesQuery,
    Search,
    Tally,
    bucket_of,
    percentile,
)
from franca.core.model import KEPT_MS, Job, JobQuery, Policy, Shelf, State
from franca.store import live, search, segments
from franca.store import rates as store_rates
from franca.store.memory import MemoryStore
from franca.store.port import Bounds, StoreError
from franca.store.sqlite import SqliteStore
from tests.store.kit import LARGE, StoreFixture, a_job, copy, sqlite_fixture, tailed

KINDS_OF_STORE = ["memory", "sqlite, stopped", "sqlite, killed"]
every_store = pytest.mark.parametrize("s", KINDS_OF_STORE, indirect=True)
NOW = 1_700_000_040_000
"""At the begin of a minute."""
STATES = tuple(State)
ENDED = (State.DONE, State.CANCELLED)


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few jobs are many."""
    monkeypatch.setattr(segments, "SEGMENT_JOBS", 5)
    monkeypatch.setattr(segments, "SEGMENT_PART", 1)
    monkeypatch.setattr(segments, "BOTH_MAX", 3)
    monkeypatch.setattr(segments, "NAMES_MAX", 3)
    monkeypatch.setattr(search, "LOOK_ROWS", 7)
    monkeypatch.setattr(live, "LOOK_ROWS", 7)
    monkeypatch.setattr(search, "CHECKED_ROWS", 3)


@pytest.fixture
def kept() -> Bounds:
    return Bounds(1_000)


def ended_job(job_id: int, ended_at: int, **fields: Any) -> Job:
    given = {"state": State.DONE, "shelf": Shelf.NOWHERE, "ready_at": 1, "started_at": 2}
    return a_job(job_id, ended_at=ended_at, **(given | fields))


def pages(s: StoreFixture, **asked: Any) -> list[int]:
    """The ids of all pages, in order; each page says that it looked at something."""
    found: list[int] = []
    cursor = ""
    for _ in range(2_000):
        page = s.store.search(Search(**asked, cursor=cursor))
        assert len(page.jobs) <= asked.get("limit", 100)
        found += [job.id for job in page.jobs]
        if not page.cursor:
            return found
        assert page.cursor != cursor, "a page that leads to itself"
        cursor = page.cursor
    raise AssertionError("pages without end")


# -- everything at once, against a list -------------------------------------------------------------


def world(rng: Random) -> tuple[list[Job], list[list[Job]]]:
    """Live jobs, and groups of ended ones, in the order in which they ended."""
    live_jobs: list[Job] = []
    ids = list(range(1, 161))
    rng.shuffle(ids)
    for job_id in ids[:80]:
        state = rng.choice((State.WAITING, State.WAITING, State.READY, State.LEASED, State.DEAD))
        shelf = rng.choice((Shelf.HELD, Shelf.BACKLOG))
        shelf = {State.LEASED: Shelf.HELD, State.DEAD: Shelf.BACKLOG}.get(state, shelf)
        run_at = NOW + rng.randrange(20) if state is not State.READY else 0
        job = a_job(job_id, state=state, shelf=shelf, run_at=run_at, **texts(rng))
        job.failures = rng.choice((0, 1))
        if state is State.DEAD and rng.random() < 0.5:
            job.run_at += KEPT_MS
        live_jobs.append(job)
    groups: list[list[Job]] = []
    at, rest = NOW, ids[80:]
    while rest:
        # Clocks may be set back between two servers.
        at += rng.choice((0, 1, 5, -9))
        count = rng.randrange(1, 9)
        state = rng.choice((State.DONE, State.DONE, State.CANCELLED))
        group = [
            ended_job(n, at + i % 2, state=state, **texts(rng)) for i, n in enumerate(rest[:count])
        ]
        groups.append(group)
        rest = rest[count:]
    return live_jobs, groups


def texts(rng: Random) -> dict[str, Any]:
    return {
        "queue": rng.choice(("mail", "mail-2", "other", "ü\0")),
        "kind": rng.choice(("Send", "SendAll", "Drop", "")),
        "name": f"name-{rng.randrange(40)}",
        "body": b"b" * rng.choice((3, 900, LARGE)),
    }


def fits(job: Job, asked: dict[str, Any]) -> bool:
    def named(entries: tuple[str, ...], name: str) -> bool:
        return any(name.startswith(e[:-1]) if e.endswith("*") else e == name for e in entries)

    ended_at = job.ended_at if job.state in ENDED else None
    if job.state is State.DEAD:
        ended_at = job.run_at % KEPT_MS
    retried = bool(job.failures) if job.state is State.WAITING else asked.get("retried")
    return (
        (not asked.get("states") or job.state in asked["states"])
        and (not asked.get("queues") or named(asked["queues"], job.queue))
        and (not asked.get("kinds") or named(asked["kinds"], job.kind))
        and (not asked.get("names") or job.name in asked["names"])
        and (not asked.get("ids") or job.id in asked["ids"])
        and (asked.get("retried") is None or retried is asked["retried"])
        and (not asked.get("since") or (ended_at is not None and ended_at >= asked["since"]))
        and (not asked.get("until") or (ended_at is not None and ended_at < asked["until"]))
        and (not asked.get("fits") or asked["fits"](job))
    )


def in_order(jobs: list[Job], asked: dict[str, Any]) -> list[int]:
    states = set(asked.get("states") or ())
    if states and states <= set(ENDED):
        jobs.sort(key=lambda job: (-job.ended_at, -job.id))
    elif states == {State.WAITING}:
        jobs.sort(key=lambda job: (job.run_at, job.id))
    else:
        jobs.sort(key=lambda job: -job.id)
    return [job.id for job in jobs]


def questions(rng: Random) -> Iterator[dict[str, Any]]:
    for _ in range(60):
        asked: dict[str, Any] = {"limit": rng.choice((1, 4, 100))}
        states = rng.choice(
            ((), ENDED, (State.DONE,), (State.WAITING,), STATES[:3], (State.DEAD, State.DONE))
        )
        said = (
            ("states", states, 0.7),
            ("queues", rng.choice((("mail",), ("mail*", "ü\0"), ("nobody",))), 0.3),
            ("kinds", rng.choice((("Send*",), ("Drop", "Send"), ("*",))), 0.3),
            ("names", tuple(f"name-{rng.randrange(45)}" for _ in range(5)), 0.2),
            ("ids", tuple(rng.sample(range(1, 200), 30)), 0.2),
            ("retried", rng.random() < 0.5, 0.2),
            ("since", NOW + rng.randrange(-10, 30), 0.2),
            ("until", NOW + rng.randrange(-10, 30), 0.2),
            ("fits", lambda job: job.id % 3 == 0, 0.2),
            ("look_max", rng.choice((1, 10)), 0.5),
        )
        asked |= {name: value for name, value, chance in said if rng.random() < chance}
        yield asked


@every_store
@pytest.mark.parametrize("seed", range(6))
def test_pages_put_together_are_all_that_fits_in_order(s: StoreFixture, seed: int) -> None:
    rng = Random(seed)
    live_jobs, groups = world(rng)
    s.write(added=[copy(job) for job in live_jobs])
    for group in groups:
        s.write(ended=group)
        if rng.random() < 0.7:
            s.sweep()
    if seed % 2:
        s.reopen()
    everything = [*live_jobs, *(job for group in groups for job in group)]
    for asked in questions(rng):
        right = in_order([job for job in everything if fits(job, asked)], asked)
        assert pages(s, **asked) == right, asked
    for asked in (
        {"newest_first": True},
        {"queue": "mail"},
        {"names": ("name-3", "name-4")},
        {"ids": (1, 7, 9)},
    ):
        query: dict[str, Any] = {"limit": 1_000, **asked}
        right = [job.id for job in everything if search_fits(job, asked)]
        assert s.find(**query) == sorted(right, reverse="newest_first" in asked)


def search_fits(job: Job, asked: dict[str, Any]) -> bool:
    queue = {"queues": (asked["queue"],)} if "queue" in asked else {}
    return fits(job, {**asked, **queue})


@every_store
def test_a_search_by_state_queue_and_kind_knows_how_many_there_are(s: StoreFixture) -> None:
    for n in range(1, 40):
        state = State.CANCELLED if n % 4 == 0 else State.DONE
        s.write(ended=[ended_job(n, NOW + n, state=state, queue=f"q{n % 2}", kind=f"k{n % 3}")])
        s.sweep()

    def total(**asked: Any) -> int | None:
        return s.store.search(Search(limit=2, **asked)).total

    assert total(states=ENDED) == 39
    assert total(states=(State.CANCELLED,)) == 9
    assert total(states=(State.DONE,), queues=("q1",)) == 20
    assert total(states=ENDED, kinds=("k*",)) == 39
    assert total(states=ENDED, kinds=("k0",), queues=("q0",)) in (6, None)
    assert total(states=ENDED, fits=lambda job: True) is None
    assert total() is None


@every_store
def test_bodies_are_cut_unless_they_are_asked_for(s: StoreFixture) -> None:
    bodies = {1: b"s" * 900, 2: b"l" * LARGE, 3: b"h" * 100_000}
    s.write(added=[tailed(n, body=body) for n, body in bodies.items()])
    s.write(ended=[ended_job(4, NOW, body=b"e" * 900)])

    def found(**asked: Any) -> dict[int, bytes]:
        return {job.id: job.body for job in s.store.search(Search(**asked)).jobs}

    cut = found(body_bytes=10)
    assert {n: cut[n] for n in (1, 2, 4)} == {1: b"s" * 10, 2: b"l" * 10, 4: b"e" * 10}
    assert cut[3] in (b"", b"h" * 10)
    assert found(body_bytes=-1) == bodies | {4: b"e" * 900}
    assert list(found(body_bytes=-1, fits=lambda job: b"hhh" in job.body)) == [3]
    assert [len(job.body) for job in s.ready()] == [900, LARGE, 100_000], "only copies are cut"


@every_store
@pytest.mark.parametrize("cursor", ["x", "e1", "n1.1.1", "t1.1", "n" + "9" * 30 + ".1", "n1.x"])
def test_a_cursor_that_no_answer_has_named_is_refused(s: StoreFixture, cursor: str) -> None:
    with pytest.raises(BadCursor):
        s.store.search(Search(cursor=cursor))


@every_store
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_cursor_beyond_what_a_statement_can_say_is_refused(s: StoreFixture, sign: str) -> None:
    far = f"{sign}{2**63}"
    for letter, states in (("n", (State.READY,)), ("t", (State.WAITING,))):
        for cursor in (f"{letter}{far}.0", f"{letter}0.{far}"):
            with pytest.raises(BadCursor):
                s.store.search(Search(states=states, cursor=cursor))
        for near in (2**63 - 1, 1 - 2**63):
            for cursor in (f"{letter}{near}.0", f"{letter}0.{near}"):
                assert not s.store.search(Search(states=states, cursor=cursor)).cursor
    # Those of the past come between segments.
    assert not s.store.search(Search(states=(State.DONE,), cursor=f"e0.{sign}{2**64}")).jobs


# -- the past -------------------------------------------------------------------------------------


@every_store
def test_the_past_is_counted(s: StoreFixture) -> None:
    assert s.store.past() == Past()
    for n in range(1, 32):
        s.write(ended=[ended_job(n, NOW + n, state=State.CANCELLED if n % 5 == 0 else State.DONE)])
        s.sweep()
        if n % 9 == 0:
            s.reopen()
        past = s.store.past()
        assert (past.done + past.cancelled, past.cancelled) == (n, n // 5)
        assert past.oldest_at == NOW + 1
        assert past.bytes > 0
        assert past.unindexed == 0
    s.write(flushed=True)
    assert s.store.past() == Past()
    s.reopen()
    assert s.store.past() == Past()


def test_what_waits_to_be_indexed_is_told(path: str) -> None:
    s = sqlite_fixture(path, ended=Bounds(1_000))
    for n in range(1, 13):
        s.write(ended=[ended_job(n, NOW + n)])
    past = s.store.past()
    assert (past.unindexed, past.behind_ms) == (10, 7)
    s.sweep()
    assert s.store.past().unindexed == 0
    s.close()


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(
    ("bounds", "left"),
    [(Bounds(20), (20, 30)), (Bounds(1_000, 3_000), (5, 14)), (Bounds(1_000, ms=30_000), (28, 41))],
)
def test_the_history_is_bounded_by_number_bytes_and_age(
    path: str, store: str, bounds: Bounds, left: tuple[int, int]
) -> None:
    s = sqlite_fixture(path, ended=bounds)
    if store == "memory":
        s.close()
        s = StoreFixture(MemoryStore(bounds), lambda same: same)
    for n in range(1, 101):
        job = ended_job(n, NOW + n * 1_000, body=b"b" * 200)
        s.write(ended=[job])
        s.sweep()
    least, most = left
    ids = s.find(limit=1_000, states=ENDED)
    assert ids == list(range(101 - len(ids), 101))
    assert least <= len(ids) <= most
    past = s.store.past()
    assert past.done == len(ids)
    assert past.oldest_at == NOW + ids[0] * 1_000
    s.close()


def test_an_old_rest_is_indexed_though_it_is_small(path: str) -> None:
    s = sqlite_fixture(path, ended=Bounds(1_000))
    s.write(ended=[ended_job(1, NOW)])
    assert not s.store.has_leftovers()
    s.store.note(NOW + HOUR_MS, {}, {})
    s.sweep()
    assert s.sqlite._db.execute("SELECT count(*) FROM segments").fetchone() == (1,)
    s.close()


NOTICED_BY: dict[str, Callable[[SqliteStore], object]] = {
    "ended.jobs": lambda store: store.search(Search()),
    "ended.count": lambda store: store.search(Search(names=("name-3",))),
    "segments.counts": lambda store: store.search(Search(queues=("q",))),
    "segments.max_at": lambda store: store.search(Search(states=ENDED)),
    "segments.ids": lambda store: store.search(Search(ids=(3,))),
    "segments.names": lambda store: store.find(JobQuery(names=("nobody",))),
    "segments.sizes": lambda store: store.find(JobQuery(ids=(4,))),
    "rates.tallies": lambda store: store.rates(RatesQuery(NOW, NOW + HOUR_MS)),
}


@pytest.mark.parametrize("place", NOTICED_BY)
def test_damage_is_noticed(path: str, place: str) -> None:
    s = sqlite_fixture(path, ended=Bounds(1_000))
    for n in range(1, 21):
        s.write(ended=[ended_job(n, NOW + n)])
    s.sweep()
    table, column = place.split(".")
    flipped = f"CAST(substr({column}, 1, 3) || x'07' || substr({column}, 5) AS BLOB)"
    value = f"{column} + 1" if column in ("max_at", "count") else flipped
    NOTICED_BY[place](s.sqlite)
    s.sqlite._db.execute(f"UPDATE {table} SET {column} = {value}")
    with pytest.raises(StoreError, match="damaged"):
        NOTICED_BY[place](s.sqlite)
    s.close()


def test_a_segment_or_a_piece_that_is_missing_is_noticed(path: str) -> None:
    statements = ("segments WHERE id = 10", "segments WHERE id > 10", "ended WHERE id = 23")
    for number, what in enumerate(statements):
        s = sqlite_fixture(f"{path}-{number}", ended=Bounds(1_000))
        for n in range(1, 25):
            s.write(ended=[ended_job(n, NOW + n)])
        s.sweep()
        s.sqlite._db.execute(f"DELETE FROM {what}")
        with pytest.raises(StoreError, match=r"damaged|missing"):
            s.reopen()
    s = sqlite_fixture(f"{path}-inside", ended=Bounds(1_000))
    for n in range(1, 25):
        s.write(ended=[ended_job(n, NOW + n)])
    s.sweep()
    s.sqlite._db.execute("DELETE FROM ended WHERE id = 7")
    for asked in (Search(), Search(ids=(7,)), Search(names=("name-7",))):
        with pytest.raises(StoreError, match="missing"):
            s.store.search(asked)
    s.close()


# -- rates ------------------------------------------------------------------------------------------


def test_the_rates_of_a_segment_are_added_up_in_slices(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_JOBS", 100)
    monkeypatch.setattr(store_rates, "FOLDED_AT_ONCE", 10)
    folded: list[str] = []

    def note(at: int, of: str, name: str, tally: Tally, into: store_rates.Slots) -> None:
        folded.append(name)
        fold_tally(at, of, name, tally, into)

    fold_tally = store_rates.fold_tally
    monkeypatch.setattr(store_rates, "fold_tally", note)
    s = sqlite_fixture(path, ended=Bounds(10_000))

    def write(first: int) -> None:
        jobs = range(first, first + 100)
        s.write(ended=[ended_job(n, NOW + n, queue=f"q{n}", kind=f"k{n}") for n in jobs])

    def slices() -> list[int]:
        """How many tallies each of them added up."""
        sizes: list[int] = []
        while s.sqlite.has_leftovers():
            folded.clear()
            s.store.tidy()
            sizes.append(len(folded))
            assert s.store.rates(a_day("all")).total("").done == total
        return sizes

    total = 100
    write(1)
    for _ in range(25):
        s.store.tidy()
    s.reopen()  # begins anew
    assert max(slices()) <= 10
    assert len(slices()) == 0
    # Nothing waits for long behind another: then more is done at once.
    total = 900
    for first in range(101, 901, 100):
        write(first)
    assert max(slices()) == 201
    assert s.store.rates(a_day("queue", HOUR_MS)).total("q7").done == 1
    # What is flushed meanwhile is not added to what comes after it.
    write(901)
    s.store.tidy()
    total = 100
    s.write(flushed=True)
    write(1_001)
    slices()
    assert s.store.rates(a_day("queue", HOUR_MS)).total("q901").done == 0
    s.close()


def a_day(of: str = "queue", step_ms: int = MINUTE_MS, **more: Any) -> RatesQuery:
    return RatesQuery(NOW, NOW + 24 * HOUR_MS, step_ms, of, **more)


@every_store
def test_rates_are_exact_whatever_happens_to_the_server(s: StoreFixture) -> None:
    right: Counter[tuple[int, str, str]] = Counter()
    rng = Random(5)
    for n in range(1, 60):
        at = NOW + n * 7_000
        queue = rng.choice(("a", "b"))
        minute = (at - NOW) // MINUTE_MS
        s.write(
            ended=[
                ended_job(
                    n, at, queue=queue, state=State.DONE, ready_at=at - 100, started_at=at - 30
                )
            ],
            failed=[(queue, "k", at)] * 2,
            died=[("dead", "k", at)],
        )
        right[minute, queue, "done"] += 1
        right[minute, queue, "failed"] += 2
        right[minute, "dead", "dead"] += 1
        if n % 4 == 0:
            s.sweep()
        if n % 13 == 0:
            s.reopen()
    rates = s.store.rates(a_day())
    found = Counter(
        {
            (minute, name, what): getattr(tally, what)
            for minute, tallies in enumerate(rates.steps)
            for name, tally in (tallies or {}).items()
            for what in ("done", "failed", "dead", "cancelled")
            if getattr(tally, what)
        }
    )
    assert found == right
    assert len(rates.steps) == len(rates.at) == 24 * 60
    assert rates.steps[8] is None, "a minute of which nothing is known"
    assert rates.names() == ["a", "b", "dead"]
    hour = s.store.rates(a_day("all", HOUR_MS)).total("")
    assert (hour.done, hour.failed, hour.dead) == (59, 118, 59)
    assert hour.waits == {bucket_of(70): 59}
    assert hour.runs == {bucket_of(30): 59}
    kinds = s.store.rates(a_day("kind", names=("k",)))
    assert kinds.total("k").done == 59


@every_store
def test_what_is_noted_is_counted_with_the_rest(s: StoreFixture) -> None:
    s.write(ended=[ended_job(1, NOW + 5, queue="a")])
    s.store.note(
        NOW + 10, {"a": Tally(pushed=3, depth=7), "b": Tally(depth=2)}, {"k": Tally(pushed=3)}
    )
    s.store.note(NOW + MINUTE_MS, {"a": Tally(pushed=1, depth=4)}, {})
    s.store.note(NOW + 2 * MINUTE_MS, {}, {})
    for _ in range(2):
        first, second, third, fourth, *_ = s.store.rates(a_day()).steps
        assert first is not None
        assert second is not None
        assert (first["a"].done, first["a"].pushed, first["a"].depth, first["b"].depth) == (
            1,
            3,
            7,
            2,
        )
        assert (second["a"].pushed, second["a"].depth) == (1, 4)
        assert (third, fourth) == ({}, None), "nothing happened, and nothing is known"
        everything = s.store.rates(a_day("all")).steps[0]
        assert everything is not None
        assert (everything[""].pushed, everything[""].depth) == (3, 9)
        assert s.store.rates(a_day("queue", HOUR_MS)).total("a").depth == 4
        s.sweep()
        s.reopen()


@every_store
def test_rates_of_too_many_names_are_told_together(s: StoreFixture) -> None:
    for start in range(0, 1_200, 200):
        jobs = [ended_job(n, NOW, queue=f"q{n}") for n in range(start + 1, start + 201)]
        s.write(ended=jobs)
    s.sweep()
    rates = s.store.rates(a_day())
    assert len(rates.names()) <= 1_001
    assert rates.names()[-1] == OTHER
    assert sum(rates.total(name).done for name in rates.names()) == 1_200


@every_store
def test_old_rates_go(s: StoreFixture) -> None:
    for day in range(0, 40, 2):
        s.write(ended=[ended_job(day + 1, NOW + day * 24 * HOUR_MS)])
        s.sweep()
    month = s.store.rates(RatesQuery(NOW, NOW + 41 * 24 * HOUR_MS, 24 * HOUR_MS, "all"))
    known = [number for number, step in enumerate(month.steps) if step]
    assert known == list(range(8, 40, 2))
    minutes = s.store.rates(RatesQuery(NOW, NOW + 41 * 24 * HOUR_MS, MINUTE_MS, "all"))
    assert [
        at for at, step in zip(minutes.at, minutes.steps, strict=False) if step is not None
    ] == []
    last = NOW + 38 * 24 * HOUR_MS
    assert s.store.rates(RatesQuery(last, last + 1, MINUTE_MS, "all")).total("").done == 1


def test_a_percentile_is_near_what_it_stands_for() -> None:
    rng = Random(1)
    spans = sorted(int(rng.lognormvariate(6, 2)) for _ in range(10_000))
    buckets = Counter(map(bucket_of, spans))
    for part in (0.5, 0.95, 0.99):
        told = percentile(buckets, part)
        assert told is not None
        assert 0.8 < told / spans[int(part * len(spans))] < 1.25
    assert percentile({}, 0.5) is None
    assert percentile({0: 9}, 0.5) == 0
    assert percentile({1: 9}, 0.99) == 1


# -- kills ------------------------------------------------------------------------------------------


def interrupter(store: SqliteStore, last: int) -> Callable[[str], None]:
    """Ends the statement with this number."""
    numbers = itertools.count(1)

    def interrupt(_: str) -> None:
        if next(numbers) == last:
            store._db.interrupt()

    return interrupt


def test_a_kill_within_a_step_of_the_index_neither_loses_nor_doubles(path: str) -> None:
    """Each statement of all steps is the last one, once."""
    for last in range(1, 40):
        s = sqlite_fixture(f"{path}-{last}", ended=Bounds(10))
        for n in range(1, 31):
            s.write(ended=[ended_job(n, NOW + n)], failed=[("q", "k", NOW)])
        s.sqlite._db.set_trace_callback(interrupter(s.sqlite, last))
        with suppress(StoreError):
            s.sweep()
        s.sqlite._db.set_trace_callback(None)
        s.reopen()
        total = s.store.rates(a_day("all")).total("")
        assert (total.done, total.failed) == (30, 30)
        s.sweep()
        assert s.store.rates(a_day("all")).total("").done == 30
        ids = s.find(limit=99)
        assert ids == list(range(31 - len(ids), 31))
        assert s.store.past().done == len(ids)
        s.close()


def test_a_flush_leaves_nothing_of_the_history(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.store.group.FLUSHED_ROWS", 3)
    s = sqlite_fixture(path, ended=Bounds(1_000))
    for n in range(1, 31):
        s.write(ended=[ended_job(n, NOW + n)])
    s.sweep()
    s.store.note(NOW, {"q": Tally(pushed=1)}, {})
    s.write(flushed=True, ended=[ended_job(99, NOW + 99)])
    for _ in range(2):
        assert pages(s, states=ENDED) == [99]
        assert s.store.past().done == 1
        assert s.store.rates(a_day("all")).total("").done == 1
        s.sweep()
        s.reopen()
    s.close()


def test_a_store_of_before_has_its_history_indexed(path: str) -> None:
    """Pieces of the first release have fewer fields, and no segment behind them."""
    import msgspec

    from franca.store.ended import encode
    from franca.store.rows import seal

    s = sqlite_fixture(path, ended=Bounds(1_000))
    for piece in range(1, 6):
        jobs = [ended_job(10 * piece + n, NOW + piece) for n in range(3)]
        older = msgspec.msgpack.encode([job[:19] for job in msgspec.msgpack.decode(encode(jobs))])
        row = (piece, 3, older)
        s.sqlite._db.execute("INSERT INTO ended VALUES (?, ?, ?, ?)", (*row, seal(row)))
    s.reopen()
    assert s.store.past().done == 15
    s.sweep()
    assert s.sqlite._db.execute("SELECT count(*) FROM segments").fetchone() > (1,)
    [job] = s.store.search(Search(ids=(32,))).jobs
    assert (job.id, job.name, job.policy) == (32, "name-32", Policy())
    s.close()


def test_a_store_that_opened_twice_finds_the_same(path: str) -> None:
    store = SqliteStore(path, ended=Bounds(1_000))
    store.open()
    assert store.find(JobQuery()) == []
    store.close()
