"""What every store must do, whatever it is made of."""

import pytest

from franca.core.changes import QueueSetting, Totals
from franca.core.model import (
    FIXED_FIELDS,
    KEPT_MS,
    BacklogCount,
    Job,
    JobQuery,
    NewJob,
    OnConflict,
    Policy,
    Schedule,
    Shelf,
    State,
)
from franca.core.stubs import Stub
from franca.core.wants import Recall, SupplyReady, SupplyWaiting
from franca.store.ended import Ended
from tests.store.kit import (
    BEGIN,
    BIG,
    LARGE,
    Nobody,
    StoreFixture,
    a_job,
    all_fields,
    copy,
    fields_of,
    light_fields,
    odd_jobs,
    tailed,
)

pytestmark = pytest.mark.parametrize(
    "s", ["memory", "sqlite, stopped", "sqlite, killed"], indirect=True
)

# -- jobs on the shelf of those held ------------------------------------------------------


def test_a_new_store_holds_nothing(s: StoreFixture) -> None:
    snapshot = s.snapshot
    assert (snapshot.held, snapshot.backlog, snapshot.queues, snapshot.schedules) == (
        [],
        [],
        [],
        [],
    )
    assert (snapshot.first_waiting, snapshot.known, snapshot.totals) == (None, [], Totals())


def test_held_jobs_are_found_again_with_every_field(s: StoreFixture) -> None:
    jobs = odd_jobs()
    s.write(added=jobs)
    assert s.held() == light_fields(jobs)


def test_an_update_is_what_is_found_again(s: StoreFixture) -> None:
    first, second = a_job(1, body=b"b" * LARGE), a_job(2)
    s.write(added=[first, second])
    now = copy(first, state=State.LEASED, holder="w", attempts=1, until=50, bound=True)
    s.write(updated=[now])
    assert s.held() == light_fields([now, second])


def test_a_job_may_change_many_times_in_many_groups(s: StoreFixture) -> None:
    job = a_job(1)
    s.write(added=[job])
    for attempt in range(1, 6):
        job = copy(job, attempts=attempt, place=attempt, holder=f"w{attempt}")
        s.write(updated=[job])
    assert s.held() == all_fields([job])


def test_held_jobs_that_are_gone_are_not_found_again(s: StoreFixture) -> None:
    jobs = [a_job(n, body=b"b" * (LARGE * (n % 2))) for n in range(1, 7)]
    s.write(added=jobs)
    s.write(gone_from_memory=[copy(job, shelf=Shelf.NOWHERE) for job in jobs[:4]])
    assert s.held() == all_fields(jobs[4:])


# -- jobs in the tail -----------------------------------------------------------------------


def test_jobs_of_the_tail_are_supplied_with_every_field(s: StoreFixture) -> None:
    jobs = [copy(job, shelf=Shelf.BACKLOG, state=State.READY) for job in odd_jobs()]
    s.write(added=jobs)
    s.reopen()
    found = [job for queue in {job.queue for job in jobs} for job in s.ready(queue)]
    assert all_fields(found) == all_fields(jobs)


def test_a_supply_goes_by_priority_and_place_from_behind_its_mark(s: StoreFixture) -> None:
    order = [(-5, 9), (-5, 11), (0, 2), (0, 3), (0, 10), (7, 1)]
    jobs = [tailed(n, priority=p, place=at) for n, (p, at) in enumerate(sorted(order, key=hash), 1)]
    s.write(added=[*jobs, tailed(99, queue="other", place=4)])

    def supplied(mark: tuple[int, int], limit: int) -> list[tuple[int, int]]:
        [found] = s.write(SupplyReady("q", mark, limit))
        return [(job.priority, job.place) for job in found]

    assert supplied(BEGIN, 100) == order
    assert supplied((-5, 11), 3) == order[2:5]
    assert supplied((0, 9), 1) == order[4:5]
    assert supplied((7, 1), 5) == []


