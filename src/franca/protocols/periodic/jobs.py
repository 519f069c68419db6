"""Jobs as peers send and are sent them, and what the server keeps of them.

A job is known by its function and its name: the name is its key, and a submit replaces what has
it. The workload is the body, to the byte; what else travels and the server has no field for, the
counter, the job's own timeout and whether it was written in JSON, is kept beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct as Layout
from typing import Final

from franca.core.broker import Broker
from franca.core.errors import TooMuch
from franca.core.model import NEVER, Backoff, Job, Millis, NewJob, OnConflict, Policy
from franca.core.names import raw_of
from franca.protocols.bodies import BYTES, as_bytes
from franca.protocols.periodic.binary import CrcDialect
from franca.protocols.periodic.messages import Assignment, Unreadable, WireJob
from franca.protocols.periodic.text import TextDialect

Dialect = CrcDialect | TextDialect
"""Any of the four: each of the two has another below it."""

ORIGIN: Final = "periodic"
KEY: Final = "periodic/"
"""What a key begins with: names of one protocol do not meet those of another in a queue."""
AGAIN_MS: Final = 1_000
"""A job whose run failed is run again after this, as often as it takes."""
AT_MAX_S: Final = 253_402_300_799
"""The last second of the year 9999; whoever says later means never."""
NUMBER_MAX: Final = 0x7FFF_FFFF
_NAME_BYTES_MAX: Final = 255
_POLICIES_MAX: Final = 1_000
_REPLACE: Final = OnConflict.REPLACE
_EXTRA: Final = Layout(">ii")
_IN_JSON: Final = b"j"


class Intake:
    """Makes jobs of what clients send."""

    def __init__(self, broker: Broker, config: Mapping[str, int]) -> None:
        self._broker = broker
        self._config = config
        self._name_max = broker.limits.name_bytes_max
        self._name_chars = broker.limits.name_bytes_max // 4
        self._body_max = broker.limits.body_bytes_max

    def new_job(
        self, wire_job: WireJob, now: Millis, *, limits_runs: bool = True, waited_for: bool = False
    ) -> NewJob:
        """The job that this stands for, or `Refused`.

        With `limits_runs` a job without a timeout has the server's; else it has as long as its
        worker stays. One that somebody waits for is not run again for him; all others are, until
        they are done.
        """
        func, name, workload = wire_job.func, wire_job.name, wire_job.workload
        if len(func) > self._name_chars or len(name) > self._name_chars:
            self.check_name(func)
            self.check_name(name)
        if len(workload) > self._body_max:
            raise TooMuch(f"a job of {len(workload)} bytes, at most {self._body_max}")
        seconds = wire_job.timeout
        if seconds <= 0:
            seconds = self._config["timeout"] if limits_runs else 0
        policy = _policy(seconds, waited_for)
        new = NewJob(func, func, workload, policy, name, BYTES, ORIGIN, KEY + name, _REPLACE)
        if wire_job.count or wire_job.timeout or wire_job.in_json:
            new.extra = _EXTRA.pack(_fitting(wire_job.count), _fitting(wire_job.timeout))
            if wire_job.in_json:
                new.extra += _IN_JSON
        if wire_job.sched_at > 0:
            run_at = min(wire_job.sched_at, AT_MAX_S) * 1000
            if run_at > self._broker.wall(now):
                new.run_at = run_at
        return new

    def check_name(self, name: str) -> None:
        """`Refused` if a name is longer than any may be."""
        if len(name.encode()) > self._name_max:
            raise Unreadable(f"names cannot be longer than {self._name_max} bytes")


@lru_cache(_POLICIES_MAX)
def _policy(seconds: int, waited_for: bool) -> Policy:
    """Lost runs and failed ones are made good alike; 0 seconds are no limit."""
    return Policy(
        max_failures=-1,
        max_losses=-1,
        loss_is_failure=True,
        backoff=Backoff.FIXED,
        delay_ms=AGAIN_MS,
        lease_ms=1000 * min(seconds, NUMBER_MAX),
        no_retry_if_watched=waited_for,
    )


def later(job: Job, step: int) -> bytes | None:
    """What is kept beside a job whose counter moves; None where there is nothing to change."""
    if not step or job.origin != ORIGIN:
        return None
    count, timeout = _extra_of(job)
    return _EXTRA.pack(_fitting(count + step), timeout) + job.extra[_EXTRA.size :]


def is_in_json(job: Job) -> bool:
    """Whether a job was submitted as the document says, so that who runs it may want that too."""
    return job.origin == ORIGIN and job.extra[_EXTRA.size :] == _IN_JSON


def workload_of(job: Job) -> bytes:
    """What a worker is given to work on; what another protocol submitted is written anew."""
    return job.body if job.media == BYTES else as_bytes(job.media, job.body)


def assignment(job: Job, workload: bytes, dialect: Dialect, broker: Broker) -> Assignment:
    """A job as it goes to a worker; jobs of other protocols too."""
    func = raw_of(job.queue)
    name = raw_of(job.name)
    if not 0 < len(name) <= _NAME_BYTES_MAX or not dialect.carries(name):
        name = b"#%d" % job.id
    count, timeout = _extra_of(job) if job.extra else (0, 0)
    if timeout <= 0:
        timeout = min(job.policy.lease_ms // 1000, NUMBER_MAX)
    sched_at = (job.run_at or broker.wall(job.ready_at or job.created_at)) // 1000
    handle = dialect.handle(func, name, job.id)
    return Assignment(handle, func, name, workload, sched_at, count, timeout, job.id)


def rename(shown: Assignment, dialect: Dialect) -> None:
    """Give a job a name of its own, where the worker already holds one of the same name."""
    shown.name = b"#%d" % shown.job_id
    shown.handle = dialect.handle(shown.func, shown.name, shown.job_id)


def as_dumped(job: Job, dialect: Dialect, broker: Broker) -> Assignment:
    """A job as a dump shows it: with its own name, and its own timeout or none."""
    shown = assignment(job, workload_of(job), dialect, broker)
    shown.name = raw_of(job.name)
    shown.timeout = max(_extra_of(job)[1], 0)
    if not job.run_at:
        shown.sched_at = NEVER
    return shown


def _extra_of(job: Job) -> tuple[int, int]:
    """A job's counter and its own timeout."""
    if job.origin != ORIGIN or len(job.extra) < _EXTRA.size:
        return (0, 0)
    count, timeout = _EXTRA.unpack_from(job.extra)
    return count, timeout


def _fitting(number: int) -> int:
    return max(-NUMBER_MAX, min(number, NUMBER_MAX))
