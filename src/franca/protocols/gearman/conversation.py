"""One Gearman connection: packets and lines in, verbs of the broker, packets and lines out.

A connection may be a client, a worker and an operator at once; each message says which. What a
packet does stands in the modules that `packets.py` names, what a line does in `admin.py`, what
those who wait for a job are told in `telling.py`; here messages are cut out of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Event, Finished, LeaseLost, Progressed, Woken
from franca.core.model import NEVER, Demand, Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.conversation import Conversation, Link
from franca.protocols.gathering import Gathering
from franca.protocols.gearman.jobs import ORIGIN
from franca.protocols.gearman.telling import tell_finished, tell_progress
from franca.protocols.gearman.wire import (
    HEADER,
    HEADER_SIZE,
    LINE_BYTES_MAX,
    NOOP,
    REQ,
    RES,
    SEARCHED_AT_ONCE,
    TYPES,
    Packet,
    error,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.service import GearmanService

_unpack = HEADER.unpack_from
_MAGICS: Final = (b"\0REQ", b"\0RES")
_SEARCHES: Final = frozenset(
    {Packet.GRAB_JOB, Packet.GRAB_JOB_UNIQ, Packet.GRAB_JOB_ALL, Packet.PRE_SLEEP}
)
LARGE_BYTES: Final = 1024 * 1024
"""A packet so large that it is gathered by itself, to be copied as little as can be."""
PIECES_A_TURN: Final = 4_000
PIECES_LEAST: Final = 4
BYTES_A_TURN: Final = 64 * 1024
_LINE_ENDS: Final = (b"\n", b"")
TOLD_AT_ONCE: Final = 64
"""What a share gives rise to for others to hear; with more it is over, and they hear it."""
_HTTP: Final = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"DELETE ", b"PATCH ",
                b"CONNECT ", b"TRACE ", b"PRI ")  # fmt: skip
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
    `functions` are those it can do, with the milliseconds it gives itself, newest last; `learned`
    if they changed since it was last looked at. What is said of a job in `over` has no effect
    and is no error. `joins` counts the submits of this connection that wait for the same job as
    one before; `is_heavy` if it was given a job that a crowd waits for. `spent` is what a message
    took beyond the time of most, in messages. `_needed` is how many bytes the message in front has,
    if it is not all there; the body of a large one is gathered in `_large`, and its header is all
    that lies in front of what follows it.

    A client that connects and says nothing until it has a job is a proper one.
    """

    silent_ok = True

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
        self.learned = False
        self.spent = 0
        self.is_heavy = False
        self.called_in = 0
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
        self._packets = service.packets
        self._share = service.limits.turn_messages
        self._body_max = service.limits.frame_bytes_max - HEADER_SIZE
        self._unread = bytearray()
        self._needed = 0
        self._large: Gathering | None = None
        self._unsaid: Iterator[bytes] | None = None
        self._grants: list[bytes] = []

    # -- the contract -------------------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Act on the whole messages among `data`, at most a turn's share of them."""
        self.seen_at = now
        unread = self._unread
        service = self.service
        if service.heavy.busy and self._must_wait(data, now):
            self._keep(data)
            return True
        if unread or self.holding:
            self._keep(data)
            if self._unsaid is not None and not self.link.full:
                self._say_on(self._unsaid)
            if self.holding or self.unread() < self._needed:
                return False
            if self._large is not None:
                return self._act_on_large(self._large, now)
            data = bytes(unread)
            unread.clear()
        elif self._grants and data and not self.link.out:
            # It speaks after it was answered: what it was given before has reached it.
            self._grants.clear()
        self._needed = 0
        used = self._act(data, now)
        if used < len(data) and not self.link.closing:
            unread += memoryview(data)[used:]
            if self._needed > LARGE_BYTES:
                self._large = Gathering(self._needed - HEADER_SIZE)
                self._large.feed(bytes(unread[HEADER_SIZE:]))
                del unread[HEADER_SIZE:]
            if len(self._grants) > 2 * len(self.held) + GRANTS_KEPT:
                self._grants = [handle for handle in self._grants if handle in self.held]
            return not (self._needed or self.holding)
        return False

    def _keep(self, data: bytes) -> None:
        """Have bytes wait until they can be acted on."""
        if self._large is not None:
            data = data[self._large.feed(data) :]
        self._unread += data

    def _act_on_large(self, large: Gathering, now: Millis) -> bool:
        """Act on the large packet in front: that is all that one gets of this turn."""
        magic, number, _ = _unpack(self._unread)
        del self._unread[:HEADER_SIZE]
        self._large = None
        self._needed = 0
        act = self._packets[number]
        if magic != REQ:
            self.link.write(_NOT_MAGIC)
        elif act is None:
            self.link.write(_NOT_EXPECTED)
        else:
            self.link.known = True
            act(self, large.value(), now)
            if len(self.functions) >= SEARCHED_AT_ONCE and number in _SEARCHES:
                self._searched(now)
        self.spent = 0
        if self.learned or len(self.broker.events) > TOLD_AT_ONCE:
            self._end_share(len(self.broker.events), now)
        return bool(self._unread) and not self.holding

    def _must_wait(self, data: bytes, now: Millis) -> bool:
        if self.holding or not (self.is_heavy or len(self.functions) >= SEARCHED_AT_ONCE):
            return False
        return self.service.heavy.must_wait(self, data, now)

    def _act(self, data: bytes, now: Millis) -> int:
        """Act on messages from the front of `data`; returns how many bytes were used up."""
        size, link, service = len(data), self.link, self.service
        packets, most = self._packets, self._body_max
        left, events = self._share, self.broker.events
        burden = len(self.functions) >= SEARCHED_AT_ONCE
        at = 0
        while at < size and left > 0:
            if data[at]:
                end = self._line_end(data, at)
                if end < 0:
                    break
                service.on_line(self, data[at:end], now)
                left = 1  # a list may be long
            else:
                start = at + HEADER_SIZE
                if start > size:
                    self._await_header(data[at:])
                    break
                magic, number, length = _unpack(data, at)
                end = start + length
                if magic != REQ or not 0 < number < TYPES or end > size or length > most:
                    if not self._may_wait_for(magic, number, length):
                        return size
                    if end > size:
                        self._needed = end - at
                        break
                    link.write(_NOT_MAGIC)
                else:
                    act = packets[number]
                    if act is None:
                        link.write(_NOT_EXPECTED)
                    else:
                        link.known = True
                        act(self, data[start:end], now)
                        if burden and number in _SEARCHES:
                            self._searched(now)
            at = end
            left -= 1
            if self.spent:
                left -= self.spent
                self.spent = 0
            if self.holding or link.closing or len(events) > TOLD_AT_ONCE:
                break
            if link.bulky and link.is_full():
                break
        if self.learned or len(events) > TOLD_AT_ONCE:
            self._end_share(len(events), now)
        return at

    def _end_share(self, told: int, now: Millis) -> None:
        if told > TOLD_AT_ONCE:
            self.service.heavy.add(told, now)
        if self.learned:
            if self.sleep is not None:
                self.service.heavy.add(len(self.functions), now)
            self.service.sleep_anew(self, now)

    def _searched(self, now: Millis) -> None:
        """Whoever can do thousands of functions has them all looked at with each search."""
        self.spent += len(self.functions) // SEARCHED_AT_ONCE
        self.service.heavy.add(len(self.functions), now)

    def _await_header(self, head: bytes) -> None:
        """Hang up as soon as it is plain that a packet's first bytes are none of ours."""
        # Four bytes tell whether it is worth waiting for the others.
        self._needed = HEADER_SIZE if len(head) >= 4 else len(head) + 1
        if not any(magic.startswith(head[:4]) for magic in _MAGICS):
            self.link.close()

    def _may_wait_for(self, magic: int, number: int, length: int) -> bool:
        """Whether the rest of such a packet is worth waiting for; if not, the link is closed."""
        if magic not in (REQ, RES) or not 0 < number < TYPES:
            self.link.close()
            return False
        if length > self._body_max:
            text = f"a packet may have {self._body_max} bytes, not {length}"
            self.link.write(error("ARGUMENT_TOO_LARGE", text))
            self.link.close(text)
            return False
        return True

    def _line_end(self, data: bytes, at: int) -> int:
        """Where the line that begins at `at` ends, or -1 until that is known."""
        if data.startswith(_HTTP, at):
            # A web page must not be able to speak to us.
            self.link.close()
            return -1
        end = data.find(b"\n", at, at + LINE_BYTES_MAX) + 1
        if end:
            return end
        if len(data) - at >= LINE_BYTES_MAX:
            self.link.close()
        self._needed = len(data) - at + 1
        return -1

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a job that this connection waits for, runs, or might run."""
        kind = type(event)
        if kind is Finished:
            tell_finished(self, event)  # type: ignore[arg-type]
        elif kind is Woken:
            # Who got up meanwhile need not be woken.
            if event.demand is self.sleep:  # type: ignore[union-attr]
                self.sleep = None
                self.service.woke(self, now)
                self.link.write(NOOP)
        elif kind is Progressed:
            tell_progress(self, event, now)  # type: ignore[arg-type]
        elif kind is LeaseLost:
            self._tell_lost(event.job)  # type: ignore[union-attr]

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

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone. A job whose delivery never left is as if it was never given."""
        if unheard:
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
        self._unsaid = None
        self.service.left(self)

    def _give_back(self, job: Job, now: Millis) -> None:
        try:
            self.broker.give_back(job, self.session.holder, now)
        except Refused:
            pass  # it was taken away meanwhile

    def unread(self) -> int:
        """How many bytes wait in the buffer."""
        large = self._large
        return len(self._unread) + (0 if large is None else large.have)

    def forget_unread(self) -> None:
        """Let go of what waits in the buffer."""
        self._unread.clear()
        self._large = None

    def stop(self, now: Millis) -> None:
        """The server stops: nobody is woken any more. Running jobs may be finished."""
        if self.sleep is not None:
            self.broker.withdraw(self.sleep)
            self.sleep = None

    def granted(self, handle: bytes, job: Job) -> None:
        """The peer runs this job now."""
        self.held[handle] = job
        self._grants.append(handle)
        crowds = self.service.heavy.crowds
        if crowds and job.id in crowds:
            self.is_heavy = True
        if job.origin != ORIGIN:
            self.foreign[job.id] = handle

    def settled(self, handle: bytes) -> Job | None:
        """The peer says that it has ended this job; None if it does not run it."""
        job = self.held.pop(handle, None)
        if self.foreign and job is not None:
            self.foreign.pop(job.id, None)
        return job

    def say_all(self, pieces: Iterable[bytes]) -> None:
        """Say something that takes long to find out, a turn's share of it at a time.

        Nothing else is read from the peer until all is said, but the server goes on: a piece, empty
        or not, should take a microsecond or so.
        """
        self._say_on(iter(pieces))

    def _say_on(self, pieces: Iterator[bytes]) -> None:
        """Say the next share. All long answers of a turn together get little more than one."""
        sharers = self.service.sharers(self.seen_at)
        left, room = max(PIECES_A_TURN // sharers, PIECES_LEAST), BYTES_A_TURN // sharers
        some = []
        for piece in pieces:
            some.append(piece)
            left -= 1
            room -= len(piece)
            # Packets may come between two lines, so only a very long one is cut.
            if (left <= 0 or room <= 0) and (piece[-1:] in _LINE_ENDS or room < -LINE_BYTES_MAX):
                self._unsaid = pieces
                self.holding = True
                self.link.again()
                break
        else:
            self._unsaid = None
            self.holding = False
        said = b"".join(some)
        if said:
            self.link.write(said)

    def go_on(self, now: Millis) -> None:
        """An answer that was waited for is given: act on what lies behind it."""
        self.holding = False
        if self._unread:
            self.link.again()


Act = Callable[[GearmanConversation, bytes, Millis], None]
