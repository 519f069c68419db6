"""Gearman on this server: its settings, its connections, and what they share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.events import Event
from franca.core.model import NEVER, Job, Millis, Policy, State
from franca.core.names import Names
from franca.protocols.conversation import Link
from franca.protocols.declaration import Stop, Surroundings
from franca.protocols.gearman.conversation import GearmanConversation
from franca.protocols.gearman.jobs import BOOT_DIGITS, HIGH
from franca.protocols.gearman.settings import GearmanSettings
from franca.protocols.gearman.wire import NOOP, error
from franca.protocols.service import Service, WorkerView, runs_of, state_of

HOST_CHARS_MAX: Final = 36
"""A handle with twelve digits of a run and twelve of a job's id then has at most 63 bytes."""
ENDED_KEPT: Final = 10_000
"""Handles of ended jobs that GET_STATUS can still say something about."""
EVERYBODY: Final = 1 << 30
PACE_MS: Final = 10_000
"""How long a worker is held back for clients that do not read what it sends: no longer than this in
all in `PACE_AGAIN_MS` where it does not help, and for one client once."""
PACE_AGAIN_MS: Final = 60_000
LIMITED_MAX: Final = 10_000
"""Functions that may have a limit of their own."""
LIMITS_A_TICK: Final = 16
LATE_MS: Final = 250
"""After so long without a GRAB_JOB of a worker that was woken, another is woken."""


NOTHING: Final[tuple[Event | None, int, tuple[bytes, ...]]] = (None, 0, ())


