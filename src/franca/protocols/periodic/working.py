"""What workers say before they have a job: which functions they run, GRAB_JOB, SLEEP.

A worker's GRAB_JOBs wait as ids; as long as there are any, the connection has one demand with the
broker. It is made anew when the functions change, once for several changes in a row.

When a GRAB_JOB is answered is a matter of three client families (facts differ by language): one
takes no answer for a broken connection, one asks again at once whenever it is answered, one never
reads its answers and dies of the eleventh. So a new id is answered at once, one that waits already
after five seconds, and one on a connection that did not register as a worker never.
"""

from __future__ import annotations

from typing import Final

from franca.core.errors import NotHeld, Refused, TooMuch
from franca.core.events import Granted, Woken
from franca.core.model import NEVER, Choice, Demand, Failure, Job, Millis
from franca.protocols.periodic.auth import WORKER
from franca.protocols.periodic.room import Share
from franca.protocols.periodic.settling import RUNS_MAX, WRITE_AGAIN_MS, Settling
from franca.protocols.periodic.words import NO_JOB, NOOP, SUCCESS, UNKNOWN

GRABS_MAX: Final = 4_096
"""Jobs that one connection may ask for at once; what it asks beyond is not noted."""
FUNCS_MAX: Final = 1_024
"""Functions of one connection."""
GRABS_FREE: Final = 8
"""Those of each connection that are noted however many ids wait on all the others."""
FUNCS_AT_ONCE: Final = 16
"""Functions that a demand is made for in about the time that any other message takes."""
ASKED_AT_ONCE: Final = 64
"""Jobs that one worker is given before the others are heard."""
FUNC_BYTES: Final = 1_000
"""What a function that a worker offers takes beside its name, roughly."""
FUNCS_BYTES_MAX: Final = 32 * 1024 * 1024
"""What the functions that all workers offer take together, but for the first few of each."""
FUNCS_BYTES_FREE: Final = 4 * 1024
CASTS_MAX: Final = 2_000
"""Workers that may want every job of one function: all of them are told of it in one turn."""
GRAB_AGAIN_MS: Final = 5_000
"""When a GRAB_JOB is answered whose id waits already: one client gives up after ten seconds."""
TOO_LARGE_TO_GIVE: Final = Failure("TooLarge", "its worker could not be given so much")
REST_MS: Final = 1_000
"""How long a worker that sent a job back as too much is given no other."""


