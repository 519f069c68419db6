"""The packets of clients, SUBMIT_* and GET_STATUS*, and of any peer, such as ECHO_REQ.

Each SUBMIT is answered with the handle of its job, in the order of the packets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from franca.core.errors import Refused
from franca.core.model import NEVER, Job, JobQuery, Millis, NewJob, State
from franca.protocols.bodies import BYTES
from franca.protocols.conversation import Task
from franca.protocols.gearman import wire
from franca.protocols.gearman.jobs import BY_UNIQUE, NORMAL, ORIGIN, id_in, key_of, said_of
from franca.protocols.gearman.lists import in_parts
from franca.protocols.gearman.sched import next_match
from franca.protocols.gearman.wire import ErrorReply, Packet, error, number_in

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation
    from franca.protocols.gearman.service import GearmanService

WATCHES_MAX: Final = 10_000
"""Submits that may wait for one job: all of them are told of its end in one turn."""
JOINS_MAX: Final = 64
"""And those of one connection among them: it is told everything that often."""
SCHED_MESSAGES: Final = 4
"""What finding the next minute that matches takes, in messages."""
EPOCH_S_MAX: Final = 253_402_300_799
"""The last second of the year 9999."""

_pack = wire.HEADER.pack
_CREATED: Final = int(Packet.JOB_CREATED)
_UNIQUE_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Unique value too large")
_WORKLOAD_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Workload too large")
_EPOCH_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Epoch value too large")
_NO_SUCH_TIME: Final = error("INVALID_ARGUMENT", "No minute ever matches these five fields")
_UNKNOWN_OPTION: Final = error("UNKNOWN_OPTION", "Server does not recognize given option")
_QUEUE_FULL: Final = error("QUEUE_ERROR", "Job queue is full")
_TOO_MANY_WAIT: Final = error("QUEUE_ERROR", "Too many clients wait for this job")


Middle = tuple[Millis, bytes]
"""What is said between the unique id and the work: when to run, and the reducer."""


def at_epoch(conversation: GearmanConversation, said: list[bytes], now: Millis) -> Middle:
    """SUBMIT_JOB_EPOCH: not before this second. The past, and what is no number, is now."""
    seconds = number_in(said[0])
    if seconds > EPOCH_S_MAX:
        raise ErrorReply(_EPOCH_TOO_LARGE)
    return max(seconds, 0) * 1000, b""


def at_match(conversation: GearmanConversation, said: list[bytes], now: Millis) -> Middle:
    """SUBMIT_JOB_SCHED: once, at the next minute that all five fields match."""
    conversation.spent += SCHED_MESSAGES
    zone = conversation.service.settings.zone
    run_at = next_match(said, zone, conversation.broker.wall(now))
    if run_at is None:
        raise ErrorReply(_NO_SUCH_TIME)
    return run_at, b""


def reduced(conversation: GearmanConversation, said: list[bytes], now: Millis) -> Middle:
    """SUBMIT_REDUCE_JOB: its worker is told the reducer, and does the rest."""
    if len(said[0]) > wire.UNIQUE_BYTES_MAX:
        raise ErrorReply(_UNIQUE_TOO_LARGE)
    return NEVER, said[0]


class Submission(Struct, frozen=True):
    """One kind of SUBMIT packet: its priority, whether its sender waits for the result, and how
    many arguments stand between the unique id and the work.
    """

    priority: int = NORMAL
    background: bool = False
    count: int = 0
    read: Callable[[GearmanConversation, list[bytes], Millis], Middle] | None = None

    def on_submit(self, conversation: GearmanConversation, body: bytes, now: Millis) -> None:
        """Take the job in, or join the one with the same key, and answer with its handle."""
        arguments = body.split(b"\0", 2 + self.count)
        if len(arguments) != 3 + self.count:
            raise ErrorReply(wire.MISSING)
        function, unique, workload = arguments[0], arguments[1], arguments[-1]
        run_at, reducer = NEVER, b""
        if self.read is not None:
            run_at, reducer = self.read(conversation, arguments[2:-1], now)
        service, link = conversation.service, conversation.link
        if len(unique) > wire.UNIQUE_BYTES_MAX:
            raise ErrorReply(_UNIQUE_TOO_LARGE)
        if len(function) > service.limits.name_bytes_max:
            raise ErrorReply(wire.FUNCTION_TOO_LARGE)
        if len(workload) > service.limits.body_bytes_max:
            link.note(f"a workload of {len(workload)} bytes is refused")
            raise ErrorReply(_WORKLOAD_TOO_LARGE)
        queue = service.names.text(function)
        broker = conversation.broker
        name = service.prefix + str(broker.next_id())
        key = key_of(unique, workload, name) if unique else ""
        priority, background = self.priority, self.background
        if service.maxqueue and service.is_full(queue, key, priority):
            raise ErrorReply(_QUEUE_FULL)
        if key and not background and _is_crowded(conversation, queue, key):
            raise ErrorReply(_TOO_MANY_WAIT)
        policy = service.background if background else service.foreground
        new = NewJob(queue, queue, workload, policy, name, BYTES, ORIGIN, key, priority=priority)
        if run_at:
            new.run_at = run_at
        if reducer:
            new.extra = reducer
        try:
            job = broker.submit(new, now, None if background else conversation.session)
        except Refused:
            if not background:
                _take_back_join(conversation, queue, key)
            raise
        handle = job.name.encode()
        reply = _pack(wire.RES, _CREATED, len(handle)) + handle
        if background:
            link.write_after_commit(reply)
        else:
            link.write(reply)


def _is_crowded(conversation: GearmanConversation, queue: str, key: str) -> bool:
    """Whether too many wait for the job with this key already; if not, counts this one."""
    broker = conversation.broker
    taken = broker.keyed(queue, key)
    if taken is None:
        return False
    watches = broker.watchers_of(taken.id)
    conversation.spent += watches // wire.SEARCHED_AT_ONCE
    if watches >= WATCHES_MAX:
        return True
    own, joins = conversation.session.watches, conversation.joins
    if taken.id not in own:
        return False
    times = joins.get(taken.id, 1)
    if times >= JOINS_MAX:
        return True
    joins[taken.id] = times + 1
    if len(joins) > 2 * len(own) + JOINS_MAX:
        # There are no further events of a job that was replaced.
        conversation.joins = {job_id: times for job_id, times in joins.items() if job_id in own}
    return False


def _take_back_join(conversation: GearmanConversation, queue: str, key: str) -> None:
    """A job was refused: this connection does not wait once more for the one with its key."""
    taken = conversation.broker.keyed(queue, key) if key else None
    if taken is not None and taken.id in conversation.session.watches:
        conversation.joins[taken.id] -= 1


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
    handle = wire.without_nuls(body, wire.HANDLE_BYTES_MAX)
    status = _status_in_memory(conversation.service, handle)
    if status is None:
        conversation.begin(_ask_store(conversation, handle), now)
    else:
        _say(conversation, handle, status)


def _status_in_memory(service: GearmanService, handle: bytes) -> Status | None:
    """The status as far as it is known without the store; None if the store must be asked."""
    if len(handle) > wire.HANDLE_BYTES_MAX:
        return UNKNOWN
    for job in service.broker.first_named(handle.decode("utf-8", "replace")):
        if job.origin == ORIGIN:
            return status_of(job)
    state = service.ended.get(handle)
    if state is not None:
        return DONE if state is State.DONE else GIVEN_UP
    return None if id_in(handle) else UNKNOWN


def _ask_store(conversation: GearmanConversation, handle: bytes) -> Task:
    """Answer a GET_STATUS that only the store can answer."""
    yield
    jobs = yield JobQuery(ids=(id_in(handle),), limit=1)
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
    if job.progress is None:
        return (1, 1, b"0", b"0")
    numerator, _, denominator = said_of(job.progress).partition(b"\0")
    return (1, 1, wire.number_text(numerator), wire.number_text(denominator))


def _say(conversation: GearmanConversation, handle: bytes, status: Status) -> None:
    _send(conversation, Packet.STATUS_RES, handle, b"\0%d\0%d\0%b\0%b" % status)


def _send(conversation: GearmanConversation, number: int, *pieces: bytes) -> None:
    """Write a packet; a long one is not copied."""
    size = sum(map(len, pieces))
    whole = (_pack(wire.RES, number, size), *pieces)
    conversation.link.write_pieces(whole if size > wire.LONG_BYTES else (b"".join(whole),))


def on_get_status_unique(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GET_STATUS_UNIQUE: by the unique id, whatever the function, and how many wait for it."""
    unique = wire.without_nuls(body, wire.UNIQUE_BYTES_MAX)
    if len(unique) > wire.UNIQUE_BYTES_MAX:
        # No job has it. In a task it would be copied once more.
        _send(conversation, Packet.STATUS_RES_UNIQUE, unique, _UNKNOWN_UNIQUE)
        return
    conversation.spent += len(conversation.broker.queues) // wire.SEARCHED_AT_ONCE
    conversation.write_in_turns(_by_unique(conversation, unique), now)


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
                conversation.spent += watches // wire.SEARCHED_AT_ONCE
                break
            yield b""
    reply = b"%b\0%d\0%d\0%b\0%b\0%d" % (unique, *status, watches)
    yield wire.response(Packet.STATUS_RES_UNIQUE, reply)


def on_echo(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """ECHO_REQ: the same back."""
    _send(conversation, Packet.ECHO_RES, body)


def on_option(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """OPTION_REQ: only `exceptions` is known; the answer is the option as it was sent."""
    if len(body) > wire.OPTION_BYTES_MAX or body.rstrip(b"\0").lower() != b"exceptions":
        raise ErrorReply(_UNKNOWN_OPTION)
    conversation.wants_exceptions = True
    conversation.link.write(wire.response(Packet.OPTION_RES, body))


def on_client_id(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """SET_CLIENT_ID: what `workers` calls this connection; no answer."""
    said = body[: wire.CLIENT_ID_BYTES_KEPT].partition(b"\0")[0]
    conversation.client_id = wire.on_one_line(said) or b"-"
