"""Messages that take long, of all connections together: in each turn some of them, in fair order.

Each connection has its share of a turn, but a few hundred of them with a job that thousands wait
for, or with thousands of functions, would make one turn take seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.model import NEVER, JobId, Millis

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

HEAVY_A_TURN: Final = 10_000
"""Functions looked at and words told to others; beyond it further workers act in a later turn."""

CROWDS_KEPT: Final = 8_000
"""Clients that left were told of no end, so the oldest may be over."""


class Heavy:
    """Workers that wait for their turn. While there is no such thing, `busy` is False.

    Only those who can do thousands of functions wait, and those who run jobs in `crowds`.
    """

    __slots__ = ("_at", "_done", "_put_off", "_turn", "_waiting", "busy", "crowds")

    def __init__(self) -> None:
        self.busy = False
        self.crowds: dict[JobId, None] = {}
        self._at: Millis = NEVER
        self._done = 0
        self._put_off = 0
        self._turn = 1
        self._waiting: dict[GearmanConversation, None] = {}

    def gather(self, job_id: JobId) -> None:
        """Many wait for this job."""
        self.crowds[job_id] = None
        if len(self.crowds) > CROWDS_KEPT:
            del self.crowds[next(iter(self.crowds))]

    def add(self, size: int, now: Millis) -> None:
        """So much was done at once."""
        if now != self._at:
            self._begin(now)
        self._done += size
        self.busy = self.busy or self._done > HEAVY_A_TURN

    def must_wait(self, worker: GearmanConversation, data: bytes, now: Millis) -> bool:
        """Whether a worker must act in a later turn; to be asked while `busy`.

        Each that waits is called without `data` once a turn, so more calls than there are of them
        are another turn. Who waits longest goes first, unless it cannot go at all.
        """
        waiting = self._waiting
        if now != self._at or self._put_off > len(waiting):
            self._begin(now)
        worker.called_in = self._turn
        if self._done <= HEAVY_A_TURN and (not waiting or next(iter(waiting)) is worker):
            waiting.pop(worker, None)
            return False
        waiting[worker] = None
        self._put_off += not data
        return True

    def forget(self, worker: GearmanConversation) -> None:
        """It is gone."""
        self._waiting.pop(worker, None)

    def _begin(self, now: Millis) -> None:
        waiting = self._waiting
        if waiting and next(iter(waiting)).called_in != self._turn:
            del waiting[next(iter(waiting))]  # nobody calls it: it would keep the others waiting
        self.busy = bool(waiting)
        self._at = now
        self._done = self._put_off = 0
        self._turn += 1
