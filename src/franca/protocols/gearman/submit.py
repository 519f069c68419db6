"""SUBMIT_*: jobs come in, and each is answered with its handle, in the order of the packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import NEVER, JobId, Millis, NewJob
from franca.protocols.bodies import BYTES
from franca.protocols.gearman.jobs import NORMAL, ORIGIN, key_of
from franca.protocols.gearman.sched import next_match
from franca.protocols.gearman.wire import (
    HEADER,
    MISSING,
    RES,
    SEARCHED_AT_ONCE,
    UNIQUE_BYTES_MAX,
    Packet,
    error,
    number_in,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

WATCHES_MAX: Final = 10_000
"""Submits that may wait for one job: all of them hear of its end in one turn."""
JOINS_MAX: Final = 64
"""And those of one connection among them: it hears everything that often."""
SCHED_MESSAGES: Final = 4
"""What finding the next minute that matches takes, in messages."""
EPOCH_S_MAX: Final = 253_402_300_799
"""The last second of the year 9999."""

_pack = HEADER.pack
_CREATED: Final = int(Packet.JOB_CREATED)
_UNIQUE_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Unique value too large")
_FUNCTION_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Function name too large")
_WORKLOAD_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Workload too large")
_EPOCH_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Epoch value too large")
_NO_SUCH_TIME: Final = error("INVALID_ARGUMENT", "No minute ever matches these five fields")
_QUEUE_FULL: Final = error("QUEUE_ERROR", "Job queue is full")
_TOO_MANY_WAIT: Final = error("QUEUE_ERROR", "Too many clients wait for this job")


class Submission:
    """One kind of SUBMIT packet: its priority, and whether its sender waits for the result."""

    __slots__ = ("_background", "_priority")

    def __init__(self, priority: int = NORMAL, *, background: bool) -> None:
        self._priority = priority
        self._background = background

    def now(self, conversation: GearmanConversation, body: bytes, now: Millis) -> None:
        """SUBMIT_JOB and its kin: a function, a unique id, the work."""
        arguments = body.split(b"\0", 2)
        if len(arguments) != 3:
            conversation.link.write(MISSING)
            return
        function, unique, workload = arguments
        self._submit(conversation, function, unique, workload, now)

    def at_epoch(self, conversation: GearmanConversation, body: bytes, now: Millis) -> None:
        """SUBMIT_JOB_EPOCH: not before this second. The past, and what is no number, is now."""
        arguments = body.split(b"\0", 3)
        if len(arguments) != 4:
            conversation.link.write(MISSING)
            return
        function, unique, epoch, workload = arguments
        seconds = number_in(epoch)
        if seconds > EPOCH_S_MAX:
            conversation.link.write(_EPOCH_TOO_LARGE)
            return
        run_at = max(seconds, 0) * 1000
        self._submit(conversation, function, unique, workload, now, run_at)

    def at_match(self, conversation: GearmanConversation, body: bytes, now: Millis) -> None:
        """SUBMIT_JOB_SCHED: once, at the next minute that all five fields match."""
        arguments = body.split(b"\0", 7)
        if len(arguments) != 8:
            conversation.link.write(MISSING)
            return
        conversation.spent += SCHED_MESSAGES
        after = conversation.broker.wall(now)
        run_at = next_match(arguments[2:7], conversation.service.settings.zone, after)
        if run_at is None:
            conversation.link.write(_NO_SUCH_TIME)
            return
        self._submit(conversation, arguments[0], arguments[1], arguments[7], now, run_at)

    def reduced(self, conversation: GearmanConversation, body: bytes, now: Millis) -> None:
        """SUBMIT_REDUCE_JOB: its worker is told the reducer; what follows is between workers."""
        arguments = body.split(b"\0", 4)
        if len(arguments) != 5:
            conversation.link.write(MISSING)
            return
        function, unique, reducer, _unused, workload = arguments
        if len(reducer) > UNIQUE_BYTES_MAX:
            conversation.link.write(_UNIQUE_TOO_LARGE)
            return
        self._submit(conversation, function, unique, workload, now, NEVER, reducer)

    def _submit(
        self,
        conversation: GearmanConversation,
        function: bytes,
        unique: bytes,
        workload: bytes,
        now: Millis,
        run_at: Millis = NEVER,
        reducer: bytes = b"",
    ) -> None:
        """Take the job in, or join the one that it stands for, and tell its handle."""
        service = conversation.service
        link = conversation.link
        if len(unique) > UNIQUE_BYTES_MAX:
            link.write(_UNIQUE_TOO_LARGE)
            return
        if len(function) > service.limits.name_bytes_max:
            link.write(_FUNCTION_TOO_LARGE)
            return
        if len(workload) > service.limits.body_bytes_max:
            link.note(f"a workload of {len(workload)} bytes is refused")
            link.write(_WORKLOAD_TOO_LARGE)
            return
        queue = service.names.text(function)
        broker = conversation.broker
        name = service.prefix + str(broker.next_id())
        key = key_of(unique, workload, name) if unique else ""
        priority = self._priority
        if service.maxqueue and service.is_full(queue, key, priority):
            link.write(_QUEUE_FULL)
            return
        background = self._background
        if key and not background and _is_crowded(conversation, queue, key):
            link.write(_TOO_MANY_WAIT)
            return
        policy = service.background if background else service.foreground
        new = NewJob(queue, queue, workload, policy, name, BYTES, ORIGIN, key, priority=priority)
        if run_at:
            new.run_at = run_at
        if reducer:
            new.extra = reducer
        try:
            job = broker.submit(new, now, None if background else conversation.session)
        except Refused as refusal:
            _refuse(conversation, queue, "" if background else key, refusal.text)
            return
        handle = job.name.encode()
        say = link.write_after_commit if background else link.write
        say(_pack(RES, _CREATED, len(handle)) + handle)


def _is_crowded(conversation: GearmanConversation, queue: str, key: str) -> bool:
    """Whether too many wait for the job with this key already; counts one that does not."""
    broker = conversation.broker
    taken = broker.keyed(queue, key)
    if taken is None:
        return False
    watches = broker.watchers_of(taken.id)
    conversation.spent += watches // SEARCHED_AT_ONCE
    if watches >= SEARCHED_AT_ONCE:
        conversation.service.crowd_gathers(taken)
    if watches >= WATCHES_MAX:
        return True
    return taken.id in conversation.session.watches and not _joins_again(conversation, taken.id)


def _joins_again(conversation: GearmanConversation, job_id: JobId) -> bool:
    """Whether a connection that waits for a job may do so once more."""
    joins, watches = conversation.joins, conversation.session.watches
    times = joins.get(job_id, 1)
    if times >= JOINS_MAX:
        return False
    joins[job_id] = times + 1
    if len(joins) > 2 * len(watches) + JOINS_MAX:
        # Jobs that another has taken the place of are not heard of again.
        conversation.joins = {key: times for key, times in joins.items() if key in watches}
    return True


def _refuse(conversation: GearmanConversation, queue: str, key: str, text: str) -> None:
    """Tell why a job was not taken. Who waits for the one with its key does not do so once more."""
    taken = conversation.broker.keyed(queue, key) if key else None
    if taken is not None and taken.id in conversation.session.watches:
        conversation.joins[taken.id] -= 1
    conversation.link.write(error("QUEUE_ERROR", text))
