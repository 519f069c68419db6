"""GRAB_JOB: ids that wait, when they are answered, and which of three client families needs what."""

import pytest

from franca.core.model import State
from tests.protocols.periodic.puppet import Puppet, World
from tests.support import periodic as p
from tests.support.periodic import CRC, DOC, str8

BOTH = pytest.mark.parametrize("dialect", [CRC, DOC])


@BOTH
def test_a_grab_waits_and_is_met_under_its_own_id(world: World, dialect: str) -> None:
    worker = world.worker("f", dialect=dialect)
    msgid = worker.say(p.GRAB_JOB)
    worker.heard()
    world.pass_time(100_000)
    assert [m.command for m in worker.heard()] == []
    world.peer(dialect).submit("f", "n")
    (message,) = worker.heard()
    assert (message.msgid, message.command) == (msgid, p.JOB_ASSIGN)
    world.peer(dialect).submit("f", "m")
    assert worker.heard() == [], "an id is good for one job"


def test_the_last_id_is_used_first(world: World, worker: Puppet) -> None:
    ids = [worker.say(p.GRAB_JOB) for _ in range(3)]
    worker.heard()
    world.peer().submit_many(3)
    assert [m.msgid for m in worker.heard()] == ids[::-1]


def test_a_storm_of_grabs_gets_bounded_answers_and_one_job(world: World, worker: Puppet) -> None:
    # Facts, section 7, case 2: the same id GRABbed 1000 times in 1 s.
    for _ in range(100):
        worker.send(worker.message(p.GRAB_JOB, b"", b"slot") * 10)
        world.pass_time(10, step=10)
    assert worker.words() == [p.SUCCESS]
    world.peer().submit_many(3)
    assert worker.words() == [p.JOB_ASSIGN]
    world.pass_time(10_000)
    assert worker.words() == [p.SUCCESS], "the GRAB_JOBs said again are answered once"


def test_grabs_of_many_ids_are_bounded_too(world: World, worker: Puppet) -> None:
    for start in range(0, 10_000, 100):
        ids = range(start, start + 100)
        worker.send(b"".join(worker.message(p.GRAB_JOB, b"", b"%04d" % n) for n in ids))
    talk = worker.conversation.worker
    assert len(talk._grabs) == 4_096
    assert len(talk._owed) <= 4_096
    assert len(world.broker.queues["f"].demands) == 1, "one demand, however many ids"


def test_jobs_go_around_among_workers(world: World) -> None:
    workers = [world.worker("f") for _ in range(3)]
    for worker in workers:
        for _ in range(4):
            worker.say(p.GRAB_JOB)
        worker.heard()
    client = world.peer()
    client.submit_many(6)
    assert [len(worker.assigned()) for worker in workers] == [2, 2, 2]


def test_functions_take_turns(world: World, client: Puppet) -> None:
    for number in range(4):
        client.submit("a", f"n{number}")
        client.submit("b", f"n{number}")
    worker = world.worker("a", "b")
    assert {worker.grab().func for _ in range(2)} == {"a", "b"}


def test_a_function_added_while_a_grab_waits_counts(world: World) -> None:
    world.peer().submit("g", "n")
    worker = world.worker("f")
    worker.say(p.GRAB_JOB)
    worker.say(p.CAN_DO, str8("g"))
    assert [job.func for job in worker.assigned()] == ["g"]


