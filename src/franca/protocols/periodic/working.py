"""What workers say: which functions they run, GRAB_JOB, and what became of a job.

A worker's GRAB_JOBs wait as ids; as long as there are any, the connection has one demand with the
broker. What it was given it speaks of by a handle, and only the holder's word about a run counts:
a word about a run that is over changes nothing and is confirmed all the same.

When a GRAB_JOB is answered is a matter of three client families (facts differ by language): one
takes no answer for a broken connection, one asks again at once whenever it is answered, one never
reads its answers and dies of the eleventh. So a new id is answered at once, one that waits already
after five seconds, and one on a connection that did not register as a worker never.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.core.errors import NotHeld, TooMuch
from franca.core.events import Granted, Woken
from franca.core.model import NEVER, Choice, Demand, Failure, Job, Millis
from franca.protocols.periodic.asking import DATA_KIND, LEASED, Asking
from franca.protocols.periodic.auth import WORKER
from franca.protocols.periodic.jobs import AT_MAX_S, assignment, is_in_json, later
from franca.protocols.periodic.shared import BULK_BYTES
from franca.protocols.periodic.talk import NotNow
from franca.protocols.periodic.words import NO_JOB, NOOP, SUCCESS

GRABS_MAX: Final = 4_096
"""Jobs that one connection may ask for at once; what it asks beyond is not noted."""
FUNCS_MAX: Final = 1_024
"""Functions of one connection."""
GRAB_AGAIN_MS: Final = 5_000
"""When a GRAB_JOB is answered whose id waits already: one client gives up after ten seconds."""
REST_MS: Final = 1_000
"""How long a worker that sent a job back as too much is given no other."""
FAILED_RUN: Final = Failure("WorkFail", "the worker reported a failure")
TOO_LARGE: Final = Failure("TooLarge", "its result was larger than results may be")


class Run(Struct, gc=False):
    """A job in this worker's hands: since which of its runs, and by which GRAB_JOB."""

    job: Job
    attempt: int
    holder: str
    msgid: bytes


