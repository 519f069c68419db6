"""What tests of the core do over and over: a broker, its disk, and a few short words for both."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from franca.core import model as core
from franca.core.broker import Broker
from franca.core.events import Event, Finished, Granted
from franca.core.limits import Limits
from franca.core.model import Choice, Demand, Job, JobQuery, NewJob, Policy, Session, State
from tests.sim.disk import Disk, settle, write_out
from tests.support.queue_counts import QueueCount, queue_counts

T: int = 1_000_000_000
"""When every test begins. Zero would mean never."""
MINUTE = 60_000
SMALL: dict[str, int] = {"window_jobs": 4, "supply_jobs": 2}
"""Windows so small that a handful of jobs has a tail."""


class Bench:
    """A broker with its disk."""

    def __init__(self, **limits: int) -> None:
        self.limits = Limits(**limits)
        self.broker = Broker(self.limits, Random(1))
        self.disk = Disk()
        self._workers: dict[str, Session] = {}

    # -- jobs -------------------------------------------------------------------------------

    def submit(
        self, queue: str = "q", now: int = T, watcher: Session | None = None, **fields: Any
    ) -> Job:
        """One job; fields of its policy and of the job itself are named alike."""
        policy = {name: fields.pop(name) for name in Policy.__struct_fields__ if name in fields}
        new = NewJob(queue, fields.pop("kind", "k"), fields.pop("body", b"x"), Policy(**policy))
        for name, value in fields.items():
            setattr(new, name, value)
        return self.broker.submit(new, now, watcher)

    def submit_many(self, count: int, queue: str = "q", now: int = T, **fields: Any) -> list[Job]:
        """Several, one after the other."""
        return [self.submit(queue, now, **fields) for _ in range(count)]

    # -- workers ----------------------------------------------------------------------------

    def worker(
        self, holder: str = "", on_hang_up: core.OnHangUp = core.OnHangUp.RETURN, *, takes: int = 0
    ) -> Session:
        """A new session, which takes so many jobs."""
        holder = holder or f"w{len(self._workers) + 1}"
        session = self._workers[holder] = self.broker.open_session(holder, on_hang_up, None)
        for _ in range(takes):
            self.take(session)
        return session

    def run(self, **fields: Any) -> tuple[Job, Session]:
        """A job that is submitted and runs, and the session that runs it."""
        who = {name: fields.pop(name) for name in ("holder", "on_hang_up") if name in fields}
        job, worker = self.submit(**fields), self.worker(**who)
        self.take(worker, job.queue)
        return job, worker

    def end(self, how: str, job: Job) -> None:
        """End a job, or its run, in one of the ways that there are."""
        broker, holder, queues = self.broker, job.holder, (job.queue,)
        ways: dict[str, Callable[[], object]] = {
            "finish": lambda: broker.finish(job, holder, b"", T),
            "fail": lambda: broker.fail(job, holder, core.Failure(), T),
            "release": lambda: broker.release(job, holder, core.NEVER, T),
            "put off": lambda: broker.release(job, holder, T + MINUTE, T),
            "give back": lambda: broker.give_back(job, holder, T),
            "lose": lambda: broker.close_session(self._workers[holder], T),
            "expire": lambda: (broker.tick(T), broker.tick(T + 3_000)),
            "cancel": lambda: broker.cancel(job, T),
            "kill": lambda: broker.kill(job, T),
            "retry": lambda: broker.retry(job, T),
            "purge": lambda: broker.purge_queues(queues, T),
            "remove the queue": lambda: broker.remove_queues(queues, T),
            "remove": lambda: broker.remove(job.queue, job.key, T),
            "flush": lambda: broker.flush(T),
            "crash": self.crash,
            "run": self.take_all,
        }
        ways[how]()

    def ask(self, session: Session, *queues: str, now: int = T, **fields: Any) -> Event | None:
        """What a demand is answered at once."""
        return self.broker.demand(Demand(session, queues or ("q",), **fields), now)

    def take(self, session: Session, *queues: str, now: int = T, **fields: Any) -> Job:
        """A job that must be there."""
        answer = self.ask(session, *queues, now=now, **fields)
        assert isinstance(answer, Granted), answer
        return answer.job

    def take_all(self, *queues: str, now: int = T, choice: Choice = Choice.LISTED) -> list[Job]:
        """Run every job there is, in the order in which they are given, the tail too."""
        session = self.worker()
        found: list[Job] = []
        while True:
            answer = self.ask(session, *queues, now=now, until=now, choice=choice)
            if isinstance(answer, Granted):
                found.append(answer.job)
                self.broker.finish(answer.job, session.holder, b"", now)
            elif self.broker.wants:
                write_out(self.broker, self.disk, now)
            else:
                return found

    # -- the store, events, counts ------------------------------------------------------------

    def write(self, now: int = T) -> None:
        """Tell the disk everything, answer every want, and compare."""
        settle(self.broker, self.disk, now)
        self.disk.verify(self.broker)

    def ripen(self, now: int) -> None:
        """Let everything fall due that is due by `now`, in memory and in the tail."""
        count = -1
        while count != (count := sum(c.scheduled + c.retrying for c in queue_counts(self.broker))):
            self.broker.tick(now)
            self.write(now)

    def crash(self, now: int = T) -> None:
        """A new broker that remembers what the disk was told."""
        self.broker = Broker(self.limits, Random(1))
        self.broker.restore_at(self.disk.snapshot(), now)

    def restart(self) -> None:
        """A new broker, after the disk was told everything."""
        self.write()
        self.crash()

    def recall(self, now: int = T, **query: Any) -> list[Job]:
        """Jobs from wherever they lie, to be acted on before anything else is written."""
        found = _Found()
        self.broker.recall(JobQuery(**query), found)
        while found.jobs is None:
            write_out(self.broker, self.disk, now)
        return found.jobs

    def events(self) -> list[tuple[Session, Event]]:
        """What the broker had to tell since this was last asked."""
        events = self.broker.events[:]
        self.broker.events.clear()
        return events

    def told(self) -> list[Session]:
        """Who was told something since this was last asked."""
        return [session for session, _ in self.events()]

    def granted(self) -> list[Job]:
        """What was given to those who waited; nothing else may have been told."""
        events = [event for _, event in self.events()]
        granted = [event.job for event in events if isinstance(event, Granted)]
        assert len(granted) == len(events), events
        return granted

    def ends(self, session: Session) -> list[State]:
        """The ends of watched jobs that a session is told of."""
        return [e.state for s, e in self.events() if s is session and isinstance(e, Finished)]

    def count(self, queue: str = "q") -> QueueCount:
        """The counts of one queue."""
        return next((c for c in queue_counts(self.broker) if c.queue == queue), QueueCount(queue))


class _Found:
    jobs: list[Job] | None = None

    def recalled(self, query: JobQuery, jobs: list[Job], now: int) -> None:
        self.jobs = jobs


def state_of(job: Job) -> State:
    """Where a job is now. (A type checker takes what it read off a job for settled.)"""
    return job.state


def ids(jobs: Sequence[Job]) -> list[int]:
    """Their ids, which are all that the order of jobs is about."""
    return [job.id for job in jobs]
