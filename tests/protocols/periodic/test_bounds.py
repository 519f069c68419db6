"""Workers that want much: functions, GRAB_JOBs, runs and locks are bounded, and so is their cost."""

from typing import Any

import pytest

from franca.core.errors import TooMuch
from franca.core.model import Demand, State
from franca.protocols.periodic import runs, service, worker_commands, workers
from tests.protocols.periodic.puppet import Puppet, World
from tests.support import periodic as p
from tests.support.periodic import DOC, packed, str8


def refuse(*args: Any, **options: Any) -> Any:
    raise TooMuch("not now")


@pytest.fixture
def demands(monkeypatch: pytest.MonkeyPatch) -> list[Demand]:
    """Every demand that is made."""
    found: list[Demand] = []
    make = workers.Worker._new_demand

    def counted(self: workers.Worker, until: int) -> Demand:
        found.append(make(self, until))
        return found[-1]

    monkeypatch.setattr(workers.Worker, "_new_demand", counted)
    return found


# -- functions -------------------------------------------------------------------------------------


def test_several_functions_in_a_row_make_one_demand(world: World, demands: list[Demand]) -> None:
    worker = world.worker()
    worker.say(p.GRAB_JOB)
    names = [worker.message(p.CAN_DO, str8(f"f{n}"), b"func") for n in range(30)]
    worker.send(b"".join(names))
    assert [len(demand.queues) for demand in demands] == [30]
    del demands[:]
    worker.send(names[0] + worker.message(p.CANT_DO, str8("f1"), b"func"))
    assert [len(demand.queues) for demand in demands] == [29]
    world.peer().submit("f7", "n")
    assert worker.heard()[-1].command == p.JOB_ASSIGN


def test_what_costs_much_with_many_functions_ends_the_share_of_the_turn(world: World) -> None:
    worker = world.worker(*(f"f{n}" for n in range(1_000)))
    worker.say(p.GRAB_JOB)
    pair = [worker.message(command, str8("f1"), b"func") for command in (p.CANT_DO, p.CAN_DO)]
    before = world.service.commands
    world.turn((worker, b"".join(pair) * 20))
    assert world.service.commands - before <= 2
    world.run()
    assert world.service.commands - before == 40
    doc = world.worker(*(f"f{n}" for n in range(1_000)), dialect=DOC)
    doc.conversation.follows_document = True
    before = world.service.commands
    world.turn((doc, doc.message(p.GRAB_JOB, b"", b"7") * 20))
    assert world.service.commands - before <= 2
    world.run()
    assert doc.words() == [p.NO_JOB] * 20


def test_a_worker_with_many_functions_asks_by_turns(world: World, demands: list[Demand]) -> None:
    worker = world.worker(*(f"f{n}" for n in range(100)))
    worker.grab_many(9)
    client = world.peer()
    del demands[:]
    jobs = [packed("f1", f"n{number}") for number in range(9)]
    world.turn(*((client, client.message(p.SUBMIT_JOB, job, b"subm")) for job in jobs))
    assert len(demands) <= 1
    world.run()
    assert len([m for m in worker.heard() if m.command == p.JOB_ASSIGN]) == 9


def test_no_worker_is_given_very_many_jobs_in_one_turn(world: World) -> None:
    client, worker = world.peer(), world.worker()
    for number in range(300):
        client.submit("f", f"n{number}")
        worker.say(p.GRAB_JOB, msgid=b"%04d" % number)
    world.turn((worker, worker.message(p.CAN_DO, str8("f"), b"func")))
    assert len(world.broker.queues["f"].demands) == 0
    assert world.broker.leases.count == workers.JOBS_AT_ONCE
    world.run()
    assert world.broker.leases.count == 300


def test_the_functions_of_all_workers_are_bounded_but_for_a_few_of_each(world: World) -> None:
    world.service.offered.most = 30_000
    greedy, modest = world.worker(), world.worker()
    words = [greedy.word(p.CAN_DO, str8(f"f{n}")) for n in range(100)]
    assert 20 < words.count(p.SUCCESS) < 40
    assert modest.word(p.CAN_DO, str8("g")) == p.SUCCESS
    assert greedy.word(p.CAN_DO, str8("f0")) == p.SUCCESS, "it has that one"
    greedy.say(p.CANT_DO, str8("f0"))
    greedy.heard()
    assert greedy.word(p.CAN_DO, str8("f0")) == p.SUCCESS
    greedy.hang_up()
    assert world.service.offered.taken == 0


def test_a_function_that_the_broker_refuses_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    worker = world.worker()
    monkeypatch.setattr(world.broker, "serve", refuse)
    assert (worker.word(p.CAN_DO, str8("f")), worker.conversation.worker.funcs) == (p.UNKNOWN, {})
    assert not world.service.funcs


