"""What an administrator asks: STATUS, ROUTER_SHOW_WORKERS, ROUTER_SHOW_SCHEDULERS, DISCONNECT.

The answers have the original's shapes. In flight is what was taken in and not finished, waiting is
what no worker has yet, processed is what was handed to workers. What is shown is durable: whoever
has seen a request waiting may count on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.model import Millis

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation
    from franca.protocols.eventmq.service import EventmqService

ADMIN_PREFIX: Final = b"admin:"
"""What the ids of the original's command line begin with."""
_encode = msgspec.json.Encoder().encode


def on_status(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """STATUS: how many messages are where."""
    conversation.report(_encode(status(conversation.service, now)))


def on_show_workers(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """ROUTER_SHOW_WORKERS: who works, and on what."""
    workers = [m for m in conversation.service.workers_here.all if not m.leaving]
    queues: dict[str, list[tuple[int, str]]] = {}
    for member in workers:
        for weight, queue in member.queues:
            queues.setdefault(queue, []).append((weight, member.name))
    for line in queues.values():
        line.sort(key=lambda entry: -entry[0])
    shown = {
        "connected_workers": {
            m.name: {
                "queues": m.queues,
                "hb": m.heard_at / 1000,
                "available_slots": m.party.slots(),
            }
            for m in workers
        },
        "connected_queues": queues,
    }
    conversation.report(_encode(shown))


def on_show_schedulers(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """ROUTER_SHOW_SCHEDULERS: who schedules besides us."""
    schedulers = conversation.service.schedulers.all
    shown = {"connected_schedulers": {m.name: {"hb": m.heard_at / 1000} for m in schedulers}}
    conversation.report(_encode(shown))


def on_disconnect(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """DISCONNECT: of an administrator, the whole server is to stop; of others, only they."""
    service = conversation.service
    is_admin = conversation.hands is None and not conversation.is_client
    if is_admin or frames[3].startswith(ADMIN_PREFIX):
        if not service.may_stop(conversation.link.peer):
            conversation.refuse("a DISCONNECT from afar")
            return
        conversation.say(service.voice.ack(frames[3]))
        service.request_stop()
        return
    conversation.say(service.voice.kbye())
    conversation.on_goodbye(frames, now)


def status(service: EventmqService, now: Millis) -> dict[str, dict[str, int]]:
    """The counts of STATUS. Ages are of running jobs and of the one that waits longest."""
    broker = service.broker
    ages: dict[str, list[int]] = {}
    for member in service.workers_here.all:
        for job in member.party.held():
            ages.setdefault(job.queue, []).append(now - job.created_at)
    queues = [queue for queue in broker.queues.values() if queue.listed]
    for queue in queues:
        first = queue.first()
        if first is not None:
            ages.setdefault(queue.name, []).append(now - first.created_at)
    return {
        "inflight_messages_by_queue": {
            q.name: q.ready + q.leased for q in queues if q.ready or q.leased
        },
        "latency_messages_by_queue": {name: sum(a) // len(a) for name, a in ages.items()},
        "max_latency_messages_by_queue": {name: max(a) for name, a in ages.items()},
        "waiting_messages_by_queue": {q.name: q.ready for q in queues if q.ready},
        "processed_messages_by_queue": dict(service.handed),
        "processed_messages_by_worker": {m.name: m.handed for m in service.workers_here.all},
    }
