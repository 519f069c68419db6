"""Workers and schedulers: who they are, when they were heard last, who has fallen silent.

Any message counts as a heartbeat, and every peer that INFORMed is sent one regularly: a job
manager starts its processes on the first one it hears. A worker that says goodbye finishes its
jobs in silence, so from then on only its connection tells whether it lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from franca.core.model import Job, Millis, Session
from franca.protocols.conversation import WorkerView
from franca.protocols.eventmq.queues import Weighted

BEAT_EVERY_MS: Final = 3_000
SILENCE_MS: Final = 10_000
"""A worker that said nothing for so long is taken for gone. (The original: 5 to 15 s.)"""


LOST_AT_ONCE: Final = 100
"""Of those, how many are let go of in one tick."""
QUEUE_COSTS_BYTES: Final = 256
"""What it costs to know that a worker serves a queue, besides the name."""


class Party(Protocol):
    """The conversation of a peer that INFORMed, as far as the registry needs to reach it."""

    session: Session

    def hear(self, message: Sequence[bytes]) -> None:
        """Be told something, unless one does not even read."""

    def fell_silent(self, now: Millis) -> bool:
        """Take the peer for gone; False if it may have been we who did not listen."""

    def slots(self) -> int:
        """How many more jobs it would take now."""

    def held(self) -> Iterable[Job]:
        """The jobs that it has now."""

    def leave(self) -> None:
        """Give it no more jobs."""

    def stop(self) -> None:
        """Say goodbye, and give it no more jobs."""


class Member(Struct, eq=False):
    """A peer that INFORMed: a worker, or a scheduler, which serves no queues."""

    name: str
    party: Party
    queues: tuple[Weighted, ...]
    since: Millis
    heard_at: Millis
    host: str = ""
    leaving: bool = False
    gone: bool = False
    handed: int = 0
    done: int = 0

    def size(self) -> int:
        """How much memory what it named takes, roughly."""
        return sum(QUEUE_COSTS_BYTES + len(name) for _, name in self.queues)


class Members:
    """All workers, or all schedulers. `bytes` is what the queues that they named take together."""

    def __init__(self) -> None:
        self.all: dict[Member, None] = {}
        self.bytes = 0
        self.lost = 0
        self._by_name: dict[str, Member] = {}
        self._by_holder: dict[str, Member] = {}

    def join(self, member: Member) -> None:
        """A peer has INFORMed."""
        self.all[member] = None
        self.bytes += member.size()
        self._by_name[member.name] = member
        self._by_holder[member.party.session.holder] = member

    def leave(self, member: Member) -> None:
        """It is gone."""
        if member in self.all:
            del self.all[member]
            member.gone = True
            self.bytes -= member.size()
            self._by_name.pop(member.name, None)
            self._by_holder.pop(member.party.session.holder, None)

    def tell(self, message: Sequence[bytes]) -> None:
        """Tell everybody the same, in pieces that are there once."""
        for member in self.all:
            member.party.hear(message)

    def lose_silent(self, now: Millis) -> bool:
        """Let go of those who were not heard for too long; True if there may be more of them."""
        silent = [m for m in self.all if now - m.heard_at > SILENCE_MS and not m.leaving]
        lost = 0
        for member in silent:
            lost += member.party.fell_silent(now)
            if lost == LOST_AT_ONCE:
                return True
        return False

    def busy(self) -> int:
        """How many of them still run jobs."""
        return sum(any(True for _ in member.party.held()) for member in self.all)

    def by_holder(self, holder: str) -> Member | None:
        """The member whose session goes by this name."""
        return self._by_holder.get(holder)

    def by_name(self, name: str) -> Member | None:
        """The member that goes by this name."""
        return self._by_name.get(name)

    def views(self, protocol: str) -> list[WorkerView]:
        """The workers as operators see them."""
        return [
            WorkerView(
                name=m.name,
                protocol=protocol,
                host=m.host,
                pid=0,
                labels=(),
                state="leaving" if m.leaving else "running",
                started_at=m.since,
                seen_at=m.heard_at,
                rss_kb=0,
                connections=1,
                queues=[queue for _, queue in m.queues],
            )
            for m in self.all
        ]
