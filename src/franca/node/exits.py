"""What the process says when it ends. Stable: scripts rely on them."""

from __future__ import annotations

OK = 0
FAILURE = 1
USAGE = 2
NO_CONNECTION = 3
NOT_FOUND = 4
REFUSED = 5
TIMED_OUT = 6
INTERNAL = 70
DISK_FAILED = 74
DATA_IN_USE = 75
BAD_CONFIG = 78
INTERRUPTED = 130

OF_CODES = {"not-found": NOT_FOUND, "bad-request": USAGE, "refused": REFUSED}
"""The exit code for a server's refusal; every other one is a failure."""
