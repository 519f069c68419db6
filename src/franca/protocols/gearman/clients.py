"""What clients say: SUBMIT_*, GET_STATUS*, ECHO_REQ, OPTION_REQ and SET_CLIENT_ID."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import NEVER, Job, JobQuery, Millis, NewJob, Policy, State
from franca.protocols.bodies import BYTES
from franca.protocols.gearman.names import raw_of, text_of
from franca.protocols.gearman.wire import (
    CLIENT_ID_BYTES_KEPT,
    HEADER,
    OPTION_BYTES_MAX,
    RES,
    UNIQUE_BYTES_KEPT,
    UNIQUE_BYTES_MAX,
    Packet,
    error,
    response,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation
    from franca.protocols.gearman.service import GearmanService

ORIGIN: Final = "gearman"
HIGH: Final = -1
NORMAL: Final = 0
LOW: Final = 1

_pack = HEADER.pack
_CREATED: Final = int(Packet.JOB_CREATED)
_BY_UNIQUE: Final = "u:"
_BY_WORKLOAD: Final = "w:"
_MISSING: Final = error("INVALID_ARGUMENTS", "The packet has too few arguments")
_UNIQUE_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Unique value too large")
_FUNCTION_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Function name too large")
_WORKLOAD_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Workload too large")
_QUEUE_FULL: Final = error("QUEUE_ERROR", "Job queue is full")
_UNKNOWN_OPTION: Final = error("UNKNOWN_OPTION", "Server does not recognize given option")
_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_INT64_MAX: Final = (1 << 63) - 1


# -- SUBMIT_* ----------------------------------------------------------------------------------


class Submission:
    """How one kind of SUBMIT_JOB packet is taken: its priority, and whether anybody waits."""

    __slots__ = ("_background", "_priority")

    def __init__(self, priority: int, *, background: bool) -> None:
        self._priority = priority
        self._background = background

    def __call__(self, conversation: GearmanConversation, body: bytes, now: Millis) -> None:
        """SUBMIT_JOB and its kin: a function, a unique id, and the work itself."""
        arguments = body.split(b"\0", 2)
        if len(arguments) < 3:
            conversation.link.write(_MISSING)
            return
        function, unique, workload = arguments
        submit(
            conversation, function, unique, workload, now, self._priority, self._background, NEVER
        )  # fmt: skip


def submit(
    conversation: GearmanConversation,
    function: bytes,
    unique: bytes,
    workload: bytes,
    now: Millis,
    priority: int,
    background: bool,
    run_at: Millis,
    reducer: bytes = b"",
) -> None:
    """Take in a job, or join the one that it stands for, and tell its handle.

    Without the checks in the order in which the original makes them nothing is refused that it
    takes, but for names and bodies beyond the limits of this server.
    """
    service = conversation.service
    link = conversation.link
    if len(unique) > UNIQUE_BYTES_KEPT:
        if len(unique) > UNIQUE_BYTES_MAX:
            link.write(_UNIQUE_TOO_LARGE)
            return
        unique = unique[:UNIQUE_BYTES_KEPT]
    limits = service.limits
    if len(function) > limits.name_bytes_max:
        link.write(_FUNCTION_TOO_LARGE)
        return
    if len(workload) > limits.body_bytes_max:
        link.write(_WORKLOAD_TOO_LARGE)
        return
    queue = service.names.text(function)
    key = key_of(unique, workload) if unique else ""
    if service.maxqueue and service.is_full(queue, key, priority):
        link.write(_QUEUE_FULL)
        return
    service.handles += 1
    name = service.prefix + str(service.handles)
    new = NewJob(
        queue,
        queue,
        workload,
        service.background if background else service.foreground,
        name,
        BYTES,
        ORIGIN,
        key,
        priority=priority,
        run_at=run_at,
        extra=reducer,
    )
    try:
        job = conversation.broker.submit(new, now, None if background else conversation.session)
    except Refused as refusal:
        link.write(error("QUEUE_ERROR", refusal.text))
        return
    handle = job.name.encode()
    reply = _pack(RES, _CREATED, len(handle)) + handle
    if background:
        link.write_after_commit(reply)
    else:
        link.write(reply)


def key_of(unique: bytes, workload: bytes) -> str:
    """What makes a job the same as another of its function; nothing for jobs that never are."""
    if unique == b"-":
        return _BY_WORKLOAD + blake2b(workload, digest_size=16).hexdigest() if workload else ""
    return _BY_UNIQUE + (unique.decode("ascii") if unique.isascii() else text_of(unique))


def unique_of(job: Job) -> bytes:
    """The unique id that a job was submitted with; a job of another protocol goes by its name."""
    key = job.key
    if job.origin != ORIGIN:
        return job.name.encode()[:UNIQUE_BYTES_KEPT].replace(b"\0", b" ")
    if key.startswith(_BY_UNIQUE):
        return raw_of(key[len(_BY_UNIQUE) :])
    return b"-" if key else b""


# -- GET_STATUS --------------------------------------------------------------------------------

_NOT_KNOWN: Final = (b"0", b"0", b"0", b"0")
_DONE: Final = (b"0", b"0", b"1", b"1")
_NOT_DONE: Final = (b"0", b"0", b"0", b"1")


def on_get_status(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GET_STATUS: what is known of a job by its handle, wherever it lies.

    Clients poll until a job is no longer known, so an ended one is not. What became of it for a
    while shows in the numbers: 1 of 1 if it was done, 0 of 1 if it was given up.
    """
    handle = body.rstrip(b"\0")
    service = conversation.service
    jobs = service.broker.named(handle.decode("utf-8", "replace"))
    if jobs:
        _say_status(conversation, handle, _status_of(jobs[0]))
        return
    state = service.ended.get(handle)
    if state is not None:
        _say_status(conversation, handle, _DONE if state is State.DONE else _NOT_DONE)
    elif handle.startswith(service.handles_begin):
        conversation.holding = True
        name = handle.decode("utf-8", "replace")
        service.broker.recall(JobQuery(names=(name,), limit=1), _StatusAsked(conversation, handle))
    else:
        _say_status(conversation, handle, _NOT_KNOWN)