def test_a_function_taken_back_counts_and_what_runs_goes_on(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.submit("f", "n")
    job = worker.grab()
    worker.say(p.GRAB_JOB)
    worker.say(p.CANT_DO, str8("f"))
    worker.heard()
    client.submit("f", "m")
    assert worker.assigned() == []
    worker.done(job)
    assert [j.name for j in world.jobs()] == ["m"]
    assert client.status()["f"][:2] == [0, 1]


def test_a_worker_of_nothing_gets_nothing(world: World) -> None:
    worker = world.worker()
    world.peer().submit("f", "n")
    assert worker.try_grab() == []


def test_a_worker_that_leaves_takes_its_grabs_along(world: World, worker: Puppet) -> None:
    worker.say(p.GRAB_JOB)
    worker.hang_up()
    world.peer().submit("f", "n")
    assert world.jobs(State.READY)
    assert world.peer().status()["f"][:3] == [0, 1, 0]


# -- confirmation: three clients, three needs ---------------------------------------------------------


def test_a_grab_is_answered_within_ten_seconds(world: World, worker: Puppet) -> None:
    """Haskell: each GRAB_JOB must be answered SUCCESS, or the connection counts as broken."""
    for _ in range(6):
        worker.say(p.GRAB_JOB, msgid=b"sess")
        world.pass_time(9_900)
        assert worker.words() == [p.SUCCESS]


def test_a_worker_that_registered_as_a_client_is_never_answered_its_grabs(world: World) -> None:
    """Go: it works as a client, never reads these answers and dies of the eleventh."""
    worker = world.peer()
    assert worker.word(p.CAN_DO, str8("f")) == p.SUCCESS
    worker.grab_many(30)
    for _ in range(30):
        worker.say(p.GRAB_JOB, msgid=b"0000")
    world.pass_time(20_000)
    assert worker.heard() == []
    world.peer().submit("f", "n")
    (job,) = worker.assigned()
    worker.done(job)
    assert (worker.words(), world.jobs()) == ([p.SUCCESS], [])


def test_old_confirmation_answers_no_worker() -> None:
    """Node before 1.6 dies of an answer that it did not wait for."""
    world = World(confirm="old")
    worker = world.worker()
    worker.say(p.CAN_DO, str8("f"))
    worker.say(p.BROADCAST, str8("g"))
    worker.say(p.CANT_DO, str8("g"))
    for _ in range(3):
        worker.say(p.GRAB_JOB, msgid=b"slot")
    world.pass_time(11_000)
    assert worker.heard() == []
    client = world.peer()
    assert client.offer("f", "n") == p.SUCCESS, "clients are answered as ever"
    (job,) = worker.assigned()
    for settle in (worker.fail, worker.done):
        settle(job)
        assert worker.heard() == []


def test_a_worker_in_the_documents_dialect_is_answered_nothing_but_jobs(world: World) -> None:
    worker = world.worker("f", dialect=DOC)
    worker.say(p.GRAB_JOB)
    world.peer().submit("f", "n")
    (job,) = worker.assigned()
    worker.done(job)
    worker.say(p.CANT_DO, b"f")
    assert worker.heard() == []


# -- an assignment that is sent back -------------------------------------------------------------------


def test_a_job_sent_back_goes_to_another_worker_as_if_it_was_never_given(world: World) -> None:
    client, full, other = world.peer(), world.worker("f"), world.worker("f")
    client.submit("f", "n")
    full.grab(b"slot")
    other.say(p.GRAB_JOB)
    other.heard()
    full.say(p.JOB_UNASSIGNED, msgid=b"slot")
    assert [job.name for job in other.assigned()] == ["n"]
    assert full.words() == []
    (job,) = world.jobs()
    assert (job.attempts, job.failures) == (1, 0)


def test_a_worker_that_sends_jobs_back_rests_before_it_gets_another(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.submit("f", "n")
    worker.say(p.GRAB_JOB, msgid=b"spar")
    worker.heard()
    client.submit("f", "m")
    job = worker.grab(b"slot")
    worker.say(p.JOB_UNASSIGNED, msgid=b"slot")
    assert worker.heard() == []
    worker.say(p.GRAB_JOB, msgid=b"slot")
    assert worker.words() == [p.SUCCESS]
    world.pass_time(900)
    assert worker.assigned() == []
    world.pass_time(200)
    assert [again.name for again in worker.assigned()] == [job.name]


def test_an_assignment_needs_no_answer(client: Puppet, worker: Puppet, world: World) -> None:
    client.submit("f", "n")
    job = worker.grab()
    world.pass_time(100_000)
    assert not worker.is_hung_up
    worker.done(job)
    assert world.jobs() == []


def test_sending_back_what_one_does_not_have_changes_nothing(world: World, worker: Puppet) -> None:
    worker.say(p.JOB_UNASSIGNED, msgid=b"none")
    assert worker.heard() == []
    world.peer().submit("f", "n")
    assert worker.grab().name == "n"
