"""ACK and FAIL: whose word counts, when, and what a failure leaves behind."""

import pytest

from franca.core.model import Demand, OnHangUp, State
from franca.protocols.faktory.messages import Beat
from franca.protocols.faktory.worker_commands import held_by
from tests.protocols.faktory.puppet import OK, Puppet, World, err
from tests.support.faktory import JobDict, compact, mutate_line

NOT_FOUND = err("Job not found jid-0001")


def beating(world: World, seconds: int) -> None:
    """Let time pass while all workers beat."""
    for _ in range(seconds):
        world.pass_time(1_000, step=500)
        for wid in list(world.service.registry.by_wid):
            world.service.registry.beat(Beat(wid), world.now)


def expire(world: World) -> None:
    """Let a lease of a minute run out, and its backoff not."""
    beating(world, 63)


def fetch_again(world: World, worker: Puppet) -> JobDict:
    """What the worker is given once the backoff is over."""
    beating(world, 50)
    return worker.fetch_job()


def lost(world: World, first: Puppet, *jids: str) -> None:
    """Jobs that the first who fetched them held for too long."""
    for jid in jids or ("jid-0001",):
        first.push(jid, reserve_for=60)
        first.fetch_job()
    expire(world)


def states(world: World) -> list[State]:
    return [job.state for job in world.jobs()]


# -- whose word counts -----------------------------------------------------------------------------


@pytest.mark.parametrize("settler", ["", "w1", "w2"])
@pytest.mark.parametrize("fetcher", ["", "w1"])
def test_anybody_may_settle_the_first_delivery(world: World, fetcher: str, settler: str) -> None:
    one, two = world.peer(fetcher), world.peer(settler)
    for jid in ("jid-0001", "jid-0002"):
        one.push(jid)
        one.fetch()
    assert (two.ack("jid-0001"), two.fail("jid-0002")) == (OK, OK)
    assert states(world) == [State.WAITING]


@pytest.mark.parametrize(
    ("first", "second", "settler", "counts"),
    [
        ("w1", "w2", "w1", False),
        ("w1", "w2", "w3", False),
        ("w1", "w2", "", False),
        ("w1", "w2", "w2", True),
        ("w1", "w1", "w1", True),
        ("w1", "", "w1", False),
        ("w1", "", "w2", False),
        ("w1", "", "", True),
        ("", "w1", "", False),
        ("", "w1", "w1", True),
        ("", "", "w1", False),
        ("", "", "", True),
    ],
)
def test_a_later_delivery_only_by_its_holder(
    world: World, first: str, second: str, settler: str, counts: bool
) -> None:
    earlier, later = world.peer(first), world.peer(second)
    lost(world, earlier, "jid-0001", "jid-0002")
    fetch_again(world, later)
    later.fetch_job()
    third = world.peer(settler)
    assert third.ack("jid-0001") == OK
    assert third.fail("jid-0002").kind == ("+" if counts else "-")
    assert states(world) == ([State.WAITING] if counts else [State.LEASED, State.LEASED])
    assert (later.ack("jid-0001"), later.ack("jid-0002")) == (OK, OK)
    assert states(world) == ([State.WAITING] if counts else [])


def test_a_former_holder_does_not_speak_for_another_without_a_wid(world: World) -> None:
    one, two, three = world.peer(), world.peer(), world.peer()
    lost(world, one)
    fetch_again(world, two)
    assert (one.ack("jid-0001"), one.fail("jid-0001")) == (OK, NOT_FOUND)
    assert states(world) == [State.LEASED]
    expire(world)
    assert states(world) == [State.WAITING]
    assert (one.ack("jid-0001"), states(world)) == (OK, [State.WAITING])
    assert (three.ack("jid-0001"), states(world)) == (OK, [])


@pytest.mark.parametrize("wid", ["", "w1"])
def test_nor_one_from_which_an_operator_took_it(world: World, wid: str) -> None:
    one, two = world.peer(wid), world.peer()
    one.push("jid-0001")
    one.fetch()
    world.broker.kill(next(iter(world.broker.index.all_named("jid-0001"))), world.now)
    world.run()
    assert one.call(mutate_line("requeue", "dead")) == OK
    two.fetch_job()
    assert (one.ack("jid-0001"), states(world)) == (OK, [State.LEASED])
    world.broker.retry(next(iter(world.broker.index.all_named("jid-0001"))), world.now)
    one.fetch_job()
    assert (two.ack("jid-0001"), states(world)) == (OK, [State.LEASED])
    assert (one.ack("jid-0001"), states(world)) == (OK, [])


def test_what_is_known_of_earlier_holders_outlives_the_server(world: World) -> None:
    one, two = world.peer(), world.peer()
    lost(world, one)
    fetch_again(world, two)
    world.remember(seed=2)
    job = next(iter(world.broker.index.all_named("jid-0001")))
    assert held_by(world.broker, one.conversation.holder, "jid-0001") is None
    assert held_by(world.broker, two.conversation.holder, "jid-0001") is job
    assert held_by(world.broker, "link of another run", "jid-0001") is job


