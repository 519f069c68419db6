"""Rules that make jobs: on a grid, by cron, so many times, once for every sleep."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest

from franca.core.cron import next_moment
from franca.core.errors import NotFound, Refused
from franca.core.model import LastRun, NewJob, OnConflict, Policy, Schedule, State
from franca.core.schedules import upcoming
from franca.core.upkeep import FIRED_AT_ONCE
from tests.core.kit import MINUTE, Bench, T

DAY = 24 * 60 * MINUTE


def at(text: str, timezone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone)).timestamp() * 1000)


def rule(schedule_id: str = "s", **fields: object) -> Schedule:
    schedule = Schedule(schedule_id, NewJob("q", "k", b"body", Policy()), every_ms=MINUTE)
    for name, value in fields.items():
        setattr(schedule, name, value)
    return schedule


def firings(bench: Bench, until: int, start: int = T) -> list[int]:
    """When the rule made jobs, seconds after T."""
    found = []
    for now in range(start, until + 1, 10_000):
        bench.broker.tick(now)
        found += [(now - T) // 1000] * len(bench.take_all(now=now))
    return found


def test_an_interval_keeps_to_its_grid(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T + 7, fire_now=False)
    assert bench.broker.next_wake() == T + 7 + MINUTE
    assert firings(bench, T + 5 * MINUTE) == [70, 130, 190, 250]
    assert bench.broker.schedules.next_at() == T + 7 + 5 * MINUTE


def test_the_first_run_may_be_now(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=True)
    assert firings(bench, T + 2 * MINUTE) == [0, 60, 120]


def test_a_rule_runs_as_often_as_it_says_and_is_gone(bench: Bench) -> None:
    bench.broker.put_schedule(rule(runs_left=3), T, fire_now=False)
    bench.write()
    assert (firings(bench, T + 10 * MINUTE), bench.broker.schedules.by_id) == ([60, 120, 180], {})
    bench.write()
    assert not bench.disk.schedules


def test_a_rule_that_slept_through_several_moments_fires_once(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=False)
    bench.broker.tick(T + 10 * MINUTE + 5)
    assert bench.count().ready == 1
    assert bench.broker.schedules.next_at() == T + 11 * MINUTE


def test_a_rule_put_again_takes_the_place_of_the_first(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=False)
    bench.broker.put_schedule(rule(every_ms=2 * MINUTE), T, fire_now=False)
    assert firings(bench, T + 4 * MINUTE) == [120, 240]


def test_a_dropped_rule_fires_no_more(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=False)
    bench.write()
    assert (bench.broker.drop_schedule("s"), bench.broker.drop_schedule("s")) == (True, False)
    bench.write()
    assert (firings(bench, T + 4 * MINUTE), bench.disk.schedules) == ([], {})


def test_a_job_and_the_step_of_its_rule_are_one_group(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=False)
    bench.write()
    bench.broker.tick(T + MINUTE)
    changes = bench.broker.drain()
    assert [job.body for job in changes.added] == [b"body"]
    assert [schedule.next_at for schedule in changes.schedules_saved] == [T + 2 * MINUTE]


def test_rules_survive_a_restart_and_fire_neither_twice_nor_never(bench: Bench) -> None:
    bench.broker.put_schedule(rule(runs_left=2), T, fire_now=False)
    bench.broker.tick(T + MINUTE)
    bench.write()
    bench.crash(T + MINUTE)
    bench.broker.tick(T + MINUTE)
    assert bench.count().ready == 1
    bench.broker.tick(T + 2 * MINUTE)
    assert (bench.count().ready, bench.broker.schedules.by_id) == (2, {})


def test_a_rule_whose_last_job_has_the_key_leaves_a_run_out(bench: Bench) -> None:
    job = NewJob("q", "k", b"", Policy(), key="u", on_conflict=OnConflict.REFUSE)
    bench.broker.put_schedule(Schedule("s", job, MINUTE), T, fire_now=True)
    bench.broker.tick(T)
    bench.broker.tick(T + MINUTE)
    assert bench.count().ready == 1
    assert firings(bench, T + 2 * MINUTE, start=T + MINUTE) == [60, 120]


def test_rules_wait_while_the_disk_is_full_and_do_not_keep_anybody_awake(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=False)
    bench.broker.refusing_new = True
    bench.broker.tick(T + 5 * MINUTE)
    assert bench.broker.next_wake() is None
    bench.broker.refusing_new = False
    bench.broker.tick(T + 5 * MINUTE)
    assert bench.count().ready == 1


def test_a_run_for_whose_job_there_is_no_room_does_not_count(bench: Bench) -> None:
    bench.broker.put_schedule(rule(runs_left=1), T, fire_now=False)
    bench.broker.room_bytes = 0
    bench.broker.tick(T + MINUTE)
    bench.write(T + MINUTE)
    assert (bench.count().ready, bench.disk.schedules["s"].runs_left) == (0, 1)
    bench.broker.room_bytes = 1 << 40
    assert firings(bench, T + 5 * MINUTE, start=T + MINUTE) == [120]
    assert not bench.broker.schedules.by_id


# -- a wall clock that is set back -----------------------------------------------------------


def jump_ahead_and_back(bench: Bench, ahead: int) -> int:
    """Two seconds ahead, a tick every second; the time after them."""
    for second in range(3):
        bench.broker.wall_ahead_ms = ahead if second < 2 else 0
        bench.broker.tick(T + 1_000 * second)
    return T + 2_000


def test_a_wall_clock_a_day_ahead_for_two_seconds_silences_no_interval(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=False)
    now = jump_ahead_and_back(bench, DAY)
    assert len(bench.take_all(now=now)) == 1  # its moment was past while the clock was ahead
    assert bench.broker.next_wake() == now + MINUTE
    bench.write(now)
    assert bench.disk.schedules["s"].next_at == now + MINUTE
    assert firings(bench, T + 4 * MINUTE, start=now) == [62, 122, 182]


def test_a_rule_put_while_the_wall_clock_was_ahead_is_brought_back(bench: Bench) -> None:
    bench.broker.wall_ahead_ms = DAY
    bench.broker.put_schedule(rule(), T, fire_now=False)
    bench.broker.wall_ahead_ms = 0
    bench.broker.tick(T)
    assert bench.broker.next_wake() == T + MINUTE


def test_a_wall_clock_set_back_between_two_servers_silences_no_interval(bench: Bench) -> None:
    bench.broker.wall_ahead_ms = DAY
    bench.broker.put_schedule(rule(), T, fire_now=False)
    bench.restart()
    assert bench.broker.next_wake() == T + MINUTE
    bench.write()
    assert bench.disk.schedules["s"].next_at == T + MINUTE


def test_a_wall_clock_set_back_by_little_moves_no_rule(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=True)
    bench.broker.tick(T)
    bench.broker.wall_ahead_ms = -1_000
    bench.broker.tick(T)
    assert bench.broker.schedules.next_at() == T + MINUTE


def test_many_rules_are_brought_back_over_several_ticks(bench: Bench) -> None:
    bench.broker.wall_ahead_ms = DAY
    ids = [f"s{number}" for number in range(FIRED_AT_ONCE + 1)]
    for schedule_id in ids:
        bench.broker.put_schedule(rule(schedule_id), T, fire_now=False)
    bench.broker.wall_ahead_ms = 0
    bench.broker.tick(T)
    late = [r for r in bench.broker.schedules.by_id.values() if r.next_at > T + MINUTE]
    assert len(late) == 1
    bench.broker.tick(T + 1)
    assert late[0].next_at == T + 1 + MINUTE


@pytest.mark.parametrize(
    ("ahead", "then"),
    [(DAY, T // MINUTE * MINUTE + MINUTE), (5 * MINUTE, (T // MINUTE + 6) * MINUTE)],
)
def test_cron_moments_recur_if_the_clock_went_back_far(bench: Bench, ahead: int, then: int) -> None:
    cron = rule(every_ms=0, cron="* * * * *")
    bench.broker.put_schedule(cron, T, fire_now=False)
    jump_ahead_and_back(bench, ahead)
    assert cron.next_at == then


# -- cron -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "timezone", "after", "then"),
    [
        ("*/15 * * * *", "UTC", "2026-03-01T10:07", "2026-03-01T10:15"),
        ("*/15 * * * *", "UTC", "2026-03-01T10:15", "2026-03-01T10:30"),
        ("@daily", "UTC", "2026-02-28T10:00", "2026-03-01T00:00"),
        ("@hourly", "UTC", "2026-12-31T23:59", "2027-01-01T00:00"),
        ("@yearly", "UTC", "2026-01-01T00:00", "2027-01-01T00:00"),
        ("0 9 * * 1", "UTC", "2026-11-15T12:00", "2026-11-16T09:00"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00", "2028-02-29T00:00"),
        ("0 9 * * *", "Europe/Berlin", "2026-07-01T12:00", "2026-07-02T09:00"),
        # The hour from 2 to 3 does not exist that night: run once, right after it.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T03:00"),
        # It exists twice that night: run once.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T02:30"),
    ],
)
def test_the_next_moment_of_a_cron_line(line: str, timezone: str, after: str, then: str) -> None:
    assert next_moment(line, timezone, at(after, timezone)) == at(then, timezone)


def test_a_daily_line_fires_once_a_day_through_both_clock_changes() -> None:
    moment = at("2026-01-01T00:00", "Europe/Berlin")
    days = []
    while moment < at("2027-01-01T00:00", "Europe/Berlin"):
        moment = next_moment("30 2 * * *", "Europe/Berlin", moment)
        days.append(datetime.fromtimestamp(moment / 1000, ZoneInfo("Europe/Berlin")).date())
    assert len(days) == len(set(days)) == 366


@pytest.mark.parametrize(
    ("line", "timezone"),
    [
        ("not cron", "UTC"),
        ("", "UTC"),
        ("61 * * * *", "UTC"),
        ("0 0 31 2 *", "UTC"),
        ("* * * * *", "Nowhere/Town"),
        ("* * * * *", "../../etc/passwd"),
        ("* * * * *", ""),
    ],
)
@pytest.mark.parametrize("fire_now", [True, False])
def test_a_line_that_names_no_moment_is_refused_when_it_is_put(
    bench: Bench, line: str, timezone: str, fire_now: bool
) -> None:
    if not line:
        with pytest.raises(Refused):
            next_moment(line, timezone, T)
        return
    with pytest.raises(Refused):
        bench.broker.put_schedule(rule(cron=line, timezone=timezone), T, fire_now=fire_now)
    assert not bench.broker.has_changes()
    bench.broker.tick(T + 10 * MINUTE)
    assert bench.count().ready == 0


def test_a_cron_rule_makes_jobs(bench: Bench) -> None:
    now = at("2026-03-01T10:07")
    bench.broker.put_schedule(rule(every_ms=0, cron="*/15 * * * *"), now, fire_now=False)
    bench.broker.tick(at("2026-03-01T10:14"))
    assert bench.count().ready == 0
    bench.broker.tick(at("2026-03-01T10:15"))
    worker = bench.worker()
    assert bench.take(worker, now=at("2026-03-01T10:15")).state is State.LEASED
    assert bench.broker.schedules.next_at() == at("2026-03-01T10:30")


def test_utc_is_the_zone_of_those_who_name_none() -> None:
    moment = next_moment("0 0 * * *", Schedule("s", NewJob("q", "k", b"", Policy())).timezone, T)
    assert datetime.fromtimestamp(moment / 1000, UTC).hour == 0


def test_a_rule_may_be_amended_without_changing_when_it_fires(bench: Bench) -> None:
    schedule = rule()
    bench.broker.put_schedule(schedule, T, fire_now=False)
    bench.write()
    schedule.job.queue = "other"
    bench.broker.amend_schedule(schedule)
    bench.restart()
    (kept,) = bench.broker.schedules.by_id.values()
    assert (kept.job.queue, kept.next_at) == ("other", T + MINUTE)


def test_what_an_amended_rule_takes_is_counted_anew_and_given_back_with_it(bench: Bench) -> None:
    schedule = rule()
    schedule.job.extra = b"e" * 100
    bench.broker.put_schedule(schedule, T, fire_now=False)
    schedule.job.extra = b""
    bench.broker.amend_schedule(schedule)
    assert bench.broker.schedules.bytes == len("k") + len(b"body")
    bench.broker.put_schedule(rule(), T, fire_now=False)
    assert bench.broker.schedules.bytes == len("k") + len(b"body")
    bench.broker.drop_schedule("s")
    assert bench.broker.schedules.bytes == 0


# -- pauses, the last run, runs out of turn ---------------------------------------------------


def last_of(bench: Bench) -> LastRun:
    """What is known of the last run of the only rule, in memory and on the disk."""
    bench.write()
    (schedule,) = bench.broker.schedules.by_id.values()
    assert schedule.last is not None
    assert bench.disk.schedules[schedule.id].last == schedule.last
    return schedule.last


def test_a_paused_rule_sleeps_through_its_moments_and_fires_none_of_them_later(
    bench: Bench,
) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=False)
    bench.broker.pause_schedule("s")
    assert bench.broker.next_wake() is None
    assert firings(bench, T + 3 * MINUTE) == []
    bench.restart()
    now = T + 3 * MINUTE + 30_000
    bench.broker.tick(now)
    bench.broker.resume_schedule("s", now)
    assert bench.broker.next_wake() == T + 4 * MINUTE, "it keeps to its grid"
    assert firings(bench, T + 5 * MINUTE, start=now) == [240, 300]


def test_a_cron_rule_that_was_paused_fires_at_the_next_moment_that_it_names(bench: Bench) -> None:
    now = at("2026-03-01T10:07")
    bench.broker.put_schedule(rule(every_ms=0, cron="*/15 * * * *"), now, fire_now=False)
    bench.broker.pause_schedule("s")
    now = at("2026-03-01T10:20")
    bench.broker.tick(now)
    bench.broker.resume_schedule("s", now)
    bench.broker.tick(now)
    assert (bench.count().ready, bench.broker.schedules.next_at()) == (0, at("2026-03-01T10:30"))


def test_a_pause_that_ends_before_the_next_moment_changes_nothing(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=False)
    for _ in range(2):
        bench.broker.pause_schedule("s")
        assert bench.broker.schedules.next_at() is None
    bench.broker.resume_schedule("s", T + 1_000)
    bench.write()
    bench.broker.resume_schedule("s", T + 1_000)
    assert not bench.broker.has_changes()
    assert firings(bench, T + 2 * MINUTE) == [60, 120]


@pytest.mark.parametrize("paused", [True, False])
def test_a_rule_can_be_run_now_and_goes_on_as_if_it_had_not(bench: Bench, paused: bool) -> None:
    bench.broker.put_schedule(rule(runs_left=2), T, fire_now=False)
    if paused:
        bench.broker.pause_schedule("s")
    job = bench.broker.run_schedule("s", T + 5)
    assert last_of(bench) == LastRun(job.id, T + 5)
    (schedule,) = bench.broker.schedules.by_id.values()
    assert (schedule.runs_left, schedule.next_at, schedule.paused) == (2, T + MINUTE, paused)
    assert len(bench.take_all()) == 1
    assert firings(bench, T + 3 * MINUTE) == ([] if paused else [60, 120])


def test_there_is_nothing_to_pause_resume_or_run_of_a_rule_that_there_is_not(bench: Bench) -> None:
    broker = bench.broker
    for verb in (
        lambda: broker.pause_schedule("s"),
        lambda: broker.resume_schedule("s", T),
        lambda: broker.run_schedule("s", T),
    ):
        with pytest.raises(NotFound):
            verb()
    assert not broker.has_changes()


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("finish", State.DONE),
        ("fail", State.DEAD),
        ("cancel", State.CANCELLED),
        ("kill", State.DEAD),
    ],
)
def test_a_rule_remembers_how_its_last_job_ended(bench: Bench, end: str, state: State) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=True)
    bench.broker.tick(T)
    bench.restart()
    job = bench.take(bench.worker(), now=T + 3)
    assert last_of(bench) == LastRun(job.id, T)
    bench.end(end, job)
    assert last_of(bench) == LastRun(job.id, T, state, T + 3, T)
    bench.restart()
    assert last_of(bench).state is state


def test_a_dead_job_of_a_rule_that_is_retried_ends_once_more(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=True)
    bench.broker.tick(T)
    job = bench.take(bench.worker())
    bench.end("fail", job)
    bench.restart()
    (job,) = bench.recall(ids=(job.id,))
    bench.broker.retry(job, T)
    bench.take_all()
    assert last_of(bench).state is State.DONE


def test_a_job_of_a_rule_that_is_purged_has_ended_too(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=True)
    bench.broker.tick(T)
    bench.broker.purge_queues(("q",), T)
    assert last_of(bench).state is State.CANCELLED


def test_only_the_last_job_of_a_rule_tells_and_no_more_than_one_is_remembered(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=True)
    bench.broker.tick(T)
    bench.broker.tick(T + MINUTE)
    worker = bench.worker(takes=2)
    first, second = worker.leases.values()
    bench.broker.finish(first, worker.holder, b"", T + MINUTE)
    assert last_of(bench) == LastRun(second.id, T + MINUTE)
    assert list(bench.broker.schedules.by_job) == [second.id]
    bench.broker.drop_schedule("s")
    bench.broker.finish(second, worker.holder, b"", T + MINUTE)
    bench.write()
    assert (bench.broker.schedules.by_job, bench.disk.schedules) == ({}, {})


def test_the_last_run_of_a_rule_is_none_of_it_any_more(bench: Bench) -> None:
    bench.broker.put_schedule(rule(runs_left=1), T, fire_now=True)
    bench.broker.tick(T)
    assert not bench.broker.schedules.by_job
    bench.broker.put_schedule(rule(), T, fire_now=True)
    bench.broker.tick(T)
    bench.broker.flush(T)
    assert not bench.broker.schedules.by_job


def test_a_rule_that_is_edited_keeps_its_pause_and_its_last_run(bench: Bench) -> None:
    bench.broker.put_schedule(rule(), T, fire_now=True)
    bench.broker.tick(T)
    job = bench.take(bench.worker())
    bench.broker.pause_schedule("s")
    bench.broker.put_schedule(rule(every_ms=2 * MINUTE, source="new"), T, fire_now=True)
    bench.broker.tick(T)
    assert bench.count().ready == 0
    bench.end("finish", job)
    assert last_of(bench) == LastRun(job.id, T, State.DONE, T, T)
    (schedule,) = bench.broker.schedules.by_id.values()
    assert (schedule.paused, schedule.source, schedule.every_ms) == (True, "new", 2 * MINUTE)


def test_a_rule_of_an_earlier_version_is_read_and_was_made_by_whose_jobs_it_makes(
    bench: Bench,
) -> None:
    schedule = rule()
    schedule.job.origin = "theirs"
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(schedule))
    for name in ("paused", "last", "source"):
        del fields[name]
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=Schedule)
    bench.disk.schedules["s"] = found
    bench.crash()
    (kept,) = bench.broker.schedules.by_id.values()
    assert (kept.paused, kept.last, kept.source) == (False, None, "theirs")


def test_the_moments_to_come_of_a_rule() -> None:
    schedule = rule(next_at=T + 1, runs_left=2)
    assert upcoming(schedule, T, 5) == [T + 1, T + 1 + MINUTE]
    assert upcoming(rule(next_at=T, every_ms=1), T + 5, 3) == [T, T + 6, T + 7]
    daily = rule(next_at=at("2026-03-28T09:00"), every_ms=0, cron="0 9 * * *")
    assert upcoming(daily, T, 2) == [at("2026-03-28T09:00"), at("2026-03-29T09:00")]
    assert upcoming(rule(next_at=T, cron="nonsense"), T, 5) == [T]
    schedule.paused = True
    assert upcoming(schedule, T, 5) == []
