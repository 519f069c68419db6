"""Every family of workers lives with the same server: none runs hot, dies or takes it for broken.

A family is what a library sends and how it takes what comes, message by message; which bytes that
is, the puppet knows. Each tells when it would be broken: `dead` says why.
"""

from collections.abc import Callable

import pytest

from franca.core.model import State
from tests.protocols.periodic.puppet import Puppet, World
from tests.support import periodic as p
from tests.support.periodic import CRC, DOC, Assigned, Message

Work = Callable[["Family", Assigned], None]


def done(worker: "Family", job: Assigned) -> None:
    """Be done with it at once."""
    worker.say(p.WORK_DONE, worker.peer.result(job.handle, job.workload))


class Family:
    """One worker with a number of slots."""

    kind = p.WORKER
    dialect = CRC
    ping_ms = 100_000

    def __init__(self, world: World, func: str, slots: int = 2, work: Work = done) -> None:
        self.world = world
        self.peer: Puppet = world.connect(self.dialect).register(self.kind)
        self.dead = ""
        self.grabs = 0
        self.sent = 0
        self.ran: list[Assigned] = []
        self._work = work
        self._slots = [b"sl%02d" % number for number in range(slots)]
        self._grab_at = dict.fromkeys(self._slots, world.now)
        self._ping_at = world.now + self.ping_ms
        self._numbers = 0
        self.begin()
        self.say(p.CAN_DO, self.peer.func(func))

    def begin(self) -> None:
        """What a family has to keep and to say before its first function."""

    def next_id(self) -> bytes:
        """An id that is not used yet."""
        return self.peer.next_id()

    # -- what every library does ------------------------------------------------------------

    def say(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        """Send a command under an id of its own, unless it has one."""
        self.sent += 1
        return self.peer.say(command, args, msgid or self.next_id())

    def later(self, job: Assigned, delay: int, step: int) -> None:
        """Put a job off."""
        self.say(p.SCHED_LATER, self.peer.put_off(job.handle, delay, step))

    def step(self) -> None:
        """Take what came, and do what the clock says."""
        if self.peer.is_hung_up and not self.dead:
            self.dead = "the server hung up"
        if self.dead:
            return
        for message in self.peer.heard():
            self.hear(message)
        now = self.world.now
        if now >= self._ping_at:
            self._ping_at = now + self.ping_ms
            self.say(p.PING)
        for slot in self._slots:
            if now >= self._grab_at[slot]:
                self.grab(slot)

    def hear(self, message: Message) -> None:
        """Take one answer."""
        if message.command == p.JOB_ASSIGN:
            self.run(message)

    def run(self, message: Message) -> None:
        job = self.peer.job_in(message)
        self.ran.append(job)
        self._work(self, job)
        self.after(message.msgid)

    def after(self, slot: bytes) -> None:
        """A slot is free again."""
        self.grab(slot)

    def grab(self, slot: bytes) -> None:
        self.grabs += 1
        self._grab_at[slot] = self.world.now + self.again_ms()
        self.say(p.GRAB_JOB, msgid=slot)

    def again_ms(self) -> int:
        """When a slot asks again of itself."""
        return 1_000


class Node(Family):
    """node-periodic 1.6.1: pings first; asks again at once whenever an answer is no job; throws if
    an answer is for nobody; acknowledges what it is given."""

    greets = True

    def begin(self) -> None:
        self._awaited: set[bytes] = set()
        if self.greets:
            self.say(p.PING)

    def next_id(self) -> bytes:
        self._numbers += 1
        return b"%04d" % (self._numbers % 10_000)

    def say(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        msgid = super().say(command, args, msgid)
        if command != p.JOB_ASSIGNED:
            self._awaited.add(msgid)
        return msgid

    def hear(self, message: Message) -> None:
        if message.msgid not in self._awaited and message.msgid not in self._slots:
            self.dead = f"an answer for nobody: {message}"
        elif message.msgid not in self._slots:
            self._awaited.discard(message.msgid)
        elif message.command == p.JOB_ASSIGN:
            self.say(p.JOB_ASSIGNED, msgid=message.msgid)
            self.run(message)
        else:
            self.grab(message.msgid)


class OldNode(Node):
    """node-periodic before 1.6: waits for no answer of a worker's words, and throws if one comes."""

    def say(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        msgid = super().say(command, args, msgid)
        if command != p.PING and command != p.GRAB_JOB:
            self._awaited.discard(msgid)
        return msgid


class OlderNode(OldNode):
    """node-periodic before 1.5: the same, and the first word is a function."""

    greets = False


class Go(Family):
    """go-periodic: registers as a client; the answers to one id fill ten places that nobody
    empties, but for jobs; the eleventh blocks it for ever."""

    kind = p.CLIENT
    ping_ms = 1_000

    def begin(self) -> None:
        self._unread: dict[bytes, int] = {}

    def hear(self, message: Message) -> None:
        if message.msgid in self._slots and message.command != p.JOB_ASSIGN:
            unread = self._unread[message.msgid] = self._unread.get(message.msgid, 0) + 1
            if unread > 10:
                self.dead = "its reader is blocked"
        else:
            super().hear(message)


class Haskell(Family):
    """periodic-run 1.2.5 and later: each GRAB_JOB must be answered within ten seconds."""

    def begin(self) -> None:
        self._waits: dict[bytes, int] = {}

    def grab(self, slot: bytes) -> None:
        self._waits.setdefault(slot, self.world.now + 10_000)
        super().grab(slot)

    def hear(self, message: Message) -> None:
        if message.command == p.SUCCESS:
            self._waits.pop(message.msgid, None)
        super().hear(message)

    def run(self, message: Message) -> None:
        self.say(p.JOB_ASSIGNED, msgid=message.msgid)
        super().run(message)

    def step(self) -> None:
        super().step()
        if any(self.world.now > until for until in self._waits.values()):
            self.dead = "a GRAB_JOB was not answered"

    def again_ms(self) -> int:
        return 10_000


class Python(Family):
    """aio_periodic 0.2: grabs every second under the same id, pings every second."""

    ping_ms = 1_000


class Document(Family):
    """A client of the document's time: one GRAB_JOB at a time, and it dies of what it did not ask."""

    dialect = DOC
    ping_ms = 1 << 40

    def hear(self, message: Message) -> None:
        if message.command not in (p.JOB_ASSIGN, p.PONG):
            self.dead = f"an answer for nobody: {message}"
        super().hear(message)

    def again_ms(self) -> int:
        return 1 << 40


MODERN: list[type[Family]] = [Node, Go, Haskell, Python, Document]


def live(world: World, ms: int, *workers: Family, step: int = 50) -> None:
    """Let time go by for the server and for these."""
    end = world.now + ms
    while world.now < end:
        for worker in workers:
            worker.step()
        world.pass_time(step, step=step)
    for worker in workers:
        worker.step()


# -- tests -----------------------------------------------------------------------------------------

EACH = pytest.mark.parametrize("family", MODERN)


@EACH
def test_a_worker_runs_what_it_is_given(world: World, family: type[Family]) -> None:
    worker = family(world, "f")
    live(world, 2_000, worker)
    client = world.peer()
    client.submit_many(20, b"w")
    live(world, 5_000, worker)
    assert sorted(job.name for job in worker.ran) == sorted(f"n{n}" for n in range(20))
    assert (worker.dead, world.jobs()) == ("", [])


@EACH
def test_an_idle_worker_is_neither_hot_nor_dead_later(world: World, family: type[Family]) -> None:
    worker = family(world, "f")
    live(world, 600_000, worker, step=250)
    assert not worker.dead
    assert worker.grabs <= 2 * 600 * 1.3, "about one a second for each slot, at most"
    world.peer().submit("f", "n")
    live(world, 2_000, worker)
    assert [job.name for job in worker.ran] == ["n"]


@EACH
def test_a_busy_worker_does_not_run_hot_either(world: World, family: type[Family]) -> None:
    worker = family(world, "f", 1)
    client = world.peer()
    for number in range(100):
        client.submit("f", f"n{number}")
        live(world, 100, worker)
    assert len(worker.ran) == 100
    assert worker.sent < 1_000
    assert not worker.dead


@EACH
def test_a_worker_that_fails_and_puts_off(family: type[Family]) -> None:
    def work(worker: Family, job: Assigned) -> None:
        tries = [j.name for j in worker.ran].count(job.name)
        if tries == 1:
            worker.say(p.WORK_FAIL, job.handle)
        elif tries == 2:
            worker.later(job, 1, 1)
        else:
            worker.say(p.WORK_DONE, job.handle)

    world = World()
    worker = family(world, "f", 2, work)
    world.peer().submit("f", "n")
    live(world, 15_000, worker)
    assert ([job.count for job in worker.ran], worker.dead, world.jobs()) == ([0, 0, 1], "", [])


def test_a_slot_of_node_asks_about_once_a_second_and_is_given_jobs(world: World) -> None:
    """Every answer that is no job triggers its next GRAB_JOB; and a timer does, every second."""
    worker = Node(world, "f", 1)
    live(world, 60_000, worker, step=10)
    assert worker.grabs <= 80, "about one a second by its timer, and one for each late answer"
    world.peer().submit_many(5)
    live(world, 3_000, worker, step=10)
    assert [job.name for job in worker.ran] == [f"n{number}" for number in range(5)]
    assert (worker.dead, world.jobs()) == ("", [])


def test_all_of_them_share_one_function(world: World) -> None:
    workers = [family(world, "f") for family in MODERN]
    live(world, 3_000, *workers)
    client = world.peer()
    client.submit_many(100)
    live(world, 5_000, *workers)
    assert sum(len(worker.ran) for worker in workers) == 100
    assert all(worker.ran for worker in workers)
    assert [worker.dead for worker in workers] == [""] * len(workers)


def test_an_old_node_worker_needs_old_confirmation() -> None:
    for confirm, dies in (("modern", True), ("old", False)):
        world = World(confirm=confirm)
        worker = OldNode(world, "f")
        live(world, 5_000, worker)
        world.peer().submit("f", "n")
        live(world, 5_000, worker)
        assert bool(worker.dead) is dies, worker.dead
    assert [job.name for job in worker.ran] == ["n"]


def test_a_node_worker_beginning_with_a_function_needs_no_confirmations(world: World) -> None:
    worker = OlderNode(world, "f")
    world.peer().submit("f", "n")
    live(world, 5_000, worker)
    assert (worker.dead, [job.name for job in worker.ran]) == ("", ["n"])


def test_a_worker_that_waits_for_its_confirmation_has_it_with_any_id(world: World) -> None:
    worker = world.connect().register(p.WORKER)
    worker.say(p.CAN_DO, p.str8("f"), b"abcd")
    world.pass_time(900)
    assert worker.heard() == []
    world.pass_time(200)
    assert [(m.msgid, m.command) for m in worker.heard()] == [(b"abcd", p.SUCCESS)]
    assert worker.word(p.CANT_DO, p.str8("f")) == p.SUCCESS


@EACH
def test_what_a_worker_that_vanishes_held_goes_to_another(family: type[Family]) -> None:
    def hang(worker: Family, job: Assigned) -> None:
        """Never be done."""

    world = World()
    worker = family(world, "f", 1, hang)
    world.peer().submit("f", "n")
    live(world, 1_000, worker)
    assert world.jobs(State.LEASED)
    worker.peer.hang_up()
    other = family(world, "f", 1)
    live(world, 12_000, other)
    assert [job.name for job in other.ran] == ["n"]
