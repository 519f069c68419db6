"""What an administrator asks: STATUS, ROUTER_SHOW_WORKERS, ROUTER_SHOW_SCHEDULERS, DISCONNECT.

The answers have the original's shapes. In flight is what was taken in and not finished, waiting is
what no worker has yet, processed is what was handed to workers. What is shown is durable: whoever
has seen a request waiting may count on it. A long answer is made over several turns, one at a
time, and ends where it has become too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.model import Millis
from franca.protocols.conversation import WHOLE_SHARE, Task
from franca.protocols.eventmq.client_commands import on_goodbye
from franca.protocols.eventmq.texts import Unfit

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation
    from franca.protocols.eventmq.service import EventmqService

ADMIN_PREFIX: Final = b"admin:"
"""What the ids of the original's command line begin with."""
LIST_BYTES_MAX: Final = 4 * 1024 * 1024
"""An answer ends with the entry with which it becomes longer than this."""
SLICE: Final = 1_000
"""Entries of an answer, or jobs that it counts, in one turn."""
STUCK_MS: Final = 200
"""An asker that has not gone on for so long lets others go first."""
_encode = msgspec.json.Encoder().encode

Entries = Iterator[int]
"""Writes one entry after the other, and yields what each took: how many things were looked at."""


class Sheet:
    """Maps of names, written down as they grow. `is_full` once they may grow no more."""

    def __init__(self, *maps: str) -> None:
        self._maps: dict[str, list[bytes]] = {name: [] for name in maps}
        self._left = LIST_BYTES_MAX

    @property
    def is_full(self) -> bool:
        """Whether what was put here is as long as it may be."""
        return self._left <= 0

    def put(self, name: str, key: bytes, value: object) -> None:
        """One more entry of a map; `key` is a JSON text."""
        entry = b"%b:%b" % (key, _encode(value))
        self._left -= len(entry) + 1
        self._maps[name].append(entry)

    def text(self) -> bytes:
        """All of it as JSON."""
        maps = [b"%b:{%b}" % (_encode(k), b",".join(e)) for k, e in self._maps.items()]
        return b"{%b}" % b",".join(maps)


def _answering(
    entries: Callable[[EventmqService, Sheet, Millis], Entries], *maps: str
) -> Callable[[EventmqConversation, list[bytes], Millis], None]:
    """A handler that answers with these maps: at once, or over several turns if they are long."""

    def on_message(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
        sheet = Sheet(*maps)
        found = entries(conversation.service, sheet, now)
        conversation.spent += WHOLE_SHARE
        conversation.begin(_answer(conversation, found, sheet), now)

    return on_message


def _answer(conversation: EventmqConversation, entries: Entries, sheet: Sheet) -> Task:
    """Make an answer, one after the other; one that does not go on is overtaken."""
    now = yield
    line = conversation.service.listings
    own = object()
    line[own] = now
    try:
        while True:
            first = next(iter(line))
            if first is own:
                line[own] = now
                if not _write_some(entries, sheet):
                    break
            elif now - line[first] > STUCK_MS:
                del line[first]
                line[first] = now
            now = yield
    finally:
        line.pop(own, None)
    if not conversation.link.full:
        report = conversation.service.encoder.report(sheet.text(), conversation.envelope)
        conversation.link.write_pieces(report, durable=True)
    return b""


def _write_some(entries: Entries, sheet: Sheet) -> bool:
    """Write as many entries as a turn has time for; False if there are no more to be written."""
    took = 0
    for took_more in entries:
        took += took_more
        if took >= SLICE or sheet.is_full:
            return not sheet.is_full
    return False


def on_disconnect(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """DISCONNECT: of an administrator, the whole server is to stop; of others, only they.

    Whoever was a client or a worker once is none: one that was forgotten says so too.
    """
    service = conversation.service
    if not conversation.had_a_role or frames[3].startswith(ADMIN_PREFIX):
        if not conversation.link.peer.may(service.settings.remote_shutdown):
            raise Unfit("a DISCONNECT from afar")
        conversation.answer(service.encoder.ack(frames[3]))
        conversation.link.did("DISCONNECT")
        service.request_stop()
    else:
        conversation.answer(service.encoder.kbye())
        on_goodbye(conversation, frames, now)


# -- answers ---------------------------------------------------------------------------------------


def _status(service: EventmqService, sheet: Sheet, now: Millis) -> Entries:
    """The counts of STATUS. Ages are of running jobs and of the one that waits longest."""
    ages: dict[str, tuple[int, int, int]] = {}
    for worker in list(service.workers_here.all.values()):
        for job in list(worker.session.leases.values()):
            _note_age(ages, job.queue, now - job.created_at)
            yield 1
    for queue in list(service.broker.queues.values()):
        yield 1
        if not queue.listed:
            continue
        first = queue.first()
        if first is not None:
            _note_age(ages, queue.name, now - first.created_at)
        key = _encode(queue.name)
        if queue.ready or queue.leased:
            sheet.put("inflight_messages_by_queue", key, queue.ready + queue.leased)
        if queue.ready:
            sheet.put("waiting_messages_by_queue", key, queue.ready)
        if queue.name in ages:
            count, total, most = ages[queue.name]
            sheet.put("latency_messages_by_queue", key, total // count)
            sheet.put("max_latency_messages_by_queue", key, most)
    by_worker = [(worker.name, worker.handed) for worker in service.workers_here.all.values()]
    for name, counts in (("queue", list(service.handed.items())), ("worker", by_worker)):
        for of, count in counts:
            yield 1
            sheet.put(f"processed_messages_by_{name}", _encode(of), count)


def _note_age(ages: dict[str, tuple[int, int, int]], queue: str, age: int) -> None:
    """Count a job's age among those of its queue: how many, all together, the highest."""
    count, total, most = ages.get(queue, (0, 0, 0))
    ages[queue] = count + 1, total + age, max(most, age)


def _workers(service: EventmqService, sheet: Sheet, now: Millis) -> Entries:
    queues: dict[str, list[tuple[int, str]]] = {}
    for worker in [one for one in service.workers_here.all.values() if not one.leaving]:
        slots, beat = worker.slots, worker.heard_at / 1000
        shown = {"queues": worker.weighted, "hb": beat, "available_slots": slots}
        sheet.put("connected_workers", _encode(worker.name), shown)
        for weight, queue in worker.weighted:
            queues.setdefault(queue, []).append((weight, worker.name))
        yield 1 + len(worker.weighted)
    for queue, line in queues.items():
        line.sort(key=lambda entry: -entry[0])
        sheet.put("connected_queues", _encode(queue), line)
        yield len(line)


def _schedulers(service: EventmqService, sheet: Sheet, now: Millis) -> Entries:
    for worker in list(service.schedulers.all.values()):
        sheet.put("connected_schedulers", _encode(worker.name), {"hb": worker.heard_at / 1000})
        yield 1


on_status = _answering(
    _status,
    "inflight_messages_by_queue",
    "latency_messages_by_queue",
    "max_latency_messages_by_queue",
    "waiting_messages_by_queue",
    "processed_messages_by_queue",
    "processed_messages_by_worker",
)
on_show_workers = _answering(_workers, "connected_workers", "connected_queues")
on_show_schedulers = _answering(_schedulers, "connected_schedulers")
