"""The seven states of a job as people know them, and the six of the core behind them.

A job that waits for its time is *retrying* if it failed or was lost before, else *scheduled*; one
that is leased is *running*. As filters the core's words are taken too.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from franca.control.port import BadRequest
from franca.core.model import Job, State

PUBLIC = ("scheduled", "retrying", "ready", "running", "done", "dead", "cancelled")
OLDER = {"waiting": ("scheduled", "retrying"), "leased": ("running",)}
"""Words of earlier releases, and what they mean."""
ENDED = frozenset({"done", "cancelled"})
"""States whose jobs are remembered by the history alone."""

_CORE = {
    "scheduled": State.WAITING,
    "retrying": State.WAITING,
    "ready": State.READY,
    "running": State.LEASED,
    "done": State.DONE,
    "dead": State.DEAD,
    "cancelled": State.CANCELLED,
}
_NAMES: dict[State, str] = {
    state: name for name, state in _CORE.items() if state is not State.WAITING
}


def public_state(job: Job) -> str:
    """The state of a job in public words."""
    if job.state is State.WAITING:
        return "retrying" if job.failures or job.losses else "scheduled"
    return _NAMES[job.state]


def public_name(state: State) -> str:
    """A state of the core in public words, where it is not known whether the job failed before."""
    return _NAMES.get(state, "scheduled")


class StateFilter(Struct, frozen=True):
    """Which states are asked for; none means all."""

    names: frozenset[str] = frozenset()

    @property
    def core(self) -> tuple[State, ...]:
        """The states of the core that jobs of these may be in."""
        return tuple(sorted({_CORE[name] for name in self.names}))

    def fits(self, job: Job) -> bool:
        """Whether a job is in one of these states."""
        return not self.names or public_state(job) in self.names


def read_states(words: Iterable[str]) -> StateFilter:
    """The states of these names, older words included. `BadRequest` names those there are."""
    names: set[str] = set()
    for word in words:
        if word in OLDER:
            names.update(OLDER[word])
        elif word in _CORE:
            names.add(word)
        else:
            raise BadRequest(f"no state is called {word[:40]!r}: there are {', '.join(PUBLIC)}")
    return StateFilter(frozenset(names))


def states_within(states: Iterable[State]) -> frozenset[str]:
    """The public states that jobs in these states of the core are in."""
    return frozenset(name for name, state in _CORE.items() if state in set(states))
