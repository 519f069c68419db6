"""What clients say: jobs in, results and streams out, listings, settings.

Whoever waits for a job waits for its function and its name, whatever job has them: a submit under
the same name is what it waits for from then on. A connection watches each such job once and
answers all who wait for it on that connection.
"""

from __future__ import annotations

from typing import Final

from franca.core.errors import Refused
from franca.core.events import Finished, Progressed
from franca.core.known import Known
from franca.core.model import NEVER, Job, Millis, NewJob, State
from franca.protocols.periodic.auth import CLIENT
from franca.protocols.periodic.chores import Chore, Drop, Dump, Listing, Load
from franca.protocols.periodic.jobs import KEY
from franca.protocols.periodic.room import Share
from franca.protocols.periodic.shared import BULK_BYTES
from franca.protocols.periodic.speech import Task, Unreadable
from franca.protocols.periodic.talk import Talk
from franca.protocols.periodic.waits import WAITS_BYTES_FREE, Name, Wait, Waits
from franca.protocols.periodic.words import (
    EOF,
    EXPIRED,
    FAILED,
    NO_WORKER,
    PONG,
    REMOVED,
    SUCCESS,
    UNKNOWN,
)

WAIT_S: Final = 60
"""How long a RUN_JOB waits whose job has no timeout."""
LEASED: Final = State.LEASED
DONE: Final = State.DONE
DATA_KIND: Final = "data"
"""What a piece of a stream is called among the reports of workers."""


