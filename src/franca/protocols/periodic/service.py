"""Periodic on this server: its settings, its functions, and the conversations it opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.model import NEVER, Job, JobId, Millis
from franca.core.multimaps import discard
from franca.protocols.budget import Budget
from franca.protocols.conversation import Link
from franca.protocols.declaration import Stop, Surroundings
from franca.protocols.periodic.admin_commands import CONFIG
from franca.protocols.periodic.alarms import Alarms
from franca.protocols.periodic.auth import Rules, read_rules
from franca.protocols.periodic.client_commands import SENT_AT_ONCE, WAITS_BYTES_MAX, Name, Waits
from franca.protocols.periodic.conversation import PeriodicConversation
from franca.protocols.periodic.crc import Shared
from franca.protocols.periodic.jobs import Intake, workload_of
from franca.protocols.periodic.settings import Listening, PeriodicSettings
from franca.protocols.periodic.status import Listings
from franca.protocols.periodic.text import DocDialect, TextDialect
from franca.protocols.periodic.workers import FUNCS_BYTES_MAX, Worker
from franca.protocols.service import Service, WorkerView, runs_of, state_of

SWEEP_MS: Final = 1_000
GRABS_OF_ALL: Final = 65_536
"""Ids of GRAB_JOBs that wait on all connections, but for the first few of each."""
COPIES_OF_ALL: Final = 65_536
"""Jobs that workers have beside whoever holds them, but for the first few of each."""
SENT_A_TICK: Final = 8_000
"""Pieces of streams passed on between two ticks; then workers wait with the next one."""
WRITTEN_A_TICK: Final = 8 * 1024 * 1024
"""Bytes of jobs in JSON that are written between two ticks; then workers wait for the next one."""
SWEPT_A_TICK: Final = 20
"""Silent connections hung up on in one tick."""
PACE_MS: Final = 10_000
"""How long workers wait for a client that does not read what they send, once."""
FUNCS_MAX: Final = 10_000
"""Functions without a job that are remembered after their last worker is gone."""


class PeriodicService(Service):
    """What all Periodic connections share. `rules` is None without an auth file.

    `streams` are the jobs whose data is waited for, whether they are there yet or not.
    `broadcasts` are the workers that want every job of a function.
    """

    name = "periodic"

    def __init__(
        self, broker: Broker, settings: PeriodicSettings, rng: Random, request_stop: Stop
    ) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.rng = rng
        self.config = dict(CONFIG)
        self.intake = Intake(broker, self.config)
        self.doc = DocDialect(self.limits.name_bytes_max)
        self.text = TextDialect(self.limits.name_bytes_max)
        self.file = settings.auth_file
        self.rules: Rules | None = {} if settings.auth_file else None
        self.alarms = Alarms()
        self.waits = Budget(WAITS_BYTES_MAX, "answers that are waited for")
        self.offered = Budget(FUNCS_BYTES_MAX, "functions of workers")
        self.grabs = Budget(GRABS_OF_ALL, "ids of GRAB_JOB")
        self.copies = Budget(COPIES_OF_ALL, "jobs that are for all workers")
        self.load_bytes = Budget(self.limits.frame_bytes_max, "jobs to be loaded")
        self.sent = self.written = 0
        """How often what a worker sent was passed on, and bytes of jobs written, in this tick."""
        self.reporter: PeriodicConversation | None = None
        self.slow: dict[Name, tuple[Waits, Millis]] = {}
        """Jobs of which a client does not read what it is sent, and since when."""
        self.postponed: dict[PeriodicConversation, Name] = {}
        """Connections with a message that is to be acted on later, and the job it is about."""
        self.streams: dict[Name, dict[Waits, None]] = {}
        self.broadcasts: dict[str, dict[Worker, None]] = {}
        self.funcs: dict[str, None] = {}
        self.listings = Listings(broker, self.funcs)
        self.loads = self.dump_bytes = 0
        """Loads under way, and bytes gathered for dumps that are under way."""
        self._shared: Shared | None = None
        self._for_all: tuple[JobId, bytes] | None = None
        self.drops_running = settings.submit_while_running == "drop"
        self.commands = self.unreadable = 0
        self.connections: dict[str, PeriodicConversation] = {}
        self.request_stop = request_stop
        self._sweep_at = self._now = NEVER

    def open(self, link: Link, now: Millis) -> PeriodicConversation:
        """Begin the dialogue on a new link; the peer speaks first."""
        return PeriodicConversation(self, link, now)

    def listening(self, listener: str) -> Listening:
        """How the listener of that address is to be served."""
        return self.settings.listeners.get(listener, self.settings.listening)

    def take_file(self, content: bytes) -> str:
        """Who may do what from now on, those who are connected too."""
        self.rules = read_rules(content)
        for name, connection in list(self.connections.items()):
            if name in self.connections:
                connection.waits.on_rules(self._now)
                connection.worker.on_rules()
        return f"{len(self.rules)} names"

    # -- connections ------------------------------------------------------------------------------

    def tick(self, now: Millis) -> None:
        """Make the calls that are due, and hang up on connections that fell silent."""
        self._now = now
        self._shared = self._for_all = self.reporter = None
        self.sent = self.written = 0
        self.listings.tick(now)
        if self.slow or self.postponed:
            self._let_go_on(now)
        self.alarms.tick(now)
        if now >= self._sweep_at:
            self._sweep(now)

    def _sweep(self, now: Millis) -> None:
        """Hang up on connections that fell silent, some of them at a time."""
        longest = 1000 * self.config["keepalive"]
        connections = self.connections.values()
        silent = [c for c in connections if c.is_checked and now - c.heard_at > longest]
        for connection in silent[:SWEPT_A_TICK]:
            if not connection.link.closing:
                connection.drop(now)
        if len(silent) <= SWEPT_A_TICK:
            self._sweep_at = now + SWEEP_MS

    # -- workers that are faster than their clients -----------------------------------------------

    def may_send(self, name: Name) -> bool:
        """Whether those who follow this job may be sent more of it now.

        Else a stream would pile up here, and its clients be cut off. Who does not read at all is
        waited for once: after that it is cut off, and no worker need care.
        """
        return self.sent < SENT_A_TICK and name not in self.slow

    def may_write(self) -> bool:
        """Whether more jobs may be written anew now: it takes ten times as long as to hand on."""
        return self.written < WRITTEN_A_TICK

    def _let_go_on(self, now: Millis) -> None:
        for name, (waits, since) in list(self.slow.items()):
            if now - since >= PACE_MS:
                waits.was_waited_for = True
            elif waits.link.full and not waits.link.closed:
                continue
            self.slow.pop(name, None)
        for connection, name in list(self.postponed.items()):
            if self.may_send(name):
                del self.postponed[connection]
                connection.link.call_next_turn()

    # -- functions --------------------------------------------------------------------------------

    def note_func(self, func: str, worker: Worker, for_all: bool) -> None:
        """A worker runs this function, for all if it says so; or not any more."""
        if for_all:
            self.broadcasts.setdefault(func, {})[worker] = None
        else:
            discard(self.broadcasts, func, worker)
        if func not in self.funcs:
            self.funcs[func] = None
            if len(self.funcs) > FUNCS_MAX:
                # One that has a worker is listed all the same, and noted again when that leaves.
                del self.funcs[next(iter(self.funcs))]

    def broadcast(self, job: Job, holder: Worker) -> None:
        """A job for every worker was given to one: to the others that have asked as well."""
        workers = list(self.broadcasts.get(job.queue, ()))
        holder.connection.spent += len(workers) // SENT_AT_ONCE
        for worker in workers:
            if worker is not holder:
                worker.give_copy(job)

    def workload_for_all(self, job: Job) -> bytes:
        """What all workers are given of a job of another protocol, written once for all of them."""
        for_all = self._for_all
        if for_all is None or for_all[0] != job.id:
            for_all = self._for_all = (job.id, workload_of(job))
        return for_all[1]

    # -- large answers ----------------------------------------------------------------------------

    def share(self, data: bytes) -> Shared:
        """Large data that goes out now, perhaps to many in turn: all are given the same."""
        shared = self._shared
        if shared is None or shared.data is not data:
            shared = self._shared = Shared(data)
        return shared

    # -- streams ----------------------------------------------------------------------------------

    def unfollow(self, name: Name, waits: Waits) -> None:
        """A connection waits for that stream no more."""
        discard(self.streams, name, waits)

    # -- operators --------------------------------------------------------------------------------

    def workers(self, now: Millis = NEVER) -> Iterator[WorkerView]:
        """The connections that run functions."""
        return (
            WorkerView(
                name=connection.link.id,
                protocol=self.name,
                host=connection.link.peer.address,
                state=state_of(running, quiet=connection.worker.quiet),
                started_at=connection.joined_at,
                seen_at=connection.heard_at,
                queues=sorted(connection.worker.funcs),
                running=running,
                fetched_at=connection.asked_at,
            )
            for connection in list(self.connections.values())
            if connection.worker.funcs
            for running in (runs_of(connection.session.leases.values()),)
        )

    def ask_worker(self, name: str, what: str) -> bool:
        """Give a worker no more jobs; hang up on one that is to stop and runs nothing."""
        connection = self.connections.get(name)
        if connection is None or not connection.worker.funcs:
            return False
        connection.worker.stop_giving_jobs()
        if what == "stop" and not connection.worker.runs.is_busy():
            connection.drop(self._now)
        return True

    def consumers(self) -> int:
        """How many connections still run something."""
        return sum(connection.worker.runs.is_busy() for connection in self.connections.values())


def build(chosen: Mapping[str, object], around: Surroundings) -> PeriodicService:
    """The service with what was chosen for it; an address may say how its listener is served."""
    usual = Listening(str(chosen["dialect"]), str(chosen["confirm"]))
    others = {str(a): replace(usual, **dict(a.options)) for a in around.addresses if a.options}
    while_running, auth_file = str(chosen["submit_while_running"]), str(chosen["auth_file"])
    settings = PeriodicSettings(usual, others, while_running, around.remote_shutdown, auth_file)
    return PeriodicService(around.broker, settings, around.rng, around.server.request_stop)