@pytest.mark.parametrize(
    ("bytes_max", "count"), [(1, 1), (1_000, 1), (1_101, 2), (2 * LARGE, 3), (1 << 60, 5)]
)
def test_a_supply_ends_once_its_bodies_are_large_enough(
    s: StoreFixture, bytes_max: int, count: int
) -> None:
    sizes = (1_000, LARGE, LARGE, 0, 7)
    ready = [tailed(n, body=b"b" * size) for n, size in enumerate(sizes, 1)]
    waiting = [copy(j, id=j.id + 10, state=State.WAITING, run_at=j.id) for j in ready]
    s.write(added=[*ready, *waiting])
    [supplied] = s.write(SupplyReady("q", BEGIN, 9, bytes_max))
    assert [job.id for job in supplied] == list(range(1, count + 1))


def test_what_is_supplied_at_once_is_bounded_too(s: StoreFixture) -> None:
    for number in range(6):
        s.write(added=[tailed(number + 1, queue=f"q{number}", body=b"b" * 1_000)])
    wants = [SupplyReady(f"q{number}", BEGIN, 9, 2_500) for number in range(6)]
    answers = s.write(*wants)
    assert 3 <= len(answers) <= 6
    assert [job.id for jobs in answers for job in jobs] == list(range(1, len(answers) + 1))


def test_a_supply_holds_only_ready_jobs(s: StoreFixture) -> None:
    s.write(
        added=[
            tailed(1),
            tailed(2, state=State.WAITING, run_at=5),
            tailed(3, state=State.DEAD, run_at=5),
            a_job(4),
        ]
    )
    assert [job.id for job in s.ready()] == [1]


def test_waiting_jobs_come_by_time_and_then_by_id(s: StoreFixture) -> None:
    times = {1: 30, 2: 10, 3: 20, 4: 10, 5: 30}
    s.write(added=[tailed(n, state=State.WAITING, run_at=at) for n, at in times.items()])
    s.write(added=[tailed(6), tailed(7, state=State.DEAD, run_at=1)])

    def supplied(mark: tuple[int, int], limit: int) -> list[int]:
        return [job.id for job in s.write(SupplyWaiting(mark, limit))[0]]

    assert supplied(BEGIN, 100) == [2, 4, 3, 1, 5]
    assert supplied((10, 2), 2) == [4, 3]
    assert supplied((30, 4), 9) == [5]


@pytest.mark.parametrize("shelf", [Shelf.HELD, Shelf.BACKLOG])
def test_everything_but_what_is_fixed_may_change(s: StoreFixture, shelf: Shelf) -> None:
    [odd] = [job for job in odd_jobs() if job.id == 5]
    same = (*FIXED_FIELDS, "body", "story", "state", "shelf", "away", "weight", "timed")
    changed = {name: getattr(odd, name) for name in Job.__struct_fields__ if name not in same}
    before = a_job(4, shelf=shelf, state=State.WAITING)
    s.write(added=[before])
    job = copy(before, **changed)
    s.write(updated=[job])
    s.reopen()
    assert s.live() == all_fields([job])


def test_an_update_in_the_tail_moves_a_job_to_its_new_place(s: StoreFixture) -> None:
    waiting = tailed(1, state=State.WAITING, run_at=5, body=b"b" * LARGE)
    s.write(added=[waiting, tailed(2, place=2)])
    ready = copy(waiting, state=State.READY, place=1)
    s.write(updated=[ready])
    assert s.waiting() == []
    assert [job.id for job in s.ready()] == [1, 2]
    assert fields_of(s.ready()[0]) == fields_of(ready)


def test_a_job_that_is_killed_in_the_tail_keeps_its_new_policy(s: StoreFixture) -> None:
    job = tailed(1, policy=Policy(bury=False), body=b"b" * LARGE)
    s.write(added=[job, tailed(2)])
    dead = copy(job, state=State.DEAD, run_at=7, policy=Policy(bury=True))
    s.write(updated=[dead])
    s.reopen()
    assert s.live() == all_fields([dead, tailed(2)])


