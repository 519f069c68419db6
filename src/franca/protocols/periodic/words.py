"""The commands of Periodic by number, and who may say which. Values only.

0 to 19 are the document's; the others came with later servers.
"""

from __future__ import annotations

from typing import Final

NOOP: Final = 0
GRAB_JOB: Final = 1
SCHED_LATER: Final = 2
WORK_DONE: Final = 3
WORK_FAIL: Final = 4
JOB_ASSIGN: Final = 5
NO_JOB: Final = 6
CAN_DO: Final = 7
CANT_DO: Final = 8
PING: Final = 9
PONG: Final = 10
SLEEP: Final = 11
UNKNOWN: Final = 12
SUBMIT_JOB: Final = 13
STATUS: Final = 14
DROP_FUNC: Final = 15
SUCCESS: Final = 16
REMOVE_JOB: Final = 17
DUMP: Final = 18
LOAD: Final = 19
SHUTDOWN: Final = 20
BROADCAST: Final = 21
CONFIG_GET: Final = 22
CONFIG_SET: Final = 23
CONFIG: Final = 24
RUN_JOB: Final = 25
ACQUIRED: Final = 26
ACQUIRE: Final = 27
RELEASE: Final = 28
NO_WORKER: Final = 29
DATA: Final = 30
RECV_DATA: Final = 31
WORK_DATA: Final = 32
JOB_ASSIGNED: Final = 33
JOB_UNASSIGNED: Final = 34

TYPE_CLIENT: Final = 1
TYPE_WORKER: Final = 2
TYPE_NAMED_CLIENT: Final = 3
TYPE_NAMED_WORKER: Final = 4

FAILED: Final = b"failed"
REMOVED: Final = b"removed"
EXPIRED: Final = b"expired"
EOF: Final = b"EOF"
"""Results that are words of the server: a client cannot tell them from a worker's."""
