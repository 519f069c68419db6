"""WORK_*: what a worker says of a job that it runs.

Only the connection that was given a job may speak of it, by the handle that it was told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import Failure, Job, Millis, State
from franca.protocols.gearman.wire import (
    HANDLE_BYTES_MAX,
    LONG_BYTES,
    MISSING,
    error,
    part_handle,
    without_nuls,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

STATUS: Final = "status"
DATA: Final = "data"
WARNING: Final = "warning"
EXCEPTION: Final = "Exception"
STATUS_BYTES_KEPT: Final = 256
"""A longer one is forwarded and not kept: it stays with a job for as long as that runs."""

_NOT_FOUND: Final = error("JOB_NOT_FOUND", "Job given in work result not found")
_NO_SUCH_JOB: Final = error("JOB_NOT_FOUND", "Job does not exist on server")
_NO_SUCH_EXCEPTION: Final = error(
    "JOB_NOT_FOUND", "An exception was received for a job that does not exist"
)
_HANDLE_TOO_LARGE: Final = error(
    "ARGUMENT_TOO_LARGE",
    "Error occurred due to GEARMAND_JOB_HANDLE_SIZE being too small from snprintf",
)
_FAILED: Final = Failure("WORK_FAIL", "")
_DONE: Final = State.DONE  # an attribute of an enum takes long to be looked up


def on_complete(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_COMPLETE: done, with the result."""
    if len(body) > LONG_BYTES:
        handle, result = part_handle(body)
    else:
        handle, _, result = body.partition(b"\0")
    job = conversation.held.pop(handle, None)  # as `settled`, without a call
    if conversation.foreign and job is not None:
        conversation.foreign.pop(job.id, None)
    if job is None:
        _not_held(conversation, handle, _NOT_FOUND)
        return
    service = conversation.service
    if len(result) > service.limits.body_bytes_max:
        conversation.link.note(f"a result of {len(result)} bytes is refused")
        _fail(conversation, handle, job, Failure("ResultTooLarge", "its result is too large"), now)
        return
    try:
        conversation.broker.finish(job, job.holder, result, now)
    except Refused:
        conversation.link.write(_NOT_FOUND)
    else:
        service.ended[handle] = _DONE


def on_fail(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_FAIL: not done."""
    handle = without_nuls(body, HANDLE_BYTES_MAX)
    if len(handle) > HANDLE_BYTES_MAX:
        conversation.link.write(_HANDLE_TOO_LARGE)
        return
    job = conversation.settled(handle)
    if job is None:
        _not_held(conversation, handle, _NOT_FOUND)
    else:
        _fail(conversation, handle, job, _FAILED, now)


def on_exception(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_EXCEPTION: not done, and why. Some workers say WORK_FAIL after it, in vain."""
    handle, data = part_handle(body)
    job = conversation.settled(handle)
    if job is None:
        _not_held(conversation, handle, _NO_SUCH_EXCEPTION)
        return
    text = data[: conversation.service.limits.error_text_chars].decode("utf-8", "replace")
    conversation.forgive(handle)
    _fail(conversation, handle, job, Failure(EXCEPTION, text, data=data), now)


def _fail(
    conversation: GearmanConversation, handle: bytes, job: Job, failure: Failure, now: Millis
) -> None:
    try:
        conversation.broker.fail(job, job.holder, failure, now)
    except Refused:
        conversation.link.write(_NOT_FOUND)
    else:
        conversation.service.ended[handle] = State.DEAD


def on_status(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_STATUS: how far it is; forwarded as it came, and kept for GET_STATUS.

    One without both numbers is not: clients would wait for the rest of it.
    """
    handle, data = part_handle(body)
    if b"\0" in data:
        _report(conversation, handle, STATUS, data, _NOT_FOUND)
    else:
        conversation.link.write(MISSING)


def on_data(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_DATA: a part of the result."""
    handle, data = part_handle(body)
    _report(conversation, handle, DATA, data, _NO_SUCH_JOB)


def on_warning(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """WORK_WARNING: something that its clients should hear."""
    handle, data = part_handle(body)
    _report(conversation, handle, WARNING, data, _NO_SUCH_JOB)


def _report(
    conversation: GearmanConversation, handle: bytes, kind: str, data: bytes, otherwise: bytes
) -> None:
    job = conversation.held.get(handle)
    if job is None:
        _not_held(conversation, handle, otherwise)
        return
    keep = kind is STATUS and len(data) <= STATUS_BYTES_KEPT
    try:
        conversation.broker.report(job, job.holder, kind, data, keep=keep)
    except Refused:
        conversation.link.write(otherwise)


def _not_held(conversation: GearmanConversation, handle: bytes, otherwise: bytes) -> None:
    if handle not in conversation.over:
        conversation.link.write(otherwise)
