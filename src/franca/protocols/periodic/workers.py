"""The worker of one connection: which functions it runs, and the jobs that it asks for.

A worker's GRAB_JOBs wait as ids; as long as there are any, the connection has one demand with the
broker. It is made anew when the functions change, once for several changes in a row.

When a GRAB_JOB is answered is a matter of three client families (facts differ by language): one
takes no answer for a broken connection, one asks again at once whenever it is answered, one never
reads its answers and dies of the eleventh. So a new id is answered at once, one that waits already
after five seconds, and one on a connection that did not register as a worker never.
"""

from __future__ import annotations

from collections.abc import Sized
from functools import partial
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused, TooMuch
from franca.core.events import Granted, Woken
from franca.core.model import NEVER, Choice, Demand, Failure, Job, Millis
from franca.protocols.bodies import BYTES
from franca.protocols.budget import Share
from franca.protocols.conversation import WHOLE_SHARE
from franca.protocols.periodic.alarms import Alarm
from franca.protocols.periodic.auth import WORKER
from franca.protocols.periodic.crc import BULK_BYTES, SHARED_BYTES
from franca.protocols.periodic.jobs import assignment, is_in_json, rename, workload_of
from franca.protocols.periodic.messages import NO_JOB, NOOP, SUCCESS, UNKNOWN
from franca.protocols.periodic.runs import RUNS_MAX, Run, Runs
from franca.protocols.undelivered import give_back

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation

_LISTED: Final = Choice.LISTED
_IN_TURN: Final = Choice.PRIORITY
GRABS_MAX: Final = 4_096
"""Jobs that one connection may ask for at once; what it asks beyond is not noted."""
GRABS_FREE: Final = 8
"""Those of each connection that are noted however many ids wait on all the others."""
FUNCS_MAX: Final = 1_024
"""Functions of one connection."""
FUNCS_AT_ONCE: Final = 16
"""Functions that a demand is made for in about the time that any other message takes."""
JOBS_AT_ONCE: Final = 64
"""Jobs that one worker is given before other connections are served."""
FUNC_BYTES: Final = 1_000
"""What a function that a worker offers takes beside its name, roughly."""
FUNCS_BYTES_MAX: Final = 32 * 1024 * 1024
"""What the functions that all workers offer take together, but for the first few of each."""
FUNCS_BYTES_FREE: Final = 4 * 1024
BROADCASTS_MAX: Final = 2_000
"""Workers that may want every job of one function: all of them are sent it in one turn."""
GRAB_AGAIN_MS: Final = 5_000
"""When a GRAB_JOB is answered whose id waits already: one client gives up after ten seconds."""
TOO_LARGE_TO_GIVE: Final = Failure("TooLarge", "its worker could not be given so much")
PAUSE_MS: Final = 1_000
"""How long a worker that sent a job back as too much is given no other."""
WRITE_AGAIN_MS: Final = 50
"""When a worker asks again for whom too much was to be written: in the next tick."""
LONG_BYTES: Final = 8 * 1024
"""Of smaller jobs a turn's share is not much, whoever is given them."""


