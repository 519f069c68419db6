"""One Faktory connection: lines in, verbs of the broker, replies out, strictly in order.

While a FETCH waits for a job, a MUTATE for the store or a large PUSHB for its next turn, the
conversation holds: nothing behind it is acted on. Whose ACK counts is decided in `claims.py`;
what steers the server as a whole is in `steering.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.errors import Refused, WireError
from franca.core.events import Event, Granted, Unmet
from franca.core.model import NEVER, Demand, Job, Millis, OnHangUp, Session
from franca.protocols.buffer import ByteBuffer
from franca.protocols.conversation import Conversation, Link
from franca.protocols.faktory.claims import ANONYMOUS, LEASED, expired_of, held_by
from franca.protocols.faktory.handshake import HELLO_BYTES_MAX, Challenge, read_hello
from franca.protocols.faktory.job import Bulk
from franca.protocols.faktory.lenient import BAD_JSON, Unreadable
from franca.protocols.faktory.reports import (
    failure_in,
    read_ack,
    read_fail,
    read_queues,
    read_usual_ack,
)
from franca.protocols.faktory.wire import EMPTY_MAP, NULL, OK, bulk, error
from franca.protocols.faktory.workers import Worker, WorkerState

if TYPE_CHECKING:
    from franca.protocols.faktory.service import FaktoryService

FETCH_WAIT_MS: Final = 1_850
"""How long a FETCH waits. The document says 2 s; one client gives up at exactly that."""

_LF: Final = b"\n"
_CR: Final = ord("\r")
_encode = msgspec.json.Encoder(order="deterministic").encode


class FaktoryConversation(Conversation):
    """The dialogue with one client, from its greeting on."""

    def __init__(self, service: FaktoryService, link: Link) -> None:
        settings = service.settings
        self.link = link
        self.service = service
        self.broker = service.broker
        self.worker: Worker | None = None
        self._push = service.intake.push
        self._render = service.renderer.reply
        self._verbs: Mapping[bytes, Verb] = _STRANGERS_VERBS
        self._line_max = HELLO_BYTES_MAX
        self._share = service.limits.turn_messages
        self._buffer = ByteBuffer()
        self._behind = False
        self._session: Session | None = None
        self._holder = ""
        self._bulk: Bulk | None = None
        self._demand: Demand | None = None
        self._asked: bytes | None = None
        self._queues: tuple[str, ...] = ()
        self._wanted: tuple[str, ...] = ()
        self._last_grant: Job | None = None
        self._last_attempt = 0
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
        if data.find(_LF) == size - 1 and 1 < size <= self._line_max:
            # One whole line, as nearly always.
            verb, _, rest = data[: -2 if data[-2] == _CR else -1].partition(b" ")
            self.service.commands += 1
            act = self._verbs.get(verb)
            if act is None:
                self._on_unknown(verb)
            else:
                act(self, rest, now)
            return self._bulk is not None
        return self._receive_several(data, now)

    def _receive_several(self, data: bytes, now: Millis) -> bool:
        """Act on several lines that came together, or on parts of lines."""
        link = self.link
        size = len(data)
        start = 0
        left = self._share
        while True:
            end = data.find(_LF, start)
            if end < 0 or end - start > self._line_max + 1:
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
        self.service.commands += self._share - left
        if start == size or link.closing:
            return self._bulk is not None
        self._behind = True
        self._buffer.feed(data[start:])
        if left and not self.holding:
            return self._catch_up(b"", now)
        return not self.holding or self._bulk is not None

    def _catch_up(self, data: bytes, now: Millis) -> bool:
        """The same for what lies in the buffer: parts of lines, or lines that had to wait."""
        buffer = self._buffer
        buffer.feed(data)
        self._behind = True
        link = self.link
        if self._bulk is not None:
            self._push_some(self._bulk, now)
        for _ in range(self._share):
            if self.holding:
                return self._bulk is not None
            try:
                line = buffer.take_line(self._line_max)
            except WireError as refusal:
                self._line_too_long(refusal.text, now)
                return False
            if line is None:
                self._behind = len(buffer) > 0
                return False
            self.service.commands += 1
            verb, _, rest = line.partition(b" ")
            act = self._verbs.get(verb)
            if act is None:
                self._on_unknown(verb)
            else:
                act(self, rest, now)
            if link.closing:
                return False
        self._behind = len(buffer) > 0
        return self._bulk is not None or (self._behind and not self.holding)

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """The FETCH that is waited for is answered; nothing else concerns this protocol.

        A job may come for a FETCH that was answered otherwise in the same turn: it goes back.
        """
        if isinstance(event, Granted):
            if event.demand is not self._demand or self.link.closing:
                self.broker.give_back(event.job, session.holder, now)
                return
            self.holding = False
            self._demand = None
            self._say_granted(event.job)
        elif isinstance(event, Unmet) and event.demand is self._demand:
            self.holding = False
            self._demand = None
            self.say(NULL)

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The client is gone. A job whose delivery never left is as if it was never given."""
        self._part(now)
        job = self._last_grant
        if unheard and job is not None and job.attempts == self._last_attempt:
            try:
                self.broker.give_back(job, self._holder, now)
            except Refused:
                pass  # it ran out, or was settled over another connection

    def unread(self) -> int:
        """How many bytes wait in the buffer."""
        return len(self._buffer) if self._behind else 0

    def stop(self, now: Millis) -> None:
        """The server stops: a FETCH that waits is answered, what lies behind it is acted on."""
        self._asked = None
        demand = self._demand
        if demand is not None:
            self.broker.withdraw(demand)
            self._demand = None
            self.say(NULL)
            self.go_on(now)

    # -- what steering and the worker registry ask for ------------------------------------------

    def say(self, reply: bytes) -> None:
        """Answer with what no disk can make untrue."""
        self._last_grant = None
        self.link.write(reply)

    def say_after_commit(self, reply: bytes) -> None:
        """Answer with what must be durable first."""
        self._last_grant = None
        self.link.write_after_commit(reply)

    def go_on(self, now: Millis) -> None:
        """An answer that was waited for is given, outside of a turn's share: read on."""
        self.holding = False
        while not self.link.closing and self.receive(b"", now):
            pass

    def hush(self) -> None:
        """Give no more jobs to this connection; a FETCH that waits does so in vain."""
        self._asked = None
        demand = self._demand
        if demand is not None and demand.queues:
            self.broker.withdraw(demand)
            self._demand = Demand(demand.session, (), demand.until)
            # It ends when the other would have; the present moment decides nothing about it.
            self.broker.demand(self._demand, NEVER)

    def drop(self, now: Millis) -> None:
        """Hang up; no job may reach a connection that is being closed."""
        self._part(now)
        self.link.close()

    def fetched_queues(self) -> tuple[str, ...]:
        """The queues of the last FETCH."""
        return self._queues

    def _part(self, now: Millis) -> None:
        """Want nothing more and belong to no worker."""
        self._demand = None
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
        if len(wid.encode()) > limits.name_bytes_max or "\0" in wid:
            self.link.write(error(f"wid must be text of at most {limits.name_bytes_max} bytes"))
            self.link.close()
            return
        self._holder = wid or ANONYMOUS + self.link.id
        self._session = self.broker.open_session(self._holder, OnHangUp.KEEP, self)
        if wid:
            self.worker = self.service.welcome(wid, hello, self, now)
        self._verbs = self.service.verbs
        self._line_max = limits.frame_bytes_max
        self.link.known = True
        self.link.write(OK)

    def _on_unknown(self, verb: bytes) -> None:
        if not self.link.known:
            self.link.close()
            return
        self.say(error(f"unknown command {verb.decode('utf-8', 'replace')}"))

    def _line_too_long(self, text: str, now: Millis) -> None:
        """Where the line ends is not known, so nothing after it can be trusted."""
        self._buffer = ByteBuffer()
        self._behind = False
        if self.link.known:
            self.say(error(text))
        self.drop(now)

    # -- producers --------------------------------------------------------------------------------

    def on_push(self, rest: bytes, now: Millis) -> None:
        """PUSH: one job."""
        self._last_grant = None
        try:
            self._push(rest, now)
        except Unreadable as refusal:
            self.link.write(error(f"invalid JSON: {refusal.text}"))
        except Refused as refusal:
            self.link.write(error(refusal.text))
        else:
            self.link.write_after_commit(OK)

    def on_push_many(self, rest: bytes, now: Millis) -> None:
        """PUSHB: many jobs; the answer names those that were not taken."""
        try:
            self._bulk = self.service.intake.read_many(rest)
        except Unreadable as refusal:
            self.say(error(f"invalid JSON: {refusal.text}"))
        else:
            self._push_some(self._bulk, now)

    def _push_some(self, bulk_push: Bulk, now: Millis) -> None:
        """Take in a turn's share of a PUSHB, and answer it behind the last one."""
        self.holding = not self.service.intake.push_some(bulk_push, now)
        if not self.holding:
            self._bulk = None
            refused = bulk_push.refused
            self.say_after_commit(bulk(_encode(refused)) if refused else EMPTY_MAP)

    # -- consumers --------------------------------------------------------------------------------

    def on_fetch(self, rest: bytes, now: Millis) -> None:
        """FETCH: a job now, or within two seconds, or none."""
        if rest != self._asked and not self._may_ask(rest):
            return
        assert self._session is not None
        demand = Demand(self._session, self._wanted, now + FETCH_WAIT_MS)
        answer = self.broker.demand(demand, now)
        if isinstance(answer, Granted):
            self._say_granted(answer.job)
        else:
            self._demand = demand
            self.holding = True

    def _may_ask(self, rest: bytes) -> bool:
        """Whether this connection may ask for jobs, and of which queues; if not, it is told.

        As long as nothing about that changes, `_asked` keeps a FETCH from being looked at again.
        """
        try:
            names = read_queues(rest, self.service.limits)
        except Refused as refusal:
            self.say(error(refusal.text))
            return False
        self._queues = self._wanted = names or ("default",)
        worker = self.worker
        if worker is not None:
            worker.works = True
        is_quiet = worker is not None and worker.state is not WorkerState.RUNNING
        if is_quiet or self.service.stopping:
            # It waits as any other FETCH does, for nothing: two client libraries ask again at
            # once when they are answered at once.
            self._wanted = ()
        else:
            self._asked = rest
        return True

    def _say_granted(self, job: Job) -> None:
        self._last_grant = job
        self._last_attempt = job.attempts
        self.link.write_after_commit(self._render(job))

    def on_ack(self, rest: bytes, now: Millis) -> None:
        """ACK: done. A word that comes too late, or twice, is answered OK and changes nothing."""
        try:
            jid = read_usual_ack(rest).jid
        except BAD_JSON:
            found = read_ack(rest)
            if found is None:
                self.say(error(f"invalid ACK {rest.decode('utf-8', 'replace')}"))
                return
            jid = found
        job = self._last_grant
        if job is None or job.name != jid or job.holder != self._holder or job.state is not LEASED:
            job = held_by(self.broker, self._holder, jid)
        if job is not None:
            self.broker.finish(job, job.holder, b"", now)
        else:
            late = expired_of(self.broker, self._holder, jid)
            if late is not None:
                self.broker.finish_late(late, late.holder, b"", now)
        self._last_grant = None
        self.link.write_after_commit(OK)

    def on_fail(self, rest: bytes, now: Millis) -> None:
        """FAIL: not done, and why."""
        try:
            fail = read_fail(rest)
        except Unreadable:
            self.say(error(f"invalid FAIL {rest.decode('utf-8', 'replace')}"))
            return
        if not fail.jid:
            self.say(error("missing JID"))
            return
        job = held_by(self.broker, self._holder, fail.jid)
        if job is None:
            self.say(error(f"Job not found {fail.jid}"))
            return
        self.broker.fail(job, job.holder, failure_in(fail, self.service.limits), now)
        self.say_after_commit(OK)


Verb = Callable[[FaktoryConversation, bytes, Millis], None]

_STRANGERS_VERBS: Final[Mapping[bytes, Verb]] = {b"HELLO": FaktoryConversation._on_hello}