class _StatusAsked:
    """A GET_STATUS that the store must be asked for."""

    def __init__(self, conversation: GearmanConversation, handle: bytes) -> None:
        self._conversation = conversation
        self._handle = handle

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Answer with what the store has."""
        conversation = self._conversation
        if not conversation.link.closed:
            status = _status_of(jobs[0]) if jobs else _NOT_KNOWN
            _say_status(conversation, self._handle, status)
            conversation.go_on(now)


def _status_of(job: Job) -> tuple[bytes, bytes, bytes, bytes]:
    if job.state >= State.DONE:
        return _DONE if job.state is State.DONE else _NOT_DONE
    if job.state is not State.LEASED:
        return (b"1", b"0", b"0", b"0")
    numerator, _, denominator = job.progress.partition(b"\0")
    return (b"1", b"1", b"%d" % whole(numerator), b"%d" % whole(denominator))


def _say_status(
    conversation: GearmanConversation, handle: bytes, status: tuple[bytes, ...]
) -> None:
    conversation.link.write(response(Packet.STATUS_RES, b"\0".join((handle, *status))))


def whole(text: bytes) -> int:
    """The number at the front of a text as C reads it into an unsigned 32-bit integer."""
    match = _NUMBER.match(text[:40])
    if match is None:
        return 0
    number = max(min(int(match[1]), _INT64_MAX), -_INT64_MAX - 1)
    return number & 0xFFFFFFFF


# -- the connection ----------------------------------------------------------------------------


def on_echo(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """ECHO_REQ: the same back."""
    conversation.link.write(response(Packet.ECHO_RES, body))


def on_option(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """OPTION_REQ: only `exceptions` is known; the answer is the option as it was sent."""
    if len(body) <= OPTION_BYTES_MAX + 1 and body.rstrip(b"\0").lower() == b"exceptions":
        conversation.wants_exceptions = True
        conversation.link.write(response(Packet.OPTION_RES, body))
    else:
        conversation.link.write(_UNKNOWN_OPTION)


def on_client_id(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """SET_CLIENT_ID: what `workers` calls this connection; no answer."""
    said = body.partition(b"\0")[0][:CLIENT_ID_BYTES_KEPT]
    # Control characters would break the list that operators read.
    conversation.client_id = (
        bytes(byte if byte > 31 and byte != 127 else 63 for byte in said) or b"-"
    )


def foreground_policy(policy: Policy) -> Policy:
    """The same for a job that somebody waits for: nobody needs it once they are gone."""
    from msgspec.structs import replace

    return replace(policy, durable=False, dies_unwatched=True)


def fills(service: GearmanService, queue_name: str, priority: int) -> bool:
    """Whether the function has as many jobs as it may for a submit of this priority."""
    limit = service.maxqueue[queue_name][priority - HIGH]
    queue = service.broker.queues.get(queue_name)
    if not limit or queue is None:
        return False
    return queue.ready + queue.leased + queue.scheduled + queue.retrying >= limit
