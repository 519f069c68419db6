"""One Faktory connection: lines in, verbs of the broker, replies out, strictly in order.

While a FETCH waits for a job, a MUTATE for the store or a large command for its next turn, the
conversation holds: nothing behind it is acted on. ACK and FAIL are in `worker_commands.py`, what
steers the server as a whole in `admin_commands.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused, WireError
from franca.core.events import Event, Granted, Unmet
from franca.core.model import Millis, OnHangUp, Session
from franca.protocols.buffer import LineReader
from franca.protocols.conversation import Conversation, Link, Task
from franca.protocols.faktory import admin_commands, client_commands, worker_commands
from franca.protocols.faktory.ack_rules import ANONYMOUS
from franca.protocols.faktory.fetching import LONG_REPLY_BYTES, NO_JOB, Fetching
from franca.protocols.faktory.handshake import HELLO_BYTES_MAX, Challenge, read_hello, unfit_wid
from franca.protocols.faktory.parse import refusal_of
from franca.protocols.faktory.text import LARGE_BYTES
from franca.protocols.faktory.wire import OK, error, quoted
from franca.protocols.faktory.workers import Worker

if TYPE_CHECKING:
    from franca.protocols.faktory.service import FaktoryService


STEP_COST: Final = 40
"""What a step of a command that takes long costs, in messages."""


class FaktoryConversation(Conversation):
    """The dialogue with one client, from its greeting on. It has a `session` once it is known."""

    reader: LineReader
    session: Session

    def __init__(self, service: FaktoryService, link: Link) -> None:
        self.link = link
        self.service = service
        self.broker = service.broker
        self.worker: Worker | None = None
        self.holder = ""
        self.fetching = Fetching(self)
        settings = service.settings
        self.push = service.intake.push
        self.reader = LineReader(HELLO_BYTES_MAX)
        self._commands: Mapping[bytes, Command] = _HELLO
        self._challenge = Challenge(
            settings.password, service.rng, old_too=settings.allow_v1_passwords
        )
        link.write(self._challenge.greeting())

    # -- the contract -------------------------------------------------------------------------

    def on_message(self, message: tuple[bytes, bytes], now: Millis) -> None:
        """Act on a line."""
        verb, rest = message
        self.service.commands += 1
        commands = self._commands if len(rest) <= LARGE_BYTES else LARGE_COMMANDS
        act = commands.get(verb)
        if act is None:
            self._on_unknown(verb)
        else:
            act(self, rest, now)

    def on_partial(self, now: Millis) -> None:
        """The beginning of a large line has come: there must be room for the rest."""
        self.holding = len(self.reader) > LARGE_BYTES and self.service.desk.must_wait(self)

    def on_unreadable(self, refusal: WireError, now: Millis) -> None:
        """Where the line ends is not known, so nothing after it can be trusted."""
        self.reader.clear()
        if self.link.known:
            self.say(error(refusal.text))
        self.drop(now)

    def on_turn(self, now: Millis) -> None:
        """Go on with a command that takes long, or wait for the rest of a large one."""
        if self.task is not None:
            super().on_turn(now)
        elif not (self.reader.has_input or self.holding):
            self.on_partial(now)

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """The FETCH that is waited for is answered; nothing else concerns this protocol."""
        if isinstance(event, Granted):
            self.fetching.on_granted(event, now)
        elif isinstance(event, Unmet):
            self.fetching.on_unmet(event.demand)

    def read_on(self) -> None:
        """What was waited for has come: act on what lies behind it."""
        self.holding = False
        if self.reader.has_input:
            self.link.call_next_turn()

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The client is gone. A job whose delivery never left is as if it was never given."""
        self.reader.clear()
        self.end_task()
        self.service.desk.leave(self)
        self._part(now)
        if undelivered:
            self.fetching.undo(now)

    def stop(self, now: Millis) -> None:
        """The server stops."""
        self.fetching.stop()

    # -- answers --------------------------------------------------------------------------------

    def say(self, reply: bytes) -> None:
        """Answer with what no disk can make untrue."""
        self.fetching.last_grant = NO_JOB
        self.link.write(reply)

    def say_after_commit(self, reply: bytes) -> None:
        """Answer with what must be durable first."""
        self.fetching.last_grant = NO_JOB
        self.link.write_after_commit(reply)
        if len(reply) > LONG_REPLY_BYTES:
            self.link.bulky = True

    def say_shared(self, pieces: Sequence[bytes]) -> None:
        """The same for an answer that many may be given: each is said the very same pieces."""
        self.fetching.last_grant = NO_JOB
        if len(pieces) > 1 or len(pieces[0]) > LONG_REPLY_BYTES:
            self.link.write_bulk(*pieces)
        else:
            self.link.write(pieces[0])

    # -- what takes long --------------------------------------------------------------------------

    def begin(self, task: Task, now: Millis, size: int = 0) -> None:
        """Act on a command that may take more than this turn, and answer it when it is done."""
        if size > LARGE_BYTES:
            self.service.desk.take(self, size)
        self.spent += STEP_COST
        super().begin(task, now, size)

    def end_task(self) -> None:
        """A command that took long is answered, or nobody is there to be answered."""
        is_large = self.task_bytes > LARGE_BYTES
        super().end_task()
        if is_large:
            self.service.desk.leave(self)

    def on_task_done(self, reply: bytes) -> None:
        """Answer a command that took long."""
        if reply:
            self.say_after_commit(reply)

    def on_task_refused(self, refusal: Refused) -> None:
        """Say why a command that took long was refused."""
        self.say_after_commit(refusal_of(refusal))

    # -- what steering and the worker registry ask for ------------------------------------------

    def wait_with_rest(self) -> bool:
        """Hold until there is room for the rest of a large line, if that is what comes next."""
        if self.holding or len(self.reader) <= LARGE_BYTES:
            return False
        self.holding = True
        return True

    def mutated(self) -> None:
        """A MUTATE is done, which was waited for if its client is still there."""
        if not self.link.closed:
            self.say_after_commit(OK)
            self.resume()

    def drop(self, now: Millis) -> None:
        """Hang up; no job may reach a connection that is being closed."""
        self._part(now)
        self.link.close()

    def _part(self, now: Millis) -> None:
        """Want nothing more and belong to no worker."""
        self.fetching.end_wait()
        self.fetching.forget()
        if self.link.known:
            self.broker.close_session(self.session, now)
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
        self.session = self.broker.open_session(self.holder, OnHangUp.KEEP, self)
        if wid:
            self.worker = self.service.welcome(wid, hello, self, now)
        self._commands = COMMANDS
        self.reader.limit = limits.frame_bytes_max
        self.link.known = True
        self.link.write(OK)

    def _on_unknown(self, verb: bytes) -> None:
        if not self.link.known:
            self.link.close()
            return
        self.say(error(f"unknown command {quoted(verb)}"))


Command = Callable[[FaktoryConversation, bytes, Millis], None]

_HELLO: Final[Mapping[bytes, Command]] = {b"HELLO": FaktoryConversation._on_hello}

COMMANDS: Final[Mapping[bytes, Command]] = {
    b"PUSH": client_commands.on_push,
    b"PUSHB": client_commands.on_push_many,
    b"FETCH": worker_commands.on_fetch,
    b"ACK": worker_commands.on_ack,
    b"FAIL": worker_commands.on_fail,
    b"BEAT": worker_commands.on_beat,
    b"END": admin_commands.on_end,
    b"INFO": admin_commands.on_info,
    b"FLUSH": admin_commands.on_flush,
    b"QUEUE": admin_commands.on_queue,
    b"MUTATE": admin_commands.on_mutate,
    b"TRACK": admin_commands.on_track,
    b"BATCH": admin_commands.on_batch,
}

LARGE_COMMANDS: Final[Mapping[bytes, Command]] = {
    **COMMANDS,
    b"PUSH": client_commands.on_push_large,
    b"ACK": worker_commands.on_large_ack,
    b"FAIL": worker_commands.on_large_fail,
    b"BEAT": worker_commands.on_large_beat,
}
"""The same for lines that are too large to be read at once."""
