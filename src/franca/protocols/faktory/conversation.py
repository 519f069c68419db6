"""One Faktory connection: lines in, verbs of the broker, replies out, strictly in order.

While a FETCH waits for a job, a MUTATE for the store or a large command for its next turn, the
conversation holds: nothing behind it is acted on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused, WireError
from franca.core.events import Event, Granted, Unmet
from franca.core.model import Millis, Session
from franca.protocols.buffer import LineReader
from franca.protocols.conversation import Conversation, Link, Task
from franca.protocols.faktory import admin_commands, client_commands, fetching, worker_commands
from franca.protocols.faktory.fetching import LONG_REPLY_BYTES, NO_JOB, Fetching
from franca.protocols.faktory.go_json import LARGE_BYTES, Unfit
from franca.protocols.faktory.handshake import HELLO_BYTES_MAX, Challenge, on_hello
from franca.protocols.faktory.wire import OK, error, quoted, refusal_of
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
        super().__init__(link)
        self.service = service
        self.broker = service.broker
        self.worker: Worker | None = None
        self.holder = ""
        self.fetching = Fetching(self)
        self.push = service.intake.push
        self.reader = LineReader(HELLO_BYTES_MAX)
        password, old_too = service.settings.password, service.settings.allow_v1_passwords
        self.challenge = Challenge(password, service.rng, old_too=old_too)
        self._commands = _HELLO
        link.write(self.challenge.greeting())

    # -- the contract -------------------------------------------------------------------------

    def on_message(self, message: tuple[bytes, bytes, bytes], now: Millis) -> None:
        """Act on a line."""
        verb, _, rest = message
        self.service.commands += 1
        act = self._commands.get(verb)
        try:
            if act is not None:
                act(self, rest, now)
            elif self.link.known:
                raise Unfit(f"unknown command {quoted(verb)}")
            else:
                self.link.close()
        except Refused as refusal:
            self.say(refusal_of(refusal))

    def on_partial(self, now: Millis) -> None:
        """The beginning of a large line has come: there must be room for the rest."""
        self.holding = len(self.reader) > LARGE_BYTES and self.service.large.must_wait(self)

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

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The client is gone. A job that was not delivered goes back as if never granted."""
        self.reader.clear()
        self.end_task()
        self.service.large.leave(self)
        self._leave(now)
        if undelivered:
            self.fetching.undo(now)

    def stop(self, now: Millis) -> None:
        """The server stops."""
        self.fetching.stop()

    # -- answers --------------------------------------------------------------------------------

    def say(self, reply: bytes) -> None:
        """Answer with what does not depend on the disk."""
        self.fetching.last_grant = NO_JOB
        self.link.write(reply)

    def say_after_commit(self, reply: bytes) -> None:
        """Answer with what must be durable first."""
        self.fetching.last_grant = NO_JOB
        self.link.write_after_commit(reply)
        if len(reply) > LONG_REPLY_BYTES:
            self.link.in_pieces = True

    def say_shared(self, pieces: Sequence[bytes]) -> None:
        """Answer with pieces that many clients share."""
        self.fetching.last_grant = NO_JOB
        self.link.write_pieces(pieces)
        self.link.in_pieces = True

    # -- what takes long --------------------------------------------------------------------------

    def begin(self, task: Task, now: Millis, size: int = 0) -> None:
        """Act on a command that may take more than this turn, and answer it when it is done."""
        if size > LARGE_BYTES:
            self.service.large.take(self, size)
        self.spent += STEP_COST
        super().begin(task, now, size)

    def end_task(self) -> None:
        """A command that took long is answered, or its client is gone."""
        is_large = self.task_bytes > LARGE_BYTES
        super().end_task()
        if is_large:
            self.service.large.leave(self)

    def on_task_done(self, reply: bytes) -> None:
        """Answer a command that took long."""
        if reply:
            self.say_after_commit(reply)

    def on_task_refused(self, refusal: Refused) -> None:
        """Answer why a command that took long was refused."""
        self.say_after_commit(refusal_of(refusal))

    # -- for commands and the registry of workers -------------------------------------------------

    def let_in(self) -> None:
        """HELLO was accepted: from now on every command is."""
        self.link.known = True
        self.reader.limit = self.service.limits.frame_bytes_max
        self._commands = COMMANDS

    def read_on(self) -> None:
        """What was waited for has come: act on what has arrived meanwhile."""
        self.holding = False
        if self.reader.has_input:
            self.link.call_next_turn()

    def on_mutated(self) -> None:
        """A MUTATE is done, which was waited for if its client is still there."""
        if not self.link.closed:
            self.say_after_commit(OK)
            self.resume()

    def drop(self, now: Millis) -> None:
        """Hang up; no job may reach a connection that is being closed."""
        self._leave(now)
        self.link.close()

    def _leave(self, now: Millis) -> None:
        """Withdraw the demand, close the session, and leave the worker."""
        self.fetching.end_wait()
        self.fetching.forget()
        if self.link.known:
            self.broker.close_session(self.session, now)
        if self.worker is not None:
            self.service.registry.leave(self.worker, self)
            self.worker = None


Command = Callable[[FaktoryConversation, bytes, Millis], None]

_HELLO: Final[Mapping[bytes, Command]] = {b"HELLO": on_hello}

COMMANDS: Final[Mapping[bytes, Command]] = {
    b"PUSH": client_commands.on_push,
    b"PUSHB": client_commands.on_push_many,
    b"FETCH": fetching.on_fetch,
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