def test_jobs_of_the_tail_that_are_gone_are_not_supplied(s: StoreFixture) -> None:
    jobs = [tailed(n, body=b"b" * (LARGE * (n % 2))) for n in range(1, 7)]
    s.write(added=jobs)
    s.write(gone_from_backlog=[copy(job, shelf=Shelf.NOWHERE) for job in jobs[:4]])
    s.reopen()
    assert all_fields(s.ready()) == all_fields(jobs[4:])


def test_a_job_taken_out_of_the_tail_unseen_is_gone_whatever_its_size(s: StoreFixture) -> None:
    s.write(added=[tailed(1, body=b"b" * LARGE), tailed(2), tailed(3)])
    unseen = [a_job(n, body=b"", name="", shelf=Shelf.NOWHERE) for n in (1, 2)]
    s.write(gone_from_backlog=unseen)
    s.reopen()
    assert list(s.live()) == [3]


# -- from shelf to shelf --------------------------------------------------------------------


def test_moved_jobs_are_on_their_new_shelf_and_only_there(s: StoreFixture) -> None:
    held, tail = odd_jobs()[:5], [tailed(n, body=b"b" * LARGE) for n in range(11, 14)]
    s.write(added=[*held, *tail])
    to_tail = [copy(job, shelf=Shelf.BACKLOG) for job in held[:3]]
    to_held = [copy(job, shelf=Shelf.HELD, state=State.LEASED, holder="w") for job in tail[:2]]
    s.write(moved=[*to_tail, *to_held])
    assert s.held() == light_fields([*held[3:], *to_held])
    assert all_fields(s.ready()) == all_fields([*to_tail, tail[2]])


def test_a_job_may_go_to_and_fro_and_then_leave(s: StoreFixture) -> None:
    job = a_job(1, body=b"b" * LARGE)
    s.write(added=[job])
    for shelf in (Shelf.BACKLOG, Shelf.HELD, Shelf.BACKLOG):
        job = copy(job, shelf=shelf)
        s.write(moved=[job])
    assert s.live() == all_fields([job])
    s.write(gone_from_backlog=[copy(job, shelf=Shelf.NOWHERE)])
    s.reopen()
    assert s.live() == {}


# -- whole queues and everything --------------------------------------------------------------


def test_an_emptied_tail_loses_its_ready_jobs_and_no_others(s: StoreFixture) -> None:
    staying = [
        tailed(3, state=State.WAITING, run_at=5),
        tailed(4, state=State.WAITING, run_at=6, failures=1),
        tailed(5, state=State.DEAD, run_at=7, body=b"b" * LARGE),
        tailed(6, queue="other", body=b"b" * LARGE),
        a_job(7, body=b"b" * LARGE),
    ]
    s.write(added=[tailed(1), tailed(2, body=b"b" * LARGE), *staying])
    s.write(emptied_backlogs=["q", "unknown", "q"])
    s.reopen()
    assert s.live() == all_fields(staying)


def test_jobs_added_with_the_emptying_of_their_tail_stay(s: StoreFixture) -> None:
    s.write(added=[tailed(1), tailed(2)])
    s.write(emptied_backlogs=["q"], added=[tailed(3, body=b"b" * LARGE)])
    s.reopen()
    assert list(s.live()) == [3]