class Working(Asking):
    """The verbs of workers."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.funcs: dict[str, bool] = {}
        """Functions by name, and whether each of their jobs is for every worker."""
        self.quiet = False
        self._queues: tuple[str, ...] = ()
        self._choice = Choice.LISTED
        self._grabs: dict[bytes, None] = {}
        self._owed: dict[bytes, Millis] = {}
        self._held: dict[bytes, Run] = {}
        self._held_max = GRABS_MAX
        self._demand: Demand | None = None
        self._rests_until: Millis = NEVER

    # -- functions --------------------------------------------------------------------------------

    def on_can_do(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """CAN_DO: jobs of this function are welcome."""
        self._can_do(self.speech.read_func(args), False, now)
        self.confirm(msgid)

    def on_broadcast(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """BROADCAST: the same, and every worker that says so is to run each job."""
        self._can_do(self.speech.read_func(args), True, now)
        self.confirm(msgid)

    def _can_do(self, func: str, for_all: bool, now: Millis) -> None:
        self.check_may(WORKER, func)
        self.service.intake.check_name(func)
        if func not in self.funcs and len(self.funcs) >= FUNCS_MAX:
            raise TooMuch(f"no more than {FUNCS_MAX} functions")
        is_new = func not in self.funcs
        self.funcs[func] = for_all
        self.service.note_func(func, self, for_all)
        if is_new:
            self.broker.serve(self.session, func)
            self._note_funcs()
            self._ask_anew(now)

    def on_cant_do(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """CANT_DO: no more of these; what the worker runs it goes on running."""
        func = self.speech.read_func(args)
        if func in self.funcs:
            del self.funcs[func]
            self.service.note_func(func, self, False)
            self.broker.unserve(self.session, func)
            self._note_funcs()
            self._ask_anew(now)
        self.confirm(msgid)

    def _note_funcs(self) -> None:
        self._queues = tuple(self.funcs)
        # With several functions they take turns: the first must not starve the others.
        self._choice = Choice.PRIORITY if len(self.funcs) > 1 else Choice.LISTED

    # -- asking for jobs --------------------------------------------------------------------------

    def on_grab_job(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """GRAB_JOB: a job when there is one; by the document, at once that there is none."""
        if self.service.rules is not None:
            self._rule()
        if self.follows_document:
            self._grab_now(msgid, now)
            return
        if msgid in self._grabs or len(self._grabs) >= GRABS_MAX:
            if self.answers_grabs and len(self._owed) < GRABS_MAX:
                self._owed.setdefault(msgid, now + GRAB_AGAIN_MS)
                self.arm(self._owed[msgid])
            return
        self._grabs[msgid] = None
        if self.answers_grabs:
            self.link.write(self.speech.word(msgid, SUCCESS))
        if self._demand is None:
            self._ask(now)

    def _grab_now(self, msgid: bytes, now: Millis) -> None:
        """PROTOCOL, "GRAB_JOB": the server responds with either NO_JOB or JOB_ASSIGN."""
        self._withdraw()
        if self.funcs and not self._is_refused_work(now):
            demand = Demand(self.session, self._queues, now, self._choice)
            answer = self.broker.demand(demand, now)
            if isinstance(answer, Granted):
                self._assign(answer.job, msgid, now)
                return
        self.say(self.speech.word(msgid, NO_JOB))

    def on_sleep(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """SLEEP: NOOP at once, as every server did; by the document, when there is work."""
        if not self.follows_document:
            self.say(self.speech.word(msgid, NOOP))
            return
        self._withdraw()
        if self._is_refused_work(now):
            return  # it would ask in vain, and sleep, and be woken at once
        # PROTOCOL: "The job server then notifies each worker that can perform that job".
        demand = Demand(self.session, self._queues, only_wake=True, wake_always=True, tag=msgid)
        if isinstance(self.broker.demand(demand, now), Woken):
            self.say(self.speech.word(msgid, NOOP))
        else:
            self._demand = demand

    def _is_refused_work(self, now: Millis) -> bool:
        return self.quiet or self.service.stopping or now < self._rests_until

    def _ask(self, now: Millis) -> None:
        """Take what there is for the ids that wait, and wait for more with the rest."""
        if not self.funcs or self._is_refused_work(now):
            return
        while self._grabs:
            demand = Demand(self.session, self._queues, NEVER, self._choice)
            answer = self.broker.demand(demand, now)
            if not isinstance(answer, Granted):
                self._demand = demand
                return
            self._assign(answer.job, self._grabs.popitem()[0], now)

    def _ask_anew(self, now: Millis) -> None:
        """The functions have changed."""
        demand = self._demand
        self._withdraw()
        if demand is not None and demand.only_wake:
            self.on_sleep(demand.tag, b"", now)
        else:
            self._ask(now)

    def _withdraw(self) -> None:
        if self._demand is not None:
            self.broker.withdraw(self._demand)
            self._demand = None

    def say_granted(self, event: Granted, now: Millis) -> None:
        """A job has come. One for a demand that is no longer made goes back."""
        if event.demand is not self._demand or self.link.closing or not self._grabs:
            try:
                self.broker.give_back(event.job, self.session.holder, now)
            except NotHeld:
                pass  # the connection has ended meanwhile, and its leases with it
            return
        self._demand = None
        self._assign(event.job, self._grabs.popitem()[0], now)
        self._ask(now)

    def say_woken(self, event: Woken) -> None:
        """There is work for a worker that sleeps by the document."""
        if event.demand is self._demand:
            self._demand = None
            self.say(self.speech.word(event.demand.tag, NOOP))

    def _assign(self, job: Job, msgid: bytes, now: Millis) -> None:
        self._hand(job, msgid)
        if self.funcs.get(job.queue):
            self.service.cast(job, self)

    def _hand(self, job: Job, msgid: bytes) -> None:
        if self.is_undecided:
            self.decide_by_job(is_in_json(job))
        shown = assignment(job, self.speech, self.broker)
        other = self._held.get(shown.handle)
        if other is not None and other.job.id != job.id and other.job.state is LEASED:
            shown = assignment(job, self.speech, self.broker, apart=True)
        if len(self._held) >= self._held_max:
            self._forget_runs()
        self._held[shown.handle] = Run(job, job.attempts, job.holder, msgid)
        if len(shown.workload) < BULK_BYTES:
            self.link.write_after_commit(self.speech.assign(msgid, shown))
        else:
            shared = self.service.share(shown.workload)
            front, *rest = self.speech.assign_in_pieces(msgid, shown, shared)
            self.link.write_after_commit(front)
            if rest:
                self.link.write_bulk(*rest)

    def overhear(self, job: Job) -> None:
        """A job that is for every worker was given to another one: have it too, if asked for."""
        if self._grabs and not self.link.closing:
            self._hand(job, self._grabs.popitem()[0])
            if not self._grabs:
                self._withdraw()

    def on_job_assigned(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """JOB_ASSIGNED: it arrived. Many workers never say so, so nobody waits for it."""

    def on_job_unassigned(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """JOB_UNASSIGNED: too much; the job is as if it had not been given."""
        for handle, run in self._held.items():
            if run.msgid == msgid:
                del self._held[handle]
                # Else it would be handed back and forth as fast as the two can speak.
                self._rests_until = now + REST_MS
                self._withdraw()
                self.arm(self._rests_until)
                if run.holder == self.session.holder and _goes_on(run):
                    self.broker.give_back(run.job, run.holder, now)
                return

    # -- settling ---------------------------------------------------------------------------------

    def on_work_done(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """WORK_DONE: done, with a result for those who wait."""
        handle, result = self.speech.read_handle(args)
        run = self._held.pop(handle, None)
        if run is not None:
            self._finish(run, result, now)
        self.confirm(msgid)

    def _finish(self, run: Run, result: bytes, now: Millis) -> None:
        job = run.job
        if _goes_on(run):
            most = self.service.limits.body_bytes_max
            if len(result) > most:
                self.link.note(f"a result of {len(result)} bytes, at most {most}")
                if self.broker.watchers_of(job.id):
                    self.broker.fail(job, run.holder, TOO_LARGE, now)
                    return
                result = b""
            self.broker.finish(job, run.holder, result, now)
        elif job.attempts == run.attempt:
            # Its time ran out, but nobody was given it since: the work counts.
            try:
                self.broker.finish_late(job, run.holder, result, now)
            except NotHeld:
                pass

    def on_work_fail(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """WORK_FAIL: run again in a second; what comes of it is for who waits to hear."""
        run = self._held.pop(self.speech.read_handle(args)[0], None)
        if run is not None and self._is_own(run):
            self.broker.fail(run.job, run.holder, FAILED_RUN, now)
        self.confirm(msgid)

    def on_sched_later(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """SCHED_LATER: run again after a while, its counter moved."""
        handle, delay_s, step = self.speech.read_later(args)
        run = self._held.pop(handle, None)
        if run is not None and self._is_own(run):
            delay_s = max(0, min(delay_s, AT_MAX_S))
            at = min(self.broker.wall(now) + 1000 * delay_s, 1000 * AT_MAX_S)
            self.broker.release(run.job, run.holder, at, now, later(run.job, step))
        self.confirm(msgid)

    def on_work_data(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """WORK_DATA: a piece for those who follow the job."""
        handle, data = self.speech.read_handle(args)
        run = self._held.get(handle)
        if run is not None and _goes_on(run):
            name = (run.job.queue, run.job.key)
            if self.service.may_tell(name):
                self.broker.report(run.job, run.holder, DATA_KIND, data, keep=False)
            elif not self._is_gone:
                raise NotNow(name)
        self.confirm(msgid)

    def _is_own(self, run: Run) -> bool:
        """Whether a run goes on and is this worker's, not one that it only overheard."""
        return _goes_on(run) and run.holder == self.session.holder

    # -- locks ------------------------------------------------------------------------------------

    def on_acquire(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """ACQUIRE: whether the run may hold a lock; if not, it is over and comes again."""
        lock, most, handle = self.binary.read_lock(args)
        self.service.intake.check_name(lock)
        run = self._held.get(handle)
        is_held = False
        if run is not None and _goes_on(run):
            is_held = self.broker.lock(run.job, run.holder, lock, most, now)
        if not is_held:
            self._held.pop(handle, None)
        self.say_after_commit(self.binary.acquired(msgid, is_held))

    def on_release(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """RELEASE: the lock is for the next."""
        lock, handle = self.binary.read_unlock(args)
        run = self._held.get(handle)
        if run is not None and _goes_on(run):
            self.broker.unlock(run.job, run.holder, lock, now)
        self.confirm(msgid)

    # -- the rest ---------------------------------------------------------------------------------

    def is_busy(self) -> bool:
        """Whether the worker runs anything."""
        return any(_goes_on(run) for run in self._held.values())

    def hush(self) -> None:
        """Give this worker nothing more."""
        self.quiet = True
        self._withdraw()

    def stop(self, now: Millis) -> None:
        """The server stops: nothing more is given out; there is no word to say so."""
        self._withdraw()

    def _forget_runs(self) -> None:
        """A run that is over may still be reported in time; but not any number of them."""
        self._held = {handle: run for handle, run in self._held.items() if _goes_on(run)}
        self._held_max = max(GRABS_MAX, 2 * len(self._held))

    def ring(self, now: Millis, most: int) -> int:
        """A moment has come that was armed for."""
        done = super().ring(now, most)
        if self.link.closing:
            return done
        # Each is owed as long after it was asked for as the others: the first come first.
        while self._owed:
            msgid = next(iter(self._owed))
            if self._owed[msgid] > now or done >= most:
                self.arm(self._owed[msgid])
                break
            del self._owed[msgid]
            self.say(self.speech.word(msgid, SUCCESS))
            done += 1
        if self._rests_until:
            if now < self._rests_until:
                self.arm(self._rests_until)
            else:
                self._rests_until = NEVER
                if self._demand is None:
                    self._ask(now)
        return done

    def _part(self, now: Millis) -> None:
        self._demand = None
        self._grabs.clear()
        self._owed.clear()
        self._held.clear()
        for func in self.funcs:
            self.service.note_func(func, self, False)
        self.funcs.clear()
        self._note_funcs()
        super()._part(now)


def _goes_on(run: Run) -> bool:
    """Whether a run is not over yet."""
    return run.job.state is LEASED and run.job.attempts == run.attempt