@pytest.mark.parametrize(
    ("holder", "on_hang_up"), [("gearman", OnHangUp.RETURN), ("other link l9", OnHangUp.KEEP)]
)
def test_the_lease_of_another_protocols_worker_is_its_own(
    world: World, client: Puppet, holder: str, on_hang_up: OnHangUp
) -> None:
    client.push("jid-0001")
    session = world.broker.open_session(holder, on_hang_up, client.conversation)
    assert world.broker.demand(Demand(session, ("default",)), world.now) is not None
    assert (client.ack("jid-0001"), client.fail("jid-0001")) == (OK, NOT_FOUND)
    assert states(world) == [State.LEASED]


def test_a_stale_word_of_an_earlier_holder_changes_nothing(world: World) -> None:
    old, new = world.peer("w1"), world.peer("w2")
    lost(world, old)
    fetch_again(world, new)
    assert (old.ack("jid-0001"), old.fail("jid-0001")) == (OK, NOT_FOUND)
    assert states(world) == [State.LEASED]
    assert next(iter(world.broker.index.all_named("jid-0001"))).holder == "w2"


@pytest.mark.parametrize(("later_s", "state"), [(0, State.WAITING), (50, State.READY)])
@pytest.mark.parametrize("wid", ["", "w1"])
def test_a_late_ack_of_the_last_holder_counts_while_nobody_has_the_job(
    world: World, wid: str, later_s: int, state: State
) -> None:
    worker = world.peer(wid)
    lost(world, worker)
    beating(world, later_s)
    assert states(world) == [state]
    assert (worker.ack("jid-0001"), states(world)) == (OK, [])


def test_a_late_ack_of_another_worker_counts_for_the_first_delivery_only(world: World) -> None:
    worker, other = world.peer("w1"), world.peer("w2")
    lost(world, worker, "jid-0001", "jid-0002")
    assert (other.ack("jid-0001"), [job.name for job in world.jobs()]) == (OK, ["jid-0002"])
    fetch_again(world, worker)
    expire(world)
    assert (other.ack("jid-0002"), states(world)) == (OK, [State.WAITING])
    assert (worker.ack("jid-0002"), states(world)) == (OK, [])


def test_a_late_fail_is_not_counted_twice(world: World, worker: Puppet) -> None:
    lost(world, worker)
    assert worker.fail("jid-0001") == NOT_FOUND
    assert world.broker.totals.failures == 1


def test_an_ack_after_a_fail_does_not_undo_it(world: World, worker: Puppet) -> None:
    worker.push("jid-0001")
    worker.fetch()
    assert (worker.fail("jid-0001"), worker.ack("jid-0001")) == (OK, OK)
    assert states(world) == [State.WAITING]


def test_an_ack_of_a_job_that_nobody_has_run_does_nothing(world: World, client: Puppet) -> None:
    client.push("jid-0001")
    client.push("jid-0002", at="2030-01-01T00:00:00Z")
    assert (client.ack("jid-0001"), client.ack("jid-0002")) == (OK, OK)
    assert client.fail("jid-0001").kind == "-"
    assert states(world) == [State.READY, State.WAITING]


def test_an_ack_said_twice_settles_once(world: World, worker: Puppet) -> None:
    worker.push("jid-0001")
    worker.fetch()
    assert (worker.ack("jid-0001"), worker.ack("jid-0001")) == (OK, OK)
    assert world.broker.totals.processed == 1


def test_two_running_jobs_of_one_jid_are_settled_one_by_one(world: World, worker: Puppet) -> None:
    for argument in (1, 2):
        worker.push("jid-0001", argument)
        worker.fetch()
    assert (worker.ack("jid-0001"), states(world)) == (OK, [State.LEASED])
    assert (worker.ack("jid-0001"), states(world)) == (OK, [])


def test_a_workers_own_job_is_settled_before_a_strangers_of_the_same_jid(world: World) -> None:
    nobody, worker = world.peer(), world.peer("w1")
    nobody.push("jid-0001", 1)
    nobody.push("jid-0001", 2)
    nobody.fetch()
    worker.fetch()
    assert (worker.ack("jid-0001"), [job.holder for job in world.jobs()]) == (OK, ["link l1"])


# -- what a failure leaves behind -----------------------------------------------------------------


def test_a_failure_is_told_to_the_next_worker(world: World, worker: Puppet) -> None:
    worker.push("jid-0001", retry=3)
    worker.fetch()
    world.pass_time(1_000)
    said = {"message": "boom", "errtype": "Boom", "backtrace": ["a", "b"]}
    assert worker.call(f"FAIL {compact({'jid': 'jid-0001', **said})}") == OK
    next_at = world.jobs()[0].run_at
    assert world.now + 15_000 <= next_at < world.now + 45_000
    failure = fetch_again(world, worker)["failure"]
    assert failure.pop("next_at").startswith("2026-09-21T14:13:")
    assert failure == {
        "retry_count": 0,
        "remaining": 3,
        "failed_at": "2026-09-21T14:13:21.000Z",
        **said,
    }


