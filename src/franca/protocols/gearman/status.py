"""GET_STATUS and GET_STATUS_UNIQUE: what is known of a job, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from franca.core.model import Job, JobQuery, Millis, State
from franca.protocols.gearman.jobs import BY_UNIQUE, ORIGIN, id_in, key_of
from franca.protocols.gearman.lists import in_parts
from franca.protocols.gearman.wire import (
    HANDLE_BYTES_MAX,
    HEADER,
    LONG_BYTES,
    RES,
    SEARCHED_AT_ONCE,
    UNIQUE_BYTES_MAX,
    Packet,
    number_text,
    response,
    without_nuls,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

Status = tuple[int, int, bytes, bytes]
"""Known, running, numerator, denominator."""

UNKNOWN: Final[Status] = (0, 0, b"0", b"0")
DONE: Final[Status] = (0, 0, b"1", b"1")
GIVEN_UP: Final[Status] = (0, 0, b"0", b"1")
NOT_RUNNING: Final[Status] = (1, 0, b"0", b"0")
_UNKNOWN_UNIQUE: Final = b"\x000\x000\x000\x000\x000"
"""The same of a unique id, and that nobody waits for it."""


def on_get_status(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GET_STATUS: by the handle.

    Clients poll until a job is no longer known, so an ended one is not. What became of it shows
    for a while in the numbers: 1 of 1 if it was done, 0 of 1 if it was given up.
    """
    handle = without_nuls(body, HANDLE_BYTES_MAX)
    service = conversation.service
    if len(handle) > HANDLE_BYTES_MAX:
        _say(conversation, handle, UNKNOWN)
        return
    name = handle.decode("utf-8", "replace")
    for job in service.broker.first_named(name):
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
        self.link = conversation.link
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
        return (1, 1, b"0", b"0")  # a worker of another protocol may report what it likes
    return (1, 1, number_text(numerator), number_text(denominator))


def _say(conversation: GearmanConversation, handle: bytes, status: Status) -> None:
    rest = b"\0%d\0%d\0%b\0%b" % status
    if len(handle) > LONG_BYTES:
        _say_long(conversation, Packet.STATUS_RES, handle, rest)
    else:
        conversation.link.write(response(Packet.STATUS_RES, handle + rest))


def _say_long(conversation: GearmanConversation, number: int, name: bytes, rest: bytes) -> None:
    """Answer with a name as it came: of one that is long there is no copy."""
    head = HEADER.pack(RES, number, len(name) + len(rest))
    conversation.link.write_bulk(head, name, rest)


def on_get_status_unique(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GET_STATUS_UNIQUE: by the unique id, whatever the function, and how many wait for it."""
    unique = without_nuls(body, UNIQUE_BYTES_MAX)
    if len(unique) > UNIQUE_BYTES_MAX:
        # No job has it; kept here until it may be said, it would be there twice.
        _say_long(conversation, Packet.STATUS_RES_UNIQUE, unique, _UNKNOWN_UNIQUE)
        return
    conversation.spent += len(conversation.broker.queues) // SEARCHED_AT_ONCE
    conversation.say_all(_by_unique(conversation, unique))


def _by_unique(conversation: GearmanConversation, unique: bytes) -> Iterator[bytes]:
    broker = conversation.broker
    status, watches = UNKNOWN, 0
    key = key_of(unique, b"", "")
    if key.startswith(BY_UNIQUE):
        for queue in in_parts(lambda: broker.queues):
            found = broker.keyed(queue, key)
            if found is not None:
                status = status_of(found) if isinstance(found, Job) else NOT_RUNNING
                watches = broker.watchers_of(found.id)
                conversation.spent += watches // SEARCHED_AT_ONCE
                break
            yield b""
    reply = b"%b\0%d\0%d\0%b\0%b\0%d" % (unique, *status, watches)
    yield response(Packet.STATUS_RES_UNIQUE, reply)
