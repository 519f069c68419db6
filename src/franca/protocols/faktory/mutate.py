"""MUTATE: change many jobs of one of the three sets, wherever they lie.

The jobs may be in the store alone, so they are recalled page by page, each page changed in the
turn that brings it, in order of their ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Job, JobQuery, Millis, State
from franca.protocols.conversation import Link
from franca.protocols.faktory.lenient import Reader
from franca.protocols.faktory.messages import Filter, Mutate
from franca.protocols.faktory.render import Renderer

PAGE_JOBS: Final = 200
"""Jobs changed in one turn, and names asked for at once."""
MUTATION_BYTES_MAX: Final = 4 * 1024 * 1024
PATTERN_BYTES_MAX: Final = 4_096
_WILD: Final = frozenset("*?[")

_MUTATE: Final = Reader(Mutate)
_FILTER: Final = Reader(Filter)


class UnknownMutation(Refused):
    """There is no such change, or no such set."""

    code = "unknown-mutation"


class Target(Struct, frozen=True):
    """One of the sets: jobs in this state, and whether they have failed before."""

    state: State
    failed: bool | None = None

    def holds(self, job: Job) -> bool:
        """Whether a job is in this set now."""
        return job.state is self.state and self.failed in (None, job.failures > 0)


Change = Callable[[Broker, Job, Millis], None]

_TARGETS: Final[Mapping[str, Target]] = {
    "retries": Target(State.WAITING, failed=True),
    "scheduled": Target(State.WAITING, failed=False),
    "dead": Target(State.DEAD),
}
_CHANGES: Final[Mapping[str, Change]] = {
    "clear": Broker.cancel,
    "discard": Broker.cancel,
    "kill": Broker.kill,
    "requeue": Broker.retry,
}


class Order(Struct, frozen=True):
    """A mutation that was understood. Named jobs are chosen by their names alone."""

    change: Change
    target: Target
    jids: tuple[str, ...] = ()
    jobtype: str = ""
    pattern: re.Pattern[bytes] | None = None


def read_mutation(text: bytes) -> Order:
    """What a MUTATE asks for, or `Unreadable` or `UnknownMutation`."""
    if len(text) > MUTATION_BYTES_MAX:
        raise UnknownMutation(f"a mutation cannot be longer than {MUTATION_BYTES_MAX} bytes")
    said = _MUTATE.read(text)
    change = _CHANGES.get(said.cmd or "")
    if change is None:
        raise UnknownMutation("unknown mutate operation")
    target = _TARGETS.get(said.target or "")
    if target is None:
        raise UnknownMutation("invalid target for mutation command")
    if said.cmd == "clear" or not isinstance(said.filter, Raw):
        return Order(change, target)
    chosen = _FILTER.read(bytes(said.filter))
    if chosen.jids:
        return Order(change, target, jids=tuple(dict.fromkeys(j or "" for j in chosen.jids)))
    jobtype = chosen.jobtype or ""
    pattern = chosen.regexp or ""
    if not pattern and not _WILD.isdisjoint(jobtype):
        # Alone, a type is a pattern too: the original looks for it in the text of the job.
        quoted = jobtype.replace("\\", "\\\\").replace('"', '\\"')
        pattern, jobtype = f'*"jobtype":"{quoted}"*', ""
    if len(pattern.encode()) > PATTERN_BYTES_MAX:
        raise UnknownMutation(f"a pattern cannot be longer than {PATTERN_BYTES_MAX} bytes")
    glob = re.compile(translate_glob(pattern.encode()), re.DOTALL) if pattern else None
    return Order(change, target, jobtype=jobtype, pattern=glob)


class Mutation:
    """One order on its way through the store; `done` is called in the turn that ends it."""

    def __init__(
        self, order: Order, broker: Broker, renderer: Renderer, link: Link, done: Callable[[], None]
    ) -> None:
        self.link = link
        self._order = order
        self._broker = broker
        self._renderer = renderer
        self._done = done
        jids = order.jids
        self._names: list[tuple[str, ...]] = [
            jids[start : start + PAGE_JOBS] for start in range(0, len(jids), PAGE_JOBS)
        ] or [()]
        self._names.reverse()
        self._was_empty = False

    def start(self) -> None:
        """Ask for the first page."""
        self._ask(0)

    def _ask(self, after: int) -> None:
        states = (self._order.target.state,)
        query = JobQuery(states=states, names=self._names[-1], after=after, limit=PAGE_JOBS)
        self._broker.recall(query, self)

    def recalled(self, query: JobQuery, jobs: Sequence[Job], now: Millis) -> None:
        """Change what is to be changed of a page, and ask for the next one.

        A page may have fewer jobs than it could. Those that left the set since it was read are not
        in it, so one empty page may stand before a full one; two in a row are the end. Jobs that
        are named are few, and one empty page is the end of them.
        """
        for job in jobs:
            if self._is_meant(job):
                try:
                    self._order.change(self._broker, job, now)
                except Refused:
                    continue  # another job has taken its place meanwhile
        if jobs or not (self._was_empty or query.names):
            self._was_empty = not jobs
            self._ask(jobs[-1].id if jobs else query.after)
            return
        self._was_empty = False
        self._names.pop()
        if self._names:
            self._ask(0)
        else:
            self._done()

    def _is_meant(self, job: Job) -> bool:
        order = self._order
        if not order.target.holds(job):
            return False
        if order.jobtype and job.kind != order.jobtype:
            return False
        return order.pattern is None or bool(order.pattern.fullmatch(self._renderer.stored(job)))


# -- patterns ------------------------------------------------------------------------------------


def translate_glob(glob: bytes) -> bytes:
    """A regular expression for a Redis pattern: `*`, `?`, `[a-z]`, `[^a]`, and `\\` before any.

    Each star gives way to the first place where what follows it fits and never looks again,
    which finds every match and keeps a hostile pattern from taking for ever.
    """
    pieces = [b""]
    at = 0
    while at < len(glob):
        byte = glob[at : at + 1]
        at += 1
        if byte == b"*":
            pieces.append(b"")
        elif byte == b"?":
            pieces[-1] += b"."
        elif byte == b"[":
            members, at = _members(glob, at)
            pieces[-1] += members
        else:
            if byte == b"\\" and at < len(glob):
                byte = glob[at : at + 1]
                at += 1
            pieces[-1] += re.escape(byte)
    if len(pieces) == 1:
        return pieces[0]
    middle = b"".join(b"(?>.*?%b)" % piece for piece in pieces[1:-1] if piece)
    return pieces[0] + middle + b".*" + pieces[-1]


def _members(glob: bytes, at: int) -> tuple[bytes, int]:
    """The class that begins behind a `[`, and where the pattern goes on."""
    negated = glob[at : at + 1] == b"^"
    at += negated
    members: set[int] = set()
    while at < len(glob) and glob[at] != ord("]"):
        if glob[at] == ord("\\") and at + 1 < len(glob):
            at += 1
        elif glob[at + 1 : at + 2] == b"-" and at + 2 < len(glob):
            low, high = sorted((glob[at], glob[at + 2]))
            members.update(range(low, high + 1))
            at += 3
            continue
        members.add(glob[at])
        at += 1
    if not members:
        return b"." if negated else b"(?!)", at + 1
    listed = b"".join(b"\\x%02x" % byte for byte in sorted(members))
    return (b"[^%b]" if negated else b"[%b]") % listed, at + 1
