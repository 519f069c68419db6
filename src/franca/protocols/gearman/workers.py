"""What workers say before they have a job: what they can do, GRAB_JOB*, PRE_SLEEP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Granted
from franca.core.model import Choice, Demand, Job, Millis, Shelf
from franca.protocols.bodies import BYTES, as_bytes
from franca.protocols.gearman.jobs import ORIGIN, unique_of
from franca.protocols.gearman.wire import (
    HEADER,
    LONG_BYTES,
    NO_JOB,
    NOOP,
    RES,
    SEARCHED_AT_ONCE,
    Packet,
    error,
    number_in,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

FUNCTIONS_MAX: Final = 16_384
"""Functions that one connection may say it can do: each GRAB_JOB may look at all of them."""
ABILITIES_BYTES_MAX: Final = 32 * 1024 * 1024
"""What is remembered of the functions that all connections together can do."""
_ABILITY_BYTES: Final = 300
"""What one costs beside its name, roughly."""
TIMEOUT_MS_MIN: Final = 1_000
TIMEOUT_MS_MAX: Final = 1 << 32

_AT_ONCE: Final[Millis] = 1
# An attribute of an enum takes long to be looked up.
_ASSIGN: Final = int(Packet.JOB_ASSIGN)
_ASSIGN_UNIQ: Final = int(Packet.JOB_ASSIGN_UNIQ)
_ASSIGN_ALL: Final = int(Packet.JOB_ASSIGN_ALL)
_PRIORITY: Final = Choice.PRIORITY
_NOWHERE: Final = Shelf.NOWHERE
_pack = HEADER.pack
_FUNCTION_TOO_LARGE: Final = error("ARGUMENT_TOO_LARGE", "Function name too large")
_TOO_MANY: Final = error("ARGUMENT_TOO_LARGE", "Too many functions")


# -- what a worker can do ------------------------------------------------------------------------


def on_can_do(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """CAN_DO: jobs of this function may be given to this connection."""
    _can_do(conversation, body, 0, now)


def on_can_do_timeout(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """CAN_DO_TIMEOUT: the same, and a job is taken back after so many milliseconds."""
    function, _, text = body.partition(b"\0")
    said = number_in(text)
    timeout = max(said, TIMEOUT_MS_MIN) if 0 < said <= TIMEOUT_MS_MAX else 0
    _can_do(conversation, function, timeout, now)


def _can_do(conversation: GearmanConversation, function: bytes, timeout: int, now: Millis) -> None:
    function = function.partition(b"\0")[0]
    service = conversation.service
    functions = conversation.functions
    if len(function) > service.limits.name_bytes_max:
        conversation.link.write(_FUNCTION_TOO_LARGE)
        return
    if function not in functions:
        if not _has_room_for(conversation, function):
            conversation.link.write(_TOO_MANY)
            return
        queue = service.names.text(function)
        try:
            service.broker.list_queue(queue)  # as the original does
            service.broker.serve(conversation.session, queue)
        except Refused as refusal:
            conversation.link.write(error("QUEUE_ERROR", refusal.text))
            return
        _count(conversation, _size_of(function))
        conversation.learned = True
    functions[function] = timeout
    conversation.grab = None


def _has_room_for(conversation: GearmanConversation, function: bytes) -> bool:
    taken = conversation.service.abilities_bytes + _size_of(function)
    return len(conversation.functions) < FUNCTIONS_MAX and taken <= ABILITIES_BYTES_MAX


def _size_of(function: bytes) -> int:
    return _ABILITY_BYTES + 2 * len(function)


def _count(conversation: GearmanConversation, size: int) -> None:
    conversation.abilities_bytes += size
    conversation.service.abilities_bytes += size


def on_cant_do(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """CANT_DO: no more jobs of this function; what the worker runs it may finish."""
    function = body.partition(b"\0")[0]
    if len(function) > conversation.service.limits.name_bytes_max:
        return
    if conversation.functions.pop(function, None) is not None:
        conversation.grab = None
        _count(conversation, -_size_of(function))
        service = conversation.service
        service.broker.unserve(conversation.session, service.names.text(function))
        conversation.learned = True


def on_reset_abilities(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """RESET_ABILITIES: no more jobs at all; what the worker runs it may finish."""
    conversation.spent += len(conversation.functions) // SEARCHED_AT_ONCE
    conversation.functions.clear()
    _count(conversation, -conversation.abilities_bytes)
    conversation.grab = None
    conversation.broker.serve_nothing(conversation.session)
    conversation.learned = True


def sleep_anew(conversation: GearmanConversation, now: Millis) -> None:
    """Who learned or forgot functions in its sleep sleeps on with what it can do now."""
    conversation.learned = False
    # A sleep whose demand is closed is over: the word of it is on its way.
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
    service.heard_of(conversation)
    queues = (conversation.grab or _grab_of(conversation)).queues
    demand = Demand(conversation.session, queues, choice=_PRIORITY, only_wake=True)
    try:
        answer = broker.demand(demand, now)
    except Refused as refusal:
        conversation.link.write(error("QUEUE_ERROR", refusal.text))
        return
    if answer is None:
        conversation.sleep = demand
    else:
        service.woke(conversation, now)
        conversation.link.write(NOOP)


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
    if job is None:
        return
    unique = unique_of(job) + b"\0"
    if job.extra and job.origin == ORIGIN:
        _assign(conversation, job, _ASSIGN_ALL, unique + job.extra + b"\0")
    else:
        _assign(conversation, job, _ASSIGN_UNIQ, unique)


def _grab_of(conversation: GearmanConversation) -> Demand:
    """The demand that every GRAB_JOB makes, until what the worker can do changes."""
    text = conversation.service.names.text
    functions = conversation.functions
    timeouts = {text(function): ms for function, ms in functions.items() if ms}
    # With one function there is nothing to choose, and looking at it costs half as much.
    choice = Choice.PRIORITY if len(functions) > 1 else Choice.LISTED
    conversation.grab = Demand(
        conversation.session,
        tuple(map(text, functions)),
        _AT_ONCE,
        choice,
        lease_ms=timeouts or None,
    )
    return conversation.grab


def _next_job(conversation: GearmanConversation, now: Millis) -> Job | None:
    """The most urgent job that the worker can do; it is told if there is none."""
    broker = conversation.broker
    service = conversation.service
    if conversation.sleep is not None:
        broker.withdraw(conversation.sleep)
        conversation.sleep = None
    if conversation.woken_at:
        service.heard_of(conversation)
    if not service.stopping:
        answer = broker.demand(conversation.grab or _grab_of(conversation), now)
        if isinstance(answer, Granted):
            return answer.job
    conversation.link.write(NO_JOB)
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
    is_long = len(body) > LONG_BYTES
    text = b"" if is_long else body
    reply = b"%b%b\0%b\0%b%b" % (_pack(RES, number, size), handle, function, between, text)
    link = conversation.link
    if job.policy.durable and job.shelf is _NOWHERE:
        link.write_after_commit(reply)
    else:
        # The store has the job; that somebody runs it need not survive a crash.
        link.write(reply)
    if is_long:
        link.write_bulk(body)
