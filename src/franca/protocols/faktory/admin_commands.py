"""Commands about no single job: END, INFO, FLUSH, QUEUE, MUTATE, and two that are not supported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Millis
from franca.core.names import text_of
from franca.protocols.conversation import ABOUT_CHARS, Task
from franca.protocols.faktory.go_json import QUICK_BYTES, Steps, Unfit, repaired
from franca.protocols.faktory.mutations import MUTATION_BYTES_MAX, read_mutation
from franca.protocols.faktory.wire import OK, bulk, error, quoted

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation
    from franca.protocols.faktory.service import FaktoryService

QUEUES_A_STEP: Final = 1_000
LONG_BYTES: Final = 1024 * 1024
"""A longer answer is written in pieces, which all clients that wait for it share."""
QUEUE_NAMES_MAX: Final = 10_000
QUEUES_A_TURN: Final = 200
"""Queues changed in one turn: one that is removed may have many jobs."""
QUEUE_BYTES_MAX: Final = 1024 * 1024
ABOUT_NAMES: Final = 100

_encode = msgspec.json.Encoder().encode


def on_end(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """END: no answer, the connection is closed."""
    if rest:
        raise Unfit("END takes no arguments")
    conversation.drop(now)


def on_flush(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """FLUSH: remove everything. An argument may be meant as a queue's name, so it is refused."""
    if rest:
        raise Unfit("FLUSH takes no arguments")
    conversation.broker.flush(now)
    conversation.link.did("FLUSH")
    conversation.say_after_commit(OK)


