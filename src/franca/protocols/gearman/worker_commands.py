"""The packets of workers: what they can do, GRAB_JOB*, PRE_SLEEP; and WORK_*, about a job they run.

Only the connection that was given a job may report on it, by the handle that it was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Granted
from franca.core.model import PAST, Choice, Demand, Failure, Job, Millis, Shelf, State
from franca.protocols.bodies import BYTES, as_bytes
from franca.protocols.gearman import wire
from franca.protocols.gearman.jobs import ORIGIN, progress_in, unique_of
from franca.protocols.gearman.wire import ErrorReply, Packet, error, number_in

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

FUNCTIONS_MAX: Final = 16_384
"""Functions of one connection: each GRAB_JOB may look at all of them."""
ABILITIES_BYTES_MAX: Final = 32 * 1024 * 1024
"""What is remembered of the functions that all connections together can do."""
_ABILITY_BYTES: Final = 300
"""What one costs beside its name, roughly."""
TIMEOUT_MS_MIN: Final = 1_000
TIMEOUT_MS_MAX: Final = 1 << 32

# An attribute of an enum takes long to be looked up.
_ASSIGN: Final = int(Packet.JOB_ASSIGN)
_ASSIGN_UNIQ: Final = int(Packet.JOB_ASSIGN_UNIQ)
_ASSIGN_ALL: Final = int(Packet.JOB_ASSIGN_ALL)
_PRIORITY: Final = Choice.PRIORITY
_NOWHERE: Final = Shelf.NOWHERE
_pack = wire.HEADER.pack
_TOO_MANY: Final = error("ARGUMENT_TOO_LARGE", "Too many functions")


# -- what a worker can do ------------------------------------------------------------------------


def on_can_do(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """CAN_DO: jobs of this function may be given to this connection."""
    _can_do(conversation, body.partition(b"\0")[0], 0)


def on_can_do_timeout(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """CAN_DO_TIMEOUT: the same, and a job is taken back after so many milliseconds."""
    function, _, text = body.partition(b"\0")
    said = number_in(text)
    _can_do(conversation, function, max(said, TIMEOUT_MS_MIN) if 0 < said <= TIMEOUT_MS_MAX else 0)


def _can_do(conversation: GearmanConversation, function: bytes, timeout: int) -> None:
    service = conversation.service
    functions = conversation.functions
    if len(function) > service.limits.name_bytes_max:
        raise ErrorReply(wire.FUNCTION_TOO_LARGE)
    if function not in functions:
        taken = service.abilities_bytes + _size_of(function)
        if len(functions) >= FUNCTIONS_MAX or taken > ABILITIES_BYTES_MAX:
            raise ErrorReply(_TOO_MANY)
        queue = service.names.text(function)
        service.broker.list_queue(queue)  # as the original does
        service.broker.serve(conversation.session, queue)
        _count(conversation, _size_of(function))
        conversation.want_follow_up()
    functions[function] = timeout
    conversation.grab = None


def _size_of(function: bytes) -> int:
    return _ABILITY_BYTES + 2 * len(function)


def _count(conversation: GearmanConversation, size: int) -> None:
    conversation.abilities_bytes += size
    conversation.service.abilities_bytes += size


def on_cant_do(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """CANT_DO: no more jobs of this function; what the worker runs it may finish."""
    function = body.partition(b"\0")[0]
    service = conversation.service
    is_name = len(function) <= service.limits.name_bytes_max
    if is_name and conversation.functions.pop(function, None) is not None:
        conversation.grab = None
        _count(conversation, -_size_of(function))
        service.broker.unserve(conversation.session, service.names.text(function))
        conversation.want_follow_up()


def on_reset_abilities(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """RESET_ABILITIES: no more jobs at all; what the worker runs it may finish."""
    conversation.spent += len(conversation.functions) // wire.SEARCHED_AT_ONCE
    conversation.functions.clear()
    _count(conversation, -conversation.abilities_bytes)
    conversation.grab = None
    conversation.broker.serve_nothing(conversation.session)
    conversation.want_follow_up()


def renew_sleep(conversation: GearmanConversation, now: Millis) -> None:
    """A worker whose functions changed while it sleeps is woken for those that it has now."""
    conversation.has_follow_up = False
    # If its demand is closed, it was woken, and the event is on its way.
    if conversation.sleep in conversation.session.demands:
        on_pre_sleep(conversation, b"", now)


# -- asking for work ------------------------------------------------------------------------------


def on_pre_sleep(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """PRE_SLEEP: a NOOP as soon as there is work, at once if there is."""
    broker = conversation.broker
    if conversation.sleep is not None:
        broker.withdraw(conversation.sleep)
        conversation.sleep = None
    service = conversation.service
    if service.stopping:
        return
    service.note_awake(conversation)
    # Each search looks at all functions of a worker, of which there may be thousands.
    conversation.spent += len(conversation.functions) // wire.SEARCHED_AT_ONCE
    queues = (conversation.grab or _grab_of(conversation)).queues
    demand = Demand(conversation.session, queues, choice=_PRIORITY, only_wake=True)
    if broker.demand(demand, now) is None:
        conversation.sleep = demand
    else:
        service.wake(conversation, now)


def on_grab(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GRAB_JOB: a job, or none."""
    job = _next_job(conversation, now)
    if job is not None:
        _assign(conversation, job, _ASSIGN, b"")