def test_spared_jobs_of_an_emptied_tail_fare_as_is_said_one_by_one(s: StoreFixture) -> None:
    """Those that were supplied and changed before the purge lie in the tail as ready ones."""
    jobs = [tailed(n, body=b"b" * (LARGE * (n % 2))) for n in range(1, 9)]
    s.write(added=jobs)
    leased = [copy(job, shelf=Shelf.HELD, state=State.LEASED, holder="w") for job in jobs[:2]]
    failed = [copy(job, state=State.WAITING, run_at=9, failures=1) for job in jobs[2:4]]
    gone = [copy(job, shelf=Shelf.NOWHERE) for job in jobs[4:6]]
    s.write(
        emptied_backlogs=["q"],
        spared=[1, 2, 3, 4, 5, 6],
        moved=leased,
        updated=failed,
        gone_from_backlog=gone,
    )
    s.reopen()
    assert s.live() == all_fields([*leased, *failed])


def test_a_flush_forgets_everything_but_what_comes_with_it(s: StoreFixture) -> None:
    s.write(
        added=[*odd_jobs(), tailed(11), tailed(12, body=b"b" * LARGE)],
        ended=[a_job(13, state=State.DONE)],
        queues_saved=[QueueSetting("q", True)],
        schedules_saved=[Schedule("s", NewJob("q", "k", b"", Policy()))],
    )
    s.totals = Totals(last_job_id=20, last_place=20)
    s.write(flushed=True, added=[a_job(21)], queues_saved=[QueueSetting("new", False)])
    assert s.held() == all_fields([a_job(21)])
    snapshot = s.snapshot
    assert (snapshot.backlog, snapshot.schedules) == ([], [])
    assert snapshot.queues == [QueueSetting("new", False)]
    assert s.find(limit=100) == [21]
    assert snapshot.totals == s.totals


def test_a_tail_emptied_after_a_flush_in_one_group_is_empty(s: StoreFixture) -> None:
    s.write(added=[tailed(1), tailed(2, body=b"b" * LARGE)])
    s.write(flushed=True, emptied_backlogs=["q"], added=[tailed(3)])
    s.reopen()
    assert list(s.live()) == [3]


# -- settings and counts ----------------------------------------------------------------------


def test_queue_settings_are_found_again(s: StoreFixture) -> None:
    names = ["a", "ü\0", "z"]
    s.write(queues_saved=[QueueSetting(name, name == "z") for name in names])
    s.write(queues_saved=[QueueSetting("a", True, BIG)])
    s.write(queues_gone=["z", "unknown"])
    found = sorted(s.reopen().queues, key=lambda setting: setting.queue)
    assert found == [QueueSetting("a", True, BIG), QueueSetting("ü\0", False)]


def test_schedules_are_found_again_with_the_job_they_make(s: StoreFixture) -> None:
    new = NewJob(
        "q\0", "k", bytes(range(256)), Policy(max_failures=-1, lease_ms=BIG), "n", "json", "o", "key",
        OnConflict.REPLACE, -3, 5, 6, 7, b"\0x", -BIG, True,
    )  # fmt: skip
    daily = Schedule("daily", new, cron="0 4 * * *", timezone="Europe/Berlin", next_at=BIG)
    often = Schedule("öften", new, every_ms=500, runs_left=3, next_at=1)
    s.write(schedules_saved=[daily, often, Schedule("never", new)])
    fewer = Schedule("öften", new, every_ms=500, runs_left=2, next_at=2)
    s.write(schedules_saved=[fewer])
    s.write(schedules_gone=["never", "unknown"])
    found = {schedule.id: schedule for schedule in s.reopen().schedules}
    assert found == {"daily": daily, "öften": fewer}


def test_totals_are_those_of_the_last_group(s: StoreFixture) -> None:
    s.write(totals=Totals(1, 2, 3, 4, 5))
    last = Totals(BIG, BIG - 1, 7, BIG, 2**40)
    s.write(totals=last)
    assert s.reopen().totals == last


# -- what a broker must remember at birth -------------------------------------------------------