def on_track(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """TRACK: what the open-source server says."""
    raise Unfit("tracking subsystem is only available in Faktory Enterprise")


def on_batch(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """BATCH: what the open-source server says."""
    raise Unfit("batch subsystem is only available in Faktory Enterprise")


# -- INFO --------------------------------------------------------------------------------------


def on_info(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """INFO: everything about the server in one object."""
    if rest:
        raise Unfit("INFO takes no arguments")
    reply = conversation.service.info(now)
    if reply is None:
        conversation.begin(_info(conversation), now, len(rest))
    else:
        conversation.say_shared(reply)


def _info(conversation: FaktoryConversation) -> Task:
    """The same in steps, which all clients that wait for the answer take together."""
    yield
    now = yield
    conversation.say_shared((yield from conversation.service.overview.wait(now)))
    return b""


def info(service: FaktoryService, stamp: str) -> Steps[Sequence[bytes]]:
    """The reply to INFO in the original's exact shape, on most of which clients assert; in pieces.

    Everything about the server in one object with four members.
    """
    begin = _encode({"now": stamp, "server_utc_time": f"{stamp[11:19]} UTC"})
    sets = {"dead": 0, "retries": 0, "scheduled": 0, "working": 0}
    total_ready = total_queues = 0
    pieces = [begin[:-1] + b',"faktory":{"queues":{']
    queues = list(service.broker.queues.values())
    for start in range(0, len(queues), QUEUES_A_STEP):
        ready: dict[str, int] = {}
        for queue in queues[start : start + QUEUES_A_STEP]:
            if queue.listed:
                ready[queue.name] = queue.ready
                sets["dead"] += queue.dead
                sets["retries"] += queue.retrying
                sets["scheduled"] += queue.scheduled
                sets["working"] += queue.leased
        if ready:
            pieces.append((b"," if total_queues else b"") + _encode(ready)[1:-1])
        total_ready += sum(ready.values())
        total_queues += len(ready)
        yield
    rest = {**_counts(service, sets), "total_enqueued": total_ready, "total_queues": total_queues}
    server = _named(service) | {
        "uptime": service.server.uptime_s(),
        "connections": service.server.connections(),
        "command_count": service.commands,
        "used_memory_mb": service.server.memory_mb(),
    }
    pieces.append(b'},%b,"server":%b}' % (_encode(rest)[1:], _encode(server)))
    size = sum(map(len, pieces))
    whole = (b"$%d\r\n" % size, *pieces, b"\r\n")
    # A client may take one read for one reply, so a short one is one piece.
    return (b"".join(whole),) if size < LONG_BYTES else whole


def health(service: FaktoryService, stamp: str) -> bytes:
    """What the original answers at `/health`, to whoever asks."""
    counted = {"connections": service.server.connections(), "command_count": service.commands}
    return _encode({"now": stamp, "server": _named(service) | counted})


def _named(service: FaktoryService) -> dict[str, object]:
    return {"description": "Faktory", "faktory_version": service.settings.version}


def _counts(service: FaktoryService, sets: dict[str, int]) -> dict[str, object]:
    broker, workers = service.broker, service.registry
    # We scan no set of waiting jobs, so there are no scans to count.
    scans = {"cycles": 0, "enqueued": 0, "size": 0, "wall_time_sec": 0.0}
    tasks = {
        "Busy": {"reaped": broker.upkeep.leases_expired, "size": sets["working"]},
        "Dead": scans | {"size": sets["dead"]},
        "Retries": scans | {"size": sets["retries"]},
        "Scheduled": scans | {"size": sets["scheduled"]},
        "Workers": {"reaped": workers.reaped, "size": len(workers.by_wid)},
    }
    failures, processed = broker.totals.failures, broker.totals.processed
    counted = {"total_failures": failures, "total_processed": processed}
    return {"sets": sets, "tasks": tasks, **counted}


# -- QUEUE -------------------------------------------------------------------------------------


def on_queue(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """QUEUE PAUSE, RESUME, REMOVE or LATENCY, and names; `*` stands for all queues there are."""
    if rest.count(b" ") > QUEUE_NAMES_MAX or len(rest) > QUEUE_BYTES_MAX:
        most = f"{QUEUE_NAMES_MAX} queues in {QUEUE_BYTES_MAX} bytes"
        raise Unfit(f"QUEUE cannot name more than {most}")
    conversation.begin(_queue(conversation, rest), now, len(rest))


def _queue(conversation: FaktoryConversation, rest: bytes) -> Task:
    broker = conversation.broker
    now = yield
    if len(rest) > QUICK_BYTES:
        now = yield
    first, *words = rest.split(b" ")
    verb = quoted(first).upper()
    names = list(dict.fromkeys(text_of(word) for word in words if word))
    most = broker.limits.name_bytes_max
    if any(len(word) > most for word in words):
        raise Unfit(f"queue names cannot be longer than {most} bytes")
    if verb == "LATENCY":
        if names == ["*"]:
            raise Unfit("QUEUE LATENCY does not support wildcards")
        return (yield from _latencies(broker, names, now))
    change = _CHANGES.get(verb)
    if change is None:
        raise Unfit(f"no such QUEUE subcommand: {verb}")
    if not names:
        raise Unfit(f"QUEUE {verb} needs the name of a queue, or *")
    if "*" in names:
        names = [queue.name for queue in broker.queues.values() if queue.listed]
    for start in range(0, len(names), QUEUES_A_TURN):
        if start:
            now = yield
        change(broker, names[start : start + QUEUES_A_TURN], now)
    conversation.link.did(f"QUEUE {verb}", " ".join(names[:ABOUT_NAMES]))
    return OK


def _latencies(broker: Broker, names: list[str], now: Millis) -> Task:
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


_CHANGES: Final[Mapping[str, Callable[[Broker, list[str], Millis], None]]] = {
    "PAUSE": Broker.pause_queues,
    "RESUME": Broker.resume_queues,
    "REMOVE": Broker.remove_queues,
}


# -- MUTATE ------------------------------------------------------------------------------------


def on_mutate(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """MUTATE: change many jobs of a set. It reads the store, so the answer comes later."""
    if len(rest) > MUTATION_BYTES_MAX:
        raise Unfit(f"a mutation cannot be longer than {MUTATION_BYTES_MAX} bytes")
    conversation.begin(_mutate(conversation, rest), now, len(rest))


def _mutate(conversation: FaktoryConversation, text: bytes) -> Task:
    yield
    try:
        if len(text) > QUICK_BYTES:
            yield
        text = yield from repaired(text)
        order = read_mutation(text)
        conversation.link.did("MUTATE", text[:ABOUT_CHARS].decode("utf-8", "replace"))
        conversation.service.mutations.begin(order, conversation.link, conversation.on_mutated)
    except Refused as refusal:
        return error(refusal.text)
    return None
