"""The delay before a job's next try: a pure function of its policy, its failures and chance."""

from __future__ import annotations

from random import Random

from franca.core.model import Backoff, Policy

DOUBLED_MS_MAX = 5 * 60_000
POWER_COUNT_MAX = 1_000
"""A count of failures may come from elsewhere; beyond this one the delay has no end anyway."""


def delay_ms(policy: Policy, failures: int, rng: Random) -> int:
    """How long a job waits after its `failures`-th failure.

    POWER waits count**4 + 15 s and up to 30 s more per failure, so that jobs that failed
    together do not come back together; counts start at 0 for the first failure. DOUBLING begins
    with the policy's own delay and doubles it up to five minutes.
    """
    if policy.backoff is Backoff.FIXED:
        return policy.delay_ms
    if policy.backoff is Backoff.DOUBLING:
        return min(policy.delay_ms << min(failures - 1, 32), DOUBLED_MS_MAX)
    count = min(failures - 1, POWER_COUNT_MAX)
    return 1000 * (count**4 + 15 + rng.randrange(30) * (count + 1))
