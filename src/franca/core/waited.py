"""Jobs that only the store has and that somebody watches: who empties a tail unseen must tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from franca.core.known import Known
from franca.core.model import Job, JobId


class WaitedFor:
    """What is known of each. Of some only the id, until what is known of them is come across.

    Whoever watches a job names its id. Where the job lies is then known by its key or its name, and
    an index by id beside these would cost as much as they do.
    """

    __slots__ = ("_known", "_unseen")

    def __init__(self) -> None:
        self._known: dict[JobId, Known] = {}
        self._unseen: dict[JobId, None] = {}

    def __iter__(self) -> Iterator[JobId]:
        yield from self._known
        yield from self._unseen

    def __bool__(self) -> bool:
        return bool(self._known or self._unseen)

    def note(self, known: Known) -> None:
        """A job that is watched goes into the tail, or is watched there."""
        self._known[known.id] = known
        self._unseen.pop(known.id, None)

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
        if self._known.pop(job_id, None) is None:
            self._unseen.pop(job_id, None)

    def known(self) -> list[Known]:
        """What is known of those of which anything is."""
        return list(self._known.values())

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._unseen.clear()