class GearmanService(Service):
    """What all Gearman connections share. `rng` makes handles that no other run has made.

    `request_stop` is what the text command `shutdown` does. `ended` remembers for a while what
    became of jobs; `conversations` are by the holder of what they run; `forwarded` is what was last
    said of a job, in the pieces that all who wait for it are told.
    """

    name = "gearman"
    refusal = error("SERVER_ERROR", "too many connections")

    def __init__(
        self, broker: Broker, settings: GearmanSettings, rng: Random, request_stop: Stop
    ) -> None:
        self.broker = broker
        broker.dispatch.wakeups = settings.wakeup or EVERYBODY
        self.limits = broker.limits
        self.settings = settings
        self.request_stop = request_stop
        self.names = Names()
        host = re.sub(r"[^A-Za-z0-9._-]", "_", settings.host)[:HOST_CHARS_MAX]
        # Ids of jobs that only memory had are used again after a crash, and those of a store that
        # was removed, so a handle begins with a number that no other run has.
        boot = rng.randrange(10 ** (BOOT_DIGITS - 1), 10**BOOT_DIGITS, 2)
        self.prefix = f"H:{host}:{boot}"
        # A job that nobody waits for is kept until it is done or given up.
        most, fails = settings.job_retries, settings.on_timeout == "fail"
        self.background = Policy(max_losses=most, expiry_is_failure=fails, never_given_up=most < 0)
        # One that somebody waits for needs no disk, and ends with the last of them.
        self.foreground = replace(self.background, durable=False, dies_unwatched=True)
        self.maxqueue: dict[str, tuple[int, int, int]] = {}
        self.ended: dict[bytes, State] = {}
        self.conversations: dict[str, GearmanConversation] = {}
        self.abilities_bytes = 0
        self.forwarded = NOTHING
        self._opened = 0
        self._foreign_prefix = f"H:{host}:{boot + 1}".encode()
        self._deliveries = 0
        self._woken: dict[GearmanConversation, None] = {}
        self._paced: dict[GearmanConversation, tuple[GearmanConversation, Millis]] = {}

    def open(self, link: Link, now: Millis) -> GearmanConversation:
        """Begin the dialogue on a new link; there is no greeting."""
        self._opened += 1
        conversation = GearmanConversation(self, link, self._opened)
        self.conversations[conversation.session.holder] = conversation
        return conversation

    def left(self, conversation: GearmanConversation) -> None:
        """A connection is gone."""
        self.abilities_bytes -= conversation.abilities_bytes
        self.conversations.pop(conversation.session.holder, None)
        self._woken.pop(conversation, None)
        self._paced.pop(conversation, None)

    def delivery_handle(self) -> bytes:
        """What a job of another protocol is called for the time of one run."""
        self._deliveries += 1
        return b"%b%d" % (self._foreign_prefix, self._deliveries)

    def is_full(self, queue: str, key: str, priority: int) -> bool:
        """Whether a job would be one too many; one that joins another is not."""
        limits = self.maxqueue.get(queue)
        if limits is None or (key and self.broker.keyed(queue, key) is not None):
            return False
        line = self.broker.queues.get(queue)
        return line is not None and 0 < limits[priority - HIGH] <= line.live

    def address_of(self, job: Job) -> bytes:
        """The address of the worker that runs a job, or a dash."""
        worker = self.conversations.get(job.holder) if job.state is State.LEASED else None
        return worker.link.peer.address.encode() if worker is not None else b"-"

    def limit(self, queue: str, limits: tuple[int, int, int]) -> bool:
        """Have a function take no more jobs than these; False if too many have such limits."""
        if not any(limits):
            self.maxqueue.pop(queue, None)
            return True
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

    def wake(self, conversation: GearmanConversation, now: Millis) -> None:
        """Tell a worker that there is work."""
        conversation.woken_at = now
        self._woken[conversation] = None
        conversation.link.write(NOOP)

    def note_awake(self, conversation: GearmanConversation) -> None:
        """A worker that was woken has asked for a job."""
        conversation.woken_at = NEVER
        self._woken.pop(conversation, None)

    def tick(self, now: Millis) -> None:
        """Wake others in place of workers that were woken and have not asked for a job."""
        for conversation in [c for c in self._woken if now - c.woken_at >= LATE_MS]:
            if conversation in self._woken:
                self.note_awake(conversation)
                self.broker.wake_another(conversation.session)
        if self._paced:
            self._resume_paced(now)
        if self.maxqueue:
            self._forget_limits()
        self.forwarded = NOTHING  # what it holds may be large
        for handle in list(islice(self.ended, max(len(self.ended) - ENDED_KEPT, 0))):
            del self.ended[handle]

    # -- workers that are faster than their clients ----------------------------------------

    def pace(self, holder: str, client: GearmanConversation, now: Millis) -> None:
        """Read no more from a worker until its client has taken what it sent.

        Else a long stream of WORK_DATA would pile up here, and its client be cut off. A client that
        does not read at all is waited for once: after that it is cut off, and no worker waits for
        it. Nor does a worker wait for one such client after the other: others want its work.
        """
        worker = self.conversations.get(holder)
        if worker is None or worker is client or worker.holding or client.was_waited_for:
            return
        if now - worker.paced_at >= PACE_AGAIN_MS:
            worker.paced_at, worker.paced_ms = now, 0
        if worker.paced_ms < PACE_MS:
            worker.holding = True
            self._paced[worker] = (client, now)

    def _resume_paced(self, now: Millis) -> None:
        for worker, (client, since) in list(self._paced.items()):
            held_ms = now - since
            if worker.paced_ms + held_ms >= PACE_MS:
                client.was_waited_for = True
                worker.paced_ms += held_ms
            elif client.link.closed or client.link.closing:
                worker.paced_ms += held_ms  # it was cut off, or left: that did not help either
            elif client.link.full:
                continue
            if self._paced.pop(worker, None) is not None:
                worker.resume()

    # -- for operators -----------------------------------------------------------------------------

    def workers(self, now: Millis = NEVER) -> Iterator[WorkerView]:
        """The connections that have sent CAN_DO."""
        return (
            WorkerView(
                name=conversation.link.id,
                protocol=self.name,
                host=conversation.link.peer.address,
                labels=[conversation.client_id.decode("utf-8", "replace")],
                state=state_of(running, stopping=self.stopping),
                started_at=conversation.link.opened_at,
                seen_at=conversation.seen_at,
                queues=sorted(map(self.names.text, conversation.functions)),
                running=running,
                fetched_at=conversation.asked_at,
            )
            for conversation in list(self.conversations.values())
            if conversation.functions
            for running in (runs_of(conversation.held.values()),)
        )

    def consumers(self) -> int:
        """How many connections still run a job."""
        return sum(1 for conversation in self.conversations.values() if conversation.held)


def build(chosen: Mapping[str, object], around: Surroundings) -> GearmanService:
    """The service with what was chosen for it."""
    settings = replace(
        msgspec.convert(chosen, GearmanSettings),
        remote_shutdown=around.remote_shutdown,
        host=around.host,
        pid=around.pid,
        zone=around.zone,
    )
    return GearmanService(around.broker, settings, around.rng, around.server.request_stop)
