"""The control socket: a unix socket in the data directory, one line of JSON asked and answered.

Whoever may open the socket may do everything, so nobody but the owner of the data may open it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack

from franca.control.operations import answer, error_reply
from franca.control.path import NAME, listen_on, remove_socket
from franca.control.port import NodePort

BACKLOG = 32
CLIENTS_MAX = 32
"""Clients at a time; each has a descriptor, which must not be missing for files or for peers."""
LINE_BYTES = 64 * 1024
"""A longer line is read when no other such line is read or acted on."""
LINE_S = 30.0
"""Time to finish a line that was begun, or the long part of a long one."""
ANSWER_BYTES = 256 * 1024
"""Until a longer answer is sent, no other that may be long is made."""
ANSWER_S = 10.0
"""A client that has taken nothing of its answer for so long is left."""
END = b"\n"


class LineTooLong(Exception):
    """A request that is larger than any message may be."""


class ControlServer:
    """Answers operators for as long as it is open. One server per data directory."""

    def __init__(
        self, node: NodePort, directory: str, *, on_error: Callable[[Exception], None]
    ) -> None:
        self._node = node
        self._directory = directory
        self._on_error = on_error
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._idle: dict[asyncio.StreamWriter, None] = {}
        self._line_max = node.engine.limits.frame_bytes_max
        self._long_lines = asyncio.Lock()
        self._long_answers = asyncio.Lock()

    async def open(self) -> None:
        """Listen, in place of whatever a server that was killed left behind."""
        listening = listen_on(self._directory)
        listening.listen(BACKLOG)
        listening.setblocking(False)
        limit = min(LINE_BYTES, self._line_max)
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=limit)

    async def close(self) -> None:
        """Hang up on everybody and take the socket away."""
        if self._server is None:
            return
        self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        remove_socket(os.path.join(self._directory, NAME))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client from its first line to its last. Whatever it does ends nothing but this."""
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            refusal = await self._answer(reader, writer)
            if refusal and not writer.is_closing():
                writer.write(refusal + END)
        except (OSError, RuntimeError):
            pass  # whoever asked is gone; event loops say that in different ways
        except asyncio.CancelledError:
            pass  # the server stops; asyncio would log a cancelled task of a stream as an error
        except Exception as error:
            self._on_error(error)
        finally:
            self._clients.discard(task)
            self._idle.pop(writer, None)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Answer line after line; in the end, why no more are answered, if anybody asks."""
        if len(self._clients) > CLIENTS_MAX:
            # The client that has asked for nothing for longest makes room.
            oldest = next(iter(self._idle), None)
            if oldest is None:
                text = f"{CLIENTS_MAX} clients are talking to this server already"
                return error_reply("busy", text)
            del self._idle[oldest]
            oldest.close()
        try:
            while await self._exchange(reader, writer):
                pass
        except LineTooLong:
            return error_reply("too-much", "a request may not be that long")
        except TimeoutError:
            return error_reply("timed-out", f"a request must be complete within {LINE_S:g} s")
        return b""

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One line and its answer; False if there are no more lines."""
        self._idle[writer] = None
        first = await reader.read(1)
        self._idle.pop(writer, None)
        if not first:
            return False
        async with AsyncExitStack() as turns:

            async def wait_turn() -> None:
                await turns.enter_async_context(self._long_answers)

            line = first if first == END else await self._line(first, reader, turns)
            reply, error = await answer(self._node, line, wait_turn)
            del line
            if error is not None:
                self._on_error(error)
            if len(reply) <= ANSWER_BYTES:
                await turns.aclose()
            return await _send(writer, reply)

    async def _line(
        self, first: bytes, reader: asyncio.StreamReader, turns: AsyncExitStack
    ) -> bytes | bytearray:
        """All up to the end of the line, or of what the client has to say."""
        try:
            async with asyncio.timeout(LINE_S):
                return first + await reader.readuntil(END)
        except asyncio.IncompleteReadError as end:
            return first + end.partial
        except asyncio.LimitOverrunError:
            await turns.enter_async_context(self._long_lines)
        line = bytearray(first)
        async with asyncio.timeout(LINE_S):
            while len(line) < self._line_max:
                try:
                    line += await reader.readuntil(END)
                    return line
                except asyncio.IncompleteReadError as end:
                    line += end.partial
                    return line
                except asyncio.LimitOverrunError as more:
                    line += await reader.readexactly(more.consumed)
        raise LineTooLong


async def _send(writer: asyncio.StreamWriter, reply: bytes) -> bool:
    """Send an answer, and wait until most of it is taken; False if the client does not take it."""
    transport = writer.transport
    if transport.is_closing():
        return False
    writer.write(reply)
    del reply
    writer.write(END)
    while True:
        unsent = transport.get_write_buffer_size()
        try:
            async with asyncio.timeout(ANSWER_S):
                await writer.drain()
            return True
        except TimeoutError:
            if transport.get_write_buffer_size() >= unsent:
                transport.abort()
                return False
