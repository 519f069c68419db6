"""Jobs that only the store has and that somebody watches: who empties a tail unseen must tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from franca.core.known import Known
from franca.core.model import Job, JobId, State

READY = State.READY


class WaitedFor:
    """What is known of each. Of some only the id, until what is known of them is come across.

    Whoever watches a job names its id. Where the job lies is then known by its key or its name, and
    an index by id beside these would cost as much as they do. Ready ones are found by their queue,
    too: they may all go at once.
    """

    __slots__ = ("_known", "_ready", "_unseen")

    def __init__(self) -> None:
        self._known: dict[JobId, Known] = {}
        self._ready: dict[str, dict[JobId, Known]] = {}
        self._unseen: dict[JobId, None] = {}

    def __iter__(self) -> Iterator[JobId]:
        yield from self._known
        yield from self._unseen

    def __bool__(self) -> bool:
        return bool(self._known or self._unseen)

    def note(self, known: Known) -> None:
        """A job that is watched goes into the tail, or is watched there."""
        self.drop(known.id)
        self._known[known.id] = known
        if known.state is READY:
            self._ready.setdefault(known.queue, {})[known.id] = known

    def note_unseen(self, job_id: JobId) -> None:
        """The same of a job that nothing but its id is known of here."""
        if job_id not in self._known:
            self._unseen[job_id] = None

    def learn_from(self, found: Iterable[Job | Known]) -> None:
        """Look among these for jobs that only their ids were known of."""
        if self._unseen:
            for known in found:
                if known.id in self._unseen and isinstance(known, Known):
                    self.note(known)

    def drop(self, job_id: JobId) -> None:
        """A job has left the tail, or is watched no more."""
        known = self._known.pop(job_id, None)
        if known is None:
            self._unseen.pop(job_id, None)
        elif known.state is READY:
            ready = self._ready[known.queue]
            del ready[job_id]
            if not ready:
                del self._ready[known.queue]

    def take_ready(self, queue: str) -> dict[JobId, Known]:
        """Forget the ready jobs of one queue of which more than the id is known; returns them."""
        taken = self._ready.pop(queue, {})
        for job_id in taken:
            del self._known[job_id]
        return taken

    def take_all(self) -> dict[JobId, Known]:
        """Forget all of them; returns those of which more than the id is known."""
        taken, self._known = self._known, {}
        self._ready.clear()
        self._unseen.clear()
        return taken
