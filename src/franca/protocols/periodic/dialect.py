"""What all dialects have in common; one object of each serves all connections that speak it.

A dialect turns arguments into values and values into frames. It knows no broker and keeps nothing.
Arguments that cannot be read are `Unreadable`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from franca.protocols.periodic.crc import Shared
from franca.protocols.periodic.messages import JOB_ASSIGN, Assignment
from franca.protocols.periodic.wire import Frames, plain_frame, plain_front

_ASSIGN: Final = JOB_ASSIGN.to_bytes()


class BaseDialect(ABC):
    """One dialect. A bare command stands behind `before_command`, data behind `before_data`."""

    name = ""
    frames: type[Frames]
    before_command = b""
    before_data = b""
    columns = 5
    """Columns of a STATUS; see `admin_commands.columns`."""
    confirms_loads = False
    """Whether a LOAD is answered."""
    limits_runs = False
    """Whether a job without a timeout has the server's; in the older dialects it has none."""
    writes_anew = False
    """Whether a workload is not written as it is, so that a large one takes long."""
    workload_max = 1 << 62
    """The largest workload that it can write, as far as frames have room."""
    frame = staticmethod(plain_frame)
    front = staticmethod(plain_front)

    def carries(self, name: bytes) -> bool:
        """Whether a name arrives as it is."""
        return True

    def bare(self, msgid: bytes, command: int) -> bytes:
        """A command without arguments."""
        return self.frame(msgid + self.before_command + command.to_bytes())

    def data(self, msgid: bytes, data: bytes) -> bytes:
        """A result, a listing, a piece of a stream."""
        return self.frame(msgid + self.before_data + data)

    @abstractmethod
    def around(self, assignment: Assignment) -> tuple[bytes, bytes]:
        """What precedes an assigned job's workload, and what follows it."""

    def assign(
        self, msgid: bytes, assignment: Assignment, shared: Shared | None = None
    ) -> Sequence[bytes]:
        """A job for a worker; its workload is a piece of its own and not copied if it is shared."""
        front, back = self.around(assignment)
        front = msgid + self.before_command + _ASSIGN + front
        workload = assignment.workload
        if shared is None:
            return (self.frame(front + workload + back),)
        pieces = (self.front(front, shared, back), workload)
        return (*pieces, back) if back else pieces

    def status(self, lines: Sequence[bytes]) -> bytes:
        """A listing of all functions, as the data of an answer."""
        return b"\n".join(lines)