class Worker:
    """The worker's part of a connection: any peer may be a worker."""

    __slots__ = (
        "_asleep", "_demand", "_grabs", "_is_at_limit", "_is_full", "_offered", "_owed", "_pause",
        "_paused_until", "_queues", "broker", "connection", "funcs", "link", "quiet", "runs",
        "service",
    )  # fmt: skip

    def __init__(self, connection: PeriodicConversation) -> None:
        self.connection = connection
        self.link = connection.link
        self.service = connection.service
        self.broker = connection.broker
        self.runs = Runs(connection)
        self.funcs: dict[str, bool] = {}
        """Functions by name, and whether each of their jobs is for every worker."""
        self.quiet = False
        self._offered = Share(self.service.offered, FUNCS_BYTES_FREE)
        self._queues: tuple[str, ...] | None = None
        self._asleep: bytes | None = None
        """The id of a SLEEP whose demand is to be made anew."""
        self._is_at_limit = False
        """Whether it asks for nothing because it runs as much as one may."""
        self._is_full = False
        """Whether it was given as much as it may be before it has read some of it."""
        self._grabs: dict[bytes, None] = {}
        self._owed: dict[bytes, Alarm] = {}
        self._demand: Demand | None = None
        self._paused_until: Millis = NEVER
        self._pause: Alarm | None = None

    # -- functions --------------------------------------------------------------------------------

    def can_do(self, func: str, *, for_all: bool) -> None:
        """Jobs of this function are wanted; each of them, if it is to be run by every worker."""
        self.connection.check_may(WORKER, func)
        self.service.intake.check_name(func)
        if for_all and len(self.service.broadcasts.get(func, ())) >= BROADCASTS_MAX:
            raise TooMuch(f"no more than {BROADCASTS_MAX} workers for all jobs of a function")
        is_new = func not in self.funcs
        if is_new:
            if len(self.funcs) >= FUNCS_MAX:
                raise TooMuch(f"no more than {FUNCS_MAX} functions")
            size = _size_of(func)
            self._offered.take(size)
            try:
                self.broker.serve(self.connection.session, func)
            except Refused:
                self._offered.give_back(size)
                raise
        self.funcs[func] = for_all
        self.service.note_func(func, self, for_all)
        if is_new:
            self._ask_anew()

    def cant_do(self, func: str) -> None:
        """No more jobs of this function; what the worker runs it goes on running."""
        if func in self.funcs:
            del self.funcs[func]
            self._offered.give_back(_size_of(func))
            self.service.note_func(func, self, False)
            self.broker.unserve(self.connection.session, func)
            self._ask_anew()

    def on_rules(self) -> None:
        """Rights have changed: give no more jobs of functions that the peer may not use any more.

        It keeps its runs.
        """
        for func in [func for func in self.funcs if not self.connection.may(WORKER, func)]:
            self.cant_do(func)
        if self.connection.has_follow_up:
            self.link.call_next_turn()

    # -- asking for jobs --------------------------------------------------------------------------

    def grab(self, msgid: bytes, now: Millis) -> None:
        """Give a job when there is one."""
        answers = self.connection.answers_grabs
        grabs, owed = self._grabs, self._owed
        if msgid in grabs or not self._may_note(grabs):
            if answers and msgid not in owed and self._may_note(owed):
                ring = partial(self._answer_owed, msgid)
                owed[msgid] = self.service.alarms.set(self.link, now + GRAB_AGAIN_MS, ring)
            return
        grabs[msgid] = None
        if answers:
            self.link.write(self.connection.dialect.bare(msgid, SUCCESS))
        if self._demand is None and not self.connection.has_follow_up:
            self._ask(now)

    def _may_note(self, ids: Sized) -> bool:
        """Whether there is room for one more id, which is then taken: the first few are free."""
        count = len(ids)
        return count < GRABS_FREE or (count < GRABS_MAX and self.service.grabs.may_take(1))

    def _answer_owed(self, msgid: bytes, now: Millis) -> None:
        del self._owed[msgid]
        if len(self._owed) >= GRABS_FREE:
            self.service.grabs.give_back(1)
        self.connection.answer(msgid, SUCCESS)

    def _next_grab(self) -> bytes:
        """The id that the next job goes to."""
        msgid = self._grabs.popitem()[0]
        if len(self._grabs) >= GRABS_FREE:
            self.service.grabs.give_back(1)
        return msgid

    def grab_now(self, msgid: bytes, now: Millis) -> None:
        """PROTOCOL, "GRAB_JOB": the server responds with either NO_JOB or JOB_ASSIGN."""
        self.withdraw()
        is_at_limit = len(self.connection.session.leases) >= RUNS_MAX
        if self.funcs and not is_at_limit and not self._is_paused(now):
            answer = self.broker.demand(self._new_demand(now), now)
            if isinstance(answer, Granted):
                self._assign(answer.job, msgid, now)
                return
        self.connection.answer(msgid, NO_JOB)

    def sleep(self, msgid: bytes, now: Millis) -> None:
        """NOOP when there is work for this worker."""
        self.withdraw()
        if self._is_paused(now):
            return  # it would ask in vain, and sleep, and be woken at once
        # PROTOCOL: "The job server then notifies each worker that can perform that job".
        demand = self._new_demand(NEVER)
        demand.choice, demand.tag = _LISTED, msgid
        demand.only_wake = demand.wake_always = True
        if isinstance(self.broker.demand(demand, now), Woken):
            self.connection.answer(msgid, NOOP)
        else:
            self._demand = demand

    def _is_paused(self, now: Millis) -> bool:
        return self.quiet or self.service.stopping or now < self._paused_until

    def _new_demand(self, until: Millis) -> Demand:
        """A demand for jobs of all functions; the more there are, the longer it takes."""
        queues = self._queues
        if queues is None:
            queues = self._queues = tuple(self.funcs)
        if len(queues) == 1:
            return Demand(self.connection.session, queues, until)
        self.connection.spent += len(queues) // FUNCS_AT_ONCE
        # They take turns: the first must not starve the others.
        return Demand(self.connection.session, queues, until, _IN_TURN)

    def _ask(self, now: Millis) -> None:
        """Take what there is for the ids that wait, and wait for more with the rest."""
        if not self.funcs or self._is_paused(now):
            return
        left = JOBS_AT_ONCE // (1 + len(self.funcs) // FUNCS_AT_ONCE)
        while self._grabs:
            if len(self.connection.session.leases) >= RUNS_MAX:
                self._is_at_limit = True
                return
            if self.connection.dialect.writes_anew and not self.service.may_write():
                self.pause(now, WRITE_AGAIN_MS)
                return
            demand = self._new_demand(NEVER)
            try:
                answer = self.broker.demand(demand, now)
            except Refused as refusal:
                self.link.note(str(refusal))
                self.pause(now)
                return
            if not isinstance(answer, Granted):
                self._demand = demand
                return
            self._assign(answer.job, self._next_grab(), now)
            left -= 1
            if left <= 0 or self._is_full:
                self._ask_later()
                return

    def _ask_later(self) -> None:
        """Others come first: go on next turn, or when the worker has read what it was given."""
        self._is_full = False
        self.connection.want_follow_up()
        self.connection.asks_later = True
        self.link.call_next_turn()

    def _ask_anew(self) -> None:
        """The functions have changed: ask for other jobs, when all changes are known."""
        demand, asleep = self._demand, self._asleep
        self._queues = None
        if demand is not None:
            self.connection.spent += len(demand.queues) // FUNCS_AT_ONCE
            asleep = demand.tag if demand.only_wake else None
            self.withdraw()
        self._asleep = asleep
        self.connection.want_follow_up()

    def ask_for_all(self, now: Millis) -> None:
        """Ask for jobs of the functions that there are now."""
        asleep = self._asleep
        if asleep is not None:
            try:
                self.connection.rule()
                self.sleep(asleep, now)
            except Refused as refusal:
                self.link.note(str(refusal))
                self.connection.answer(asleep, UNKNOWN)
        elif self._demand is None:
            self._ask(now)

    def withdraw(self) -> None:
        """Ask for nothing."""
        self._asleep = None
        if self._demand is not None:
            self.broker.withdraw(self._demand)
            self._demand = None

    def stop_giving_jobs(self) -> None:
        """Give this worker nothing more."""
        self.quiet = True
        self.withdraw()

    def pause(self, now: Millis, ms: int = PAUSE_MS) -> None:
        """Ask for nothing for a while."""
        self._paused_until = now + ms
        self.service.alarms.cancel(self._pause)
        self._pause = self.service.alarms.set(self.link, self._paused_until, self._on_pause_over)

    def _on_pause_over(self, now: Millis) -> None:
        self._paused_until = NEVER
        if self._demand is None:
            self._ask(now)

    def on_run_over(self, now: Millis) -> None:
        """One of its runs is over: whoever had as many as may be can have another."""
        if self._is_at_limit and len(self.connection.session.leases) < RUNS_MAX:
            self._is_at_limit = False
            if self._demand is None:
                self._ask(now)

    # -- giving jobs ------------------------------------------------------------------------------

    def on_granted(self, event: Granted, now: Millis) -> None:
        """A job has come. One for a demand that is no longer made goes back."""
        if self.connection.dialect.writes_anew and not self.service.may_write():
            self.withdraw()
            self.pause(now, WRITE_AGAIN_MS)
        if event.demand is not self._demand or self.link.closing or not self._grabs:
            give_back(self.broker, event.job, self.connection.session.holder, now)
            return
        self._demand = None
        self._assign(event.job, self._next_grab(), now)
        if not self._grabs:
            return
        if len(self.funcs) < FUNCS_AT_ONCE and not self._is_full:
            self._ask(now)
        else:
            self._ask_later()

    def on_woken(self, event: Woken) -> None:
        """There is work for a worker that sleeps by the document."""
        if event.demand is self._demand:
            self._demand = None
            self.connection.answer(event.demand.tag, NOOP)

    def _assign(self, job: Job, msgid: bytes, now: Millis) -> None:
        for_all = self.funcs.get(job.queue, False)
        if self._write_job(job, msgid, for_all=for_all):
            if for_all:
                self.service.broadcast(job, self)
            return
        # A job that cannot be written to this worker is for another one, a little later.
        most = self.connection.dialect.workload_max
        self.link.note(f"it cannot be given a job of more than {most} bytes")
        self.broker.fail(job, self.connection.session.holder, TOO_LARGE_TO_GIVE, now)
        if self.connection.follows_document:
            self.connection.answer(msgid, NO_JOB)
        elif self._may_note(self._grabs):
            self._grabs[msgid] = None

    def give_copy(self, job: Job) -> None:
        """A job that is for every worker was given to another one: have it too, if asked for."""
        if not self._grabs or self.link.closing or not self.runs.copies.may_take(1):
            return
        self.service.sent += 1
        if not self._write_job(job, self._next_grab(), for_all=True, is_copy=True):
            self.runs.copies.give_back(1)
        if not self._grabs:
            self.withdraw()

    def _write_job(self, job: Job, msgid: bytes, *, for_all: bool, is_copy: bool = False) -> bool:
        """Send the worker a job, unless it is too large for its dialect."""
        connection = self.connection
        if connection.handshake.is_undecided:
            connection.handshake.decide_by_job(is_in_json(job))
        dialect = connection.dialect
        workload = job.body
        if job.media != BYTES:
            workload = self.service.workload_for_all(job) if for_all else workload_of(job)
        shown = assignment(job, workload, dialect, self.broker)
        size = len(workload)
        if size > dialect.workload_max:
            return False
        if shown.handle in self.runs.held and self.runs.is_taken(shown.handle, job.id):
            rename(shown, dialect)
        self.runs.add(shown.handle, Run(job.id, job.attempts, job.holder, msgid, is_copy))
        is_shared = size >= BULK_BYTES or (for_all and size >= SHARED_BYTES)
        shared = self.service.share(workload) if is_shared else None
        pieces = dialect.assign(msgid, shown, shared)
        self.link.write_pieces(pieces, durable=True)
        if is_shared:
            self.link.in_pieces = True
        if size >= LONG_BYTES:
            if dialect.writes_anew:
                self.service.written += len(pieces[0])
            if self.link.is_full():
                self._is_full = True
                connection.spent += WHOLE_SHARE
        return True

    def leave(self) -> None:
        """The connection is gone: nothing is wanted any more."""
        self._demand = self._asleep = None
        for alarm in (self._pause, *self._owed.values()):
            self.service.alarms.cancel(alarm)
        for ids in (self._grabs, self._owed):
            self.service.grabs.give_back(max(0, len(ids) - GRABS_FREE))
            ids.clear()
        for func in self.funcs:
            self.service.note_func(func, self, False)
        self.funcs.clear()
        self._queues = None
        self._offered.clear()
        self.runs.clear()


def _size_of(func: str) -> int:
    return FUNC_BYTES + 2 * len(func)
