"""The control socket: a unix socket in the data directory, one line of JSON asked and answered.

Whoever may open the socket may do everything, so nobody but the owner of the data may open it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable

from franca.control.operations import answer, error_reply
from franca.control.path import NAME, reachable
from franca.control.port import NodePort

BACKLOG = 32


class ControlServer:
    """Answers operators for as long as it is open. One server per data directory."""

    def __init__(
        self, node: NodePort, directory: str, *, on_error: Callable[[Exception], None]
    ) -> None:
        self._node = node
        self._directory = directory
        self._on_error = on_error
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, in place of whatever a server that was killed left behind."""
        limit = self._node.engine.limits.frame_bytes_max
        listening = _bind(self._directory)
        self._server = await asyncio.start_unix_server(self._talk, sock=listening, limit=limit)

    async def close(self) -> None:
        """Hang up on everybody and take the socket away."""
        if self._server is None:
            return
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        _unlink_socket(os.path.join(self._directory, NAME))

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            while line := await reader.readline():
                reply, error = await answer(self._node, line)
                if error is not None:
                    self._on_error(error)
                writer.write(reply + b"\n")
                await writer.drain()
        except ValueError:
            writer.write(error_reply("too-much", "a request may not be that long") + b"\n")
        except OSError:
            pass  # whoever asked is gone
        except asyncio.CancelledError:
            pass  # the server stops; asyncio would log a cancelled task of a stream as an error
        finally:
            self._talks.discard(task)
            writer.close()


def _bind(directory: str) -> socket.socket:
    _unlink_socket(os.path.join(directory, NAME))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode must be right from the first moment: there is no safe time to change it after.
    before = os.umask(0o177)
    try:
        with reachable(directory) as path:
            listening.bind(path)
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(before)
    listening.setblocking(False)
    return listening


def _unlink_socket(path: str) -> None:
    """Remove a socket, and nothing else that may bear its name."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        return
