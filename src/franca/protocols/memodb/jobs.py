"""The jobs that clients ask for."""

from __future__ import annotations

from typing import Final

from franca.core.model import NewJob, Policy
from franca.protocols.bodies import BYTES
from franca.protocols.memodb.messages import Header

ORIGIN: Final = "memodb"
POLICIES_MAX: Final = 1_024
TIMEOUT_MS_MAX: Final = 10 * 365 * 86_400_000
"""A longer timeout is this one; its worker is told it as it was said."""
LOSSES: Final = 3
"""How often a job whose worker was lost is given to another."""


class Intake:
    """Makes jobs of what clients send. `boot` begins the name of each.

    Workers of other protocols call a job by its name.
    """

    def __init__(self, boot: str) -> None:
        self._policies: dict[int, Policy] = {}
        self._boot = boot
        self._jobs = 0

    def new_job(self, header: Header, payload: bytes) -> NewJob:
        """A job of that service and timeout.

        One that runs out of time is given up: its client decides about another try. A timeout of
        nothing is over as soon as the job is given out.
        """
        self._jobs += 1
        service = header.service
        policy = self._policies.get(header.timeout_ms)
        if policy is None:
            if len(self._policies) >= POLICIES_MAX:
                self._policies.clear()
            policy = self._policies[header.timeout_ms] = Policy(
                max_losses=LOSSES,
                bury=False,
                lease_ms=min(max(header.timeout_ms, 1), TIMEOUT_MS_MAX),
                durable=False,
                dies_unwatched=True,
                expiry_is_failure=True,
            )
        name = f"{self._boot}-{self._jobs}"
        return NewJob(service, service, payload, policy, name, BYTES, ORIGIN, extra=header.task)
