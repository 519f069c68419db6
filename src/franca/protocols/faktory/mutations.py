"""MUTATE: which jobs of one of the three sets are to be changed, and how; and the change itself.

The jobs may be in the store alone, so they are recalled page by page, each page changed in the
turn that brings it, in order of their ids. Mutations of a whole set take turns, one page each, so
that mutations that name jobs, and operators, wait for no more than one page of them. Those with a
pattern have a line of their own: a large job is searched over many turns, and only one such job is
to be in memory. A mutation whose client is gone goes on while no other waits; it is dropped if
others would be refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Job, JobId, JobQuery, Millis, State
from franca.protocols.conversation import Link
from franca.protocols.faktory.glob import Glob, Search, Share
from franca.protocols.faktory.go_json import Reader, Unfit
from franca.protocols.faktory.messages import Filter, Mutate
from franca.protocols.faktory.render import Renderer

MUTATION_BYTES_MAX: Final = 512 * 1024
JIDS_MAX: Final = 10_000
PATTERN_BYTES_MAX: Final = 4_096
CLASSES_MAX: Final = 64
"""Different classes, such as `[a-z]`, in one pattern."""
PAGE_JOBS: Final = 200
"""Jobs changed in one turn, and names asked for at once."""
SHARE: Final = 10_000_000
"""What one turn may cost, in about nanoseconds."""
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
"""What all mutations that are under way may take; one always may."""
_WILD: Final = frozenset("*?[")
_JOB_COST: Final = 20_000
_BYTE_COST: Final = 3
_MUTATION_BYTES: Final = 2_000
_JID_BYTES: Final = 100
_PATTERN_BYTES: Final = 40_000
_NOBODY: Final = JobQuery(ids=(0,), limit=1)
"""No job has this id: the answer is nothing, and comes in a later turn."""

_MUTATE: Final = Reader(Mutate)
_FILTER: Final = Reader(Filter)

Steps = Generator[JobQuery, tuple[Sequence[Job], Millis], None]
"""Work that ends its turn with each `yield`, which asks for jobs and brings them and the time."""
Fingerprint = tuple[int, int, Millis, Millis]


# -- what is asked for -------------------------------------------------------------------------


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
    """A mutation as it was read. Jobs that are named are chosen by their names alone."""

    change: Change
    target: Target
    jids: tuple[str, ...] = ()
    jobtype: str = ""
    pattern: Glob | None = None


def read_mutation(text: bytes) -> Order:
    """What a MUTATE asks for, or `Unreadable` or `Unfit`."""
    said = _MUTATE.read(text)
    change = _CHANGES.get(said.cmd or "")
    if change is None:
        raise Unfit("unknown mutate operation")
    target = _TARGETS.get(said.target or "")
    if target is None:
        raise Unfit("invalid target for mutation command")
    if said.cmd == "clear" or not isinstance(said.filter, Raw):
        return Order(change, target)
    chosen = _FILTER.read(bytes(said.filter))
    if chosen.jids:
        if len(chosen.jids) > JIDS_MAX:
            raise Unfit(f"a mutation cannot name more than {JIDS_MAX} jobs")
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
        raise Unfit(f"a pattern cannot be longer than {PATTERN_BYTES_MAX} bytes")
    glob = Glob(pattern.encode())
    if glob.classes > CLASSES_MAX:
        raise Unfit(f"a pattern cannot have more than {CLASSES_MAX} different classes")
    return glob


# -- all that are under way --------------------------------------------------------------------


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
        size = _MUTATION_BYTES + sum(map(len, order.jids)) + _JID_BYTES * len(order.jids)
        size += _PATTERN_BYTES if order.pattern else 0
        steps = _change_all(order, self.broker, self.renderer)
        mutation = Mutation(link, size, steps, next(steps), line, self, done)
        if not self._has_room(mutation):
            self._drop_gone(self._searching)
            self._drop_gone(self._walking)
            if not self._has_room(mutation):
                raise Unfit("too many mutations are under way, try again later")
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
        """Drop those of a line whose clients are gone; but not the first, which has asked."""
        for place, mutation in enumerate(list(line)):
            if place and mutation.link.closed:
                line.remove(mutation)
                self._bytes -= mutation.size


class Mutation(Struct, eq=False):
    """One order under way: what it takes in memory, its steps, and what the next of them needs."""

    link: Link
    size: int
    steps: Steps
    query: JobQuery
    line: deque[Mutation]
    mutations: Mutations
    done: Callable[[], None]

    def ask(self) -> None:
        """Ask for what the next step needs."""
        self.mutations.broker.recall(self.query, self)

    def recalled(self, query: JobQuery, jobs: Sequence[Job], now: Millis) -> None:
        """Do a turn's share of the work, and let the next one have its turn."""
        ended = True  # also after an exception: the others must go on
        try:
            self.query = self.steps.send((jobs, now))
            ended = False
        except StopIteration:
            self.done()
        finally:
            if self.query is _NOBODY and not ended:
                self.ask()  # no other of the line may have a large job in memory meanwhile
            else:
                self.mutations.next(self.line, ended=ended)


