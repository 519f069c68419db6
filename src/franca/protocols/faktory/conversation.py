"""One Faktory connection: lines in, verbs of the broker, replies out, strictly in order.

While a FETCH waits for a job, or a MUTATE for the store, the conversation holds: nothing behind
it is acted on. What steers the server as a whole is in `steering.py`.

Who may settle a lease. A job is held by the `wid` of the connection that fetched it, or by the
connection itself where it said none, and ACK and FAIL name only a jid. The holder's word counts.
Another worker's word never does. Where one side has no `wid` there is nothing to compare, and
the original takes anybody's word; then it counts while the job was delivered exactly once,
because it cannot be the word of an earlier delivery. An ACK that comes after the lease ran out
counts by the same rules as long as nobody was given the job since.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.errors import Refused, WireError
from franca.core.events import Event, Granted, Unmet
from franca.core.model import NEVER, Demand, Failure, Job, Millis, OnHangUp, Session, State
from franca.protocols.buffer import ByteBuffer
from franca.protocols.conversation import Conversation, Link
from franca.protocols.faktory.lenient import BAD_JSON, Reader, Unreadable
from franca.protocols.faktory.messages import Ack, Beat, Fail, Hello
from franca.protocols.faktory.wire import (
    EMPTY_MAP,
    NULL,
    OK,
    bulk,
    error,
    greeting,
    password_hash,
)
from franca.protocols.faktory.workers import Worker, WorkerState

if TYPE_CHECKING:
    from franca.protocols.faktory.service import FaktoryService

FETCH_WAIT_MS: Final = 1_850
"""How long a FETCH waits. The document says 2 s; one client gives up at exactly that."""
FETCH_QUEUES_MAX: Final = 1_024
HELLO_BYTES_MAX: Final = 64 * 1024
"""A stranger's line; nobody needs more to say who it is."""
ROUNDS_MIN: Final = 1_000
ROUNDS_MAX: Final = 2_000
"""Hashes that a password costs. Each of ours costs us as much as it costs a guesser."""
ERROR_KIND_BYTES: Final = 100
ANONYMOUS: Final = "link "
"""What the holder's name of a connection without a `wid` begins with."""

LEASED = State.LEASED
_LF: Final = b"\n"
_CR: Final = ord("\r")
_PASSWORD_HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_read_ack = msgspec.json.Decoder(Ack).decode
_read_any_ack = msgspec.json.Decoder(dict[str, str | None]).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


