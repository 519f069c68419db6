"""How the jobs of a client are treated: one kind for each service and timeout."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.core.model import NewJob, Policy
from franca.protocols.bodies import BYTES
from franca.protocols.memodb.cbor import UINT, head
from franca.protocols.memodb.messages import task

ORIGIN: Final = "memodb"
KINDS_MAX: Final = 1_024
SHORT_BYTES: Final = 64
"""A kind that is named in more bytes than this is not kept: there may be no end of them."""
TIMEOUT_MS_MAX: Final = 10 * 365 * 86_400_000
"""A longer timeout is this one; its worker is told it as it was said."""
LOSSES: Final = 3
"""How often a job whose worker was lost is given to another."""


class Kind(Struct, frozen=True):
    """All jobs of one service and timeout. `task` is how a JOB names both.

    Only the timeout, if the name is a long one: each job would keep it once more.
    """

    service: str
    policy: Policy
    task: bytes


class Kinds:
    """The kinds of jobs that clients ask for, found by the bytes with which they name them.

    `boot` begins the name of every job: workers of other protocols call it by that.
    """

    def __init__(self, boot: str) -> None:
        self.by_bytes: dict[bytes, Kind] = {}
        self._policies: dict[int, Policy] = {}
        self._boot = boot
        self._jobs = 0

    def learn(self, service: str, timeout_ms: int, said: bytes = b"") -> Kind:
        """A kind that was not met before; `said` is how the next one can be recognised by.

        A job that runs out of time is given up: its client decides about another try. A timeout
        of nothing is over as soon as the job is given out.
        """
        policy = self._policy(timeout_ms)
        if len(service) > SHORT_BYTES:
            return Kind(service, policy, head(UINT, timeout_ms))
        kind = Kind(service, policy, task(service, timeout_ms))
        if said and len(said) <= SHORT_BYTES:
            if len(self.by_bytes) >= KINDS_MAX:
                self.by_bytes.clear()
            self.by_bytes[said] = kind
        return kind

    def _policy(self, timeout_ms: int) -> Policy:
        """One for all jobs with this timeout."""
        lease_ms = min(max(timeout_ms, 1), TIMEOUT_MS_MAX)
        policy = self._policies.get(lease_ms)
        if policy is None:
            if len(self._policies) >= KINDS_MAX:
                self._policies.clear()
            policy = self._policies[lease_ms] = Policy(
                losses=LOSSES,
                bury=False,
                lease_ms=lease_ms,
                durable=False,
                dies_unwatched=True,
                expiry_is_failure=True,
            )
        return policy

    def make(self, kind: Kind, payload: bytes) -> NewJob:
        """A job of that kind."""
        self._jobs += 1
        service = kind.service
        name = f"{self._boot}-{self._jobs}"
        return NewJob(service, service, payload, kind.policy, name, BYTES, ORIGIN, extra=kind.task)
