"""MUTATE: which jobs of one of the three sets are to be changed, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Raw, Struct

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Job, Millis, State
from franca.protocols.faktory.glob import Glob
from franca.protocols.faktory.lenient import Reader
from franca.protocols.faktory.messages import Filter, Mutate

MUTATION_BYTES_MAX: Final = 512 * 1024
JIDS_MAX: Final = 10_000
PATTERN_BYTES_MAX: Final = 4_096
CLASSES_MAX: Final = 64
"""Different classes, such as `[a-z]`, in one pattern."""
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
    pattern: Glob | None = None


def read_mutation(text: bytes) -> Order:
    """What a MUTATE asks for, or `Unreadable` or `UnknownMutation`."""
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
        if len(chosen.jids) > JIDS_MAX:
            raise UnknownMutation(f"a mutation cannot name more than {JIDS_MAX} jobs")
        return Order(change, target, jids=tuple(dict.fromkeys(j or "" for j in chosen.jids)))
    jobtype = chosen.jobtype or ""
    pattern = chosen.regexp or ""
    if not pattern and not _WILD.isdisjoint(jobtype):
        # Alone, a type is a pattern too: the original looks for it in the text of the job.
        quoted = jobtype.replace("\\", "\\\\").replace('"', '\\"')
        pattern, jobtype = f'*"jobtype":"{quoted}"*', ""
    return Order(change, target, jobtype=jobtype, pattern=_glob(pattern) if pattern else None)


def _glob(pattern: str) -> Glob:
    if len(pattern) > PATTERN_BYTES_MAX or len(pattern.encode()) > PATTERN_BYTES_MAX:
        raise UnknownMutation(f"a pattern cannot be longer than {PATTERN_BYTES_MAX} bytes")
    glob = Glob(pattern.encode())
    if glob.classes > CLASSES_MAX:
        raise UnknownMutation(f"a pattern cannot have more than {CLASSES_MAX} different classes")
    return glob
