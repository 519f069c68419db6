"""Mutations on their way through the store.

The jobs may be in the store alone, so they are recalled page by page, each page changed in the
turn that brings it, in order of their ids. Whoever asks for a page has its turn when those who
asked before have had theirs. So those who go through a whole set ask one after another, and nobody
who names jobs, nor an operator, waits for more than one page of them. Those with a pattern are a
line of their own: a large job is searched over many turns, and only one such job is to be in memory
for it. A mutation whose client is gone goes on while nobody waits who is there; it ends if there
are so many that others would be refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Job, JobId, JobQuery, Millis
from franca.protocols.conversation import Link
from franca.protocols.faktory.glob import Search, Share
from franca.protocols.faktory.mutate import Order, UnknownMutation
from franca.protocols.faktory.render import Renderer

PAGE_JOBS: Final = 200
"""Jobs changed in one turn, and names asked for at once."""
SHARE: Final = 10_000_000
"""What one turn may cost, in about nanoseconds."""
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
"""What all mutations that are under way may take; one always may."""
_JOB_COST: Final = 20_000
_BYTE_COST: Final = 3
_MUTATION_BYTES: Final = 2_000
_JID_BYTES: Final = 100
_PATTERN_BYTES: Final = 40_000
_NOBODY: Final = JobQuery(ids=(0,), limit=1)
"""No job has this id: the answer is nothing, and comes in a later turn."""

Fingerprint = tuple[int, int, Millis, Millis]


class Found(Struct, frozen=True):
    """A job that is searched over several turns, as it was when that began."""

    id: JobId
    fingerprint: Fingerprint
    search: Search


class Mutations:
    """All mutations that are under way."""

    def __init__(self, broker: Broker, renderer: Renderer) -> None:
        self.broker = broker
        self.renderer = renderer
        self._searching: deque[Mutation] = deque()
        self._walking: deque[Mutation] = deque()
        self._bytes = 0

    def begin(self, order: Order, link: Link, done: Callable[[], None]) -> None:
        """Start on a mutation; `done` is called in the turn that ends it. Refused if too many."""
        line: deque[Mutation] = self._searching if order.pattern else self._walking
        if order.jids:
            line = deque()
        mutation = Mutation(order, self, line, link, done)
        if not self._has_room(mutation):
            self._drop_gone(self._searching)
            self._drop_gone(self._walking)
            if not self._has_room(mutation):
                raise UnknownMutation("too many mutations are under way, try again later")
        self._bytes += mutation.size
        line.append(mutation)
        if len(line) == 1:
            mutation.ask()

    def next(self, line: deque[Mutation], *, ended: bool) -> None:
        """The first of the line has had its turn."""
        if ended:
            self._bytes -= line.popleft().size
        else:
            line.rotate(-1)
        for _ in range(len(line)):
            if not line[0].link.closed:
                break
            line.rotate(-1)
        if line:
            line[0].ask()

    def _has_room(self, mutation: Mutation) -> bool:
        return not self._bytes or self._bytes + mutation.size <= WAITING_BYTES_MAX

    def _drop_gone(self, line: deque[Mutation]) -> None:
        """Let those of a line end whose clients are gone; but not its first, whose page comes."""
        gone = [mutation for mutation in islice(line, 1, None) if mutation.link.closed]
        if gone:
            dropped = set(gone)
            rest = [mutation for mutation in line if mutation not in dropped]
            line.clear()
            line.extend(rest)
            self._bytes -= sum(mutation.size for mutation in gone)


class Mutation:
    """One order under way. What it takes in memory is its `size`."""

    def __init__(
        self,
        order: Order,
        mutations: Mutations,
        line: deque[Mutation],
        link: Link,
        done: Callable[[], None],
    ) -> None:
        self.link = link
        self._order = order
        self._all = mutations
        self._line = line
        self._done = done
        jids = order.jids
        self.size = _MUTATION_BYTES + sum(map(len, jids)) + _JID_BYTES * len(jids)
        self.size += _PATTERN_BYTES if order.pattern else 0
        self._names: list[tuple[str, ...]] = [
            jids[start : start + PAGE_JOBS] for start in range(0, len(jids), PAGE_JOBS)
        ] or [()]
        self._names.reverse()
        self._after: JobId = 0
        self._limit = PAGE_JOBS
        self._was_empty = False
        self._share = Share()
        self._searched: Found | None = None
        self._chosen: Found | None = None

    def ask(self) -> None:
        """Ask for the next page, or for the one job that was found to be meant."""
        states = (self._order.target.state,)
        query = JobQuery(states=states, names=self._names[-1], after=self._after, limit=self._limit)
        if self._searched is not None:
            query = _NOBODY
        elif self._chosen is not None:
            query = JobQuery(states=states, ids=(self._chosen.id,), limit=1)
        self._all.broker.recall(query, self)

    def recalled(self, query: JobQuery, jobs: Sequence[Job], now: Millis) -> None:
        """Do a turn's share of the work, and let the next one have its turn."""
        ended = True  # also if something is wrong here: the others must go on
        self._share.left = SHARE
        try:
            if self._searched is not None:
                self._search(self._searched)
            elif self._chosen is not None:
                self._change_chosen(self._chosen, jobs, now)
            else:
                self._change_some(jobs, now)
            ended = not self._names
        finally:
            if self._searched is not None and not ended:
                self.ask()  # nobody else of the line may keep a large job in memory meanwhile
            else:
                self._all.next(self._line, ended=ended)
        if ended:
            self._done()

    def _change_some(self, jobs: Sequence[Job], now: Millis) -> None:
        """Change what is to be changed of a page, as far as the share goes.

        A page may have fewer jobs than it could. Those that left the set since it was read are not
        in it, so one empty page may stand before a full one; two in a row are the end. Jobs that
        are named are few, and one empty page is the end of them.
        """
        if not jobs and (self._was_empty or self._names[-1]):
            self._was_empty = False
            self._after = 0
            self._names.pop()
            return
        self._was_empty = not jobs
        for number, job in enumerate(jobs, 1):
            self._after = job.id
            if self._is_meant(job):
                self._change(job, now)
            if self._share.left <= 0:
                self._limit = number  # the rest will be read again
                return
        self._limit = min(2 * self._limit, PAGE_JOBS)

    def _is_meant(self, job: Job) -> bool:
        """Whether this job is to be changed now; if that takes long to see, it is not yet."""
        order, share = self._order, self._share
        share.left -= _JOB_COST
        if not order.target.holds(job) or (order.jobtype and job.kind != order.jobtype):
            return False
        if order.pattern is None:
            return True
        text = self._all.renderer.stored(job)
        share.left -= _BYTE_COST * len(text)
        search = order.pattern.match(text, share)
        try:
            next(search)
        except StopIteration as end:
            return bool(end.value)
        self._searched = Found(job.id, _fingerprint(job), search)
        return False

    def _search(self, job: Found) -> None:
        try:
            next(job.search)
        except StopIteration as end:
            self._searched = None
            self._chosen = job if end.value else None

    def _change_chosen(self, chosen: Found, jobs: Sequence[Job], now: Millis) -> None:
        """Change a job if it is still as it was when it was looked at first."""
        self._chosen = None
        for job in jobs:
            if _fingerprint(job) == chosen.fingerprint and self._order.target.holds(job):
                self._change(job, now)

    def _change(self, job: Job, now: Millis) -> None:
        try:
            self._order.change(self._all.broker, job, now)
        except Refused:
            pass  # another job has taken its place meanwhile


def _fingerprint(job: Job) -> Fingerprint:
    return job.attempts, job.failures, job.run_at, job.ready_at
