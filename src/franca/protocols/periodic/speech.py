"""What every dialect can say and understand; one object of it serves a whole connection.

A Speech turns arguments into values and values into frames. It knows no broker and keeps
nothing. Arguments that cannot be read are `Unreadable`: the frame was whole, so the connection
goes on and the peer is told that it was not understood.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from franca.core.errors import Refused

if TYPE_CHECKING:
    from franca.protocols.periodic.shared import Shared
    from franca.protocols.periodic.wire import Frames


class Unreadable(Refused):
    """The arguments are not those of the command."""

    code = "unreadable"


class Task(Struct, gc=False):
    """A job as it travels. Moments and spans are whole seconds, 0 where none was given.

    `in_json` is one that was written as the document says, in `size` bytes.
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
    """A job on its way to a worker, under the handle by which the worker will speak of it."""

    handle: bytes
    func: bytes
    name: bytes
    workload: bytes
    sched_at: int
    count: int
    timeout: int
    job_id: int


class FuncStatus(Struct, gc=False):
    """One function as STATUS shows it."""

    func: str
    workers: int
    jobs: int
    running: int
    locked: int
    sched_at: int


class Speech(ABC):
    """One dialect. What a dialect has no word for is said with nothing."""

    name = ""
    confirms_loads = False
    """Whether a LOAD is answered."""
    limits_runs = False
    """Whether a job without a timeout has the server's; in the older dialects it has none."""

    writes_anew = False
    """Whether a workload is not written as it is, so that a large one takes long."""
    workload_max = 1 << 62
    """The largest workload that it can write, as far as frames have room."""

    def carries(self, name: bytes) -> bool:
        """Whether a name arrives as it is."""
        return True

    @abstractmethod
    def frames(self, size_max: int) -> Frames:
        """What cuts this dialect's messages."""

    # -- the peer's words -------------------------------------------------------------------------

    @abstractmethod
    def read_task(self, args: bytes) -> Task:
        """The job of a SUBMIT_JOB, a RUN_JOB or a RECV_DATA."""

    @abstractmethod
    def read_tasks(self, args: bytes) -> Iterable[Task]:
        """The jobs of a LOAD; raises while it is walked through if it is cut short."""

    @abstractmethod
    def read_func(self, args: bytes) -> str:
        """A function's name alone."""

    @abstractmethod
    def read_removal(self, args: bytes) -> tuple[str, str]:
        """The function and the name of a job to be removed."""

    @abstractmethod
    def read_handle(self, args: bytes) -> tuple[bytes, bytes]:
        """A handle, and what comes behind it."""

    @abstractmethod
    def read_later(self, args: bytes) -> tuple[bytes, int, int]:
        """A handle, a delay in seconds, and how far the job's counter moves."""

    # -- the server's words -----------------------------------------------------------------------

    @abstractmethod
    def welcome(self, connection: bytes) -> bytes:
        """The answer to a registration; `connection` names it, in four bytes."""

    @abstractmethod
    def word(self, msgid: bytes, command: int) -> bytes:
        """A bare command."""

    @abstractmethod
    def data(self, msgid: bytes, data: bytes) -> bytes:
        """A result, a listing, a piece of a stream."""

    @abstractmethod
    def data_front(self, msgid: bytes, shared: Shared) -> bytes:
        """What goes in front of data that is too large to be copied into a frame."""

    @abstractmethod
    def handle(self, func: bytes, name: bytes, job_id: int) -> bytes:
        """How a worker will speak of a job."""

    @abstractmethod
    def assign(self, msgid: bytes, assignment: Assignment) -> bytes:
        """A job for a worker."""

    def assign_in_pieces(
        self, msgid: bytes, assignment: Assignment, shared: Shared
    ) -> Sequence[bytes]:
        """The same with a large workload, which is not copied if the dialect writes it as it is."""
        return (self.assign(msgid, assignment),)

    @abstractmethod
    def status_line(self, status: FuncStatus) -> bytes:
        """One function of a listing."""

    def status(self, lines: Sequence[bytes]) -> bytes:
        """A listing of all functions, as the data of an answer."""
        return b"\n".join(lines)

    @abstractmethod
    def dumped(self, task: Assignment) -> bytes:
        """One job of a dump, as a LOAD would take it. `Unreadable` if it cannot be carried."""

    @abstractmethod
    def dump_page(self, msgid: bytes, jobs: Sequence[bytes]) -> bytes:
        """Jobs of a dump as they stand in its answer, or as answers of their own."""

    @abstractmethod
    def dump_around(self, msgid: bytes, count: int, size: int, crc: int) -> tuple[bytes, bytes]:
        """What stands in front of all pages and behind them; their size and CRC are known."""
