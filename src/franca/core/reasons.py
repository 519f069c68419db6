"""Why runs and jobs end, where nobody else says why."""

from __future__ import annotations

from franca.core.model import Failure

NO_FAILURE = Failure()
REPLACED = Failure("Replaced", "replaced by a newer job")
RELEASED = Failure("Released", "its worker put it off")

EXPIRED = "expired"
LOST = "lost"
FAILURES = {
    EXPIRED: Failure("LeaseExpired", "its lease expired before a worker reported back"),
    LOST: Failure("WorkerLost", "its worker went away without a word"),
}
"""Of a lease that ended without a word from its holder."""
