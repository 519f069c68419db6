"""GET_STATUS and GET_STATUS_UNIQUE: what is known of a job, wherever it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.model import Job, JobQuery, Millis, State
from franca.protocols.gearman.jobs import BY_UNIQUE, ORIGIN, id_in, key_of
from franca.protocols.gearman.wire import (
    UNIQUE_BYTES_MAX,
    Packet,
    number_in,
    response,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

Status = tuple[int, int, int, int]
"""Known, running, numerator, denominator."""

UNKNOWN: Final[Status] = (0, 0, 0, 0)
DONE: Final[Status] = (0, 0, 1, 1)
GIVEN_UP: Final[Status] = (0, 0, 0, 1)
NOT_RUNNING: Final[Status] = (1, 0, 0, 0)


def on_get_status(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GET_STATUS: by the handle.

    Clients poll until a job is no longer known, so an ended one is not. What became of it shows
    for a while in the numbers: 1 of 1 if it was done, 0 of 1 if it was given up.
    """
    handle = body.rstrip(b"\0")
    service = conversation.service
    name = handle.decode("utf-8", "replace")
    for job in service.broker.named(name):
        if job.origin == ORIGIN:
            _say(conversation, handle, status_of(job))
            return
    state = service.ended.get(handle)
    if state is not None:
        _say(conversation, handle, DONE if state is State.DONE else GIVEN_UP)
    elif job_id := id_in(handle):
        conversation.holding = True
        service.broker.recall(JobQuery(ids=(job_id,), limit=1), _Asked(conversation, handle))
    else:
        _say(conversation, handle, UNKNOWN)


class _Asked:
    """A GET_STATUS that only the store can answer."""

    def __init__(self, conversation: GearmanConversation, handle: bytes) -> None:
        self._conversation = conversation
        self._handle = handle

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Answer with what the store has."""
        conversation = self._conversation
        if not conversation.link.closed:
            found = [job for job in jobs if job.name.encode() == self._handle]
            _say(conversation, self._handle, status_of(found[0]) if found else UNKNOWN)
            conversation.go_on(now)


def status_of(job: Job) -> Status:
    """The four numbers of a job."""
    if job.state is State.DONE:
        return DONE
    if job.state > State.LEASED:
        return GIVEN_UP
    if job.state is not State.LEASED:
        return NOT_RUNNING
    numerator, separator, denominator = job.progress.partition(b"\0")
    if not separator:
        return (1, 1, 0, 0)  # a worker of another protocol may report what it likes
    return (1, 1, number_in(numerator) & 0xFFFFFFFF, number_in(denominator) & 0xFFFFFFFF)


def _say(conversation: GearmanConversation, handle: bytes, status: Status) -> None:
    body = b"%b\0%d\0%d\0%d\0%d" % (handle, *status)
    conversation.link.write(response(Packet.STATUS_RES, body))


def on_get_status_unique(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GET_STATUS_UNIQUE: by the unique id, whatever the function, and how many wait for it."""
    unique = body.rstrip(b"\0")
    status, watches = _by_unique(conversation, unique)
    reply = b"%b\0%d\0%d\0%d\0%d\0%d" % (unique, *status, watches)
    conversation.link.write(response(Packet.STATUS_RES_UNIQUE, reply))


def _by_unique(conversation: GearmanConversation, unique: bytes) -> tuple[Status, int]:
    if len(unique) > UNIQUE_BYTES_MAX:
        return UNKNOWN, 0
    key = key_of(unique, b"", "")
    if key.startswith(BY_UNIQUE):
        broker = conversation.broker
        for queue in broker.queues:
            found = broker.keyed(queue, key)
            if found is not None:
                status = status_of(found) if isinstance(found, Job) else NOT_RUNNING
                return status, broker.watchers_of(found.id)
    return UNKNOWN, 0