def test_a_demand_that_the_broker_refuses_is_made_again_later(
    world: World, worker: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.peer().submit("f", "n")
    with monkeypatch.context() as patched:
        patched.setattr(world.broker, "demand", refuse)
        worker.say(p.GRAB_JOB)
        worker.say(p.CAN_DO, str8("g"))
    assert p.JOB_ASSIGN not in worker.words()
    world.pass_time(1_100)
    assert worker.words() == [p.JOB_ASSIGN]


def test_a_sleep_that_the_broker_refuses_is_not_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(dialect="doc")
    worker = world.worker("f", dialect=DOC)
    worker.say(p.SLEEP)
    monkeypatch.setattr(world.broker, "demand", refuse)
    worker.say(p.CAN_DO, b"g")
    assert worker.words() == [p.UNKNOWN]
    worker.say(p.GRAB_JOB)
    assert worker.words() == [p.UNKNOWN]


def test_a_new_function_is_listed_however_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "FUNCS_MAX", 5)
    world = World()
    first = world.worker("first")
    for number in range(9):
        world.worker(f"f{number}").hang_up()
    last = world.worker("last")
    names = set(world.peer().status())
    assert {"first", "last", "f8"} <= names
    assert "f0" not in names
    first.hang_up()
    last.hang_up()
    assert {"first", "last"} <= set(world.peer().status())


def test_only_so_many_workers_may_want_every_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BROADCASTS_MAX", 2)
    world = World()
    world.broadcaster()
    world.broadcaster()
    third = world.worker()
    assert third.word(p.BROADCAST, str8("f")) == p.UNKNOWN
    assert third.word(p.CAN_DO, str8("f")) == p.SUCCESS


# -- GRAB_JOBs and runs ----------------------------------------------------------------------------


def test_the_ids_of_all_connections_are_bounded_but_for_a_few_of_each(world: World) -> None:
    world.service.grabs.most = 20
    workers = [world.worker("f", dialect=DOC) for _ in range(3)]
    for worker in workers:
        for number in range(40):
            worker.say(p.GRAB_JOB, msgid=b"%064d" % number)
    waiting = [len(worker.conversation.worker._grabs) for worker in workers]
    assert waiting == [28, 8, 8]
    client = world.peer()
    client.submit_many(44)
    assert (sum(len(worker.heard()) for worker in workers), world.service.grabs.taken) == (44, 0)


def test_ids_that_are_owed_an_answer_are_bounded_too(world: World) -> None:
    world.service.grabs.most = 20
    worker = world.worker("f")
    for _ in range(2):
        worker.grab_many(40)
    assert world.service.grabs.taken <= 20
    world.pass_time(6_000)
    worker.hang_up()
    assert world.service.grabs.taken == 0


