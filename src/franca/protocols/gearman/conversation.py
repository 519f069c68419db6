"""One Gearman connection: packets and lines in, verbs of the broker, packets and lines out.

A connection may be a client, a worker and an operator at once; each message says which. What a
packet does is in `client_commands.py` and `worker_commands.py`, what a line does in
`admin_commands.py`, and what those who wait for a job are told in `job_events.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused, WireError
from franca.core.events import Event, Finished, LeaseLost, Progressed, Woken
from franca.core.model import NEVER, Demand, Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.conversation import WHOLE_SHARE, Conversation, Link, Task
from franca.protocols.gearman import client_commands, worker_commands
from franca.protocols.gearman.client_commands import Submission
from franca.protocols.gearman.job_events import on_finished, on_progressed
from franca.protocols.gearman.jobs import HIGH, LOW, ORIGIN
from franca.protocols.gearman.wire import (
    HEADER_SIZE,
    LARGE_BYTES,
    LINE,
    LINE_BYTES_MAX,
    NOOP,
    NOT_A_REQUEST,
    SEARCHED_AT_ONCE,
    TOO_LARGE,
    TYPES,
    Packet,
    PacketReader,
    error,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.service import GearmanService

_SEARCHES: Final = frozenset(
    {Packet.GRAB_JOB, Packet.GRAB_JOB_UNIQ, Packet.GRAB_JOB_ALL, Packet.PRE_SLEEP}
)
PIECES_A_TURN: Final = 4_000
BYTES_A_TURN: Final = 64 * 1024
_LINE_ENDS: Final = (b"\n", b"")
_NOT_MAGIC: Final = error("INVALID_MAGIC", "Request magic expected")
_NOT_EXPECTED: Final = error("INVALID_COMMAND", "Command not expected")
_ENDED_KEPT: Final = 64
"""Handles of jobs that a worker no longer has, and may still say something about."""
GRANTS_KEPT: Final = 16
"""Handles of jobs that were given and ended since a peer last waited for an answer."""
GIVEN_BACK_MAX: Final = 1_000
"""Jobs whose delivery may be undone at once; with more under way, the first have surely left."""


class GearmanConversation(Conversation):
    """The dialogue on one connection. `held` are the jobs that it runs, by the handle it knows.

    `foreign` has the handles of those that came by another protocol: only here are they called so.
    `functions` are those it can do, with the milliseconds it gives itself, newest last. What is
    said of a job in `over` has no effect and is no error. `joins` counts the submits of this
    connection that wait for the same job as one before.

    A client that connects and says nothing until it has a job is a proper one.
    """

    silent_ok = True
    reader: PacketReader

    def __init__(self, service: GearmanService, link: Link, number: int) -> None:
        self.link = link
        self.service = service
        self.broker = service.broker
        self.number = number
        self.session = service.broker.open_session(link.id, OnHangUp.RETURN, self)
        self.held: dict[bytes, Job] = {}
        self.foreign: dict[JobId, bytes] = {}
        self.over: dict[bytes, None] = {}
        self.functions: dict[bytes, int] = {}
        self.abilities_bytes = 0
        self.joins: dict[JobId, int] = {}
        self.grab: Demand | None = None
        self.sleep: Demand | None = None
        self.woken_at: Millis = NEVER
        self.seen_at = link.opened_at
        self.was_waited_for = False
        self.paced_at: Millis = NEVER
        self.paced_ms = 0
        self.client_id = b"-"
        self.wants_exceptions = service.settings.exceptions
        self.reader = PacketReader(service.limits.frame_bytes_max - HEADER_SIZE)
        self._grants: list[bytes] = []

    # -- the contract -------------------------------------------------------------------------

    def on_message(self, message: tuple[int, bytes], now: Millis) -> None:
        """Act on a packet or a line."""
        number, body = message
        self.seen_at = now
        if self._grants and self.reader.is_first and not self.link.out:
            # It speaks after it was answered: what it was given before has reached it.
            self._grants.clear()
        self.reader.is_first = False
        if number <= LINE:
            self._on_text(number, body, now)
            return
        act = PACKETS[number]
        if act is None:
            self.link.write(_NOT_EXPECTED)
            return
        self.link.known = True
        if len(body) > LARGE_BYTES:
            self.spent += WHOLE_SHARE
        act(self, body, now)
        if len(self.functions) >= SEARCHED_AT_ONCE and number in _SEARCHES:
            # Whoever can do thousands of functions has them all looked at with each search.
            self.spent += len(self.functions) // SEARCHED_AT_ONCE

    def _on_text(self, number: int, line: bytes, now: Millis) -> None:
        if number == NOT_A_REQUEST:
            self.link.write(_NOT_MAGIC)
        else:
            self.service.on_line(self, line, now)
            self.spent += WHOLE_SHARE  # a list may be long

    def on_unreadable(self, refusal: WireError, now: Millis) -> None:
        """These bytes are none of ours, or too many."""
        self.reader.clear()
        if refusal.code == TOO_LARGE:
            self.link.write(error("ARGUMENT_TOO_LARGE", refusal.text))
        self.link.close(refusal.text)

    def settle(self, now: Millis) -> None:
        """The functions have changed: whoever sleeps is to be woken for others."""
        if self.sleep is not None:
            self.spent += len(self.functions) // SEARCHED_AT_ONCE
        worker_commands.sleep_anew(self, now)

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a job that this connection waits for, runs, or might run."""
        # `isinstance` is slow to say no, and these come for every job.
        if type(event) is Finished:
            on_finished(self, event)
        elif type(event) is Woken:
            # Who got up meanwhile need not be woken.
            if event.demand is self.sleep:
                self.sleep = None
                self.service.woke(self, now)
                self.link.write(NOOP)
        elif isinstance(event, Progressed):
            on_progressed(self, event, now)
        elif isinstance(event, LeaseLost):
            self._tell_lost(event.job)

    def _tell_lost(self, job: Job) -> None:
        """The job was taken away: by its time, or by somebody who ended it."""
        handle = job.name.encode() if job.origin == ORIGIN else self.foreign.pop(job.id, b"")
        if self.held.get(handle) is job:
            del self.held[handle]
            if job.state >= State.DONE:
                self.forgive(handle)

    def forgive(self, handle: bytes) -> None:
        """What is still said about this job is no error."""
        over = self.over
        over[handle] = None
        if len(over) > _ENDED_KEPT:
            del over[next(iter(over))]

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The peer is gone. A job whose delivery never left is as if it was never given."""
        self.end_task()
        if undelivered:
            for handle in self._grants[-GIVEN_BACK_MAX:]:
                job = self.held.pop(handle, None)
                if job is not None:
                    self._give_back(job, now)
        self.broker.close_session(self.session, now)
        self.held.clear()
        self.foreign.clear()
        self._grants.clear()
        # A demand knows its session, which knows this: the garbage collector does not see demands.
        self.grab = self.sleep = None
        self.service.left(self)

    def _give_back(self, job: Job, now: Millis) -> None:
        try:
            self.broker.give_back(job, self.session.holder, now)
        except Refused:
            pass  # it was taken away meanwhile

    def forget_unread(self) -> None:
        """Let go of what waits in the buffer."""
        self.reader.clear()

    def stop(self, now: Millis) -> None:
        """The server stops: nobody is woken any more. Running jobs may be finished."""
        if self.sleep is not None:
            self.broker.withdraw(self.sleep)
            self.sleep = None

    def granted(self, handle: bytes, job: Job) -> None:
        """The peer runs this job now."""
        self.held[handle] = job
        # What is said of a job that many wait for takes long to be told.
        self.spent += self.broker.watchers_of(job.id) // SEARCHED_AT_ONCE
        grants = self._grants
        grants.append(handle)
        if len(grants) > 2 * len(self.held) + GRANTS_KEPT:
            self._grants = [handle for handle in grants if handle in self.held]
        if job.origin != ORIGIN:
            self.foreign[job.id] = handle

    def settled(self, handle: bytes) -> Job | None:
        """The peer says that it has ended this job; None if it does not run it."""
        job = self.held.pop(handle, None)
        if self.foreign and job is not None:
            self.foreign.pop(job.id, None)
        return job

    def say_all(self, pieces: Iterable[bytes], now: Millis) -> None:
        """Say something that takes long to find out, a turn's share of it at a time.

        Nothing else is read from the peer until all is said, but the server goes on: a piece, empty
        or not, should take a microsecond or so.
        """
        self.begin(self._saying(iter(pieces)), now)

    def _saying(self, pieces: Iterator[bytes]) -> Task:
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
                # Packets may come between two lines, so only a very long one is cut.
                is_cut = piece[-1:] in _LINE_ENDS or room < -LINE_BYTES_MAX
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
    Packet.CAN_DO: worker_commands.on_can_do,
    Packet.CANT_DO: worker_commands.on_cant_do,
    Packet.RESET_ABILITIES: worker_commands.on_reset_abilities,
    Packet.PRE_SLEEP: worker_commands.on_pre_sleep,
    Packet.SUBMIT_JOB: Submission(background=False).now,
    Packet.GRAB_JOB: worker_commands.on_grab,
    Packet.WORK_STATUS: worker_commands.on_status,
    Packet.WORK_COMPLETE: worker_commands.on_complete,
    Packet.WORK_FAIL: worker_commands.on_fail,
    Packet.GET_STATUS: client_commands.on_get_status,
    Packet.ECHO_REQ: client_commands.on_echo,
    Packet.SUBMIT_JOB_BG: Submission(background=True).now,
    Packet.SUBMIT_JOB_HIGH: Submission(HIGH, background=False).now,
    Packet.SET_CLIENT_ID: client_commands.on_client_id,
    Packet.CAN_DO_TIMEOUT: worker_commands.on_can_do_timeout,
    Packet.WORK_EXCEPTION: worker_commands.on_exception,
    Packet.OPTION_REQ: client_commands.on_option,
    Packet.WORK_DATA: worker_commands.on_data,
    Packet.WORK_WARNING: worker_commands.on_warning,
    Packet.GRAB_JOB_UNIQ: worker_commands.on_grab_uniq,
    Packet.SUBMIT_JOB_HIGH_BG: Submission(HIGH, background=True).now,
    Packet.SUBMIT_JOB_LOW: Submission(LOW, background=False).now,
    Packet.SUBMIT_JOB_LOW_BG: Submission(LOW, background=True).now,
    Packet.SUBMIT_JOB_SCHED: Submission(background=True).at_match,
    Packet.SUBMIT_JOB_EPOCH: Submission(background=True).at_epoch,
    Packet.SUBMIT_REDUCE_JOB: Submission(background=False).reduced,
    Packet.SUBMIT_REDUCE_JOB_BACKGROUND: Submission(background=True).reduced,
    Packet.GRAB_JOB_ALL: worker_commands.on_grab_all,
    Packet.GET_STATUS_UNIQUE: client_commands.on_get_status_unique,
}

PACKETS: Final[tuple[Command | None, ...]] = tuple(_COMMANDS.get(number) for number in range(TYPES))
"""By number; None for those that the original answers with "Command not expected"."""
