"""Commands about no one job: BEAT, END, INFO, FLUSH, QUEUE, MUTATE, and two we do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Millis
from franca.core.names import text_of
from franca.protocols.faktory.conversation import FaktoryConversation
from franca.protocols.faktory.job import Work
from franca.protocols.faktory.lenient import Unreadable
from franca.protocols.faktory.mutate import MUTATION_BYTES_MAX, read_mutation
from franca.protocols.faktory.reports import REPORT_BYTES_MAX, read_beat
from franca.protocols.faktory.text import QUICK_BYTES, mended
from franca.protocols.faktory.wire import OK, bulk, error, quoted
from franca.protocols.faktory.workers import WorkerState

QUEUE_NAMES_MAX: Final = 10_000
QUEUES_A_TURN: Final = 200
"""Queues changed in one turn: one that is removed may have many jobs."""
QUEUE_BYTES_MAX: Final = 1024 * 1024
QueueChange = Callable[[Broker, list[str], Millis], None]

_encode = msgspec.json.Encoder().encode


def on_beat(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """BEAT: the worker lives; the answer may ask it to be quiet or to leave."""
    try:
        if len(rest) > REPORT_BYTES_MAX:
            raise Unreadable("too long")
        beat = read_beat(rest)
    except Unreadable:
        on_large_beat(conversation, rest, now)
        return
    wid = beat.wid or ""
    workers = conversation.service.registry
    worker = workers.beat(wid, beat.current_state or "", beat.rss_kb or 0, now)
    if worker is None:
        conversation.say(error(f"unknown worker {wid}"))
    elif worker.state is WorkerState.RUNNING:
        conversation.say(OK)
    else:
        conversation.say(bulk(b'{"state":"%b"}' % worker.state.word.encode()))


def on_large_beat(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """BEAT: nobody has so much to say."""
    conversation.say(error(f"invalid BEAT {quoted(rest)}"))


def on_end(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """END: no answer, the connection is closed."""
    if rest:
        conversation.say(error("END takes no arguments"))
    else:
        conversation.drop(now)


def on_info(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """INFO: everything about the server in one object."""
    if rest:
        conversation.say(error("INFO takes no arguments"))
        return
    reply = conversation.service.info(now)
    if reply is None:
        conversation.begin(_info(conversation), len(rest), now)
    else:
        conversation.say_shared(reply)


def _info(conversation: FaktoryConversation) -> Work:
    """The same in steps, which all who wait for the answer take together."""
    overview = conversation.service.overview
    yield
    now = yield
    while (reply := overview.kept(now) or overview.step(now)) is None:
        now = yield
    conversation.say_shared(reply)
    return b""


def on_flush(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """FLUSH: forget everything. A word behind it may be a queue's name, so nothing is done."""
    if rest:
        conversation.say(error("FLUSH takes no arguments"))
        return
    conversation.broker.flush(now)
    conversation.say_after_commit(OK)


def on_track(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """TRACK: what the open-source server says."""
    conversation.say(error("tracking subsystem is only available in Faktory Enterprise"))


def on_batch(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """BATCH: what the open-source server says."""
    conversation.say(error("batch subsystem is only available in Faktory Enterprise"))


# -- QUEUE -------------------------------------------------------------------------------------


def on_queue(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """QUEUE PAUSE, RESUME, REMOVE or LATENCY, and names; `*` stands for all queues there are."""
    if rest.count(b" ") > QUEUE_NAMES_MAX or len(rest) > QUEUE_BYTES_MAX:
        most = f"{QUEUE_NAMES_MAX} queues in {QUEUE_BYTES_MAX} bytes"
        conversation.say(error(f"QUEUE cannot name more than {most}"))
        return
    conversation.begin(_queue(conversation.broker, rest), len(rest), now)


def _queue(broker: Broker, rest: bytes) -> Work:
    now = yield
    if len(rest) > QUICK_BYTES:
        now = yield
    first, *words = rest.split(b" ")
    verb = quoted(first).upper()
    names = list(dict.fromkeys(text_of(word) for word in words if word))
    most = broker.limits.name_bytes_max
    if any(len(word) > most for word in words):
        return error(f"queue names cannot be longer than {most} bytes")
    if verb == "LATENCY":
        if names == ["*"]:
            return error("QUEUE LATENCY does not support wildcards")
        return (yield from _latencies(broker, names, now))
    change = _CHANGES.get(verb)
    if change is None:
        return error(f"no such QUEUE subcommand: {verb}")
    if not names:
        return error(f"QUEUE {verb} needs the name of a queue, or *")
    if "*" in names:
        names = [queue.name for queue in broker.queues.values() if queue.listed]
    for start in range(0, len(names), QUEUES_A_TURN):
        if start:
            now = yield
        change(broker, names[start : start + QUEUES_A_TURN], now)
    return OK


def _latencies(broker: Broker, names: list[str], now: Millis) -> Work:
    """How long the next job of each queue has been waiting, in seconds."""
    names.sort()
    parts: list[bytes] = []
    for start in range(0, len(names), QUEUES_A_TURN):
        if start:
            now = yield
        latencies: dict[str, float] = {}
        for name in names[start : start + QUEUES_A_TURN]:
            queue = broker.queues.get(name)
            job = queue.first() if queue is not None else None
            latencies[name] = max(now - job.ready_at, 0) / 1000 if job is not None else 0
        parts.append(_encode(latencies)[1:-1])
    return bulk(b"{%b}" % b",".join(parts))


def _pause(broker: Broker, names: list[str], now: Millis) -> None:
    for name in names:
        broker.pause(name)


def _resume(broker: Broker, names: list[str], now: Millis) -> None:
    for name in names:
        broker.resume(name, now)


_CHANGES: Final[Mapping[str, QueueChange]] = {
    "PAUSE": _pause,
    "RESUME": _resume,
    "REMOVE": Broker.remove_queues,
}


# -- MUTATE ------------------------------------------------------------------------------------


def on_mutate(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """MUTATE: change many jobs of a set. It reads the store, so the answer comes later."""
    if len(rest) > MUTATION_BYTES_MAX:
        conversation.say(error(f"a mutation cannot be longer than {MUTATION_BYTES_MAX} bytes"))
    else:
        conversation.begin(_mutate(conversation, rest), len(rest), now)


def _mutate(conversation: FaktoryConversation, text: bytes) -> Work:
    yield
    try:
        if len(text) > QUICK_BYTES:
            yield
        text = yield from mended(text)
        order = read_mutation(text)
        conversation.service.mutations.begin(order, conversation.link, conversation.mutated)
    except Refused as refusal:
        return error(refusal.text)
    return None
