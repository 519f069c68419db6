"""One Periodic connection from its first byte: registration, messages, rights.

Messages are many on one connection and carry ids, so that answers come in any order. Only what
takes many turns (a LOAD, a DUMP, a DROP_FUNC) holds up what lies behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused, TooMuch, WireError
from franca.core.events import Event, Finished, Granted, LeaseLost, Progressed, Woken
from franca.core.model import NEVER, Millis, OnHangUp, Session
from franca.protocols.conversation import WHOLE_SHARE, Conversation, Link
from franca.protocols.numbers import PERIODIC
from franca.protocols.periodic import admin_commands, client_commands, messages, worker_commands
from franca.protocols.periodic.auth import ADMIN, Forbidden, Rule, rule_of
from franca.protocols.periodic.binary import CrcDialect
from franca.protocols.periodic.client_commands import Waits
from franca.protocols.periodic.crc import SHARED_BYTES
from franca.protocols.periodic.handshake import Handshake
from franca.protocols.periodic.jobs import Dialect
from franca.protocols.periodic.messages import NO_WORKER, SUCCESS, UNKNOWN, Message, Opening
from franca.protocols.periodic.wire import LARGE_BYTES, FrameReader
from franca.protocols.periodic.worker_commands import NotNow
from franca.protocols.periodic.workers import Worker
from franca.protocols.undelivered import give_back_undelivered

if TYPE_CHECKING:
    from franca.protocols.periodic.service import PeriodicService

FUNCTION_CHANGES: Final = frozenset({messages.CAN_DO, messages.CANT_DO, messages.BROADCAST})
"""What changes a worker's functions: its demand is made anew once behind all of these."""


class PeriodicConversation(Conversation):
    """The dialogue with one client or worker: any of them may send anything.

    One family of workers registers as clients, and one library lets its workers submit.
    """

    reader: FrameReader
    session: Session

    def __init__(self, service: PeriodicService, link: Link, now: Millis) -> None:
        super().__init__(link)
        self.service = service
        self.broker = service.broker
        self.reader = FrameReader()
        self.dialect: Dialect = service.doc
        self.heard_at = self.joined_at = now
        self.asked_at: Millis = NEVER
        self.is_checked = False
        """Whether its frames carry CRCs."""
        self.answers_grabs = False
        self.follows_document = False
        self.asks_later = False
        """Whether what is `has_follow_up` has to wait for the next turn."""
        self.is_gone = False
        self.handshake = Handshake(self)
        self.waits = Waits(self)
        self.worker = Worker(self)
        self._commands: Commands = {}
        self._identity = (b"", b"")
        self._postponed: Message | None = None

    # -- reading ----------------------------------------------------------------------------------

    def on_message(self, message: Message | Opening, now: Millis) -> None:
        """Act on a message; the first registers the connection."""
        self.heard_at = now
        if not isinstance(message, Message):  # to ask for Opening is slow to say no
            self._on_opening(message, now)
            return
        self.service.commands += 1
        if self.handshake.is_undecided:
            self.handshake.decide(message, now)
        if self.has_follow_up and not self.asks_later and message.command not in FUNCTION_CHANGES:
            self._ask_for_jobs(now)
        if len(message.args) > LARGE_BYTES:
            self.spent += WHOLE_SHARE
        handler = self._commands.get(message.command)
        if handler is None:
            self.answer(message.id, UNKNOWN)
            return
        try:
            handler(self, message, now)
        except NotNow as reason:
            self._postponed = message
            self.holding = True
            self.service.postponed[self] = reason.name
        except Refused as refusal:
            self._on_refused(message, refusal)

    def _on_refused(self, message: Message, refusal: Refused) -> None:
        """What cannot be done is not understood; what may not be done has no worker."""
        if isinstance(refusal, Forbidden):
            self.answer(message.id, NO_WORKER)
            return
        if isinstance(refusal, TooMuch):
            self.link.note(str(refusal))
        self.answer(message.id, UNKNOWN)

    def _on_opening(self, opening: Opening, now: Millis) -> None:
        self._identity = (opening.name, opening.token)
        self.joined_at = now
        self.handshake.register(opening, now)
        holder = f"periodic {self.link.id}"
        self.session = self.broker.open_session(holder, OnHangUp.RETURN, self, PERIODIC)
        self.link.known = True
        self.service.connections[self.link.id] = self

    def use(self, dialect: Dialect) -> None:
        """Read and write this dialect from now on."""
        self.dialect = dialect
        self._commands = ALL if isinstance(dialect, CrcDialect) else DOCUMENT
        self.reader.frames = dialect.frames(self.service.limits.frame_bytes_max)

    @property
    def binary(self) -> CrcDialect:
        """The dialect of a connection that sends what only binary dialects have."""
        assert isinstance(self.dialect, CrcDialect)
        return self.dialect

    def on_partial(self, now: Millis) -> None:
        """The beginning of a message has come."""
        self.heard_at = now

    def on_unreadable(self, error: WireError, now: Millis) -> None:
        """These bytes are not Periodic's."""
        self.service.unreadable += 1
        self.drop(now, str(error))

    def on_turn(self, now: Millis) -> None:
        """Act on the message that was postponed; ask for what had to wait for this turn."""
        super().on_turn(now)
        if self._postponed is not None and self not in self.service.postponed:
            message, self._postponed = self._postponed, None
            self.holding = False
            self.on_message(message, now)
        if self.has_follow_up and not self.holding:
            self.asks_later = False
            self._ask_for_jobs(now)

    def follow_up(self, now: Millis) -> None:
        """The functions have changed: ask for other jobs."""
        if not (self.asks_later or self.link.closing):
            self._ask_for_jobs(now)

    def _ask_for_jobs(self, now: Millis) -> None:
        self.has_follow_up = False
        self.worker.ask_for_all(now)

    def unread(self) -> int:
        """How many bytes wait to be acted on."""
        return super().unread() + (len(self._postponed.args) if self._postponed else 0)

    def forget_unread(self) -> None:
        """Drop these bytes."""
        self.reader.clear()
        self.end_task()
        self._postponed = None
        self.service.postponed.pop(self, None)

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a job that was asked for, run or watched here."""
        if isinstance(event, Granted):
            self.worker.on_granted(event, now)
        elif self.link.closing:
            return
        elif isinstance(event, Finished):
            self.waits.on_finished(event, now)
        elif isinstance(event, Progressed):
            self.waits.on_progressed(event, now)
        elif isinstance(event, Woken):
            self.worker.on_woken(event)
        elif isinstance(event, LeaseLost):
            self.worker.on_run_over(now)

    # -- writing ----------------------------------------------------------------------------------

    def answer(self, msgid: bytes, command: int) -> None:
        """Answer with a bare command."""
        self.link.write(self.dialect.bare(msgid, command))

    def succeed(self, msgid: bytes) -> None:
        """SUCCESS, once it is durable."""
        self.link.write_after_commit(self.dialect.bare(msgid, SUCCESS))

    def answer_data(self, msgid: bytes, data: bytes, *, after_commit: bool = False) -> None:
        """Answer with data, of which all who are sent it share one copy unless it is short."""
        shared = self.service.share(data) if len(data) >= SHARED_BYTES else None
        if shared is not None and shared.is_for_many():
            front = self.dialect.front(msgid + self.dialect.before_data, shared)
            self.link.write_pieces((front, data))
        else:
            self.link.write(self.dialect.data(msgid, data))
        if after_commit:
            self.link.after_commit = True

    # -- rights -----------------------------------------------------------------------------------

    def rule(self) -> Rule | None:
        """What the peer may do now; None without an auth file. `Forbidden` if it names no such."""
        rules = self.service.rules
        if rules is None:
            return None
        rule = rule_of(rules, *self._identity)
        if rule is None:
            raise Forbidden("unknown name or wrong token")
        return rule

    def may(self, role: str, func: str) -> bool:
        """Whether the peer may act in this role, on this function."""
        rules = self.service.rules
        if rules is None:
            return True
        rule = rule_of(rules, *self._identity)
        return rule is not None and rule.role in (role, ADMIN) and rule.allows(func)

    def check_may(self, role: str, func: str) -> None:
        """`Forbidden` unless the peer may act in this role, on this function."""
        if not self.may(role, func):
            raise Forbidden("not among its functions")

    def check_admin(self) -> None:
        """`Forbidden` unless the peer may control the whole server."""
        rule = self.rule()
        if rule is not None and rule.role != ADMIN:
            raise Forbidden("for admins only")

    # -- the end ----------------------------------------------------------------------------------

    def stop(self, now: Millis) -> None:
        """The server stops: nothing more is given out; no command says so."""
        self.worker.withdraw()

    def drop(self, now: Millis, reason: str = "") -> None:
        """Hang up; no job may reach a connection that is being closed."""
        self._leave(now)
        self.link.close(reason)

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The peer is gone: what it held is run again, what it waited for is not sent.

        What it said of its jobs counts, though it was kept waiting.
        """
        if self._postponed is not None:
            self.is_gone = True
            self.holding = False
            self._postponed = None
            self.act_on_rest(now)
        if undelivered and self.link.known:
            give_back_undelivered(self.broker, self.session, self.heard_at, now)
        self._leave(now)

    def _leave(self, now: Millis) -> None:
        self.worker.leave()
        self.waits.leave()
        self.handshake.leave()
        self.forget_unread()
        self.has_follow_up = False
        if self.link.known:
            self.service.connections.pop(self.link.id, None)
            self.broker.close_session(self.session, now)


