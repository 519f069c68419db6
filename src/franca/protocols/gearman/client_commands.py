"""What clients say: SUBMIT_*, GET_STATUS*; what anybody may: ECHO_REQ, OPTION_REQ, SET_CLIENT_ID.

Each SUBMIT is answered with the handle of its job, in the order of the packets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import NEVER, Job, JobId, JobQuery, Millis, NewJob, State
from franca.protocols.bodies import BYTES
from franca.protocols.conversation import Task
from franca.protocols.gearman.jobs import BY_UNIQUE, NORMAL, ORIGIN, id_in, key_of
from franca.protocols.gearman.lists import in_parts
from franca.protocols.gearman.sched import next_match
from franca.protocols.gearman.wire import (
    CLIENT_ID_BYTES_KEPT,
    HANDLE_BYTES_MAX,
    HEADER,
    LONG_BYTES,
    MISSING,
    OPTION_BYTES_MAX,
    RES,
    SEARCHED_AT_ONCE,
    UNIQUE_BYTES_MAX,
    Packet,
    error,
    number_in,
    number_text,
    on_one_line,
    response,
    without_nuls,
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
        conversation.begin(_ask_store(conversation, handle, job_id), now)
    else:
        _say(conversation, handle, UNKNOWN)


def _ask_store(conversation: GearmanConversation, handle: bytes, job_id: JobId) -> Task:
    """Answer a GET_STATUS that only the store can answer."""
    yield
    jobs = yield JobQuery(ids=(job_id,), limit=1)
    found = [job for job in jobs if job.name.encode() == handle]
    _say(conversation, handle, status_of(found[0]) if found else UNKNOWN)
    return b""


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
    conversation.say_all(_by_unique(conversation, unique), now)


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


_UNKNOWN_OPTION: Final = error("UNKNOWN_OPTION", "Server does not recognize given option")


def on_echo(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """ECHO_REQ: the same back."""
    link = conversation.link
    if len(body) > LONG_BYTES:
        link.write_bulk(HEADER.pack(RES, Packet.ECHO_RES, len(body)), body)
    else:
        link.write(response(Packet.ECHO_RES, body))


def on_option(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """OPTION_REQ: only `exceptions` is known; the answer is the option as it was sent."""
    if len(body) <= OPTION_BYTES_MAX and body.rstrip(b"\0").lower() == b"exceptions":
        conversation.wants_exceptions = True
        conversation.link.write(response(Packet.OPTION_RES, body))
    else:
        conversation.link.write(_UNKNOWN_OPTION)


def on_client_id(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """SET_CLIENT_ID: what `workers` calls this connection; no answer."""
    said = body[:CLIENT_ID_BYTES_KEPT].partition(b"\0")[0]
    conversation.client_id = on_one_line(said) or b"-"
