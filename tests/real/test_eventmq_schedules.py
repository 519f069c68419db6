"""Schedules of the real EventMQ client: by interval and by cron, kept by the server itself."""

import itertools
import json
import time

from tests.real.emq import (
    JOBS,
    NOTICES_SOON,
    ORIGINAL,
    Broker,
    Client,
    EmqPeers,
    Manager,
    not_the_original,
)

EVERY_OTHER_SECOND = "* * * * * */2"
"""Six fields, the seconds last, as croniter reads them."""

GRID_S = 3
LAG_S = 1.6
"""The job manager looks for work once a second."""
LATE_S = 3.0
"""How late a busy machine may be besides."""


def ran_at(manager: Manager, *args: object) -> float:
    """When the next job ran, which must be this one."""
    ran = manager.said("ran")
    assert ran["args"] == list(args)
    at: float = ran["at"]
    return at


def test_a_job_runs_at_once_and_then_every_interval_until_it_is_unscheduled(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker, [(10, "email")])
    client.until_slots(1)

    began = time.time()
    client.schedule("echo", "tick", interval_secs=1, queue="email")
    times = [ran_at(manager, "tick") for _ in range(3)]
    for number, at in enumerate(times):
        assert number - 0.2 < at - began < number + LATE_S
    client.unschedule("echo", "tick")
    client.defer("echo", "the same moment", queue="email")
    manager.ran_before("the same moment")
    time.sleep(LAG_S)
    assert manager.has_said() == []


def test_a_schedule_may_begin_later_and_end_after_so_many_runs(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker, jobs=2)
    client.until_slots(2)

    began = time.time()
    how = {"func": f"{JOBS}.echo", "interval_secs": 1}
    client.do("schedule_by_helper", **how, args=["thrice"], headers=["run_count:3"])
    client.do("schedule", **how, args=["later"], headers=["nohaste", "run_count:1"])
    ran = [manager.said("ran") for _ in range(4)]
    assert sorted(job["args"][0] for job in ran) == ["later", "thrice", "thrice", "thrice"]
    assert ran[0]["args"] == ["thrice"]
    (later,) = (job["at"] for job in ran if job["args"] == ["later"])
    assert 0.8 < later - began < 1 + LATE_S
    time.sleep(LAG_S)
    assert manager.has_said() == []


def test_the_same_call_scheduled_again_takes_the_place_of_the_first(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker)
    client.until_slots(1)

    client.schedule("echo", "same", interval_secs=1, headers=["nohaste"])
    client.schedule("echo", "same", interval_secs=60, headers=["nohaste"])
    client.schedule("echo", "other", interval_secs=1, headers=["nohaste", "run_count:2"])
    assert manager.ran(2) == [["other"], ["other"]]
    assert manager.has_said() == []


def test_a_job_runs_by_cron_until_it_is_unscheduled(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    # The original forgets the queue of what runs by cron.
    manager = emq.job_manager(broker, [(10, "default" if ORIGINAL else "email")])
    client.until_slots(1)

    client.schedule("echo", "cron", cron=EVERY_OTHER_SECOND, queue="email", headers=["nohaste"])
    times = [ran_at(manager, "cron") for _ in range(3)]
    for earlier, later in itertools.pairwise(times):
        assert later - earlier < 2 + LATE_S
    assert 4 - LAG_S < times[2] - times[0] < 4 + LATE_S
    client.unschedule("echo", "cron")
    client.defer("echo", "the same moment", queue="email")
    manager.ran_before("the same moment")
    time.sleep(LAG_S)
    # The original forgets to forget it.
    assert bool(manager.has_said()) == ORIGINAL


def test_a_scheduler_of_the_package_may_join_and_nothing_runs_twice(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker)
    client.until_slots(1)
    address = broker.addresses["requests"]
    its_own = [address, "default", "nohaste,run_count:2", 1, f"{JOBS}.echo", ["its own"]]
    emq.program("eventmq_scheduler", json.dumps(its_own)).said("ready")
    client.until_schedulers(2 if ORIGINAL else 1)

    assert manager.ran(2) == [["its own"], ["its own"]]
    client.schedule("echo", "of a client", interval_secs=60)
    assert manager.ran(1) == [["of a client"]]
    client.unschedule("echo", "of a client")
    time.sleep(LAG_S)
    assert manager.has_said() == []


@not_the_original
def test_schedules_outlive_a_kill_and_no_run_is_lost_or_doubled(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    manager = emq.job_manager(broker, settings=NOTICES_SOON)
    client.until_slots(1)

    began = time.monotonic()
    client.schedule("echo", "for ever", interval_secs=GRID_S)
    client.schedule("echo", "thrice", interval_secs=GRID_S, headers=["run_count:3"])
    client.schedule("echo", "by cron", cron=EVERY_OTHER_SECOND, headers=["nohaste", "run_count:1"])
    client.schedule("echo", "at once and no more", interval_secs=GRID_S)
    client.unschedule("echo", "at once and no more")
    ran = manager.ran(6)
    client.until_slots(1)  # what ran has been heard of: it will not be run again
    broker.kill9()
    until(began + 2 * GRID_S + 0.3)  # so that exactly one moment of the grid is slept through
    broker.start()
    # What is slept through is made good once, however many moments a slow start has taken.
    missed = int((time.monotonic() - began) / GRID_S) - 2

    while ran.count(["for ever"]) < 4:
        ran += manager.ran(1)
    moments = int((time.monotonic() - began) / GRID_S) + 1
    until(began + (moments - 0.5) * GRID_S)  # far from any moment
    client.unschedule("echo", "for ever")
    client.defer("echo", "last")
    ran += manager.ran_before("last")
    assert ran.count(["for ever"]) == moments - missed
    assert ran.count(["thrice"]) == 3
    assert ran.count(["by cron"]) == 1
    assert ran.count(["at once and no more"]) == 1


def until(moment: float) -> None:
    """Sit out the time up to a moment of the monotonic clock."""
    time.sleep(max(0.0, moment - time.monotonic()))
