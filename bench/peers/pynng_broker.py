"""A minimal MemoDB broker on NNG's own contexts, as one would write it who does not speak SP.

`python -m bench.peers.pynng_broker PORT CONTEXTS` prints "ready" when it listens, and serves until
it is killed. It knows no timeouts, no heartbeats and no lost workers: what is left is the least
that a broker must do. An open request keeps a context: each client and worker needs one.
"""

import asyncio
import sys
from collections import defaultdict, deque
from io import BytesIO

import cbor2  # type: ignore[import-not-found,unused-ignore]
import pynng  # type: ignore[import-not-found,import-untyped,unused-ignore]
import uvloop

VERSION = "memo01"
READY, JOB, RESULT, HEARTBEAT = 1, 2, 3, 4


class Work:
    """A client's job, and where its result is awaited."""

    __slots__ = ("payload", "result", "service", "timeout_ms")

    def __init__(self, payload: bytes, service: str, timeout_ms: int) -> None:
        self.service = service
        self.timeout_ms = timeout_ms
        self.payload = payload
        self.result: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()


class Broker:
    """Jobs that wait for a worker, workers that wait for a job, and who runs what."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[Work]] = defaultdict(deque)
        self._idle: defaultdict[str, deque[asyncio.Future[Work]]] = defaultdict(deque)
        self._services: dict[bytes, list[str]] = {}
        self._running: dict[bytes, Work] = {}

    async def answer(self, message: bytes) -> bytes:
        """The reply to a request, as soon as there is one."""
        stream = BytesIO(message)
        _, kind, worker, *rest = cbor2.CBORDecoder(stream).decode()
        payload = message[stream.tell() :]
        if kind == JOB:
            return encode([VERSION, RESULT, b""]) + await self._run(Work(payload, *rest))
        if kind == READY:
            worker = (len(self._services) + 1).to_bytes(4, "big")
            self._services[worker] = rest[0]
        elif kind == RESULT:
            self._running.pop(worker).result.set_result(payload)
        work = await self._next(worker)
        self._running[worker] = work
        return encode([VERSION, JOB, worker, work.service, work.timeout_ms]) + work.payload

    async def _run(self, work: Work) -> bytes:
        idle = self._idle[work.service]
        while idle:
            worker = idle.popleft()
            if not worker.done():
                worker.set_result(work)
                break
        else:
            self._waiting[work.service].append(work)
        return await work.result

    async def _next(self, worker: bytes) -> Work:
        services = self._services[worker]
        for service in services:
            if waiting := self._waiting[service]:
                return waiting.popleft()
        work: asyncio.Future[Work] = asyncio.get_running_loop().create_future()
        for service in services:
            self._idle[service].append(work)
        return await work


def encode(header: list[object]) -> bytes:
    """The header in CBOR's deterministic form."""
    encoded: bytes = cbor2.dumps(header, canonical=True)
    return encoded


async def attend(context: pynng.Context, broker: Broker) -> None:
    """Answer one request after the other on a context of its own."""
    while True:
        message = await context.arecv()
        await context.asend(await broker.answer(message))


async def serve(port: int, contexts: int) -> None:
    """Serve on loopback until cancelled."""
    broker = Broker()
    with pynng.Rep0(listen=f"tcp://127.0.0.1:{port}") as socket:
        print("ready", flush=True)
        await asyncio.gather(*(attend(socket.new_context(), broker) for _ in range(contexts)))


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
