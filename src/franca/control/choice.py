"""How operators say which jobs they mean: by reference, by state.

A reference is a job's id or its public name; digits are tried as an id first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

from franca.control.port import BadRequest
from franca.control.views import STATES
from franca.core.broker import Broker
from franca.core.model import JobId, JobQuery, State

NAMES_MAX = 10_000
"""Names or references in one request."""
ID_MAX = 2**63 - 1

Names = Annotated[list[str], Meta(max_length=NAMES_MAX)]
States = Annotated[list[str], Meta(max_length=len(STATES))]
Reference = str | Annotated[int, Meta(ge=-ID_MAX, le=ID_MAX)]


def held_ids(broker: Broker, query: JobQuery) -> list[JobId]:
    """The ids of jobs in memory that a query by ids or names means. The jobs may be very many."""
    ids = [job_id for job_id in query.ids if job_id in broker.jobs]
    for name in query.names:
        ids += broker.ids_named(name)
    return ids


def by_ids(words: Iterable[str], states: tuple[State, ...] = ()) -> JobQuery | None:
    """A search for those references that may be ids, if any may."""
    ids = tuple(int(word) for word in words if _may_be_id(word))
    return JobQuery(states=states, ids=ids, limit=len(ids)) if ids else None


def by_names(words: Iterable[str], states: tuple[State, ...] = ()) -> JobQuery | None:
    """A search for references by name, if there are any."""
    names = tuple(words)
    if not names:
        return None
    return JobQuery(states=states, names=names, limit=NAMES_MAX, with_bodies=False)


def _may_be_id(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 19


def states_of(names: Iterable[str]) -> tuple[State, ...]:
    """The states of these names."""
    unknown = [name for name in names if name not in STATES]
    if unknown:
        raise BadRequest(f"no state is called {unknown[0]!r}: there are {', '.join(STATES)}")
    return tuple(STATES[name] for name in names)
