"""Live jobs by queue and key, those that only the store has too: a submit may name any of them.

This is what a unique job in the backlog costs in memory, so `bytes` counts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from franca.core.model import Job, State
from franca.core.stubs import Stub

KEY_BYTES = 330
"""What a key costs beside its own text and the job's name, roughly."""
_READY = State.READY


class Keys:
    """One job to a key. Ready jobs of a backlog are kept apart: they may all go at once."""

    __slots__ = ("_backlog_bytes", "_backlogs", "_others", "bytes")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.bytes = 0
        self._backlogs: dict[str, dict[str, Stub]] = {}
        self._backlog_bytes: dict[str, int] = {}
        self._others: dict[str, dict[str, Job | Stub]] = {}

    def get(self, queue: str, key: str) -> Job | Stub | None:
        """The live job of this queue that has this key, or what is known of it in the backlog."""
        found = self._others.get(queue)
        if found is not None and key in found:
            return found[key]
        backlog = self._backlogs.get(queue)
        return None if backlog is None else backlog.get(key)

    def put(self, taken: Job | Stub) -> None:
        """Let a job have its key, whoever had it before."""
        queue, key = taken.queue, taken.key
        if isinstance(taken, Stub) and taken.state is _READY:
            self._remove(self.get(queue, key))
            self._backlogs.setdefault(queue, {})[key] = taken
            cost = key_cost(taken)
            self.bytes += cost
            self._backlog_bytes[queue] = self._backlog_bytes.get(queue, 0) + cost
            return
        if self._backlogs:
            backlog = self._backlogs.get(queue)
            if backlog is not None and key in backlog:
                self._remove(backlog[key])
        others = self._others.get(queue)
        if others is None:
            others = self._others[queue] = {}
        before = others.get(key)
        if before is not taken:
            if before is not None:
                self.bytes -= key_cost(before)
            # As `key_cost`, without a call: every job with a key comes here.
            self.bytes += KEY_BYTES + len(key) + len(taken.name)
            others[key] = taken

    def drop(self, taken: Job | Stub) -> None:
        """A job has its key no longer; nothing happens if another one has it."""
        key = taken.key
        others = self._others.get(taken.queue)
        if others is not None:
            before = others.get(key)
            if before is not None:
                if before.id == taken.id:
                    del others[key]
                    self.bytes -= KEY_BYTES + len(key) + len(before.name)
                return
        if self._backlogs:
            backlog = self._backlogs.get(taken.queue)
            known = None if backlog is None else backlog.get(key)
            if known is not None and known.id == taken.id:
                self._remove(known)

    def _remove(self, taken: Job | Stub | None) -> None:
        if taken is None:
            return
        queue, key = taken.queue, taken.key
        self.bytes -= key_cost(taken)
        others = self._others.get(queue)
        if others is not None and others.pop(key, None) is not None:
            return
        backlog = self._backlogs[queue]
        del backlog[key]
        self._backlog_bytes[queue] -= key_cost(taken)
        if not backlog:
            del self._backlogs[queue], self._backlog_bytes[queue]

    def forget_queue(self, queue: str) -> None:
        """There is no queue of that name any more."""
        if queue in self._others and not self._others[queue]:
            del self._others[queue]

    def in_backlog(self, queue: str) -> Iterable[Stub]:
        """What is known of the ready jobs of a queue's backlog."""
        return self._backlogs.get(queue, {}).values()

    def take_backlog(self, queue: str) -> list[Stub]:
        """Forget the ready jobs of a queue's backlog; returns what was known of them.

        They are not looked at one by one, because they may be very many.
        """
        self.bytes -= self._backlog_bytes.pop(queue, 0)
        return list(self._backlogs.pop(queue, {}).values())

    def take_all(self) -> list[Job | Stub]:
        """Forget everything; returns what there was."""
        found = [taken for _, taken in self.items()]
        self._clear()
        return found

    def items(self) -> Iterator[tuple[tuple[str, str], Job | Stub]]:
        """Every queue and key with the job that has it."""
        for queue, others in self._others.items():
            for key, taken in others.items():
                yield (queue, key), taken
        for queue, backlog in self._backlogs.items():
            for key, known in backlog.items():
                yield (queue, key), known


def key_cost(taken: Job | Stub) -> int:
    """What a key takes in memory, roughly."""
    return KEY_BYTES + len(taken.key) + len(taken.name)