def test_a_snapshot_counts_the_tail_and_says_where_it_begins(s: StoreFixture) -> None:
    s.write(
        added=[
            a_job(1, place=1),
            tailed(2, priority=3, place=4),
            tailed(3, priority=2, place=9),
            tailed(4, priority=2, place=8),
            tailed(5, state=State.WAITING, run_at=70),
            tailed(6, state=State.WAITING, run_at=60, failures=1),
            tailed(7, state=State.DEAD, run_at=5),
            tailed(8, queue="ü", state=State.DEAD, run_at=5),
            tailed(9, queue="ü", state=State.DEAD, run_at=KEPT_MS, policy=Policy(keep_dead=True)),
        ]
    )
    snapshot = s.reopen()
    assert {count.queue: count for count in snapshot.backlog} == {
        "q": BacklogCount(
            "q", scheduled=1, retrying=1, ready=3, dead=1, first=(2, 8), levels={2: 2, 3: 1}
        ),
        "ü": BacklogCount("ü", dead=2, kept_dead=1),
    }
    assert snapshot.first_waiting == (60, 6)


def test_jobs_in_the_tail_are_known_by_key_and_those_that_nobody_ran_by_name(
    s: StoreFixture,
) -> None:
    s.write(
        added=[
            a_job(1, key="held"),
            tailed(2, digest=7),
            tailed(3, attempts=1),
            tailed(4, state=State.WAITING, run_at=9, digest=-8, key="k\0"),
            tailed(5, state=State.DEAD, run_at=9, key="dead"),
            tailed(6, name=""),
            tailed(7, key="run", attempts=2, failures=1, state=State.WAITING, run_at=5),
        ]
    )
    assert sorted(s.reopen().known, key=lambda known: known.id) == [
        Stub(2, "q", "k", 7, 0, State.READY, "name-2", ""),
        Stub(4, "q", "k", -8, 9, State.WAITING, "name-4", "k\0"),
        Stub(7, "q", "k", 0, 5, State.WAITING, "name-7", "run", 2, 1),
    ]


# -- reading behind a group ---------------------------------------------------------------------


def test_what_is_wanted_is_read_behind_the_group_it_came_with(s: StoreFixture) -> None:
    s.write(added=[tailed(1), tailed(2), tailed(3, state=State.WAITING, run_at=1)])
    ready, waiting, recalled = s.write(
        SupplyReady("q", BEGIN, 9),
        SupplyWaiting(BEGIN, 9),
        Recall(JobQuery(states=(State.LEASED, State.DEAD)), Nobody()),
        added=[tailed(4, place=0), a_job(5, state=State.LEASED, holder="w")],
        updated=[tailed(3, state=State.DEAD, run_at=1)],
        gone_from_backlog=[a_job(1, shelf=Shelf.NOWHERE)],
    )
    assert [job.id for job in ready] == [4, 2]
    assert waiting == []
    assert [(job.id, job.shelf) for job in recalled] == [(3, Shelf.BACKLOG), (5, Shelf.HELD)]


def test_a_recall_sees_both_shelves_and_no_ended_jobs(s: StoreFixture) -> None:
    s.write(added=[a_job(1), tailed(2)], ended=[a_job(3, state=State.DONE)])
    assert [job.id for job in s.recall(limit=10)] == [1, 2]


# -- searching ------------------------------------------------------------------------------------