class Working(Settling):
    """The verbs of workers that want jobs."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.funcs: dict[str, bool] = {}
        """Functions by name, and whether each of their jobs is for every worker."""
        self.quiet = False
        self._offered = Share(self.service.offered, FUNCS_BYTES_FREE)
        self._queues: tuple[str, ...] | None = None
        self._choice = Choice.LISTED
        self._asleep: bytes | None = None
        """The id of a SLEEP whose demand is to be made anew."""
        self._is_sated = False
        """Whether it asks for nothing because it runs as much as one may."""
        self._grabs: dict[bytes, None] = {}
        self._owed: dict[bytes, Millis] = {}
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
        if for_all and len(self.service.casts.get(func, ())) >= CASTS_MAX:
            raise TooMuch(f"no more than {CASTS_MAX} workers for all jobs of a function")
        is_new = func not in self.funcs
        if is_new:
            if len(self.funcs) >= FUNCS_MAX:
                raise TooMuch(f"no more than {FUNCS_MAX} functions")
            size = _size_of(func)
            self._offered.take(size)
            try:
                self.broker.serve(self.session, func)
            except Refused:
                self._offered.give_back(size)
                raise
        self.funcs[func] = for_all
        self.service.note_func(func, self, for_all)
        if is_new:
            self._ask_anew()

    def on_cant_do(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """CANT_DO: no more of these; what the worker runs it goes on running."""
        self._cant_do(self.speech.read_func(args))
        self.confirm(msgid)

    def _cant_do(self, func: str) -> None:
        if func in self.funcs:
            del self.funcs[func]
            self._offered.give_back(_size_of(func))
            self.service.note_func(func, self, False)
            self.broker.unserve(self.session, func)
            self._ask_anew()

    def _new_demand(self, until: Millis) -> Demand:
        """A demand for jobs of all functions; the more there are, the longer it takes."""
        queues = self._queues
        if queues is None:
            queues = self._queues = tuple(self.funcs)
            # With several functions they take turns: the first must not starve the others.
            self._choice = Choice.PRIORITY if len(queues) > 1 else Choice.LISTED
        self.spent += len(queues) // FUNCS_AT_ONCE
        return Demand(self.session, queues, until, self._choice)

    # -- asking for jobs --------------------------------------------------------------------------

    def on_grab_job(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """GRAB_JOB: a job when there is one; by the document, at once that there is none."""
        if self.service.rules is not None:
            self._rule()
        if self.speech.writes_anew:
            self._check_writing()
        if self.follows_document:
            self._grab_now(msgid, now)
            return
        if msgid in self._grabs or not self._may_wait(self._grabs):
            if self.answers_grabs and msgid not in self._owed and self._may_wait(self._owed):
                self._owed[msgid] = now + GRAB_AGAIN_MS
                self.arm(self._owed[msgid])
            return
        self._grabs[msgid] = None
        if self.answers_grabs:
            self.link.write(self.speech.word(msgid, SUCCESS))
        if self._demand is None and not self.unasked:
            self._ask(now)

    def _may_wait(self, ids: dict[bytes, None] | dict[bytes, Millis]) -> bool:
        """Whether there is room for one more id, which is then taken."""
        if len(ids) < GRABS_FREE:
            return True
        budget = self.service.grabs
        if len(ids) >= GRABS_MAX or budget.taken >= budget.most:
            return False
        budget.take(1)
        return True

    def _next_grab(self) -> bytes:
        """The id that the next job goes to."""
        msgid = self._grabs.popitem()[0]
        if len(self._grabs) >= GRABS_FREE:
            self.service.grabs.give_back(1)
        return msgid

    def _grab_now(self, msgid: bytes, now: Millis) -> None:
        """PROTOCOL, "GRAB_JOB": the server responds with either NO_JOB or JOB_ASSIGN."""
        self._withdraw()
        is_sated = len(self.session.leases) >= RUNS_MAX
        if self.funcs and not is_sated and not self._is_refused_work(now):
            answer = self.broker.demand(self._new_demand(now), now)
            if isinstance(answer, Granted):
                self._assign(answer.job, msgid, now)
                return
        self.say(self.speech.word(msgid, NO_JOB))

    def on_sleep(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """SLEEP: NOOP at once, as every server did; by the document, when there is work."""
        self._rule()
        if not self.follows_document:
            self.say(self.speech.word(msgid, NOOP))
            return
        self._withdraw()
        if self._is_refused_work(now):
            return  # it would ask in vain, and sleep, and be woken at once
        # PROTOCOL: "The job server then notifies each worker that can perform that job".
        demand = self._new_demand(NEVER)
        demand.choice, demand.tag = Choice.LISTED, msgid
        demand.only_wake = demand.wake_always = True
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
        left = ASKED_AT_ONCE // (1 + len(self.funcs) // FUNCS_AT_ONCE)
        while self._grabs:
            if len(self.session.leases) >= RUNS_MAX:
                self._is_sated = True
                return
            if self.speech.writes_anew and self._must_not_write():
                self._rest(now, WRITE_AGAIN_MS)
                return
            demand = self._new_demand(NEVER)
            try:
                answer = self.broker.demand(demand, now)
            except Refused as refusal:
                self.link.note(str(refusal))
                self._rest(now)
                return
            if not isinstance(answer, Granted):
                self._demand = demand
                return
            self._assign(answer.job, self._next_grab(), now)
            left -= 1
            if left <= 0 or self._is_fed:
                self._ask_later()
                return

    def _ask_later(self) -> None:
        """Others come first: go on next turn, or when the worker has taken what it was given."""
        self._is_fed = False
        self.unasked = self.asks_later = True
        self.link.again()

    def _ask_anew(self) -> None:
        """The functions have changed: ask for other jobs, when all changes are known."""
        demand, asleep = self._demand, self._asleep
        self._queues = None
        if demand is not None:
            self.spent += len(demand.queues) // FUNCS_AT_ONCE
            asleep = demand.tag if demand.only_wake else None
            self._withdraw()
        self._asleep = asleep
        self.unasked = True

    def _catch_up(self, now: Millis) -> None:
        """Ask for what the functions are now."""
        super()._catch_up(now)
        asleep = self._asleep
        if asleep is None:
            if self._demand is None:
                self._ask(now)
            return
        try:
            self.on_sleep(asleep, b"", now)
        except Refused as refusal:
            self.link.note(str(refusal))
            self.say(self.speech.word(asleep, UNKNOWN))

    def _withdraw(self) -> None:
        self._asleep = None
        if self._demand is not None:
            self.broker.withdraw(self._demand)
            self._demand = None

    def say_granted(self, event: Granted, now: Millis) -> None:
        """A job has come. One for a demand that is no longer made goes back."""
        if self._must_not_write():
            self._withdraw()
            self._rest(now, WRITE_AGAIN_MS)
        if event.demand is not self._demand or self.link.closing or not self._grabs:
            try:
                self.broker.give_back(event.job, self.session.holder, now)
            except NotHeld:
                pass  # the connection has ended meanwhile, and its leases with it
            return
        self._demand = None
        self._assign(event.job, self._next_grab(), now)
        if not self._grabs:
            return
        if len(self.funcs) < FUNCS_AT_ONCE and not self._is_fed:
            self._ask(now)
        else:
            self._ask_later()

    def say_woken(self, event: Woken) -> None:
        """There is work for a worker that sleeps by the document."""
        if event.demand is self._demand:
            self._demand = None
            self.say(self.speech.word(event.demand.tag, NOOP))

    def _assign(self, job: Job, msgid: bytes, now: Millis) -> None:
        for_all = self.funcs.get(job.queue, False)
        if not self._hand(job, msgid, for_all=for_all):
            self._refuse(job, msgid, now)
        elif for_all:
            self.service.cast(job, self)

    def _refuse(self, job: Job, msgid: bytes, now: Millis) -> None:
        """A job that cannot be written to this worker is for another one, a little later."""
        self.link.note(f"it cannot be given a job of more than {self.speech.workload_max} bytes")
        self.broker.fail(job, self.session.holder, TOO_LARGE_TO_GIVE, now)
        if self.follows_document:
            self.say(self.speech.word(msgid, NO_JOB))
        elif self._may_wait(self._grabs):
            self._grabs[msgid] = None

    def overhear(self, job: Job) -> None:
        """A job that is for every worker was given to another one: have it too, if asked for."""
        if not self._grabs or self.link.closing:
            return
        try:
            self._overheard.take(1)
        except TooMuch:
            return
        self.service.told += 1
        if not self._hand(job, self._next_grab(), for_all=True, is_overheard=True):
            self._overheard.give_back(1)
        if not self._grabs:
            self._withdraw()

    def on_job_assigned(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """JOB_ASSIGNED: it arrived. Many workers never say so, so nobody waits for it."""

    def on_job_unassigned(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """JOB_UNASSIGNED: too much; the job is as if it had not been given."""
        run = self._given_by(msgid)
        if run is None:
            return
        # Else it would be handed back and forth as fast as the two can speak.
        self._withdraw()
        self._rest(now)
        if (job := self._own_job_of(run)) is not None:
            self.broker.give_back(job, self.session.holder, now)

    def _rest(self, now: Millis, ms: int = REST_MS) -> None:
        """Ask for nothing for a while."""
        self._rests_until = now + ms
        self.arm(self._rests_until)

    def _has_room(self, now: Millis) -> None:
        """One of its runs is over: whoever had as many as may be can have another."""
        if self._is_sated and len(self.session.leases) < RUNS_MAX:
            self._is_sated = False
            if self._demand is None:
                self._ask(now)

    # -- the rest ---------------------------------------------------------------------------------

    def follow_rules(self, now: Millis) -> None:
        """Give no more jobs of functions that the peer may not use any more; it keeps its runs."""
        super().follow_rules(now)
        for func in [func for func in self.funcs if not self.may(WORKER, func)]:
            self._cant_do(func)
        if self.unasked:
            self.link.again()

    def hush(self) -> None:
        """Give this worker nothing more."""
        self.quiet = True
        self._withdraw()

    def stop(self, now: Millis) -> None:
        """The server stops: nothing more is given out; there is no word to say so."""
        self._withdraw()

    def ring(self, now: Millis, most: int) -> int:
        """A moment has come that was armed for."""
        done = super().ring(now, most)
        if self.link.closing or self.link.closed:
            return done
        # Each is owed as long after it was asked for as the others: the first come first.
        while self._owed:
            msgid = next(iter(self._owed))
            if self._owed[msgid] > now or done >= most:
                self.arm(self._owed[msgid])
                break
            del self._owed[msgid]
            if len(self._owed) >= GRABS_FREE:
                self.service.grabs.give_back(1)
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
        self._demand = self._asleep = None
        for ids in (self._grabs, self._owed):
            self.service.grabs.give_back(max(0, len(ids) - GRABS_FREE))
            ids.clear()
        for func in self.funcs:
            self.service.note_func(func, self, False)
        self.funcs.clear()
        self._offered.clear()
        self._queues = None
        super()._part(now)


def _size_of(func: str) -> int:
    return FUNC_BYTES + 2 * len(func)
