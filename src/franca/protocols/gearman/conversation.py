"""One Gearman connection: packets and lines in, verbs of the broker, packets and lines out.

A connection may be a client, a worker and an operator at once; each message says which. What a
packet does is in `client_commands.py` and `worker_commands.py`, what a line does in
`admin_commands.py`. Events of jobs become packets here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused, WireError
from franca.core.events import Event, Finished, LeaseLost, Progressed, Woken
from franca.core.model import NEVER, Demand, Job, JobId, Millis, OnHangUp, Outcome, Session, State
from franca.protocols.conversation import WHOLE_SHARE, Conversation, Link, Task
from franca.protocols.gearman import admin_commands, client_commands, wire, worker_commands
from franca.protocols.gearman.client_commands import Submission, at_epoch, at_match, reduced
from franca.protocols.gearman.jobs import HIGH, LOW, NORMAL, ORIGIN, said_of
from franca.protocols.gearman.wire import ErrorReply, Packet, error
from franca.protocols.gearman.worker_commands import DATA, EXCEPTION, STATUS, WARNING
from franca.protocols.numbers import GEARMAN
from franca.protocols.undelivered import give_back

if TYPE_CHECKING:
    from franca.protocols.gearman.service import GearmanService

PIECES_A_TURN: Final = 4_000
BYTES_A_TURN: Final = 64 * 1024
_LINE_ENDS: Final = (b"\n", b"")
_NOT_MAGIC: Final = error("INVALID_MAGIC", "Request magic expected")
_NOT_EXPECTED: Final = error("INVALID_COMMAND", "Command not expected")
_ENDED_KEPT: Final = 64
"""Handles of jobs that a worker no longer runs, and may still send packets about."""
GRANTS_KEPT: Final = 16
"""Handles of jobs that were given and ended since a peer last waited for an answer."""
SHARED_BYTES: Final = 512
"""Smaller data is copied for each that waits for it: many small pieces cost more than a copy."""
GIVEN_BACK_MAX: Final = 1_000
"""Jobs whose delivery may be undone at once; of more, the first have surely been delivered."""

_pack = wire.HEADER.pack
# An attribute of an enum takes long to be looked up.
_DONE: Final = State.DONE
_COMPLETE: Final = int(Packet.WORK_COMPLETE)
_EXCEPTION: Final = int(Packet.WORK_EXCEPTION)
_DATA: Final = int(Packet.WORK_DATA)
_STATUS: Final = int(Packet.WORK_STATUS)
_REPORTS: Final = {STATUS: _STATUS, WARNING: int(Packet.WORK_WARNING)}


class GearmanConversation(Conversation):
    """The dialogue on one connection. `held` are the jobs that it runs, by the handle it knows.

    `foreign` has the handles of those of other protocols, which have them on this connection only.
    `functions` are those it can do, with the milliseconds it gives itself, newest last. What a
    worker sends about a job in `ignored` has no effect and is no error. `joins` counts the submits
    of this connection that wait for the same job as one before.

    A client may connect and send nothing until it has a job.
    """

    silent_ok = True
    reader: wire.PacketReader

    def __init__(self, service: GearmanService, link: Link, number: int) -> None:
        super().__init__(link)
        self.service = service
        self.broker = service.broker
        self.number = number
        self.session = service.broker.open_session(link.id, OnHangUp.RETURN, self, GEARMAN)
        self.held: dict[bytes, Job] = {}
        self.foreign: dict[JobId, bytes] = {}
        self.ignored: dict[bytes, None] = {}
        self.functions: dict[bytes, int] = {}
        self.abilities_bytes = 0
        self.joins: dict[JobId, int] = {}
        self.grab: Demand | None = None
        self.sleep: Demand | None = None
        self.woken_at: Millis = NEVER
        self.seen_at = link.opened_at
        self.asked_at: Millis = NEVER
        self.was_waited_for = False
        self.paced_at: Millis = NEVER
        self.paced_ms = 0
        self.client_id = b"-"
        self.wants_exceptions = service.settings.exceptions
        self.reader = wire.PacketReader(service.limits.frame_bytes_max - wire.HEADER_SIZE)
        self._grants: list[bytes] = []

    # -- the contract -------------------------------------------------------------------------

    def on_message(self, message: tuple[int, bytes], now: Millis) -> None:
        """Act on a packet or a line."""
        number, body = message
        self.seen_at = now
        if self._grants and self.reader.is_first and not self.link.out:
            # It sends after it was answered: what was written before has reached it.
            self._grants.clear()
        self.reader.is_first = False
        act = MESSAGES[number]
        if act is None:
            self.link.write(_NOT_EXPECTED if number > wire.LINE else _NOT_MAGIC)
            return
        if number != wire.LINE:
            self.link.known = True
        if len(body) > wire.LARGE_BYTES:
            self.spent += WHOLE_SHARE
        try:
            act(self, body, now)
        except ErrorReply as refusal:
            self.link.write(refusal.reply)
        except Refused as refusal:
            self.link.write(error("QUEUE_ERROR", refusal.text))

    def on_unreadable(self, refusal: WireError, now: Millis) -> None:
        """The bytes are not Gearman, or too many."""
        self.reader.clear()
        if refusal.code == wire.TOO_LARGE:
            self.link.write(error("ARGUMENT_TOO_LARGE", refusal.text))
        self.link.close(refusal.text)

    def follow_up(self, now: Millis) -> None:
        """The functions have changed: a worker that sleeps is woken for these from now on."""
        try:
            worker_commands.renew_sleep(self, now)
        except Refused as refusal:
            self.link.write(error("QUEUE_ERROR", refusal.text))

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a job that this connection waits for, runs, or might run."""
        # `isinstance` is slow where it is false, and these come for every job.
        if type(event) is Finished:
            self._on_finished(event)
        elif type(event) is Woken:
            # A worker that has asked for a job meanwhile need not be woken.
            if event.demand is self.sleep:
                self.sleep = None
                self.service.wake(self, now)
        elif isinstance(event, Progressed):
            self._on_progressed(event, now)
        elif isinstance(event, LeaseLost):
            self._on_lease_lost(event.job)

    def _on_finished(self, event: Finished) -> None:
        """A job has ended. Exceptions are told to those who know them, to others as failures."""
        job = event.job
        handle = job.name.encode()
        self.service.ended[handle] = event.state
        if self.joins:
            self.joins.pop(job.id, None)
        if event.state is _DONE:
            self._forward(event, _COMPLETE, handle, event.result)
        else:
            runs, failure = job.attempt_log, event.failure
            said = failure.data or failure.text.encode("utf-8", "replace")
            has_failed = self.wants_exceptions and runs and runs[-1].outcome is Outcome.FAILED
            if has_failed and (said or failure.kind == EXCEPTION):
                self._forward(event, _EXCEPTION, handle, said)
            else:
                self.link.write(wire.response(Packet.WORK_FAIL, handle))
        if job.policy.durable:
            self.link.after_commit = True

    def _on_progressed(self, event: Progressed, now: Millis) -> None:
        """A worker reported on a job that it runs."""
        number, data = _REPORTS.get(event.kind, _DATA), event.data
        if event.progress is not None:
            number, data = _STATUS, said_of(event.progress)
        self._forward(event, number, event.job.name.encode(), data)
        if self.link.full:
            self.service.pace(event.job.holder, self, now)

    def _forward(self, event: Event, number: int, handle: bytes, data: bytes) -> None:
        """Forward a packet of a worker. Clients that wait for a job share one copy of long data."""
        of, kind, pieces = self.service.forwarded
        is_shared = of is event and kind == number
        if not is_shared:
            head = b"%b%b\0" % (_pack(wire.RES, number, len(handle) + 1 + len(data)), handle)
            pieces = (head, data) if len(data) > wire.LONG_BYTES else (head + data,)
            self.service.forwarded = (event, number, pieces)
        self.link.write_pieces(pieces)
        if is_shared and len(data) > SHARED_BYTES:
            self.link.in_pieces = True

    def _on_lease_lost(self, job: Job) -> None:
        """The lease of a job has ended, or somebody else ended the job."""
        handle = job.name.encode() if job.origin == ORIGIN else self.foreign.pop(job.id, b"")
        if self.held.get(handle) is job:
            del self.held[handle]
            if job.state >= State.DONE:
                self.ignore(handle)

    def ignore(self, handle: bytes) -> None:
        """Further packets about this job have no effect and are no error."""
        ignored = self.ignored
        ignored[handle] = None
        if len(ignored) > _ENDED_KEPT:
            del ignored[next(iter(ignored))]

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The peer is gone. A job that was not delivered goes back, as if it was never granted."""
        self.end_task()
        if undelivered:
            for handle in self._grants[-GIVEN_BACK_MAX:]:
                job = self.held.pop(handle, None)
                if job is not None:
                    give_back(self.broker, job, self.session.holder, now)
        self.broker.close_session(self.session, now)
        self.held.clear()
        self.foreign.clear()
        self._grants.clear()
        # A demand refers to its session, which refers to this; the garbage collector skips demands.
        self.grab = self.sleep = None
        self.service.left(self)

    def forget_unread(self) -> None:
        """Drop what waits in the buffer."""
        self.reader.clear()

    def stop(self, now: Millis) -> None:
        """The server stops: workers are not woken any more. Running jobs may be finished."""
        if self.sleep is not None:
            self.broker.withdraw(self.sleep)
            self.sleep = None

    def granted(self, handle: bytes, job: Job) -> None:
        """The peer runs this job now."""
        self.held[handle] = job
        # Reports on a job that many wait for take long to forward.
        watchers = self.broker.watchers_of(job.id)
        if watchers >= wire.SEARCHED_AT_ONCE:
            self.spent += watchers // wire.SEARCHED_AT_ONCE
        grants = self._grants
        grants.append(handle)
        if len(grants) > GRANTS_KEPT and len(grants) > 2 * len(self.held) + GRANTS_KEPT:
            self._grants = [handle for handle in grants if handle in self.held]
        if job.origin != ORIGIN:
            self.foreign[job.id] = handle

    def write_in_turns(self, pieces: Iterable[bytes], now: Millis) -> None:
        """Write something that takes long to compute, a turn's share of it at a time.

        Nothing is read from the peer until all is written, but others are served: a piece, empty
        or not, should take a microsecond or so.
        """
        self.begin(self._written_in_turns(iter(pieces)), now)

    def _written_in_turns(self, pieces: Iterator[bytes]) -> Task:
        yield
        is_said = False
        while not is_said:
            if self.link.full:
                yield
                continue
            left, room = PIECES_A_TURN, BYTES_A_TURN
            some = []
            is_said = True
            for piece in pieces:
                some.append(piece)
                left -= 1
                room -= len(piece)
                # Packets may come between two lines, so only a very long line is cut.
                is_cut = piece[-1:] in _LINE_ENDS or room < -wire.LINE_BYTES_MAX
                if (left <= 0 or room <= 0) and is_cut:
                    is_said = False
                    break
            said = b"".join(some)
            if said:
                self.link.write(said)
            if not is_said:
                yield
        return b""


Command = Callable[[GearmanConversation, bytes, Millis], None]

_COMMANDS: Final[dict[int, Command]] = {
    wire.LINE: admin_commands.on_line,
    Packet.CAN_DO: worker_commands.on_can_do,
    Packet.CANT_DO: worker_commands.on_cant_do,
    Packet.RESET_ABILITIES: worker_commands.on_reset_abilities,
    Packet.PRE_SLEEP: worker_commands.on_pre_sleep,
    Packet.SUBMIT_JOB: Submission().on_submit,
    Packet.GRAB_JOB: worker_commands.on_grab,
    Packet.WORK_STATUS: worker_commands.on_status,
    Packet.WORK_COMPLETE: worker_commands.on_complete,
    Packet.WORK_FAIL: worker_commands.on_fail,
    Packet.GET_STATUS: client_commands.on_get_status,
    Packet.ECHO_REQ: client_commands.on_echo,
    Packet.SUBMIT_JOB_BG: Submission(NORMAL, True).on_submit,
    Packet.SUBMIT_JOB_HIGH: Submission(HIGH).on_submit,
    Packet.SET_CLIENT_ID: client_commands.on_client_id,
    Packet.CAN_DO_TIMEOUT: worker_commands.on_can_do_timeout,
    Packet.WORK_EXCEPTION: worker_commands.on_exception,
    Packet.OPTION_REQ: client_commands.on_option,
    Packet.WORK_DATA: partial(worker_commands.on_report, DATA),
    Packet.WORK_WARNING: partial(worker_commands.on_report, WARNING),
    Packet.GRAB_JOB_UNIQ: worker_commands.on_grab_uniq,
    Packet.SUBMIT_JOB_HIGH_BG: Submission(HIGH, True).on_submit,
    Packet.SUBMIT_JOB_LOW: Submission(LOW).on_submit,
    Packet.SUBMIT_JOB_LOW_BG: Submission(LOW, True).on_submit,
    Packet.SUBMIT_JOB_SCHED: Submission(NORMAL, True, 5, at_match).on_submit,
    Packet.SUBMIT_JOB_EPOCH: Submission(NORMAL, True, 1, at_epoch).on_submit,
    Packet.SUBMIT_REDUCE_JOB: Submission(NORMAL, False, 2, reduced).on_submit,
    Packet.SUBMIT_REDUCE_JOB_BACKGROUND: Submission(NORMAL, True, 2, reduced).on_submit,
    Packet.GRAB_JOB_ALL: worker_commands.on_grab_all,
    Packet.GET_STATUS_UNIQUE: client_commands.on_get_status_unique,
}

MESSAGES: Final[tuple[Command | None, ...]] = tuple(
    _COMMANDS.get(number) for number in (*range(wire.TYPES), wire.NOT_A_REQUEST)
)
"""By number; `NOT_A_REQUEST`, which is -1, is the last. None for what only a server sends."""