# -- one of them, step by step -----------------------------------------------------------------


def _change_all(order: Order, broker: Broker, renderer: Renderer) -> Steps:
    """Change what is to be changed, page by page.

    A page may have fewer jobs than it could. Those that left the set since it was read are not in
    it, so one empty page may stand before a full one; two in a row are the end. Jobs that are named
    are few, and one empty page is the end of them.
    """
    states = (order.target.state,)
    share = Share()
    limit = PAGE_JOBS
    for start in range(0, len(order.jids) or 1, PAGE_JOBS):
        names = order.jids[start : start + PAGE_JOBS]
        after, was_empty = 0, False
        while True:
            jobs, now = yield JobQuery(states=states, names=names, after=after, limit=limit)
            if not jobs and (was_empty or names):
                break
            was_empty = not jobs
            limit = min(2 * limit, PAGE_JOBS)
            share.left = SHARE
            for number, job in enumerate(jobs, 1):
                after = job.id
                search = _search(order, job, renderer, share)
                is_meant = _searched(search)
                if is_meant:
                    _change(order, broker, job, now)
                if share.left <= 0:
                    limit = number  # the rest will be read again
                    break
            else:
                continue
            if is_meant is None:
                found = job.id, _fingerprint(job)
                del jobs, job
                yield from _change_if_found(order, broker, found, search, share)


def _change_if_found(
    order: Order, broker: Broker, found: tuple[JobId, Fingerprint], search: Search, share: Share
) -> Steps:
    """Go on with the search of a large job; change it if it is still as it was at the beginning."""
    job_id, fingerprint = found
    is_meant = None
    while is_meant is None:
        yield _NOBODY
        share.left = SHARE
        is_meant = _searched(search)
    if is_meant:
        jobs, now = yield JobQuery(states=(order.target.state,), ids=(job_id,), limit=1)
        for job in jobs:
            if _fingerprint(job) == fingerprint and order.target.holds(job):
                _change(order, broker, job, now)


def _search(order: Order, job: Job, renderer: Renderer, share: Share) -> Search:
    """Whether this job is to be changed."""
    share.left -= _JOB_COST
    if not order.target.holds(job) or (order.jobtype and job.kind != order.jobtype):
        return False
    if order.pattern is None:
        return True
    text = renderer.stored(job)
    del job  # its text is enough to keep in memory
    share.left -= _BYTE_COST * len(text)
    return (yield from order.pattern.match(text, share))


def _searched(search: Search) -> bool | None:
    """What a search has found, or None if the share is used up before it is known."""
    try:
        next(search)
    except StopIteration as end:
        return bool(end.value)
    return None


def _change(order: Order, broker: Broker, job: Job, now: Millis) -> None:
    try:
        order.change(broker, job, now)
    except Refused:
        pass  # another job has taken its place meanwhile


def _fingerprint(job: Job) -> Fingerprint:
    return job.attempts, job.failures, job.run_at, job.ready_at