class FaktoryConversation(Conversation):
    """The dialogue with one client, from its greeting on."""

    def __init__(self, service: FaktoryService, link: Link) -> None:
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
        self._demand: Demand | None = None
        self._asked = b""
        self._queues: tuple[str, ...] = ("default",)
        self._last_grant: Job | None = None
        self._last_attempt = 0
        self._rounds = 0
        self._salt = ""
        if service.settings.password:
            self._rounds = service.rng.randrange(ROUNDS_MIN, ROUNDS_MAX + 1)
            self._salt = f"{service.rng.getrandbits(128):032x}"
        link.write(greeting(self._rounds, self._salt))

    # -- the contract -------------------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Act on the whole lines among `data`, at most a turn's share of them."""
        if self._behind or self.holding:
            return self._catch_up(data, now)
        link = self.link
        start = 0
        left = self._share
        while left:
            end = data.find(_LF, start)
            if end < 0 or end - start > self._line_max + 1:
                break
            stop = end - 1 if end > start and data[end - 1] == _CR else end
            verb, _, rest = data[start:stop].partition(b" ")
            start = end + 1
            left -= 1
            act = self._verbs.get(verb)
            if act is None:
                self._on_unknown(verb, rest)
            else:
                act(self, rest, now)
            if self.holding or link.closing:
                break
        self.service.commands += self._share - left
        if start == len(data) or link.closing:
            return False
        self._behind = True
        self._buffer.feed(data[start:] if start else data)
        if self.holding:
            return False
        if left:
            return self._catch_up(b"", now)
        return _LF in data[start:]

    def _catch_up(self, data: bytes, now: Millis) -> bool:
        """The same for what lies in the buffer: parts of lines, or lines that had to wait."""
        buffer = self._buffer
        buffer.feed(data)
        self._behind = True
        link = self.link
        for _ in range(self._share):
            if self.holding:
                return False
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
                self._on_unknown(verb, rest)
            else:
                act(self, rest, now)
            if link.closing:
                return False
        self._behind = len(buffer) > 0
        return self._behind and not self.holding

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """The FETCH that is waited for is answered; nothing else concerns this protocol."""
        if isinstance(event, Granted):
            self.holding = False
            self._demand = None
            if self.link.closing:
                self.broker.give_back(event.job, session.holder, now)
            else:
                self._say_granted(event.job)
        elif isinstance(event, Unmet):
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
        return self._queues if self._asked else ()

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
        hello = _read_hello(rest)
        if hello is None:
            self.link.close()
            return
        if not self._knows_password(hello):
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

    def _knows_password(self, hello: Hello) -> bool:
        """Whether the salted hash is right. Clients before version 2 hash once."""
        settings = self.service.settings
        if not settings.password:
            return True
        said = hello.pwdhash or ""
        is_old = (hello.v or 0) < 2
        if not _PASSWORD_HASH.fullmatch(said) or (is_old and not settings.allow_v1_passwords):
            return False
        right = password_hash(settings.password, self._salt, 1 if is_old else self._rounds)
        return hmac.compare_digest(said.encode(), right.encode())

    def _on_unknown(self, verb: bytes, rest: bytes) -> None:
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
            refused = self.service.intake.push_many(rest, now)
        except Unreadable as refusal:
            self.say(error(f"invalid JSON: {refusal.text}"))
            return
        self.say_after_commit(bulk(_encode(refused)) if refused else EMPTY_MAP)

    # -- consumers --------------------------------------------------------------------------------

    def on_fetch(self, rest: bytes, now: Millis) -> None:
        """FETCH: a job now, or within two seconds, or none."""
        if rest != self._asked and not self._take_queues(rest):
            return
        worker = self.worker
        queues = self._queues
        if worker is not None:
            worker.works = True
            if worker.state:
                queues = ()
        if self.service.stopping:
            self.say(NULL)
            return
        assert self._session is not None
        demand = Demand(self._session, queues, now + FETCH_WAIT_MS)
        answer = self.broker.demand(demand, now)
        if isinstance(answer, Granted):
            self._say_granted(answer.job)
        else:
            self._demand = demand
            self.holding = True

    def _take_queues(self, rest: bytes) -> bool:
        """Read the names after FETCH; False if they were refused."""
        try:
            names = tuple(dict.fromkeys(name for name in rest.decode().split(" ") if name))
        except UnicodeDecodeError:
            self.say(error("queue names must be UTF-8"))
            return False
        most = self.service.limits.name_bytes_max
        if len(names) > FETCH_QUEUES_MAX:
            self.say(error(f"cannot fetch from more than {FETCH_QUEUES_MAX} queues"))
            return False
        if any(len(name.encode()) > most for name in names):
            self.say(error(f"queue names cannot be longer than {most} bytes"))
            return False
        self._asked = rest
        self._queues = names or ("default",)
        return True

    def _say_granted(self, job: Job) -> None:
        self._last_grant = job
        self._last_attempt = job.attempts
        self.link.write_after_commit(self._render(job))

    def on_ack(self, rest: bytes, now: Millis) -> None:
        """ACK: done. A word that comes too late, or twice, is answered OK and changes nothing."""
        try:
            jid = _read_ack(rest).jid
        except BAD_JSON:
            found = _jid_of(rest)
            if found is None:
                self.say(error(f"invalid ACK {rest.decode('utf-8', 'replace')}"))
                return
            jid = found
        job = self._settles(jid)
        if job is not None:
            self.broker.finish(job, job.holder, b"", now)
        else:
            late = self._settles_late(jid)
            if late is not None:
                self.broker.finish_late(late, late.holder, b"", now)
        self._last_grant = None
        self.link.write_after_commit(OK)

    def on_fail(self, rest: bytes, now: Millis) -> None:
        """FAIL: not done, and why."""
        try:
            fail = _FAIL.read(rest)
        except Unreadable:
            self.say(error(f"invalid FAIL {rest.decode('utf-8', 'replace')}"))
            return
        if not fail.jid:
            self.say(error("missing JID"))
            return
        job = self._settles(fail.jid)
        if job is None:
            self.say(error(f"Job not found {fail.jid}"))
            return
        limits = self.service.limits
        text_max = limits.error_text_chars
        failure = Failure(
            _trimmed(fail.errtype or "", ERROR_KIND_BYTES) or "unknown",
            _trimmed(fail.message or "", text_max) or "unknown",
            [_cut(line or "", text_max) for line in (fail.backtrace or ())[: limits.trace_lines]],
        )
        self.broker.fail(job, job.holder, failure, now)
        self.say_after_commit(OK)

    def _settles(self, jid: str) -> Job | None:
        """The running job of that name that this connection may settle; its own comes first."""
        by_trust = None
        for job in self.broker.named(jid):
            if job.state is LEASED:
                if job.holder == self._holder:
                    return job
                if by_trust is None and self._is_trusted_with(job):
                    by_trust = job
        return by_trust

    def _settles_late(self, jid: str) -> Job | None:
        """The job of that name whose lease ran out, if nobody was given it since."""
        for job in self.broker.named(jid):
            if (
                job.story
                and job.story[-1].how == "expired"
                and job.state is not LEASED
                and (job.holder == self._holder or self._is_trusted_with(job))
            ):
                return job
        return None

    def _is_trusted_with(self, job: Job) -> bool:
        """Whether this cannot be a word from an earlier delivery, as nobody can be told apart."""
        return (
            job.attempts == 1
            and not job.bound
            and (self._holder.startswith(ANONYMOUS) or job.holder.startswith(ANONYMOUS))
        )

    def on_beat(self, rest: bytes, now: Millis) -> None:
        """BEAT: the worker lives; the answer may ask it to be quiet or to leave."""
        try:
            beat = _BEAT.read(rest)
        except Unreadable:
            self.say(error(f"invalid BEAT {rest.decode('utf-8', 'replace')}"))
            return
        wid = beat.wid or ""
        workers = self.service.registry
        worker = workers.beat(wid, beat.current_state or "", beat.rss_kb or 0, now)
        if worker is None:
            self.say(error(f"unknown worker {wid}"))
        elif worker.state is WorkerState.RUNNING:
            self.say(OK)
        else:
            self.say(bulk(b'{"state":"%b"}' % worker.state.word.encode()))

    def on_end(self, rest: bytes, now: Millis) -> None:
        """END: no answer, the connection is closed."""
        if rest:
            self.say(error("END takes no arguments"))
        else:
            self.drop(now)


Verb = Callable[[FaktoryConversation, bytes, Millis], None]

_HELLO: Final = Reader(Hello)
_FAIL: Final = Reader(Fail)
_BEAT: Final = Reader(Beat)
_STRANGERS_VERBS: Final[Mapping[bytes, Verb]] = {b"HELLO": FaktoryConversation._on_hello}


def _read_hello(rest: bytes) -> Hello | None:
    if not rest.startswith(b"{"):
        return None
    try:
        return _HELLO.read(rest)
    except Unreadable:
        return None


def _jid_of(rest: bytes) -> str | None:
    """The jid in an ACK that has other members too; all of them must be strings."""
    try:
        members = _read_any_ack(rest)
    except BAD_JSON:
        return None
    return (members["jid"] or "") if "jid" in members else None


def _trimmed(text: str, most: int) -> str:
    return _cut(text.strip(), most)


def _cut(text: str, most: int) -> str:
    """The first `most` bytes of a text, and no half of a character."""
    if len(text) * 4 <= most:
        return text
    return text.encode()[:most].decode("utf-8", "ignore")
