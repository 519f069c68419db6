"""A bare uvloop echo server: the floor that any server on the same event loop could reach.

`python -m bench.echo PORT` prints "ready" when it listens, and serves until it is killed.
"""

import asyncio
import sys
from typing import cast

import uvloop


class Echo(asyncio.Protocol):
    """Sends back what it receives, and does nothing else."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's own transport is no subclass of asyncio's, so it cannot be asked what it is.
        self._write = cast(asyncio.Transport, transport).write

    def data_received(self, data: bytes) -> None:
        self._write(data)


async def serve(port: int) -> None:
    """Serve on loopback until cancelled."""
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port, backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