@pytest.fixture
def stocked(s: StoreFixture) -> StoreFixture:
    """Nine jobs: odd ones held, even ones in the tail, three of them ended long ago."""
    s.write(
        added=[
            a_job(1, kind="mail", name="twin"),
            tailed(2, queue="other", name="twin"),
            a_job(3, state=State.LEASED, kind="mail"),
            tailed(4, state=State.WAITING, run_at=50),
            a_job(5, state=State.WAITING, run_at=40, queue="other"),
            tailed(6, state=State.DEAD, run_at=40),
        ]
    )
    s.write(ended=[a_job(9, state=State.DONE, kind="mail"), a_job(7, state=State.CANCELLED)])
    s.write(ended=[a_job(8, state=State.DONE, queue="other", name="twin")])
    return s


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ({"states": (State.READY,)}, [1, 2]),
        ({"states": (State.WAITING, State.DONE)}, [4, 5, 8, 9]),
        ({"states": (State.CANCELLED,)}, [7]),
        ({"queue": "other"}, [2, 5, 8]),
        ({"kind": "mail"}, [1, 3, 9]),
        ({"names": ("twin", "name-4")}, [1, 2, 4, 8]),
        ({"ids": (9, 1, 4, 77)}, [1, 4, 9]),
        ({"queue": "other", "states": (State.READY, State.LEASED)}, [2]),
        ({"kind": "mail", "states": (State.DONE,), "queue": "q"}, [9]),
        ({"names": ("nobody",)}, []),
    ],
)
def test_find_finds_what_fits(
    stocked: StoreFixture, query: dict[str, object], ids: list[int]
) -> None:
    assert stocked.find(**query) == ids


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_put_together_are_everything_once(
    stocked: StoreFixture, newest_first: bool, limit: int
) -> None:
    found: list[int] = []
    after = 0
    while page := stocked.find(after=after, limit=limit, newest_first=newest_first):
        assert len(page) <= limit
        found += page
        after = page[-1]
    assert found == sorted(range(1, 10), reverse=newest_first)


def test_by_time_goes_by_time_and_then_by_id(stocked: StoreFixture) -> None:
    timed = (State.WAITING, State.DEAD)
    assert stocked.find(states=timed, by_time=True) == [5, 6, 4]
    assert stocked.find(states=timed, by_time=True, limit=2) == [5, 6]
    assert stocked.find(states=timed, by_time=True, limit=1, after=5) == [5]


def test_many_names_and_ids_may_be_asked_for_at_once(stocked: StoreFixture) -> None:
    names = tuple(f"nobody-{n}" for n in range(10_000))
    assert stocked.find(names=(*names, "twin")) == [1, 2, 8]
    assert stocked.find(ids=tuple(range(3, 10_000))) == [3, 4, 5, 6, 7, 8, 9]


def test_find_finds_what_reopening_finds(stocked: StoreFixture) -> None:
    before = all_fields(stocked.store.find(JobQuery(limit=99)))
    stocked.reopen()
    assert all_fields(stocked.store.find(JobQuery(limit=99))) == before


# -- the history of ended jobs ----------------------------------------------------------------------


def test_ended_jobs_are_remembered_with_their_end(s: StoreFixture) -> None:
    job = a_job(
        1, state=State.DONE, ended_at=9, result=b"\0res", holder="w", attempts=2, failures=1, losses=3,
        started_at=8, ready_at=7, priority=-4, media="json", attempt_log=odd_jobs()[6].attempt_log, body=b"b" * 100,
    )  # fmt: skip
    s.write(added=[job])
    s.write(
        gone_from_memory=[copy(job, shelf=Shelf.NOWHERE)], ended=[copy(job, shelf=Shelf.NOWHERE)]
    )
    s.reopen()
    [found] = s.store.find(JobQuery(states=(State.DONE,)))
    kept = set(Ended.__struct_fields__) & set(Job.__struct_fields__)
    assert {name: getattr(found, name) for name in kept} == {
        name: getattr(job, name) for name in kept
    }


def test_the_history_is_bounded_and_the_newest_stay(s: StoreFixture) -> None:
    for number in range(1, 36):
        s.write(ended=[a_job(number, state=State.DONE)])
        s.sweep()
        if number % 7 == 0:
            s.reopen()
    found = s.find(limit=100)
    assert found[-10:] == list(range(26, 36))
    assert len(found) < 20


def test_a_group_larger_than_the_history_leaves_the_newest(s: StoreFixture) -> None:
    s.write(ended=[a_job(n, state=State.DONE) for n in range(1, 100)])
    assert s.find(limit=100)[-10:] == list(range(90, 100))
    assert len(s.find(limit=100)) < 20
