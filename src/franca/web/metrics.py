"""Metrics for Prometheus, made of what the server counts anyway when somebody asks for them.

Nothing is counted for them on the way of a job. Queues are looked at in slices between turns, and
what is told is written in slices too; it is told to all who ask within a second, and for longer
where it took long. `docs/metrics.md` says what each of them is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from franca.control.http_workers import PROTOCOL
from franca.control.lately import crossings_of
from franca.control.observer import Kept
from franca.control.port import NodePort
from franca.control.workers import portions
from franca.core.broker import Broker
from franca.core.history import OTHER
from franca.core.model import Millis
from franca.protocols.numbers import NAMES
from franca.web.metric_families import Family, Look, families
from franca.web.metric_queues import QueueLine, QueueSeries
from franca.web.metric_tallies import TallySeries

TEXT: Final = "text/plain"
OPEN_METRICS: Final = "application/openmetrics-text"
LAST_LINE: Final = b"# EOF\n"
"""How an answer in the format of OpenMetrics ends."""
SAMPLES_AT_ONCE: Final = 250
"""Samples that are written in one pass of the event loop."""
LINKS_AT_ONCE: Final = 2_000
SUBMITTERS: Final = frozenset({*NAMES, "control"})
WORKER_STATES: Final = ("busy", "idle", "quiet", "stopping", "stalled")
TAKING_STATES: Final = ("busy", "idle")


class Metrics:
    """All metrics of a server, for as long as it runs: made when it starts."""

    def __init__(self, node: NodePort) -> None:
        now = node.clock_ms()
        self._node = node
        self._lock = asyncio.Lock()
        self._kept: dict[str, Kept[bytes]] = {TEXT: Kept(), OPEN_METRICS: Kept()}
        self._queues = QueueSeries()
        self._waits = TallySeries("queue", now)
        self._types = TallySeries("kind", now)

    async def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics in the format that an Accept header asks for, and their content type."""
        media = media_for(accept)
        content = await self._kept[media].get(self._node, lambda: self._make(media))
        return content, choose_encoder(media)[1]

    async def _make(self, media: str) -> bytes:
        async with self._lock:
            look = await self._look()
            pieces: list[bytes] = []
            for family in families(look):
                for piece in written(family, media):
                    pieces.append(piece)
                    await asyncio.sleep(0)
        if media == OPEN_METRICS:
            pieces.append(LAST_LINE)
        return b"".join(pieces)

    async def _look(self) -> Look:
        node = self._node
        engine = node.engine
        queues = await self._queues.look(node)
        await self._waits.take(node, self._queues.told)
        await self._types.take(node)
        past = await node.past()
        return Look(
            queues=queues,
            waits=self._waits.by_name,
            types=self._types.by_name,
            past=past,
            measured=node.measured(),
            workers=await _workers(node, queues),
            connections=await _connections(node),
            crossings=_crossings(engine.broker),
            scheduler_lag_ms=scheduler_lag(engine.broker, node.clock_ms()),
            refusing_new=engine.broker.refusing_new,
            unhandled=engine.unhandled,
        )


def media_for(accept: str) -> str:
    """The format that is wanted most: Prometheus asks for OpenMetrics, a browser for text."""
    weights = {TEXT: 0.0, OPEN_METRICS: 0.0}
    for part in accept.split(","):
        media, *parameters = (word.strip().lower() for word in part.split(";"))
        if media in weights:
            weight = next((p[2:] for p in parameters if p.startswith("q=")), "1")
            try:
                weights[media] = max(weights[media], float(weight))
            except ValueError:
                continue
    wants_open = weights[OPEN_METRICS] > 0 and weights[OPEN_METRICS] >= weights[TEXT]
    return OPEN_METRICS if wants_open else TEXT


# -- writing --------------------------------------------------------------------------------------


class _Alone:
    """One metric, for whoever writes collections of them."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        """Just this."""
        return (self._metric,)


def written(family: Family, media: str) -> Iterator[bytes]:
    """A metric in pieces of so many samples; only the first one says what it is."""
    samples = iter(family.samples)
    encode = choose_encoder(media)[0]
    is_first = True
    while part := list(islice(samples, SAMPLES_AT_ONCE)):
        metric = Metric(family.name, family.text, family.kind)
        for ending, labels, value in part:
            metric.add_sample(family.name + ending, labels, value)
        text = encode(_Alone(metric)).removesuffix(LAST_LINE)
        if not is_first:
            _help, _type, text = text.split(b"\n", 2)
        yield text
        is_first = False


# -- what is counted here, because nobody else does ------------------------------------------------


async def _workers(node: NodePort, lines: dict[str, QueueLine]) -> dict[tuple[str, str], int]:
    """Workers by protocol and state; notes with each queue how many take its jobs.

    Every state of a protocol is there.
    """
    stalled = node.observer.troubles.stalled
    protocols = [name for name in (*node.engine.services, PROTOCOL) if name in NAMES]
    found = {(name, state): 0 for name in protocols for state in WORKER_STATES}
    async for some in portions(node):
        for worker in some:
            takes_none = worker.state == "idle" and worker.name in stalled
            state = "stalled" if takes_none else worker.state
            key = worker.protocol, state
            found[key] = found.get(key, 0) + 1
            if state in TAKING_STATES:
                for queue in worker.queues:
                    if queue in lines:
                        lines[queue].workers += 1
    return found


async def _connections(node: NodePort) -> dict[str, int]:
    """Links by listener."""
    found = dict.fromkeys(node.engine.services, 0)
    links = list(node.engine.links)
    for start in range(0, len(links), LINKS_AT_ONCE):
        for link in links[start : start + LINKS_AT_ONCE]:
            found[link.protocol] = found.get(link.protocol, 0) + 1
        await asyncio.sleep(0)
    return found


def _crossings(broker: Broker) -> dict[tuple[str, str], int]:
    """Jobs done, by protocols; what was submitted by nobody known is one of them."""
    found: dict[tuple[str, str], int] = {}
    for (via, by), count in crossings_of(broker).items():
        key = via if via in SUBMITTERS else OTHER, by
        found[key] = found.get(key, 0) + count
    return found


def scheduler_lag(broker: Broker, now: Millis) -> Millis:
    """For how long the next job that waits for its time, or the next schedule, has been due.

    Schedules wait on purpose while no new jobs are taken.
    """
    due = [broker.waiting.next_at()]
    if not broker.refusing_new:
        due.append(broker.schedules.next_at())
    first = min((at for at in due if at is not None), default=None)
    return 0 if first is None else max(0, broker.wall(now) - first)
