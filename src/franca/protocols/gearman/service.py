"""Gearman on this server: its settings, its connections, and what they share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, tzinfo
from itertools import islice
from random import Random
from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.events import Event
from franca.core.known import Known
from franca.core.model import NEVER, Job, Millis, State
from franca.core.names import Names
from franca.protocols.conversation import Link, Service, WorkerView
from franca.protocols.gearman.admin import on_line
from franca.protocols.gearman.conversation import GearmanConversation
from franca.protocols.gearman.heavy import Heavy
from franca.protocols.gearman.jobs import (
    BOOT_DIGITS,
    HIGH,
    background_policy,
    foreground_policy,
)
from franca.protocols.gearman.packets import PACKETS
from franca.protocols.gearman.wire import error
from franca.protocols.gearman.workers import sleep_anew

HOST_CHARS_MAX: Final = 36
"""A handle with twelve digits of a run and twelve of a job's id then has at most 63 bytes."""
ENDED_KEPT: Final = 10_000
"""Handles of ended jobs that GET_STATUS can still say something about."""
EVERYBODY: Final = 1 << 30
PACE_MS: Final = 10_000
"""How long a worker is held back for clients that do not take what it sends: in vain no longer than
this in all in `PACE_AGAIN_MS`, and for one client once."""
PACE_AGAIN_MS: Final = 60_000
LIMITED_MAX: Final = 10_000
"""Functions that may have a limit of their own."""
LIMITS_A_TICK: Final = 16
LATE_MS: Final = 250
"""A worker that was woken and has not asked for so long is not waited for any more."""


NOTHING: Final[tuple[Event | None, int, tuple[bytes, ...]]] = (None, 0, ())


class GearmanSettings(Struct, frozen=True):
    """What an operator may choose. `wakeup` workers are woken for each job, 0 is all of them."""

    wakeup: int = 1
    job_retries: int = -1
    """How often a job is run again whose worker was lost; -1 is without limit."""
    on_timeout: str = "requeue"
    admin: str = "loopback"
    remote_shutdown: str = "loopback"
    exceptions: bool = False
    """Whether WORK_EXCEPTION is sent to every client, not only to those who ask for it."""
    zone: tzinfo = UTC
    """Whose clocks SUBMIT_JOB_SCHED means."""
    host: str = "localhost"
    pid: int = 0
    version: str = "2.0.0"
    """The version of the original that `version` names."""
    verbose: str = "INFO"


