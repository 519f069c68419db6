"""Finding jobs by filter, page by page; and showing one whole, by id or by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from franca.control import shapes
from franca.control.caller import Caller
from franca.control.fill import ROW_BYTES, job_of, row_of
from franca.control.job_actions import Fits
from franca.control.jobs import Reference, look_up
from franca.control.port import BadRequest, NodePort
from franca.control.query import CHARS_MAX, Filter, Hide, read_filter
from franca.control.states import ENDED, StateFilter, read_states
from franca.core.errors import NotFound
from franca.core.history import Found, Search
from franca.core.model import NEVER, Job, Millis, State

PAGE_JOBS_MAX = 500
LOOK_S = 0.005
"""So long jobs in memory are looked at in one pass of the event loop: a filter may take long."""
LOOKED_AT_MAX = 20_000
"""And for one page."""
PAGES_BACK = 20
"""Pages that a cursor leads back."""
FIRST_PAGE = "first"
Words = Annotated[str, Meta(max_length=200)]
Cursor = Annotated[str, Meta(max_length=4_096)]
Text = Annotated[str, Meta(max_length=CHARS_MAX)]
Key = tuple[int, int]


class SearchJobs(Struct, forbid_unknown_fields=True):
    """Which jobs: in one of these states, and as the filter says.

    `after` is a page's `next`, `before` its `prev`. States are parted by commas.
    """

    state: Words = ""
    q: Text = ""
    after: Cursor = ""
    before: Cursor = ""
    limit: Annotated[int, Meta(ge=1, le=PAGE_JOBS_MAX)] = 50


class GetJob(Struct, forbid_unknown_fields=True):
    """Which job, by id or by name. Of several of one name, the newest."""

    job: Reference


class Wanted(Struct, frozen=True):
    """What a search is about: its states and its filter, and when it was asked."""

    states: StateFilter
    filter: Filter
    now: Millis
    hide: Hide | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but states is said, so that the counts know how many there are."""
        return all(term.field == "state" for term in self.filter.terms)

    def fits(self, job: Job) -> bool:
        """Whether a job is meant."""
        return self.states.fits(job) and self.filter.fits(job, self.now, self.hide)

    def search(self) -> Search:
        """What the store can look up, and what it must ask about each job."""
        asked, names = self.filter, self.states.names
        has_both = {"scheduled", "retrying"} <= names
        waits = "retrying" in names if not has_both and names & {"scheduled", "retrying"} else None
        return Search(
            states=self.states.core,
            queues=asked.looked_up("queue"),
            kinds=asked.looked_up("type"),
            names=asked.exact("name"),
            ids=asked.ids,
            retried=waits,
            since=max(self._since(), default=NEVER),
            until=min(self._until(), default=NEVER),
            fits=None if self.is_plain else self.fits,
            body_bytes=-1 if asked.reads_bodies else ROW_BYTES,
        )

    def _since(self) -> Iterator[Millis]:
        """Moments behind which all that is meant has ended."""
        # Of jobs that have ended: it was after they were submitted.
        are_over = bool(self.states.names) and self.states.names <= {*ENDED, "dead"}
        for operator, span in self.filter.spans("ended", *(("age",) if are_over else ())):
            if operator.startswith("<"):
                yield self.now - span

    def _until(self) -> Iterator[Millis]:
        """Moments before which all that is meant has ended."""
        for operator, span in self.filter.spans("ended"):
            if operator.startswith(">"):
                yield self.now - span + 1


def wanted_of(state: str, q: str, now: Millis) -> Wanted:
    """What is asked for; a state may be said beside the filter, in it, or both."""
    asked = read_filter(q)
    states = read_states(word for word in state.split(",") if word)
    inside = asked.states
    if states.names and inside.names:
        both = states.names & inside.names
        if not both:
            raise BadRequest("no job is in both of these states")
        states = StateFilter(both)
    return Wanted(states if states.names else inside, asked, now)


def _hiding(hide: Hide | None) -> Hide | None:
    """The same for the many texts of a search: of a long one only the beginning is looked at."""
    return None if hide is None else lambda text: hide(text[:ROW_BYTES])