def test_the_count_grows_and_the_first_failure_is_remembered(world: World, worker: Puppet) -> None:
    worker.push("jid-0001", retry=2)
    worker.fetch()
    worker.fail("jid-0001", "one")
    first = fetch_again(world, worker)["failure"]
    worker.fail("jid-0001", "two")
    beating(world, 50)
    failure = fetch_again(world, worker)["failure"]
    assert (failure["retry_count"], failure["remaining"], failure["message"]) == (1, 1, "two")
    assert failure["failed_at"] == first["failed_at"]
    worker.fail("jid-0001", "three")
    assert states(world) == [State.DEAD]


@pytest.mark.parametrize(
    ("retry", "runs", "end"),
    [(0, 1, []), (-1, 1, [State.DEAD]), (-7, 1, [State.DEAD]), (1, 2, [State.DEAD]), (3, 4, [State.DEAD])],
)  # fmt: skip
def test_retries_are_exact(
    world: World, worker: Puppet, retry: int, runs: int, end: list[State]
) -> None:
    worker.push("jid-0001", retry=retry)
    for run in range(runs):
        failure = worker.fetch_job().get("failure", {})
        assert failure.get("retry_count", -1) == run - 1
        assert failure.get("remaining", retry + 1) == retry + 1 - run
        assert worker.fail("jid-0001") == OK
        beating(world, 200)
    assert worker.fetch() is None
    assert states(world) == end
    assert world.broker.totals.failures == world.broker.totals.processed == runs


def test_an_expired_reservation_fails_in_the_originals_words(worker: Puppet, world: World) -> None:
    worker.push("jid-0001", reserve_for=5, retry=1)
    worker.fetch()
    beating(world, 59)
    assert states(world) == [State.LEASED]
    beating(world, 4)
    assert states(world) == [State.WAITING]
    failure = fetch_again(world, worker)["failure"]
    assert failure["message"] == "Faktory job reservation expired"
    assert failure["errtype"] == "ReservationExpired"
    assert (failure["retry_count"], failure["remaining"]) == (0, 1)
    expire(world)
    assert (states(world), world.broker.totals.failures) == ([State.DEAD], 2)


def test_a_dead_job_queued_again_keeps_its_failure(world: World, worker: Puppet) -> None:
    worker.push("jid-0001", retry=-1)
    worker.fetch()
    worker.fail("jid-0001")
    assert worker.call(mutate_line("requeue", "dead")) == OK
    failure = worker.fetch_job()["failure"]
    assert (failure["message"], failure["remaining"]) == ("planned", -1)
    assert "next_at" not in failure
    worker.fail("jid-0001")
    assert states(world) == [State.DEAD]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({}, {"message": "unknown", "errtype": "unknown"}),
        ({"message": "  ", "errtype": " \n"}, {"message": "unknown", "errtype": "unknown"}),
        ({"message": " m\n", "errtype": "\te "}, {"message": "m", "errtype": "e"}),
        ({"message": "m" * 1_001, "errtype": "e" * 101}, {"message": "m" * 1_000, "errtype": "e" * 100}),
        ({"message": "ö" * 501}, {"message": "ö" * 500}),
        ({"message": "x" + "ö" * 500}, {"message": "x" + "ö" * 499}),
        ({"backtrace": [str(i) for i in range(60)]}, {"backtrace": [str(i) for i in range(50)]}),
        ({"backtrace": ["x" * 2_000, None]}, {"backtrace": ["x" * 1_000, ""]}),
        ({"backtrace": []}, {"backtrace": None}),
        ({"errType": "E", "Message": "M"}, {"errtype": "E", "message": "M"}),
    ],
)  # fmt: skip
def test_what_is_said_of_a_failure_is_trimmed(
    world: World, worker: Puppet, said: dict[str, object], kept: dict[str, object]
) -> None:
    worker.push("jid-0001")
    worker.fetch()
    assert worker.call(f"FAIL {compact({'jid': 'jid-0001', **said})}") == OK
    failure = fetch_again(world, worker)["failure"]
    assert {name: failure.get(name) for name in kept} == kept


def test_a_failure_that_came_with_a_job_holds_until_the_next(worker: Puppet, world: World) -> None:
    worker.push("jid-0001", failure={"message": "before", "errtype": "B"})
    assert worker.fetch_job()["failure"] == {"message": "before", "errtype": "B"}
    worker.fail("jid-0001", "after")
    assert fetch_again(world, worker)["failure"]["message"] == "after"


def test_ten_unclean_ends_are_enough_whatever_retry_says(world: World, worker: Puppet) -> None:
    worker.push("jid-0001", reserve_for=60, retry=100)
    for _ in range(10):
        job = world.jobs()[0]
        if job.state is State.WAITING:
            world.now = max(job.run_at, world.now)
            world.service.registry.beat(Beat("w1"), world.now)
            world.run()
        worker.fetch_job()
        expire(world)
    assert states(world) == [State.DEAD]