class GearmanService(Service):
    """What all Gearman connections share. `rng` makes handles that no other run has made.

    `request_stop` is what the text command `shutdown` does. `ended` remembers for a while what
    became of jobs; `passed_on` is what was last said of one, in the pieces that all who wait for
    it are told. `on_line` and `sleep_anew` are here because their modules know conversations.
    """

    name = "gearman"
    refusal = error("SERVER_ERROR", "too many connections")
    on_line = staticmethod(on_line)
    sleep_anew = staticmethod(sleep_anew)

    def __init__(
        self,
        broker: Broker,
        settings: GearmanSettings,
        rng: Random,
        request_stop: Callable[[], None],
    ) -> None:
        self.broker = broker
        broker.wakeups = settings.wakeup or EVERYBODY
        self.limits = broker.limits
        self.settings = settings
        self.request_stop = request_stop
        self.packets = PACKETS
        self.names = Names()
        host = re.sub(r"[^A-Za-z0-9._-]", "_", settings.host)[:HOST_CHARS_MAX]
        # Ids of jobs that only memory had are used again after a crash, and those of a store that
        # was removed, so a handle begins with a number that no other run has.
        boot = rng.randrange(10 ** (BOOT_DIGITS - 1), 10**BOOT_DIGITS, 2)
        self.prefix = f"H:{host}:{boot}"
        self.background = background_policy(
            settings.job_retries, timeout_fails=settings.on_timeout == "fail"
        )
        self.foreground = foreground_policy(self.background)
        self.maxqueue: dict[str, tuple[int, int, int]] = {}
        self.ended: dict[bytes, State] = {}
        self.conversations: dict[GearmanConversation, None] = {}
        self.abilities_bytes = 0
        self.passed_on = NOTHING
        self.stopping = False
        self.heavy = Heavy()
        self._sharers = 0
        self._sharers_before = 0
        self._shared_at: Millis = NEVER
        self._opened = 0
        self._strangers = f"H:{host}:{boot + 1}".encode()
        self._deliveries = 0
        self._woken: dict[GearmanConversation, None] = {}
        self._by_holder: dict[str, GearmanConversation] = {}
        self._paced: dict[GearmanConversation, tuple[GearmanConversation, Millis]] = {}

    def open(self, link: Link, now: Millis) -> GearmanConversation:
        """Begin the dialogue on a new link; there is no greeting."""
        self._opened += 1
        conversation = GearmanConversation(self, link, self._opened)
        self.conversations[conversation] = None
        self._by_holder[conversation.session.holder] = conversation
        return conversation

    def left(self, conversation: GearmanConversation) -> None:
        """A connection is gone."""
        self.conversations.pop(conversation, None)
        self.abilities_bytes -= conversation.abilities_bytes
        self._by_holder.pop(conversation.session.holder, None)
        self._woken.pop(conversation, None)
        self._paced.pop(conversation, None)
        self.heavy.forget(conversation)

    def delivery_handle(self) -> bytes:
        """What a job of another protocol is called for the time of one run."""
        self._deliveries += 1
        return b"%b%d" % (self._strangers, self._deliveries)

    def is_full(self, queue: str, key: str, priority: int) -> bool:
        """Whether a job would be one too many; one that joins another never is."""
        limits = self.maxqueue.get(queue)
        if limits is None or (key and self.broker.keyed(queue, key) is not None):
            return False
        limit = limits[priority - HIGH]
        line = self.broker.queues.get(queue)
        return line is not None and 0 < limit <= line.live

    # -- jobs that many wait for -------------------------------------------------------------------

    def crowd_gathers(self, job: Job | Known) -> None:
        """Many wait for this job: what its worker says takes long to be told."""
        self.heavy.gather(job.id)
        if isinstance(job, Job) and (worker := self._by_holder.get(job.holder)) is not None:
            worker.is_heavy = True

    # -- long answers --------------------------------------------------------------------------

    def sharers(self, now: Millis) -> int:
        """Among how many a turn's share of long answers is divided, with whoever asks this."""
        if now != self._shared_at:
            self._shared_at, self._sharers_before, self._sharers = now, self._sharers, 0
        self._sharers += 1
        return max(self._sharers, self._sharers_before)

    def address_of(self, job: Job) -> bytes:
        """Where the worker is that runs a job, or a dash."""
        worker = self._by_holder.get(job.holder) if job.state is State.LEASED else None
        return worker.link.peer.address.encode() if worker is not None else b"-"

    def limit(self, queue: str, limits: tuple[int, int, int]) -> bool:
        """Have a function take no more jobs than these; False if too many have such limits."""
        if len(self.maxqueue) >= LIMITED_MAX and queue not in self.maxqueue:
            return False
        self.maxqueue[queue] = limits
        return True

    def _forget_limits(self) -> None:
        """Look at a few limits: a function that is not listed any more has none."""
        for name in list(islice(self.maxqueue, LIMITS_A_TICK)):
            limits = self.maxqueue.pop(name, None)
            queue = self.broker.queues.get(name)
            if limits is not None and queue is not None and queue.listed:
                self.maxqueue[name] = limits

    # -- workers that were woken ------------------------------------------------------------------

    def woke(self, conversation: GearmanConversation, now: Millis) -> None:
        """A worker was told that there is work."""
        conversation.woken_at = now
        self._woken[conversation] = None

    def heard_of(self, conversation: GearmanConversation) -> None:
        """A worker that was woken asks."""
        conversation.woken_at = NEVER
        self._woken.pop(conversation, None)

    def tick(self, now: Millis) -> None:
        """Wake others in place of those who were woken and do not come."""
        for conversation in [c for c in self._woken if now - c.woken_at >= LATE_MS]:
            if conversation in self._woken:
                self.heard_of(conversation)
                self.broker.wake_another(conversation.session)
        if self._paced:
            self._let_go_on(now)
        if self.maxqueue:
            self._forget_limits()
        self.passed_on = NOTHING  # what it holds may be large
        surplus = len(self.ended) - ENDED_KEPT
        if surplus > 0:
            for handle in list(islice(self.ended, surplus)):
                self.ended.pop(handle, None)

    # -- workers that are faster than their clients ----------------------------------------

    def pace(self, holder: str, client: GearmanConversation, now: Millis) -> None:
        """Read no more from a worker until its client has taken what it sent.

        Else a long stream of WORK_DATA would pile up here, and its client be cut off. Who does not
        read at all is waited for once: after that it is cut off, and no worker need care. Nor does
        a worker wait for one such client after the other: others want its work.
        """
        worker = self._by_holder.get(holder)
        if worker is None or worker is client or worker.holding or client.was_waited_for:
            return
        if now - worker.paced_at >= PACE_AGAIN_MS:
            worker.paced_at, worker.paced_ms = now, 0
        if worker.paced_ms < PACE_MS:
            worker.holding = True
            self._paced[worker] = (client, now)

    def _let_go_on(self, now: Millis) -> None:
        for worker, (client, since) in list(self._paced.items()):
            held_ms = now - since
            if worker.paced_ms + held_ms >= PACE_MS:
                client.was_waited_for = True
                worker.paced_ms += held_ms
            elif client.link.closed or client.link.closing:
                worker.paced_ms += held_ms  # it was cut off, or left: in vain too
            elif client.link.full:
                continue
            if self._paced.pop(worker, None) is not None:
                worker.go_on(now)

    # -- for operators -----------------------------------------------------------------------------

    def workers(self) -> list[WorkerView]:
        """The connections that said what they can do."""
        return [
            WorkerView(
                name=conversation.link.id,
                protocol=self.name,
                host=conversation.link.peer.address,
                pid=0,
                labels=[conversation.client_id.decode("utf-8", "replace")],
                state="quiet" if self.stopping else "running",
                started_at=conversation.link.opened_at,
                seen_at=conversation.seen_at,
                rss_kb=0,
                connections=1,
                queues=sorted(map(self.names.text, conversation.functions)),
            )
            for conversation in self.conversations
            if conversation.functions
        ]

    def stop(self, now: Millis) -> None:
        """The server is about to stop: no job is given out any more."""
        self.stopping = True

    def consumers(self) -> int:
        """How many connections still run a job."""
        return sum(1 for conversation in self.conversations if conversation.held)
