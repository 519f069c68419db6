"""Leases that belong to whoever knows a token, where no connection stands for the worker.

Such a lease is taken by a session of its own (`OnHangUp.KEEP`), which is closed at once: the lease
goes on by its time, over restarts too. Its holder's name has a digest of the token, and not the
token: that name is stored, and shown to everybody. When the job is granted again, the name is
another's, and the old token is refused.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from franca.core.errors import NotHeld
from franca.core.model import Job, State

DIGEST_BYTES: Final = 8
"""Enough where a token has 128 random bits: it is looked for among the holders of one job."""


def holder_of(token: str, protocol: str, worker: str = "") -> str:
    """What the holder of a lease with this token is called; `worker` is what it calls itself."""
    return f"{holder_prefix(protocol)}{_digest(token)} {worker}".rstrip()


def holder_prefix(protocol: str) -> str:
    """How the name of every such holder begins."""
    return f"{protocol} link "


def holder_with(token: str, job: Job) -> str:
    """The holder of a running job, for the verbs of a holder; `NotHeld` if the token is old."""
    digest = job.holder.partition(" link ")[2][: 2 * DIGEST_BYTES]
    is_held = job.state is State.LEASED and compare_digest(digest.encode(), _digest(token).encode())
    if not is_held:
        raise NotHeld(f"job {job.id} is not held with this token")
    return job.holder


def worker_in(holder: str) -> str:
    """What a holder with a token calls itself; other holders as they are called."""
    digest, _, worker = holder.partition(" link ")[2].partition(" ")
    return worker if worker and len(digest) == 2 * DIGEST_BYTES else holder


def _digest(token: str) -> str:
    return blake2b(token.encode(), digest_size=DIGEST_BYTES).hexdigest()