async def search_jobs(caller: Caller, node: NodePort, params: SearchJobs) -> shapes.JobPage:
    """One page of jobs: ended ones by their end, waiting ones by when they run.

    What the caller is not shown is not found either.
    """
    if params.after and params.before:
        raise BadRequest("a page is after another or before one, not both")
    wanted = wanted_of(params.state, params.q, node.clock_ms())
    wanted = replace(wanted, hide=_hiding(caller.hide))
    pages = [page for page in (params.after or params.before).split("~") if page != FIRST_PAGE]
    pages = [page for page in pages if page]
    asked = replace(wanted.search(), cursor=pages[-1] if pages else "", limit=params.limit)
    found = await node.search(asked)
    jobs, looked_at = found.jobs, found.looked_at
    if not pages:
        some, looked = await held_only(node, wanted.fits)
        # They stand on the first page, whose next one begins behind what the store has found.
        jobs = sorted([*some, *jobs], key=_order_of(wanted.states))[: params.limit + len(some)]
        looked_at += looked
    if pages or found.cursor:
        total, is_exact = _total(wanted, await node.observer.counts(node), found)
    else:
        total, is_exact = len(jobs), True  # all are on this page; counts may be a second old
    return shapes.JobPage(
        jobs=[row_of(_as_it_runs(node, job)) for job in jobs],
        total=total,
        total_exact=is_exact,
        scanned=looked_at,
        of=max(found.of, looked_at),
        next="~".join([*pages, found.cursor][-PAGES_BACK:]) if found.cursor else None,
        prev=("~".join(pages[:-1]) or FIRST_PAGE) if pages else None,
    )


async def held_only(node: NodePort, fits: Fits) -> tuple[list[Job], int]:
    """Jobs that the store is not told of, because somebody waits for them; and how many it saw.

    As many as a page has, of as many as are looked at.
    """
    broker = node.engine.broker
    if not broker.volatile.bytes:
        return [], 0
    found: list[Job] = []
    looked = 0
    loop = asyncio.get_running_loop()
    until = loop.time() + LOOK_S
    for job in list(broker.jobs.values()):
        if len(found) >= PAGE_JOBS_MAX or looked >= LOOKED_AT_MAX:
            break
        if loop.time() > until:
            await asyncio.sleep(0)
            until = loop.time() + LOOK_S
        if not job.policy.durable:
            looked += 1
            if fits(job):
                found.append(replace(job, attempt_log=list(job.attempt_log or ())))
    return found, looked


def _order_of(states: StateFilter) -> Callable[[Job], Key]:
    """The order in which the store brings jobs in these states."""
    if states.names and states.names <= ENDED:
        return lambda job: (-job.ended_at, -job.id)
    if states.core == (State.WAITING,):
        return lambda job: (job.run_at, job.id)
    return lambda job: (0, -job.id)


def _as_it_runs(node: NodePort, job: Job) -> Job:
    """What only memory knows of a running job is added to it."""
    held = node.engine.broker.jobs.get(job.id)
    is_same = held is not None and held.state is job.state is State.LEASED
    return replace(held, body=held.body or job.body) if held is not None and is_same else job


def _total(wanted: Wanted, counts: shapes.Counts, found: Found) -> tuple[int, bool]:
    """How many jobs fit, and whether that is exact: else so many at least."""
    if wanted.is_plain:
        names = wanted.states.names or shapes.Counts.__struct_fields__
        return sum(int(getattr(counts, name)) for name in names), True
    if found.total is not None:
        return found.total, True
    return len(found.jobs), False


async def get_job(node: NodePort, params: GetJob) -> shapes.Job:
    """Everything about one job."""
    found = await look_up(node, str(params.job), limit=1)
    if not found:
        raise NotFound(f"there is no job {params.job}")
    told = await asyncio.get_running_loop().run_in_executor(None, job_of, found[0])
    queue = node.engine.broker.queues.get(told.queue)
    told.queue_paused = queue is not None and queue.paused
    return told
