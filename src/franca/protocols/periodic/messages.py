"""The commands of Periodic by number, and the values that messages carry.

Commands 0 to 19 are the document's; the others came with later servers.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.core.errors import Refused

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


class Unreadable(Refused):
    """The arguments are not those of the command. The connection goes on: the frame was whole."""

    code = "unreadable"


class Opening(Struct, frozen=True):
    """The first frame: what it registers as, whether it carried a CRC, and where it ends."""

    kind: int
    checked: bool
    end: int
    name: bytes = b""
    token: bytes = b""


class Message(Struct, gc=False):
    """Any other frame; the next begins at `end`."""

    id: bytes
    command: int
    args: bytes
    end: int


class WireJob(Struct, gc=False):
    """A job that a peer sent. Times and durations are whole seconds, 0 where none was given.

    `in_json` if it was written as the document says, in `size` bytes.
    """

    func: str
    name: str
    workload: bytes = b""
    sched_at: int = 0
    count: int = 0
    timeout: int = 0
    in_json: bool = False
    size: int = 0


class Assignment(Struct, gc=False):
    """A job for a worker, which names it by the handle."""

    handle: bytes
    func: bytes
    name: bytes
    workload: bytes
    sched_at: int
    count: int
    timeout: int
    job_id: int