Commands = Mapping[int, Callable[[PeriodicConversation, Message, Millis], None]]

# The document's; the older dialects know no more.
DOCUMENT: Final[Commands] = {
    messages.GRAB_JOB: worker_commands.on_grab_job,
    messages.SCHED_LATER: worker_commands.on_sched_later,
    messages.WORK_DONE: worker_commands.on_work_done,
    messages.WORK_FAIL: worker_commands.on_work_fail,
    messages.CAN_DO: worker_commands.on_can_do,
    messages.CANT_DO: worker_commands.on_cant_do,
    messages.PING: client_commands.on_ping,
    messages.SLEEP: worker_commands.on_sleep,
    messages.SUBMIT_JOB: client_commands.on_submit_job,
    messages.STATUS: admin_commands.on_status,
    messages.DROP_FUNC: admin_commands.on_drop_func,
    messages.REMOVE_JOB: client_commands.on_remove_job,
    messages.DUMP: admin_commands.on_dump,
    messages.LOAD: admin_commands.on_load,
}
ALL: Final[Commands] = {
    **DOCUMENT,
    messages.SHUTDOWN: admin_commands.on_shutdown,
    messages.BROADCAST: worker_commands.on_can_do,
    messages.CONFIG_GET: admin_commands.on_config_get,
    messages.CONFIG_SET: admin_commands.on_config_set,
    messages.RUN_JOB: client_commands.on_run_job,
    messages.ACQUIRE: worker_commands.on_acquire,
    messages.RELEASE: worker_commands.on_release,
    messages.RECV_DATA: client_commands.on_recv_data,
    messages.WORK_DATA: worker_commands.on_work_data,
    messages.JOB_ASSIGNED: worker_commands.on_job_assigned,
    messages.JOB_UNASSIGNED: worker_commands.on_job_unassigned,
}