class Asking(Talk):
    """The verbs of clients."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._waits = Waits(Share(self.service.waits, WAITS_BYTES_FREE))
        self.was_waited_for = False
        """Whether workers were held back for it once, and it did not read all the same."""
        self._chore: Chore | None = None

    # -- jobs in ----------------------------------------------------------------------------------

    def on_submit_job(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """SUBMIT_JOB: kept, in place of a job of the same name."""
        task = self.speech.read_task(args)
        if self.service.rules is not None:
            self.check_may(CLIENT, task.func)
        self.take_in(task, now)
        self.link.write_after_commit(self.speech.word(msgid, SUCCESS))

    def take_in(self, task: Task, now: Millis) -> None:
        """Keep a job. What is dropped because it runs already was answered all the same."""
        new = self.service.intake.new_job(task, now, limits_runs=self.speech.limits_runs)
        if self.service.drops_running:
            taken = self.broker.keyed(new.queue, new.key)
            if taken is not None and taken.state is LEASED:
                return
        job = self.broker.submit(new, now)
        if self.service.streams:
            self.service.follow(job)

    def on_run_job(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """RUN_JOB: the answer is the result; or at once that nobody runs such jobs."""
        task = self.speech.read_task(args)
        self.check_may(CLIENT, task.func)
        if not self.broker.serves(task.func):
            self.say(self.speech.word(msgid, NO_WORKER))
            return
        limits_runs = self.speech.limits_runs
        new = self.service.intake.new_job(task, now, limits_runs=limits_runs, waited_for=True)
        seconds = task.timeout if task.timeout > 0 else WAIT_S
        name = (new.queue, new.key)
        wait = Wait(msgid, now + 1000 * seconds)
        self._waits.add(name, wait)
        try:
            self._run(new, now)
        except Refused:
            self._waits.remove(name, wait)
            raise
        self.arm(wait.until)

    def _run(self, new: NewJob, now: Millis) -> None:
        """Have a job run, or wait for the run that goes on under its name."""
        taken = self.broker.keyed(new.queue, new.key)
        if isinstance(taken, Job) and taken.state is LEASED:
            job = taken
        else:
            job = self.broker.submit(new, now)
            if self.service.streams:
                self.service.follow(job)
        self.follow(job)

    def on_remove_job(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """REMOVE_JOB: gone, running or not; SUCCESS also where there was none."""
        func, name = self.speech.read_removal(args)
        self.check_may(CLIENT, func)
        self.broker.remove(func, KEY + name, now)
        self.succeed(msgid)

    # -- what is waited for -----------------------------------------------------------------------

    def on_recv_data(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """RECV_DATA: what the job's worker sends, piece by piece, then an end.

        One client says this beside RUN_JOB, in either order: the job need not be there yet.
        """
        task = self.speech.read_task(args)
        self.check_may(CLIENT, task.func)
        self.service.intake.check_name(task.func)
        if not self.broker.serves(task.func):
            self.say(self.speech.word(msgid, NO_WORKER))
            return
        name = (task.func, KEY + task.name)
        self._waits.add(name, Wait(msgid, NEVER))
        self.service.streams.setdefault(name, {})[self] = None
        taken = self.broker.keyed(*name)
        if taken is not None:
            self.follow(taken)
        self.say(self.speech.word(msgid, SUCCESS))

    def follow(self, job: Job | Known) -> None:
        """Hear what becomes of a job, once."""
        if job.id not in self.session.watches:
            self.broker.watch(job.id, self.session)

    def say_progressed(self, event: Progressed, now: Millis) -> None:
        """A worker sent a piece of a stream."""
        name = (event.job.queue, event.job.key)
        waits = self._waits.of(name)
        if event.kind != DATA_KIND or not waits:
            return
        self._say_to([(wait, event.data) for wait in waits if wait.is_stream], now)
        if self.link.full and not self.was_waited_for:
            self.service.slow.setdefault(name, (self, now))

    def say_finished(self, event: Finished, now: Millis) -> None:
        """A job that is waited for has ended: everybody is answered."""
        name = (event.job.queue, event.job.key)
        waits = self._waits.take(name)
        if waits:
            result = _result_of(event)
            answers = [(wait, EOF if wait.is_stream else result) for wait in waits]
            self._say_to(answers, now, after_commit=True)
        if self.service.streams:
            self.service.unfollow(name, self)

    def _say_to(
        self, answers: list[tuple[Wait, bytes]], now: Millis, *, after_commit: bool = False
    ) -> None:
        """Tell everybody here. More than may ever wait unsent is not said, but for one answer."""
        self.service.told += len(answers)
        most = room = self.service.limits.output_hard_bytes
        if len(answers) > 1 and max(len(data) for _, data in answers) >= BULK_BYTES:
            room -= sum(map(len, self.link.out))
        said = 0
        for wait, data in answers:
            if said and said + len(data) > room:
                self.drop(now, f"more than {most} bytes to be said to it at once")
                return
            said += len(data)
            self.say_data(wait.msgid, data, after_commit=after_commit)

    def _expire(self, now: Millis, most: int) -> int:
        """Tell those whose time is over, some of them; returns how many. Rung for the next."""
        waits = self._waits
        told = 0
        while told < most and (expired := waits.expired(now)) is not None:
            told += 1
            name, wait = expired
            if waits.remove(name, wait):
                self._look_away(name, now)
            self.say(self.speech.data(wait.msgid, EXPIRED))
        next_at = waits.next_at()
        if next_at:
            self.arm(next_at)
        return told

    def _look_away(self, name: Name, now: Millis) -> None:
        """Nobody here waits for that name any more."""
        taken = self.broker.keyed(*name)
        if taken is not None:
            self.broker.unwatch(taken.id, self.session, now)

    def follow_rules(self, now: Millis) -> None:
        """Wait no more for jobs of functions that the peer may not use any more."""
        super().follow_rules(now)
        for name in self._waits.names():
            if not self.may(CLIENT, name[0]):
                for wait in self._waits.take(name):
                    self.say(self.speech.word(wait.msgid, NO_WORKER))
                self.service.unfollow(name, self)
                self._look_away(name, now)

    # -- listings and steering --------------------------------------------------------------------

    def on_ping(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """PING: PONG."""
        self.link.write(self.speech.word(msgid, PONG))

    def on_status(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """STATUS: every function that the peer may know of."""
        self._begin(Listing(self, msgid, self._rule()), now)

    def on_drop_func(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """DROP_FUNC: a function and its jobs, while nobody runs or awaits them; SUCCESS always."""
        func = self.speech.read_func(args)
        self.check_admin()
        queue = self.broker.queues.get(func)
        if queue is not None and (queue.servers or queue.line or queue.leased):
            self.succeed(msgid)
            return
        self.service.funcs.pop(func, None)
        self._begin(Drop(self, msgid, func), now)

    def on_dump(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """DUMP: every live job that came by this protocol."""
        self.check_admin()
        self._begin(Dump(self, msgid), now)

    def on_load(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """LOAD: many jobs at once."""
        self.check_admin()
        try:
            load = Load(self, msgid, self.speech.read_tasks(args), len(args))
        except Refused:
            if self.speech.confirms_loads:
                raise
            return
        self._begin(load, now)

    def on_config_get(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """CONFIG_GET: a number, 0 where nothing is known."""
        self._rule()
        self.say(
            self.binary.number(msgid, self.service.config.get(self.binary.read_setting(args)[0]))
        )

    def on_config_set(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """CONFIG_SET: until the server ends."""
        self.check_admin()
        self.service.config.set(*self.binary.read_setting(args))
        self.say(self.speech.word(msgid, SUCCESS))

    def on_shutdown(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """SHUTDOWN: no answer, the whole server stops; or that the peer may not say so.

        Without a CRC almost any bytes could be one.
        """
        if not self.is_checked:
            raise Unreadable("only a frame with a CRC stops the server")
        self.check_admin()
        if not self.service.shut_down(self.link.peer):
            self.say(self.speech.word(msgid, NO_WORKER))

    def on_unknown(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """UNKNOWN, and everything that only the server says."""
        self.say(self.speech.word(msgid, UNKNOWN))

    # -- what takes many turns --------------------------------------------------------------------

    def _begin(self, chore: Chore, now: Millis) -> None:
        self._chore = chore
        self.holding = True
        chore.begin(now)

    def _work_on(self, now: Millis) -> None:
        if self._chore is not None:
            self._chore.work_on(now)

    def _is_working(self) -> bool:
        return self._chore is not None and self._chore.needs_turns

    def chore_done(self, now: Millis) -> None:
        """What held the connection up is done."""
        self._chore = None
        self.go_on(now)

    def forget_unread(self) -> None:
        """Let go of these bytes."""
        super().forget_unread()
        if self._chore is not None:
            self._chore.give_up()
            self._chore = None

    def _part(self, now: Millis) -> None:
        if self._waits:
            for name in self._waits.names():
                self.service.unfollow(name, self)
            self._waits.clear()
        super()._part(now)

    def ring(self, now: Millis, most: int) -> int:
        """A moment has come that was armed for."""
        done = super().ring(now, most)
        if self._waits and not (self.link.closing or self.link.closed):
            done += self._expire(now, most)
        return done


def _result_of(event: Finished) -> bytes:
    """The result, or the word of the server that stands for none."""
    if event.state is DONE:
        return event.result
    return REMOVED if event.failure.kind == "Cancelled" else FAILED
