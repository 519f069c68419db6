"""Replies: whose word counts, also from a worker that lost its connection and came back."""

from franca.core.model import State
from tests.protocols.eventmq.puppet import Puppet, World
from tests.support.eventmq import Given, call


def requested(world: World, worker: Puppet) -> Given:
    """A request that this worker has been given."""
    world.peer().request()
    return worker.take()


# -- replies ------------------------------------------------------------------------------------------


def test_a_reply_of_somebody_else_changes_nothing(world: World) -> None:
    worker, other = world.worker(slots=1), world.worker()
    given = requested(world, worker)
    other.say("REPLY", "x", given.msgid)
    world.peer().say("REPLY", "x", given.msgid)
    other.say("REPLY", "x", "nobody knows")
    assert world.job().state is State.LEASED


def test_the_documents_reply_is_to_its_own_id_or_to_the_only_job(world: World) -> None:
    worker, client = world.worker(slots=4), world.peer()
    client.request("1")
    client.request("2")
    one, _ = worker.given()
    worker.say("REPLY", "x")
    assert (world.service.refused, len(world.jobs())) == (1, 2)
    worker.say("REPLY", "x", msgid=one.msgid)
    assert [job.body for job in world.jobs()] == [b"2"]
    worker.say("REPLY", "x")
    assert world.jobs() == []


def test_a_worker_that_comes_back_may_still_report_what_nobody_else_was_given(world: World) -> None:
    lost, client = world.worker(slots=1), world.peer()
    client.request(headers="reply-requested")
    given = lost.take()
    lost.hang_up()
    back = world.worker()
    back.done(given, ready=False)
    assert (client.replies()[-1][0], world.jobs()) == ('{"value": 1}', [])


def test_so_may_one_that_the_server_forgot_in_a_restart(world: World, worker: Puppet) -> None:
    world.peer().request(call())
    given = worker.take()
    world = world.restarted()
    again = world.peer()
    again.say("REPLY", '{"value": 1}', given.msgid)
    assert world.jobs() == []


def test_but_not_what_another_has_been_given_since_nor_a_failure(world: World) -> None:
    lost = world.worker(slots=1)
    given = requested(world, lost)
    lost.hang_up()
    late = world.worker()
    late.say("REPLY", '{"error": "x"}', given.msgid)
    late.say("REPLY", '{"value": "TimeoutError"}', given.msgid)
    assert world.job().state is State.READY
    other = world.worker(slots=1)
    late.done(given, ready=False)
    assert world.job().state is State.LEASED
    other.done(given)
    assert world.jobs() == []


def test_a_worker_that_begins_anew_reports_what_its_ghost_still_holds(world: World) -> None:
    """Its old connection stays open in the processes that it forked."""
    ghost, client = world.worker(slots=1), world.peer()
    client.request(headers="reply-requested")
    given = ghost.take()
    world.pass_time(2_000)
    again = world.worker()
    again.done(given, ready=False)
    assert world.job().state is State.LEASED  # the other was heard only just now
    world.pass_time(3_000, again)
    again.done(given, ready=False)
    assert (client.replies()[-1][0], world.jobs()) == ('{"value": 1}', [])


def test_but_not_what_was_given_out_more_than_once(world: World) -> None:
    first = world.worker(slots=1)
    given = requested(world, first)
    first.hang_up()
    second = world.worker(slots=1)
    world.pass_time(5_000)
    back = world.worker()
    back.done(given, ready=False)
    assert world.job().state is State.LEASED
    second.done(given, ready=False)
    assert world.jobs() == []


def test_but_not_what_a_worker_holds_that_was_heard_since(world: World) -> None:
    holder = world.worker(slots=1)
    given = requested(world, holder)
    other = world.worker()
    holder.say("HEARTBEAT", "1")
    world.pass_time(5_000, other)
    other.done(given, ready=False)
    assert world.job().state is State.LEASED


def test_a_request_that_was_never_run_cannot_be_reported(world: World) -> None:
    msgid = world.peer().request()
    world.worker().say("REPLY", "x", msgid)
    assert world.job().state is State.READY