def on_grab_uniq(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GRAB_JOB_UNIQ: a job with its unique id, or none."""
    job = _next_job(conversation, now)
    if job is not None:
        _assign(conversation, job, _ASSIGN_UNIQ, unique_of(job) + b"\0")


def on_grab_all(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """GRAB_JOB_ALL: a job with its unique id and, only where there is one, its reducer."""
    job = _next_job(conversation, now)
    if job is not None:
        reducer = job.extra + b"\0" if job.extra and job.origin == ORIGIN else b""
        number = _ASSIGN_ALL if reducer else _ASSIGN_UNIQ
        _assign(conversation, job, number, unique_of(job) + b"\0" + reducer)


def _grab_of(conversation: GearmanConversation) -> Demand:
    """The demand that every GRAB_JOB makes, until what the worker can do changes."""
    text = conversation.service.names.text
    functions = conversation.functions
    timeouts = {text(function): ms for function, ms in functions.items() if ms}
    # With one function there is nothing to choose, and looking at it costs half as much.
    choice = Choice.PRIORITY if len(functions) > 1 else Choice.LISTED
    queues = tuple(map(text, functions))
    demand = Demand(conversation.session, queues, PAST, choice, lease_ms=timeouts or None)
    conversation.grab = demand
    return demand


def _next_job(conversation: GearmanConversation, now: Millis) -> Job | None:
    """The most urgent job that the worker can do; it is told if there is none."""
    broker = conversation.broker
    service = conversation.service
    conversation.asked_at = now
    if conversation.sleep is not None:
        broker.withdraw(conversation.sleep)
        conversation.sleep = None
    if conversation.woken_at:
        service.note_awake(conversation)
    if len(conversation.functions) >= wire.SEARCHED_AT_ONCE:
        conversation.spent += len(conversation.functions) // wire.SEARCHED_AT_ONCE
    if not service.stopping:
        answer = broker.demand(conversation.grab or _grab_of(conversation), now)
        if isinstance(answer, Granted):
            return answer.job
    conversation.link.write(wire.NO_JOB)
    return None


def _assign(conversation: GearmanConversation, job: Job, number: int, between: bytes) -> None:
    service = conversation.service
    function = service.names.raw(job.queue)
    if job.origin == ORIGIN:
        handle = job.name.encode()
        body = job.body
    else:
        handle = service.delivery_handle()
        body = as_bytes(job.media, job.body) if job.media != BYTES else job.body
    conversation.granted(handle, job)
    size = len(handle) + len(function) + len(between) + len(body) + 2
    is_long = len(body) > wire.LONG_BYTES
    text = b"" if is_long else body
    reply = b"%b%b\0%b\0%b%b" % (_pack(wire.RES, number, size), handle, function, between, text)
    link = conversation.link
    link.write(reply)
    if job.policy.durable and job.shelf is _NOWHERE:
        # Once the store has the job, that somebody runs it need not survive a crash.
        link.after_commit = True
    if is_long:
        link.write(body)
        link.in_pieces = True


STATUS: Final = "status"
DATA: Final = "data"
WARNING: Final = "warning"
EXCEPTION: Final = "Exception"
STATUS_BYTES_KEPT: Final = 256
"""A longer one is forwarded and not kept: it stays with a job for as long as that runs."""

_NOT_FOUND: Final = error("JOB_NOT_FOUND", "Job given in work result not found")
_NO_SUCH_JOB: Final = error("JOB_NOT_FOUND", "Job does not exist on server")
_EXCEPTION_FOR_NOBODY: Final = "An exception was received for a job that does not exist"
_NO_SUCH_EXCEPTION: Final = error("JOB_NOT_FOUND", _EXCEPTION_FOR_NOBODY)
_NO_ROOM: Final = "Error occurred due to GEARMAND_JOB_HANDLE_SIZE being too small from snprintf"
_HANDLE_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", _NO_ROOM)
_FAILED: Final = Failure("WORK_FAIL", "")
_DONE: Final = State.DONE  # an attribute of an enum takes long to be looked up


def on_complete(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_COMPLETE: done, with the result."""
    handle, result = wire.split_handle(body)
    job = _settled(conversation, handle, _NOT_FOUND)
    if job is None:
        return
    if len(result) > conversation.service.limits.body_bytes_max:
        conversation.link.note(f"a result of {len(result)} bytes is refused")
        _fail(conversation, handle, job, Failure("ResultTooLarge", "its result is too large"), now)
        return
    try:
        conversation.broker.finish(job, job.holder, result, now)
    except Refused:
        raise ErrorReply(_NOT_FOUND) from None
    conversation.service.ended[handle] = _DONE


def on_fail(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_FAIL: not done."""
    handle = wire.without_nuls(body, wire.HANDLE_BYTES_MAX)
    if len(handle) > wire.HANDLE_BYTES_MAX:
        raise ErrorReply(_HANDLE_TOO_LARGE)
    job = _settled(conversation, handle, _NOT_FOUND)
    if job is not None:
        _fail(conversation, handle, job, _FAILED, now)


def on_exception(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_EXCEPTION: not done, and why. Some workers send WORK_FAIL after it, which is ignored."""
    handle, data = wire.split_handle(body)
    job = _settled(conversation, handle, _NO_SUCH_EXCEPTION)
    if job is not None:
        text = data[: conversation.service.limits.error_text_chars].decode("utf-8", "replace")
        conversation.ignore(handle)
        _fail(conversation, handle, job, Failure(EXCEPTION, text, data=data), now)


def _settled(conversation: GearmanConversation, handle: bytes, otherwise: bytes) -> Job | None:
    """The job that the peer has ended; None if its reports on it are ignored."""
    job = conversation.held.pop(handle, None)
    if job is None:
        if handle not in conversation.ignored:
            raise ErrorReply(otherwise)
    elif conversation.foreign:
        conversation.foreign.pop(job.id, None)
    return job


def _fail(
    conversation: GearmanConversation, handle: bytes, job: Job, failure: Failure, now: Millis
) -> None:
    try:
        conversation.broker.fail(job, job.holder, failure, now)
    except Refused:
        raise ErrorReply(_NOT_FOUND) from None
    conversation.service.ended[handle] = State.DEAD


def on_status(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_STATUS: how far it is; forwarded as it came, and kept for GET_STATUS.

    One without both numbers is not: clients would wait for the rest of it.
    """
    handle, data = wire.split_handle(body)
    if b"\0" not in data:
        raise ErrorReply(wire.MISSING)
    if len(data) > STATUS_BYTES_KEPT:
        _report(conversation, handle, STATUS, data, _NOT_FOUND)
        return
    job = _held(conversation, handle, _NOT_FOUND)
    if job is not None:
        try:
            conversation.broker.report_progress(job, job.holder, progress_in(data), now)
        except Refused:
            raise ErrorReply(_NOT_FOUND) from None


def on_report(kind: str, conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_DATA: a part of the result. WORK_WARNING: something that its clients should know."""
    handle, data = wire.split_handle(body)
    _report(conversation, handle, kind, data, _NO_SUCH_JOB)


def _report(
    conversation: GearmanConversation, handle: bytes, kind: str, data: bytes, otherwise: bytes
) -> None:
    job = _held(conversation, handle, otherwise)
    if job is not None:
        try:
            conversation.broker.report(job, job.holder, kind, data)
        except Refused:
            raise ErrorReply(otherwise) from None


def _held(conversation: GearmanConversation, handle: bytes, otherwise: bytes) -> Job | None:
    """The job that the peer runs; None if its reports on it are ignored."""
    job = conversation.held.get(handle)
    if job is None and handle not in conversation.ignored:
        raise ErrorReply(otherwise)
    return job