@pytest.mark.parametrize("how", ["done", "fail", "later", "unassigned", "expired", "removed"])
def test_a_worker_at_its_limit_waits_for_an_end(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(workers, "RUNS_MAX", 3)
    world = World()
    client, worker = world.peer(), world.worker("f")
    client.submit_many(6, timeout=5)
    jobs = [worker.grab() for _ in range(3)]
    grab = worker.say(p.GRAB_JOB)
    assert worker.assigned() == []
    match how:
        case "done":
            worker.done(jobs[0])
        case "fail":
            worker.fail(jobs[0])
        case "later":
            worker.later(jobs[0], 9)
        case "unassigned":
            worker.say(p.JOB_UNASSIGNED, msgid=jobs[0].msgid)
            world.pass_time(1_100)
        case "removed":
            client.word(p.REMOVE_JOB, str8("f") + str8("n0"))
        case _:
            world.pass_time(6_000)
    given = [m for m in worker.heard() if m.command == p.JOB_ASSIGN]
    assert [message.msgid for message in given] == [grab]


def test_a_job_sent_back_is_found_without_looking_at_all_others(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    for number in range(50):
        client.submit("f", f"n{number}")
        worker.say(p.GRAB_JOB, msgid=b"%04d" % number)
    worker.heard()
    looks = 0

    class Watched(dict[bytes, runs.Run]):
        def items(self) -> Any:
            nonlocal looks
            looks += 1
            return super().items()

    worker.conversation.worker.runs.held = Watched(worker.conversation.worker.runs.held)
    worker.send(worker.message(p.JOB_UNASSIGNED, b"", b"none") * 30)
    for number in range(7):
        worker.say(p.JOB_UNASSIGNED, msgid=b"%04d" % number)
    assert (looks, len(world.jobs(State.READY))) == (0, 7)
    world.pass_time(1_100)
    worker.say(p.GRAB_JOB, msgid=b"anew")
    assert [m.command for m in worker.heard()] == [p.SUCCESS, p.JOB_ASSIGN]
    worker.say(p.JOB_UNASSIGNED, msgid=b"anew")
    assert len(world.jobs(State.READY)) == 7


def test_jobs_that_workers_only_overhear_are_bounded_but_for_a_few_of_each(world: World) -> None:
    world.service.copies.most = 10
    holder, greedy, modest = (world.broadcaster() for _ in range(3))
    client = world.peer()
    for number in range(30):
        client.submit("f", f"n{number}")
        for worker in (holder, greedy):
            worker.say(p.GRAB_JOB)
    assert world.service.copies.taken == 10
    assert len([m for m in modest.heard() if m.command == p.JOB_ASSIGN]) == 1
    greedy.hang_up()
    holder.hang_up()
    assert world.service.copies.taken == 0


@pytest.mark.parametrize("end", ["done", "fail", "later", "acquire", "unassigned", "hang_up"])
def test_however_an_overheard_job_ends_its_room_is_free_again(world: World, end: str) -> None:
    world.service.copies.most = 100
    holder, other, client = world.broadcaster(), world.broadcaster(), world.peer()
    for number in range(20):
        for worker in (holder, other):
            worker.say(p.GRAB_JOB, msgid=b"%04d" % number)
        client.submit("f", f"n{number}")
    held = [
        (worker, handle, run)
        for worker in (holder, other)
        for handle, run in worker.conversation.worker.runs.held.items()
        if run.is_copy
    ]
    taken = sum(worker.conversation.worker.runs.copies.taken for worker in (holder, other))
    assert len(held) == taken >= 20
    for worker, handle, run in held:
        said = {
            "done": (p.WORK_DONE, handle),
            "fail": (p.WORK_FAIL, handle),
            "later": (p.SCHED_LATER, handle + bytes(10)),
            "acquire": (p.ACQUIRE, str8("l") + b"\0\1" + handle),
            "unassigned": (p.JOB_UNASSIGNED, b""),
        }.get(end)
        if said is not None:
            worker.say(*said, msgid=run.msgid)
        else:
            worker.hang_up()
    assert sum(worker.conversation.worker.runs.copies.taken for worker in (holder, other)) == 0
    assert world.service.copies.taken == 0


def test_a_job_for_all_is_written_once_for_all_of_them(world: World) -> None:
    workers = [world.broadcaster() for _ in range(4)]
    client = world.peer()
    job = packed("f", "n", bytes(2_000))
    world.turn((client, client.message(p.SUBMIT_JOB, job, b"subm")))
    bodies = [piece for worker in workers for piece in worker.link.out if len(piece) >= 2_000]
    assert (len(bodies), len({id(body) for body in bodies})) == (4, 1)
    world.run()
    assert [worker.assigned()[0].workload for worker in workers] == [bytes(2_000)] * 4


# -- locks -----------------------------------------------------------------------------------------


def test_a_run_holds_only_so_many_locks(client: Puppet, worker: Puppet, world: World) -> None:
    client.submit("f", "n")
    job = worker.grab()
    for number in range(worker_commands.LOCKS_MAX):
        assert worker.acquire(job, f"l{number}")
    assert worker.acquire(job, "l0"), "it has that one"
    assert not worker.acquire(job, "one more")
    assert any("locks" in notice.reason for notice in world.engine.notices)
    assert not world.jobs(State.LEASED), "the worker drops the job without a word"
    assert not world.broker.locks.of_job
    world.pass_time(61_000, step=1_000)
    assert worker.grab().name == "n"


def test_a_lock_that_the_broker_refuses_is_as_one_that_is_taken(
    world: World, client: Puppet, worker: Puppet, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.submit("f", "n")
    job = worker.grab()
    monkeypatch.setattr(world.broker, "lock", refuse)
    assert not worker.acquire(job, "l")
    assert world.jobs(State.WAITING)


def test_who_only_overheard_a_job_can_neither_end_its_run_nor_open_its_locks(world: World) -> None:
    one, two = world.broadcaster(), world.broadcaster()
    world.peer().submit("f", "n")
    mine, heard = one.assigned()[0], two.assigned()[0]
    assert one.acquire(mine, "l")
    assert two.word(p.RELEASE, str8("l") + heard.handle) == p.SUCCESS
    assert world.broker.locks.of_job
    assert not two.acquire(heard, "other")
    assert world.jobs(State.LEASED)
    two.done(heard)
    assert world.jobs(State.LEASED), "it has nothing more to say about it"
    one.done(mine)
    assert not world.jobs()
