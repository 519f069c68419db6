"""What those who wait for a job are told of it: its end, and what its worker says meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.events import Event, Finished, Progressed
from franca.core.model import Millis, State
from franca.protocols.gearman.wire import HEADER, LONG_BYTES, RES, Packet, response
from franca.protocols.gearman.work import EXCEPTION, STATUS, WARNING

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

SHARED_BYTES: Final = 512
"""Smaller data is copied for each that waits for it: many small pieces cost more than a copy."""

_pack = HEADER.pack
_DONE: Final = State.DONE  # an attribute of an enum takes long to be looked up
_COMPLETE: Final = int(Packet.WORK_COMPLETE)
_EXCEPTION: Final = int(Packet.WORK_EXCEPTION)
_DATA: Final = int(Packet.WORK_DATA)
_PROGRESS: Final = {STATUS: int(Packet.WORK_STATUS), WARNING: int(Packet.WORK_WARNING)}


def tell_finished(conversation: GearmanConversation, event: Finished) -> None:
    """A job has ended. Exceptions are told to those who know them, to others as failures."""
    job = event.job
    handle = job.name.encode()
    conversation.service.ended[handle] = event.state
    if conversation.joins:
        conversation.joins.pop(job.id, None)
    if conversation.service.heavy.crowds:
        conversation.service.heavy.crowds.pop(job.id, None)
    durable = job.policy.durable
    if event.state is _DONE:
        _pass_on(conversation, event, _COMPLETE, handle, event.result, durable=durable)
        return
    story = job.story
    if conversation.wants_exceptions and story and story[-1].how == "failed":
        failure = event.failure
        said = failure.data or failure.text.encode("utf-8", "replace")
        if said or failure.kind == EXCEPTION:
            _pass_on(conversation, event, _EXCEPTION, handle, said, durable=durable)
            return
    reply = response(Packet.WORK_FAIL, handle)
    if durable:
        conversation.link.write_after_commit(reply)
    else:
        conversation.link.write(reply)


def tell_progress(conversation: GearmanConversation, event: Progressed, now: Millis) -> None:
    """A worker said something of a job that it runs."""
    job = event.job
    number = _PROGRESS.get(event.kind, _DATA)
    _pass_on(conversation, event, number, job.name.encode(), event.data, durable=False)
    if conversation.link.full:
        conversation.service.pace(job.holder, conversation, now)


def _pass_on(
    conversation: GearmanConversation,
    event: Event,
    number: int,
    handle: bytes,
    data: bytes,
    *,
    durable: bool,
) -> None:
    """Say what a worker said of a job. All who wait for it share one copy of what is long."""
    link, service = conversation.link, conversation.service
    of, kind, pieces = service.passed_on
    if of is event and kind == number:
        if len(data) > SHARED_BYTES:
            link.write_bulk(*pieces)
        else:
            link.write(pieces[0])
        link.after_commit |= durable
        return
    head = b"%b%b\0" % (_pack(RES, number, len(handle) + 1 + len(data)), handle)
    is_long = len(data) > LONG_BYTES
    if not is_long:
        head += data
    service.passed_on = (event, number, (head, data) if is_long else (head,))
    if durable:
        link.write_after_commit(head)
    else:
        link.write(head)
    if is_long:
        link.write_bulk(data)
