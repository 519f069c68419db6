"""beanstalkd on this server: its tubes, its connections, and what is counted of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from random import Random
from re import compile as compile_pattern
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import NEVER, Millis
from franca.protocols.beanstalkd import messages
from franca.protocols.beanstalkd.conversation import DEFAULT, BeanstalkdConversation
from franca.protocols.beanstalkd.jobs import URGENT_BELOW
from franca.protocols.beanstalkd.settings import BeanstalkdSettings
from franca.protocols.beanstalkd.wire import OUT_OF_MEMORY, TUBE
from franca.protocols.conversation import Link
from franca.protocols.declaration import ServerFacts, Surroundings
from franca.protocols.service import Service, WorkerView, runs_of, state_of

FEW_TUBES: Final = 16
"""So many a connection may always watch; those beyond take room that all connections share."""
EXTRA_BYTES_MAX: Final = 1024 * 1024
_WATCH_BYTES: Final = 500
"""What it costs, roughly, that a connection watches a tube."""
VERSION: Final = '"1.12"'
"""Of the original whose protocol this is."""
COUNTED_A_TURN: Final = 1_000
FORGOTTEN_A_TICK: Final = 16
_is_tube = compile_pattern(TUBE.decode()).fullmatch

_COMMANDS: Final[tuple[tuple[str, type], ...]] = (
    ("cmd-put", messages.Put),
    ("cmd-peek", messages.Peek),
    ("cmd-peek-ready", messages.PeekReady),
    ("cmd-peek-delayed", messages.PeekDelayed),
    ("cmd-peek-buried", messages.PeekBuried),
    ("cmd-reserve", messages.Reserve),
    ("cmd-reserve-with-timeout", messages.ReserveWithTimeout),
    ("cmd-delete", messages.Delete),
    ("cmd-release", messages.Release),
    ("cmd-use", messages.Use),
    ("cmd-watch", messages.Watch),
    ("cmd-ignore", messages.Ignore),
    ("cmd-bury", messages.Bury),
    ("cmd-kick", messages.Kick),
    ("cmd-touch", messages.Touch),
    ("cmd-stats", messages.Stats),
    ("cmd-stats-job", messages.StatsJob),
    ("cmd-stats-tube", messages.StatsTube),
    ("cmd-list-tubes", messages.ListTubes),
    ("cmd-list-tube-used", messages.ListTubeUsed),
    ("cmd-list-tubes-watched", messages.ListTubesWatched),
    ("cmd-pause-tube", messages.PauseTube),
)
"""In the order of `stats`."""


class TubeCounts(Struct):
    """What is counted of a tube for as long as it exists."""

    jobs: int = 0
    deletes: int = 0
    pauses: int = 0
    pause_s: int = 0


class BeanstalkdService(Service):
    """What all beanstalkd connections share.

    `references` says how often each tube is used or watched: such a tube exists without jobs. In
    drain mode (`draining`) no new jobs are taken.
    """

    name = "beanstalkd"
    refusal = OUT_OF_MEMORY

    def __init__(
        self, broker: Broker, settings: BeanstalkdSettings, rng: Random, server: ServerFacts
    ) -> None:
        self.broker = broker
        self.max_job_size = min(settings.max_job_size, broker.limits.body_bytes_max)
        self.conversations: dict[BeanstalkdConversation, None] = {}
        self.references: Counter[str] = Counter()
        self.commands: Counter[type | None] = Counter()
        self.draining = False
        self.total_jobs = 0
        self.timeouts = 0
        self._settings = settings
        self._server = server
        self._id = f"{rng.getrandbits(64):016x}"
        self._opened = 0
        self._counts: dict[str, TubeCounts] = {}
        self._extra_bytes = 0

    # -- connections ------------------------------------------------------------------------------

    def open(self, link: Link, now: Millis) -> BeanstalkdConversation:
        """Begin the dialogue on a new link; there is no greeting."""
        self._opened += 1
        conversation = BeanstalkdConversation(self, link)
        self.conversations[conversation] = None
        self.references[DEFAULT] += 2
        return conversation

    def left(self, conversation: BeanstalkdConversation) -> None:
        """A connection is gone."""
        self.conversations.pop(conversation, None)
        self._extra_bytes -= _WATCH_BYTES * max(len(conversation.watched) - FEW_TUBES, 0)
        for tube in (conversation.tube, *conversation.watched):
            self.let_go(tube)

    def drain(self) -> None:
        """Take no new jobs of this protocol until the server is started anew."""
        self.draining = True

    def tick(self, now: Millis) -> None:
        """Look at a few tubes: one that does not exist any more has no counts."""
        for tube in list(islice(self._counts, FORGOTTEN_A_TICK)):
            counts = self._counts.pop(tube)
            if self.exists(tube):
                self._counts[tube] = counts

    def workers(self, now: Millis = NEVER) -> Iterator[WorkerView]:
        """Connections that have asked for a job."""
        return (
            WorkerView(
                name=one.session.holder,
                protocol=self.name,
                host=one.link.peer.address,
                state=state_of(running),
                started_at=one.link.opened_at,
                seen_at=one.seen_at,
                queues=list(one.watched),
                running=running,
                fetched_at=one.asked_at,
            )
            for one in list(self.conversations)
            if one.is_worker
            for running in (runs_of(one.session.leases.values()),)
        )

    # -- tubes ------------------------------------------------------------------------------------

    def refer(self, tube: str) -> None:
        """A connection uses or watches a tube."""
        if not self.exists(tube):
            self._counts.pop(tube, None)
        self.references[tube] += 1

    def let_go(self, tube: str) -> None:
        """A connection uses or watches a tube no more."""
        self.references[tube] -= 1
        if not self.references[tube]:
            del self.references[tube]

    def begin_work(self, conversation: BeanstalkdConversation) -> None:
        """A connection asks for its first job: it can run those of the tubes that it watches."""
        conversation.is_worker = True
        for tube in conversation.watched:
            self.broker.serve(conversation.session, tube)

    def watch(self, conversation: BeanstalkdConversation, tube: str) -> bool:
        """A connection watches a tube; False if that is one too many."""
        extra_bytes = _WATCH_BYTES if len(conversation.watched) >= FEW_TUBES else 0
        if self._extra_bytes + extra_bytes > EXTRA_BYTES_MAX:
            return False
        if conversation.is_worker:
            try:
                self.broker.serve(conversation.session, tube)
            except Refused:
                return False
        self.refer(tube)
        self._extra_bytes += extra_bytes
        conversation.watched[tube] = None
        return True

    def unwatch(self, conversation: BeanstalkdConversation, tube: str) -> None:
        """A connection watches a tube no more."""
        del conversation.watched[tube]
        if len(conversation.watched) >= FEW_TUBES:
            self._extra_bytes -= _WATCH_BYTES
        self.let_go(tube)
        self.broker.unserve(conversation.session, tube)

    def exists(self, tube: str) -> bool:
        """Whether somebody uses or watches a tube, or it has a job."""
        if tube in self.references or tube == DEFAULT:
            return True
        queue = self.broker.queues.get(tube)
        return queue is not None and queue.live + queue.dead > 0

    def tubes(self) -> Iterator[str]:
        """The tubes that exist; not queues of other protocols that no tube can be called like."""
        names = {DEFAULT: None} | dict.fromkeys(self.references) | dict.fromkeys(self.broker.queues)
        return (name for name in names if self.exists(name) and _is_tube(name))

    def counts(self, tube: str) -> TubeCounts:
        """What is counted of a tube."""
        counts = self._counts.get(tube)
        if counts is None:
            counts = self._counts[tube] = TubeCounts()
        return counts

    def pause(self, tube: str, seconds: int, now: Millis) -> None:
        """Give out no job of a tube for so long."""
        self.broker.list_queue(tube)
        if seconds:
            self.broker.pause(tube, until=now + 1_000 * seconds)
        else:
            self.broker.resume(tube, now)
        counts = self.counts(tube)
        counts.pauses += 1
        counts.pause_s = seconds

    # -- stats ------------------------------------------------------------------------------------

    def job_counts(self, tubes: Iterator[str]) -> Generator[None, None, list[tuple[str, int]]]:
        """How many jobs of these tubes are where, as part of a task."""
        urgent = ready = leased = waiting = dead = 0
        for number, tube in enumerate(tubes, 1):
            queue = self.broker.queues.get(tube)
            if queue is not None:
                levels = queue.by_priority()
                urgent += sum(count for level, count in levels.items() if level < URGENT_BELOW)
                ready += queue.ready
                leased += queue.leased
                waiting += queue.scheduled + queue.retrying
                dead += queue.dead
            if number % COUNTED_A_TURN == 0:
                yield
        names = ("urgent", "ready", "reserved", "delayed", "buried")
        numbers = (urgent, ready, leased, waiting, dead)
        return [(f"current-jobs-{name}", count) for name, count in zip(names, numbers, strict=True)]

    def tube_stats(self, tube: str, now: Millis) -> list[tuple[str, object]]:
        """What `stats-tube` shows beside the counts of jobs."""
        counts = self.counts(tube)
        queue = self.broker.queues.get(tube)
        left_ms = queue.paused_until - now if queue is not None and queue.paused_until else 0
        everybody = self.conversations
        return [
            ("total-jobs", counts.jobs),
            ("current-using", sum(one.tube == tube for one in everybody)),
            ("current-watching", sum(tube in one.watched for one in everybody)),
            (
                "current-waiting",
                sum(one.demand is not None and tube in one.watched for one in everybody),
            ),
            ("cmd-delete", counts.deletes),
            ("cmd-pause-tube", counts.pauses),
            ("pause", counts.pause_s if left_ms > 0 else 0),
            ("pause-time-left", max(left_ms, 0) // 1_000),
        ]

    def stats(self, tubes: int) -> list[tuple[str, object]]:
        """What `stats` shows beside the counts of jobs. As without `-b`, there is no binlog."""
        everybody = self.conversations
        user_s, system_s = self._server.cpu_s()
        return [
            *((name, self.commands[command]) for name, command in _COMMANDS),
            ("job-timeouts", self.timeouts),
            ("total-jobs", self.total_jobs),
            ("max-job-size", self.max_job_size),
            ("current-tubes", tubes),
            ("current-connections", len(everybody)),
            ("current-producers", sum(one.is_producer for one in everybody)),
            ("current-workers", sum(one.is_worker for one in everybody)),
            ("current-waiting", sum(one.demand is not None for one in everybody)),
            ("total-connections", self._opened),
            ("pid", self._settings.pid),
            ("version", VERSION),
            ("rusage-utime", f"{user_s:.6f}"),
            ("rusage-stime", f"{system_s:.6f}"),
            ("uptime", self._server.uptime_s()),
            ("binlog-oldest-index", 0),
            ("binlog-current-index", 0),
            ("binlog-records-migrated", 0),
            ("binlog-records-written", 0),
            ("binlog-max-size", 10_485_760),
            ("draining", "true" if self.draining else "false"),
            ("id", self._id),
            ("hostname", self._settings.host),
            ("os", self._settings.os),
            ("platform", self._settings.platform),
        ]


def build(chosen: Mapping[str, object], around: Surroundings) -> BeanstalkdService:
    """The service with what was chosen for it."""
    settings = replace(
        msgspec.convert(chosen, BeanstalkdSettings),
        host=around.host,
        pid=around.pid,
        os=around.os,
        platform=around.machine,
    )
    return BeanstalkdService(around.broker, settings, around.rng, around.server)
