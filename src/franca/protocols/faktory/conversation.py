"""One Faktory connection: lines in, verbs of the broker, replies out, strictly in order.

While a FETCH waits for a job, a MUTATE for the store or a large command for its next turn, the
conversation holds: nothing behind it is acted on. ACK and FAIL are in `settling.py`, what
steers the server as a whole in `steering.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from franca.core.errors import WireError
from franca.core.events import Event, Granted, Unmet
from franca.core.model import Millis, OnHangUp, Session
from franca.protocols.buffer import ByteBuffer
from franca.protocols.conversation import Link
from franca.protocols.faktory.claims import ANONYMOUS
from franca.protocols.faktory.handshake import HELLO_BYTES_MAX, Challenge, read_hello, unfit_wid
from franca.protocols.faktory.text import LARGE_BYTES
from franca.protocols.faktory.waiting import Waiting
from franca.protocols.faktory.wire import NULL, OK, error, quoted

if TYPE_CHECKING:
    from franca.protocols.faktory.service import FaktoryService

_LF: Final = b"\n"
_CR: Final = ord("\r")


class FaktoryConversation(Waiting):
    """The dialogue with one client, from its greeting on."""

    def __init__(self, service: FaktoryService, link: Link) -> None:
        super().__init__(service, link)
        settings = service.settings
        self.push = service.intake.push
        self._verbs: Mapping[bytes, Verb] = _STRANGERS_VERBS
        self._line_max = self._quick_max = HELLO_BYTES_MAX
        self._share = service.limits.turn_messages
        self._buffer = ByteBuffer()
        self._behind = False
        self._challenge = Challenge(
            settings.password, service.rng, old_too=settings.allow_v1_passwords
        )
        link.write(self._challenge.greeting())

    # -- the contract -------------------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Act on the whole lines among `data`, at most a turn's share of them."""
        if self._behind or self.holding:
            return self._catch_up(data, now)
        size = len(data)
        if data.find(_LF) == size - 1 and 1 < size <= self._quick_max:
            # One whole line, as nearly always.
            verb, _, rest = data[: -2 if data[-2] == _CR else -1].partition(b" ")
            self.service.commands += 1
            act = self._verbs.get(verb)
            if act is None:
                self._on_unknown(verb)
            else:
                act(self, rest, now)
            return self._work is not None
        return self._receive_several(data, now)

    def _receive_several(self, data: bytes, now: Millis) -> bool:
        """Act on several lines that came together, or on parts of lines."""
        link = self.link
        size = len(data)
        start = 0
        left = self._share
        while True:
            end = data.find(_LF, start)
            if end < 0 or end - start > self._quick_max:
                break
            stop = end - 1 if end > start and data[end - 1] == _CR else end
            verb, _, rest = data[start:stop].partition(b" ")
            start = end + 1
            left -= 1
            act = self._verbs.get(verb)
            if act is None:
                self._on_unknown(verb)
            else:
                act(self, rest, now)
            if start == size or not left or self.holding or link.closing:
                break
            if link.bulky and link.is_full():
                break  # the rest when this has been taken
        self.service.commands += self._share - left
        if start == size or link.closing:
            return self._work is not None
        self._behind = True
        self._buffer.feed(data[start:])
        if left and not self.holding and not (link.bulky and link.is_full()):
            return self._catch_up(b"", now)
        return not self.holding or self._work is not None

    def _catch_up(self, data: bytes, now: Millis) -> bool:
        """The same for what lies in the buffer: parts of lines, or lines that had to wait."""
        buffer = self._buffer
        buffer.feed(data)
        self._behind = True
        link = self.link
        left = self._share
        if self._work is not None:
            if data or not self.service.gate.admits(self):
                return True  # its turn is not yet, or is in the next call
            self._work_on(self._work, now)
            if link.bulky and link.is_full():
                left = 0
        for _ in range(left):
            if self.holding:
                return self._work is not None
            try:
                words = buffer.take_line(self._line_max)
            except WireError as refusal:
                self._line_too_long(refusal.text, now)
                return False
            if words is None:
                size = len(buffer)
                self._behind = size > 0
                self.holding = size > LARGE_BYTES and self.service.desk.must_wait(self)
                return False
            self.service.commands += 1
            verb, rest = words
            verbs = self._verbs if len(rest) <= LARGE_BYTES else self.service.large_verbs
            act = verbs.get(verb)
            if act is None:
                self._on_unknown(verb)
            else:
                act(self, rest, now)
            if link.closing:
                return False
            if link.bulky and link.is_full():
                break
        self._behind = len(buffer) > 0
        return self._work is not None or (self._behind and not self.holding)

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """The FETCH that is waited for is answered; nothing else concerns this protocol.

        A job may come for a FETCH that was answered otherwise in the same turn: it goes back.
        """
        if isinstance(event, Granted):
            if event.demand is not self._demand or self.link.closing:
                self._give_back(event.job, now)
                return
            self.holding = False
            self._end_wait()
            self._say_granted(event.job)
        elif isinstance(event, Unmet) and event.demand is self._demand:
            self.holding = False
            self._end_wait()
            self.say(NULL)

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The client is gone. A job whose delivery never left is as if it was never given."""
        self._buffer = ByteBuffer()
        if self._work is not None:
            self._work.close()
            self.service.gate.leave(self)
            self._end_work()
        self.service.desk.leave(self)
        self._part(now)
        job = self.broker.jobs.get(self.last_grant)
        if unheard and job is not None and job.attempts == self._last_attempt:
            self._give_back(job, now)

    def unread(self) -> int:
        """How many bytes wait in the buffer, or are kept by a command that is worked on."""
        return self._work_bytes + (len(self._buffer) if self._behind else 0)

    def stop(self, now: Millis) -> None:
        """The server stops: a FETCH that waits is answered, what lies behind it is acted on."""
        self._asked = None
        demand = self._demand
        if demand is not None:
            self.broker.withdraw(demand)
            self._end_wait()
            self.say(NULL)
            self.go_on()

    # -- what steering and the worker registry ask for ------------------------------------------

    def wait_with_rest(self) -> bool:
        """Hold until there is room for the rest of a large line, if that is what comes next."""
        if self.holding or len(self._buffer) <= LARGE_BYTES:
            return False
        self.holding = True
        return True

    def mutated(self) -> None:
        """A MUTATE is done, which was waited for if its client is still there."""
        if not self.link.closed:
            self.say_after_commit(OK)
            self.go_on()

    def drop(self, now: Millis) -> None:
        """Hang up; no job may reach a connection that is being closed."""
        self._part(now)
        self.link.close()

    def _part(self, now: Millis) -> None:
        """Want nothing more and belong to no worker."""
        self._end_wait()
        self._forget_wish()
        if self._session is not None:
            self.broker.close_session(self._session, now)
        if self.worker is not None:
            self.service.registry.leave(self.worker, self)
            self.worker = None

    # -- strangers ------------------------------------------------------------------------------

    def _on_hello(self, rest: bytes, now: Millis) -> None:
        """HELLO, or the end: whatever else a stranger says is not worth an answer."""
        hello = read_hello(rest)
        if hello is None:
            self.link.close()
            return
        if not self._challenge.is_met_by(hello):
            self.link.write(error("Invalid password"))
            self.link.close()
            return
        wid = hello.wid or ""
        limits = self.service.limits
        refusal = unfit_wid(wid, limits.name_bytes_max)
        if refusal:
            self.link.write(error(refusal))
            self.link.close()
            return
        self.holder = wid or ANONYMOUS + self.link.id
        self._session = self.broker.open_session(self.holder, OnHangUp.KEEP, self)
        if wid:
            self.worker = self.service.welcome(wid, hello, self, now)
        self._verbs = self.service.verbs
        self._line_max = limits.frame_bytes_max
        self._quick_max = min(self._line_max, LARGE_BYTES)
        self.link.known = True
        self.link.write(OK)

    def _on_unknown(self, verb: bytes) -> None:
        if not self.link.known:
            self.link.close()
            return
        self.say(error(f"unknown command {quoted(verb)}"))

    def _line_too_long(self, text: str, now: Millis) -> None:
        """Where the line ends is not known, so nothing after it can be trusted."""
        self._buffer = ByteBuffer()
        self._behind = False
        if self.link.known:
            self.say(error(text))
        self.drop(now)


Verb = Callable[[FaktoryConversation, bytes, Millis], None]

_STRANGERS_VERBS: Final[Mapping[bytes, Verb]] = {b"HELLO": FaktoryConversation._on_hello}
