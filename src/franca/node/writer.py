"""The thread that waits for the disk, so that nobody else has to."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from franca.core.model import Millis
from franca.store.port import Store

COMMIT = "commit"
TIDY = "tidy"
END = ""
END_S = 30
SLOW_S = 0.010
SLOW_TIMES = 20
"""A commit that takes longer than this counts for so many times as long: a disk that is slow for
a moment is soon trusted again, one that is slow is not."""
GIVE_WAY_EVERY_S = 0.005
GIVE_WAY_S = 0.0001
"""How often, and for how long, a busy event loop lets the writer's thread have the interpreter."""


class Disk:
    """Whether the disk is slow, so that the writer's thread should do the waiting."""

    __slots__ = ("_slow_until",)

    def __init__(self, slow_until: Millis = 0) -> None:
        self._slow_until = slow_until

    def judge(self, took_s: float, now: Millis) -> None:
        """A commit took so long, and is over now."""
        if took_s > SLOW_S:
            self._slow_until = now + int(took_s * 1000) * SLOW_TIMES

    def is_slow(self, now: Millis) -> bool:
        """Whether a commit was slow a short while ago."""
        return now < self._slow_until


class OnCommit(Protocol):
    """Whoever has the disk waited for; is called on the event loop's thread."""

    def committed(self, error: BaseException | None, tidying: bool, took_s: float) -> None:
        """What was written is durable, or is not; the store may still be tidying."""

    def tidied(self, error: BaseException | None) -> None:
        """The store is free again."""


class Writer:
    """Commits and tidies a store, one task at a time, each told to `on_commit` when it is done."""

    def __init__(self, store: Store, on_commit: OnCommit, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._on_commit = on_commit
        self._loop = loop
        self._give_way_at = 0.0
        self._tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def commit(self) -> None:
        """Make durable what was written; then tidy, if the store wants it."""
        self._give_way_at = time.monotonic() + GIVE_WAY_EVERY_S
        self._tasks.put(COMMIT)

    def tidy(self) -> None:
        """Let the store tidy."""
        self._tasks.put(TIDY)

    def give_way(self) -> None:
        """The event loop has turned while the writer is at work: let the writer go on.

        CPython hands the interpreter over to a thread that has waited for 5 ms, unless it was let
        go of meanwhile. A loop that sends and receives without a pause lets go of it often and
        takes it back within microseconds, before the other thread has woken: a commit that was
        done long ago then waited for as long as a flood lasted.
        """
        now = time.monotonic()
        if now >= self._give_way_at:
            self._give_way_at = now + GIVE_WAY_EVERY_S
            time.sleep(GIVE_WAY_S)

    def close(self) -> None:
        """Finish what is under way, and nothing more."""
        self._tasks.put(END)
        self._thread.join(timeout=END_S)

    def _work(self) -> None:
        while task := self._tasks.get():
            error: BaseException | None = None
            tidy = task == TIDY
            if task == COMMIT:
                began = time.monotonic()
                try:
                    self._store.commit()
                    tidy = self._store.wants_tidying()
                except BaseException as failure:
                    error = failure
                self._call(self._on_commit.committed, error, tidy, time.monotonic() - began)
            if tidy:
                try:
                    self._store.tidy()
                except BaseException as failure:
                    error = failure
                self._call(self._on_commit.tidied, error)

    def _call(self, act: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(act, *arguments)
        except RuntimeError:
            return  # the loop is closed: nobody is left to be told
