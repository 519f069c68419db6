"""What an administrator asks: STATUS, ROUTER_SHOW_WORKERS, ROUTER_SHOW_SCHEDULERS, DISCONNECT.

The answers have the original's shapes. In flight is what was taken in and not finished, waiting is
what no worker has yet, processed is what was handed to workers. What is shown is durable: whoever
has seen a request waiting may count on it. A long answer is made over several turns, one at a
time, and ends where it has become too long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.model import Millis

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

Making = Iterator[None]
"""An answer in the making: more of it is there with each step."""


class Sheet:
    """Maps of names, written down as they grow. `is_full` once they may grow no more."""

    __slots__ = ("_left", "_maps")

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


class Listing:
    """A question of an administrator whose answer is in the making."""

    __slots__ = ("_conversation", "_making", "_others", "_sheet", "stepped_at")

    def __init__(
        self, conversation: EventmqConversation, making: Making, sheet: Sheet, now: Millis
    ) -> None:
        self._conversation = conversation
        self._making = making
        self._sheet = sheet
        self._others = conversation.service.listings
        self.stepped_at = now

    def begin(self, now: Millis) -> None:
        """Answer at once if that takes no longer than a turn has time for."""
        self._others[self] = None
        self._conversation.has_had_its_share = True
        if not self.step(now):
            self._conversation.task = self

    def step(self, now: Millis) -> bool:
        """Make some more of the answer, unless another is being made; True once it is given."""
        first = next(iter(self._others))
        if first is not self:
            if now - first.stepped_at > STUCK_MS:
                del self._others[first]
                first.stepped_at = now
                self._others[first] = None
            return False
        self.stepped_at = now
        for _ in self._making:
            return False
        self.end()
        self._conversation.report(self._sheet.text())
        return True

    def end(self) -> None:
        """It is answered, or nobody waits for the answer."""
        self._others.pop(self, None)

    def __len__(self) -> int:
        return 0


def on_status(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """STATUS: how many messages are where."""
    sheet = Sheet(
        "inflight_messages_by_queue",
        "latency_messages_by_queue",
        "max_latency_messages_by_queue",
        "waiting_messages_by_queue",
        "processed_messages_by_queue",
        "processed_messages_by_worker",
    )
    Listing(conversation, _status(conversation.service, sheet, now), sheet, now).begin(now)


def on_show_workers(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """ROUTER_SHOW_WORKERS: who works, and on what."""
    sheet = Sheet("connected_workers", "connected_queues")
    Listing(conversation, _workers(conversation.service, sheet), sheet, now).begin(now)


def on_show_schedulers(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """ROUTER_SHOW_SCHEDULERS: who schedules besides us."""
    sheet = Sheet("connected_schedulers")
    Listing(conversation, _schedulers(conversation.service, sheet), sheet, now).begin(now)


def on_disconnect(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """DISCONNECT: of an administrator, the whole server is to stop; of others, only they.

    Whoever was a client or a worker once is none: one that was forgotten says so too.
    """
    service = conversation.service
    if not conversation.had_a_role or frames[3].startswith(ADMIN_PREFIX):
        if not service.may_stop(conversation.link.peer):
            conversation.refuse("a DISCONNECT from afar")
            return
        conversation.say(service.voice.ack(frames[3]))
        service.request_stop()
        return
    conversation.say(service.voice.kbye())
    conversation.on_goodbye(frames, now)


# -- answers ---------------------------------------------------------------------------------------


def _status(service: EventmqService, sheet: Sheet, now: Millis) -> Making:
    """The counts of STATUS. Ages are of running jobs and of the one that waits longest."""
    ages: dict[str, list[int]] = {}
    counted = 0
    for member in list(service.workers_here.all):
        for job in list(member.party.held()):
            _note_age(ages, job.queue, now - job.created_at)
            counted += 1
            if not counted % SLICE:
                yield
    for at, queue in enumerate(list(service.broker.queues.values()), 1):
        if not at % SLICE:
            yield
        if sheet.is_full:
            break
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
    yield from _tally(sheet, "processed_messages_by_queue", list(service.handed.items()))
    handed = [(m.name, m.handed) for m in service.workers_here.all]
    yield from _tally(sheet, "processed_messages_by_worker", handed)


def _note_age(ages: dict[str, list[int]], queue: str, age: int) -> None:
    """Count a job's age among those of its queue: how many, all together, the highest."""
    noted = ages.setdefault(queue, [0, 0, 0])
    noted[0] += 1
    noted[1] += age
    noted[2] = max(noted[2], age)


def _tally(sheet: Sheet, name: str, counts: list[tuple[str, int]]) -> Making:
    for at, (key, count) in enumerate(counts, 1):
        if not at % SLICE:
            yield
        if sheet.is_full:
            return
        sheet.put(name, _encode(key), count)


def _workers(service: EventmqService, sheet: Sheet) -> Making:
    queues: dict[str, list[tuple[int, str]]] = {}
    counted = 0
    for m in [m for m in service.workers_here.all if not m.leaving]:
        if sheet.is_full:
            return
        shown = {"queues": m.queues, "hb": m.heard_at / 1000, "available_slots": m.party.slots()}
        sheet.put("connected_workers", _encode(m.name), shown)
        for weight, queue in m.queues:
            queues.setdefault(queue, []).append((weight, m.name))
        counted += 1 + len(m.queues)
        if counted > SLICE:
            counted = 0
            yield
    for queue, line in queues.items():
        if sheet.is_full:
            return
        line.sort(key=lambda entry: -entry[0])
        sheet.put("connected_queues", _encode(queue), line)
        counted += len(line)
        if counted > SLICE:
            counted = 0
            yield


def _schedulers(service: EventmqService, sheet: Sheet) -> Making:
    for at, member in enumerate(list(service.schedulers.all), 1):
        if sheet.is_full:
            return
        sheet.put("connected_schedulers", _encode(member.name), {"hb": member.heard_at / 1000})
        if not at % SLICE:
            yield
