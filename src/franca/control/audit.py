"""What operators did: a bounded record, in memory and in a file of the data directory.

It is kept for people who ask "who paused this queue?". An entry may be lost if the server is killed
in the same moment; nothing waits for it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

import msgspec
from msgspec import Raw, Struct

from franca.control.caller import Caller
from franca.control.jobs import Page
from franca.control.port import NodePort
from franca.control.views import moment
from franca.core.errors import Refused
from franca.core.model import Millis

NAME: Final = "audit.jsonl"
FILE_BYTES: Final = 2 * 1024 * 1024
"""A longer file is put aside, in place of the one that was put aside before it."""
KEPT: Final = 5_000
"""Entries in memory, which are those that can be listed."""
ABOUT_CHARS: Final = 200
UNWRITTEN_MAX: Final = 10_000
"""Entries that wait for a disk that takes none; further ones are only in memory."""


class Entry(Struct, kw_only=True):
    """One thing that somebody did. `outcome` is `ok`, or the code of a refusal."""

    at: str | None
    who: str
    role: str
    over: str
    operation: str
    about: str
    outcome: str


class Audit(Struct, forbid_unknown_fields=True):
    """How many entries of the record."""

    limit: Page = 100


class AuditPage(Struct):
    """Entries of the record, newest first."""

    entries: list[Entry]


async def list_entries(node: NodePort, params: Audit) -> AuditPage:
    """What operators did last, newest first."""
    return AuditPage(node.audit.newest(params.limit))


class AuditLog:
    """The last entries, newest last. With a `directory` they are there again after a restart.

    `run_apart` runs a function on another thread: a disk that hangs must not hold anybody up.
    """

    def __init__(
        self,
        wall: Callable[[], Millis],
        directory: str = "",
        run_apart: Callable[[Callable[[], None]], object] = lambda write: write(),
    ) -> None:
        self.entries: deque[Entry] = deque(maxlen=KEPT)
        self._wall = wall
        self._path = os.path.join(directory, NAME) if directory else ""
        self._run_apart = run_apart
        self._unwritten: list[bytes] = []
        self._writing = False
        self._lock = Lock()
        if self._path:
            for path in (f"{self._path}.1", self._path):
                self.entries.extend(_read(path))

    def note(self, caller: Caller, operation: str, about: str, outcome: str = "ok") -> None:
        """Record what somebody did, or tried to."""
        entry = Entry(
            at=moment(self._wall()),
            who=caller.who,
            role=caller.role,
            over=caller.over,
            operation=operation,
            about=about if len(about) <= ABOUT_CHARS else f"{about[:ABOUT_CHARS]}...",
            outcome=outcome,
        )
        self.entries.append(entry)
        if self._path and len(self._unwritten) < UNWRITTEN_MAX:
            with self._lock:
                self._unwritten.append(msgspec.json.encode(entry))
                begins = not self._writing
                self._writing = True
            if begins:
                self._run_apart(self.write)

    @contextmanager
    def recording(self, caller: Caller, operation: str, params: Raw) -> Iterator[None]:
        """Record an operation with these parameters when it has ended, and how."""
        said = bytes(memoryview(params)[: 4 * ABOUT_CHARS]).decode("utf-8", "replace")
        about = "" if said == "{}" else said
        try:
            yield
        except BaseException as error:
            outcome = error.code if isinstance(error, Refused) else "failed"
            self.note(caller, operation, about, outcome)
            raise
        self.note(caller, operation, about)

    def newest(self, limit: int) -> list[Entry]:
        """The last entries, newest first."""
        entries = list(self.entries)
        return entries[: -limit - 1 : -1]

    def write(self) -> None:
        """Bring what is unwritten into the file. What the disk does not take stays in memory."""
        while True:
            with self._lock:
                some, self._unwritten = self._unwritten, []
                if not some:
                    # Known to be over before the next entry comes: none is left behind.
                    self._writing = False
                    return
            with suppress(OSError):
                self._append(b"".join(line + b"\n" for line in some))

    def _append(self, lines: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            os.write(descriptor, lines)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size > FILE_BYTES:
            os.replace(self._path, f"{self._path}.1")


def _read(path: str) -> Iterable[Entry]:
    """The entries of a file, as far as they are whole."""
    try:
        with open(path, "rb") as file:
            lines = deque(file, maxlen=KEPT)
    except OSError:
        return
    decoder = msgspec.json.Decoder(Entry)
    for line in lines:
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the server was killed while it wrote
