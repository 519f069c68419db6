"""The delay before a job's next try: a pure function of its policy, its failures and chance."""

from __future__ import annotations

from random import Random

from franca.core.model import Backoff, Policy


def delay_ms(policy: Policy, failures: int, rng: Random) -> int:
    """How long a job waits after its `failures`-th failure.

    POWER waits count**4 + 15 s and up to 30 s more per failure, so that jobs that failed
    together do not come back together; counts start at 0 for the first failure.
    """
    if policy.backoff is Backoff.FIXED:
        return policy.delay_ms
    count = failures - 1
    return 1000 * (count**4 + 15 + rng.randrange(30) * (count + 1))
