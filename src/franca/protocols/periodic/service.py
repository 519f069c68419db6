"""Periodic on this server: its settings, its functions, and the conversations it opens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import NEVER, Job, JobId, Millis
from franca.core.timers import Buckets
from franca.protocols.conversation import Link, Peer, Service, WorkerView
from franca.protocols.overview import KEPT_MS
from franca.protocols.periodic.asking import Asking
from franca.protocols.periodic.auth import Rules, read_rules
from franca.protocols.periodic.chores import Listing, ListingKey, Load
from franca.protocols.periodic.config import Config
from franca.protocols.periodic.conversation import PeriodicConversation
from franca.protocols.periodic.dialect import Listening, Spoken
from franca.protocols.periodic.jobs import Intake, workload_of
from franca.protocols.periodic.room import Budget
from franca.protocols.periodic.shared import Shared
from franca.protocols.periodic.status import Survey, WaitingJobs
from franca.protocols.periodic.talk import Talk
from franca.protocols.periodic.text import DocSpeech, TextSpeech
from franca.protocols.periodic.waits import WAITS_BYTES_MAX, Name
from franca.protocols.periodic.working import FUNCS_BYTES_MAX, Working

ALARM_TICK_MS: Final = 50
SWEEP_MS: Final = 1_000
GRABS_OF_ALL: Final = 65_536
"""Ids of GRAB_JOBs that wait on all connections, but for the first few of each."""
OVERHEARD_OF_ALL: Final = 65_536
"""Jobs that workers have beside whoever holds them, but for the first few of each."""
RUNG_A_TICK: Final = 1_000
"""Answers given in one tick because their time has come; the rest are given in the next."""
TOLD_A_TICK: Final = 8_000
"""Pieces of streams passed on between two ticks; then workers wait with the next one."""
WRITTEN_A_TICK: Final = 8 * 1024 * 1024
"""Bytes of jobs in JSON that are written between two ticks; then workers wait for the next one."""
SWEPT_A_TICK: Final = 20
"""Silent connections hung up on in one tick."""
PACE_MS: Final = 10_000
"""How long workers wait for a client that does not take what they send, once."""
FUNCS_MAX: Final = 10_000
"""Functions without a job that are remembered after their last worker is gone."""


class PeriodicSettings(Struct, frozen=True):
    """What an operator may choose. `listeners` are those that differ from the rest, by address.

    With an `auth_file` nobody may do anything until it has been read to the service.
    """

    listening: Listening = Listening()
    listeners: Mapping[str, Listening] = {}
    submit_while_running: str = "keep"
    remote_shutdown: str = "loopback"
    auth_file: str = ""


class PeriodicService(Service):
    """What all Periodic connections share. `rules` is None where nobody is asked who he is.

    `streams` are the jobs whose data is waited for, whether they are there yet or not. `casts` are
    the workers that want every job of a function.
    """

    name = "periodic"

    def __init__(
        self,
        broker: Broker,
        settings: PeriodicSettings,
        rng: Random,
        request_stop: Callable[[], None],
    ) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.rng = rng
        self.config = Config()
        self.intake = Intake(broker, self.config)
        self.doc = DocSpeech(self.limits.name_bytes_max)
        self.text = TextSpeech(self.limits.name_bytes_max)
        self.file = settings.auth_file
        self.rules: Rules | None = {} if settings.auth_file else None
        self.alarms: Buckets[Spoken] = Buckets(ALARM_TICK_MS)
        self.waits = Budget(WAITS_BYTES_MAX, "answers that are waited for")
        self.offered = Budget(FUNCS_BYTES_MAX, "functions of workers")
        self.grabs = Budget(GRABS_OF_ALL, "ids of GRAB_JOB")
        self.overheard = Budget(OVERHEARD_OF_ALL, "jobs that are for all workers")
        self.told = self.written = 0
        """How many were told what a worker said, and bytes of jobs written anew, in this tick."""
        self.slow: dict[Name, tuple[Asking, Millis]] = {}
        """Jobs of which a client does not take what it is sent, and since when."""
        self.put_off: dict[Talk, Name] = {}
        """Connections with a message that is to be acted on later, and the job it is about."""
        self._ringing: deque[Spoken] = deque()
        self.streams: dict[Name, dict[Asking, None]] = {}
        self.casts: dict[str, dict[Working, None]] = {}
        self.funcs: dict[str, None] = {}
        self.listings: dict[ListingKey, tuple[Millis, bytes, bool]] = {}
        """Listings of all functions, and whether they are long. They are good for a moment."""
        self.making: dict[ListingKey, Listing] = {}
        self.listed = self.dump_bytes = 0
        """Functions listed since the last tick, and bytes gathered for dumps that are under way."""
        self._waiting_jobs: WaitingJobs | None = None
        self.loads: dict[Load, None] = {}
        self.load_bytes = Budget(self.limits.frame_bytes_max, "jobs to be loaded")
        self._shared: Shared | None = None
        self._for_all: tuple[JobId, bytes] | None = None
        self.drops_running = settings.submit_while_running == "drop"
        self.stopping = False
        self.commands = self.refused = self.unreadable = 0
        self._talks: dict[Talk, Millis] = {}
        self._by_name: dict[str, Talk] = {}
        self._request_stop = request_stop
        self._sweep_at: Millis = NEVER
        self._now: Millis = NEVER

    def open(self, link: Link, now: Millis) -> PeriodicConversation:
        """Begin the dialogue on a new link; the peer speaks first."""
        return PeriodicConversation(self, link, now)

    def listening(self, listener: str) -> Listening:
        """How the listener of that address is to be served."""
        return self.settings.listeners.get(listener, self.settings.listening)

    def take_file(self, content: bytes) -> str:
        """Who may do what from now on, those who are connected too."""
        self.rules = read_rules(content)
        for talk in list(self._talks):
            if talk in self._talks:
                talk.follow_rules(self._now)
        return f"{len(self.rules)} names"

    # -- connections ------------------------------------------------------------------------------

    def join(self, talk: Talk) -> None:
        """A connection has registered."""
        self._talks[talk] = talk.heard_at
        self._by_name[talk.link.id] = talk

    def leave(self, talk: Talk) -> None:
        """A connection is gone."""
        self._talks.pop(talk, None)
        if self._by_name.get(talk.link.id) is talk:
            del self._by_name[talk.link.id]

    def tick(self, now: Millis) -> None:
        """Ring whoever is armed, and hang up on those who fell silent."""
        self._now = now
        self._shared = self._for_all = None
        self.listed = 0
        waiting = self._waiting_jobs
        if waiting is not None and now - waiting.seen_at >= KEPT_MS:
            self._waiting_jobs = None
        if self.listings:
            self.listings = {
                key: kept for key, kept in self.listings.items() if now - kept[0] < KEPT_MS
            }
        self.told = self.written = 0
        if self.slow or self.put_off:
            self._let_go_on(now)
        self._ringing += self.alarms.due(now)
        left = RUNG_A_TICK
        while left > 0 and self._ringing:
            left -= self._ringing.popleft().ring(now, left)
        if now >= self._sweep_at:
            self._sweep(now)

    def _sweep(self, now: Millis) -> None:
        """Hang up on those who fell silent, some of them at a time."""
        longest = self.config.keepalive_ms
        silent = [t for t in self._talks if t.is_checked and now - t.heard_at > longest]
        for talk in silent[:SWEPT_A_TICK]:
            if talk in self._talks:
                talk.drop(now)
        if len(silent) <= SWEPT_A_TICK:
            self._sweep_at = now + SWEEP_MS

    # -- workers that are faster than their clients -----------------------------------------------

    def may_tell(self, name: Name) -> bool:
        """Whether those who follow this job may be told more of it now.

        Else a stream would pile up here, and its clients be cut off. Who does not read at all is
        waited for once: after that it is cut off, and no worker need care.
        """
        return self.told < TOLD_A_TICK and name not in self.slow

    def may_write(self) -> bool:
        """Whether more jobs may be written anew now: it takes ten times as long as to hand on."""
        return self.written < WRITTEN_A_TICK

    def _let_go_on(self, now: Millis) -> None:
        for name, (client, since) in list(self.slow.items()):
            if now - since >= PACE_MS:
                client.was_waited_for = True
            elif client.link.full and not client.link.closed:
                continue
            self.slow.pop(name, None)
        for talk, name in list(self.put_off.items()):
            # What one says may make another be hung up on, which is not asked again then.
            if talk in self.put_off and self.may_tell(name):
                self.put_off.pop(talk, None)
                talk.retry(now)
                talk.link.deliver(now)

    def shut_down(self, peer: Peer) -> bool:
        """Stop the whole server, if this peer may ask for that."""
        allowed = self.settings.remote_shutdown
        if allowed == "never" or (allowed == "loopback" and not peer.local):
            return False
        self._request_stop()
        return True

    # -- functions --------------------------------------------------------------------------------

    def note_func(self, func: str, worker: Working, for_all: bool) -> None:
        """A worker runs this function, for all if it says so; or not any more."""
        casts = self.casts.setdefault(func, {})
        if for_all:
            casts[worker] = None
        else:
            casts.pop(worker, None)
            if not casts:
                del self.casts[func]
        if func not in self.funcs:
            self.funcs[func] = None
            if len(self.funcs) > FUNCS_MAX:
                # One that has a worker is listed all the same, and noted again when that leaves.
                del self.funcs[next(iter(self.funcs))]

    def cast(self, job: Job, holder: Working) -> None:
        """A job for every worker was given to one: to the others that have asked as well."""
        for worker in list(self.casts.get(job.queue, ())):
            if worker is not holder:
                worker.overhear(job)

    def workload_for_all(self, job: Job) -> bytes:
        """What all workers are given of a job of another protocol, written once for all of them."""
        for_all = self._for_all
        if for_all is None or for_all[0] != job.id:
            for_all = self._for_all = (job.id, workload_of(job))
        return for_all[1]

    def survey(self, now: Millis) -> Survey:
        """Every function, by name. What many jobs wait for may be a second old."""
        waiting = self._waiting_jobs
        if waiting is None or not waiting.are_many or now - waiting.seen_at >= KEPT_MS:
            waiting = self._waiting_jobs = WaitingJobs(self.broker, now)
        return Survey(self.broker, self.funcs, waiting, now)

    # -- large answers ----------------------------------------------------------------------------

    def share(self, data: bytes) -> Shared:
        """Large data that goes out now, perhaps to many in turn: all are given the same."""
        shared = self._shared
        if shared is None or shared.data is not data:
            shared = self._shared = Shared(data)
        return shared

    # -- streams ----------------------------------------------------------------------------------

    def follow(self, job: Job) -> None:
        """A job was submitted: those who wait for its stream hear of it."""
        for talk in list(self.streams.get((job.queue, job.key), ())):
            talk.follow(job)

    def unfollow(self, name: Name, talk: Asking) -> None:
        """A connection waits for that stream no more."""
        talks = self.streams.get(name)
        if talks is not None:
            talks.pop(talk, None)
            if not talks:
                del self.streams[name]

    # -- operators --------------------------------------------------------------------------------

    def workers(self) -> list[WorkerView]:
        """The connections that run functions."""
        return [
            WorkerView(
                name=talk.link.id,
                protocol=self.name,
                host=talk.link.peer.address,
                pid=0,
                labels=(),
                state="quiet" if talk.quiet else "running",
                started_at=joined_at,
                seen_at=talk.heard_at,
                rss_kb=0,
                connections=1,
                queues=sorted(talk.funcs),
            )
            for talk, joined_at in self._talks.items()
            if isinstance(talk, Working) and talk.funcs
        ]

    def ask_worker(self, name: str, what: str) -> bool:
        """Give a worker no more jobs; hang up on one that is to stop and runs nothing."""
        talk = self._by_name.get(name)
        if not isinstance(talk, Working) or not talk.funcs:
            return False
        talk.hush()
        if what == "stop" and not talk.is_busy():
            talk.drop(self._now)
        return True

    def stop(self, now: Millis) -> None:
        """The server is about to stop: nothing more is given out."""
        self.stopping = True

    def consumers(self) -> int:
        """How many connections still run something."""
        return sum(isinstance(talk, Working) and talk.is_busy() for talk in self._talks)
