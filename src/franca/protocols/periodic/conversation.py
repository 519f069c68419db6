"""One Periodic connection from its first byte: registration, messages, rights.

Messages are many on one connection and carry ids, so that answers come in any order. Only what
takes many turns (a LOAD, a DUMP, a DROP_FUNC) holds up what lies behind it. What clients and
workers may say is built on this, in `asking.py` and `working.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused, TooMuch, WireError
from franca.core.events import Event, Finished, Granted, LeaseLost, Progressed, Woken
from franca.core.model import NEVER, Millis, OnHangUp, Session
from franca.protocols.conversation import WHOLE_SHARE, Link
from franca.protocols.periodic import commands
from franca.protocols.periodic.auth import ADMIN, Forbidden, Rule, rule_of
from franca.protocols.periodic.binary import CrcDialect
from franca.protocols.periodic.client_commands import Client
from franca.protocols.periodic.commands import BROADCAST, CAN_DO, CANT_DO, NO_WORKER, UNKNOWN
from franca.protocols.periodic.connection import PeriodicConnection, Verbs
from franca.protocols.periodic.dialect import Dialect
from franca.protocols.periodic.opening import Opening
from franca.protocols.periodic.part import NotNow
from franca.protocols.periodic.wire import LARGE_BYTES, Message
from franca.protocols.periodic.worker_commands import Worker

if TYPE_CHECKING:
    from franca.protocols.periodic.service import PeriodicService

LEARNING: Final = frozenset({CAN_DO, CANT_DO, BROADCAST})
"""What changes a worker's functions: its demand is made anew once behind all of these."""
CLIENT_PART: Final = 0
WORKER_PART: Final = 1
LAST_SHARES: Final = 8
"""Turns' shares of a peer that is gone that are acted on, if it was kept waiting."""


class PeriodicConversation(PeriodicConnection):
    """The dialogue with one client or worker: any of them may say anything.

    One family of workers registers as clients, and one library lets its workers submit.
    """

    session: Session

    def __init__(self, service: PeriodicService, link: Link, now: Millis) -> None:
        super().__init__(service, link, now)
        self._put_off: Message | None = None
        self.is_gone = False
        self.asks_later = False
        """Whether what is `unsettled` has to wait for the next turn."""
        self._identity: tuple[bytes, bytes] | None = None
        self.client = Client(self)
        self.worker = Worker(self)
        self._parts = (self.client, self.worker)

    def _verbs_of(self, dialect: Dialect) -> Verbs:
        """What may be said in a dialect."""
        return ALL if isinstance(dialect, CrcDialect) else DOCUMENT

    # -- reading ----------------------------------------------------------------------------------

    def on_message(self, message: Message | Opening, now: Millis) -> None:
        """Act on a message; the first registers the connection."""
        self.heard_at = now
        if not isinstance(message, tuple):
            self._register(message, now)
            return
        msgid, command, args, _ = message
        self.service.commands += 1
        if self.is_undecided:
            self._decide(msgid, command, args, now)
        if self.unsettled and not self.asks_later and command not in LEARNING:
            self._catch_up(now)
        if len(args) > LARGE_BYTES:
            self.spent += WHOLE_SHARE
        found = self._verbs.get(command)
        if found is None:
            self.say(self.dialect.word(msgid, UNKNOWN))
            return
        part, verb = found
        try:
            verb(self._parts[part], msgid, args, now)
        except (NotNow, Refused) as refusal:
            self._on_refused(message, refusal)

    def on_partial(self, now: Millis) -> None:
        """The beginning of a message has come."""
        self.heard_at = now

    def on_unreadable(self, error: WireError, now: Millis) -> None:
        """These bytes are none of ours."""
        self.service.unreadable += 1
        self.drop(now, str(error))

    def on_turn(self, now: Millis) -> None:
        """Act on the message that was put off; ask for what had to wait for this turn."""
        super().on_turn(now)
        if self._put_off is not None and self not in self.service.put_off:
            message, self._put_off = self._put_off, None
            self.holding = False
            self.on_message(message, now)
        if self.unsettled and not self.holding:
            self.asks_later = False
            self._catch_up(now)

    def settle(self, now: Millis) -> None:
        """The functions have changed: ask for other jobs."""
        if not (self.asks_later or self.link.closing):
            self._catch_up(now)

    def _on_refused(self, message: Message, refusal: NotNow | Refused) -> None:
        """What cannot be done is not understood; what may not be done has no worker."""
        if isinstance(refusal, NotNow):
            self._put_off = message
            self.holding = True
            self.service.put_off[self] = refusal.name
            return
        word = NO_WORKER
        if not isinstance(refusal, Forbidden):
            word = UNKNOWN
            self.service.refused += 1
            if isinstance(refusal, TooMuch):
                self.link.note(str(refusal))
        self.say(self.dialect.word(message[0], word))

    def unread(self) -> int:
        """How many bytes wait to be acted on."""
        return super().unread() + (len(self._put_off[2]) if self._put_off else 0)

    def forget_unread(self) -> None:
        """Let go of these bytes."""
        self.reader.clear()
        self.end_task()
        self._put_off = None
        self.service.put_off.pop(self, None)

    def _catch_up(self, now: Millis) -> None:
        """Do once what several messages gave rise to."""
        self.unsettled = False
        self.worker.ask_for_all(now)

    def ring(self, now: Millis, most: int) -> int:
        """A moment has come that was armed for. Tells up to `most`; returns how many it told."""
        done = super().ring(now, most)
        for part in (self.client, self.worker):
            if not (self.link.closing or self.link.closed):
                done += part.ring(now, most - done)
        return done

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a job that was asked for, run or watched here."""
        if isinstance(event, Granted):
            self.worker.say_granted(event, now)
        elif self.link.closing:
            return
        elif isinstance(event, Finished):
            self.client.say_finished(event, now)
        elif isinstance(event, Progressed):
            self.client.say_progressed(event, now)
        elif isinstance(event, Woken):
            self.worker.say_woken(event)
        elif isinstance(event, LeaseLost):
            self.worker.has_room(now)

    def stop(self, now: Millis) -> None:
        """The server stops: nothing more is given out."""
        self.worker.stop()

    # -- registration -----------------------------------------------------------------------------

    def _register(self, opening: Opening, now: Millis) -> None:
        """Take the first frame."""
        self.role = opening.kind
        if opening.checked:
            self._register_today()
        else:
            self._register_plainly(now)
        if self.service.rules is not None:
            self._identify(opening)
        self.session = self.broker.open_session(f"periodic {self.link.id}", OnHangUp.RETURN, self)
        self.link.known = True
        self.service.join(self)

    # -- rights -----------------------------------------------------------------------------------

    def _identify(self, opening: Opening) -> None:
        """Where there is an auth file, only those it names may do anything."""
        self._identity = (opening.name, opening.token)

    def rule(self) -> Rule | None:
        """What the peer may do now; None where nobody is asked. `Forbidden` if it may nothing."""
        rules = self.service.rules
        if rules is None:
            return None
        name, token = self._identity or (b"", b"")
        rule = rule_of(rules, name, token)
        if rule is None:
            raise Forbidden("unknown name or wrong token")
        return rule

    def check_may(self, role: str, func: str) -> None:
        """`Forbidden` unless the peer may act in this role, on this function."""
        if self.service.rules is not None:
            rule = self.rule()
            assert rule is not None
            if rule.role not in (role, ADMIN) or not rule.allows(func):
                raise Forbidden("not among its functions")

    def may(self, role: str, func: str) -> bool:
        """Whether the peer may act in this role, on this function."""
        try:
            self.check_may(role, func)
        except Forbidden:
            return False
        return True

    def follow_rules(self, now: Millis) -> None:
        """Rights have changed: let go of what the peer may not have any more."""
        self.client.follow_rules(now)
        self.worker.follow_rules(now)

    def check_admin(self) -> None:
        """`Forbidden` unless the peer may steer the whole server."""
        if self.service.rules is not None:
            rule = self.rule()
            if rule is None or rule.role != ADMIN:
                raise Forbidden("for admins only")

    # -- the end ----------------------------------------------------------------------------------

    def drop(self, now: Millis, reason: str = "") -> None:
        """Hang up; no job may reach a connection that is being closed."""
        self._part(now)
        self.link.close(reason)

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The peer is gone: what it held is run again, what it waited for is not told.

        What it said of its jobs counts, though it was kept waiting.
        """
        if self._put_off is not None:
            self.is_gone = True
            self.holding = False
            self._put_off = None
            self.act_on_rest(LAST_SHARES, now)
        self._part(now)

    def _part(self, now: Millis) -> None:
        self.worker.leave()
        self.client.leave()
        self.forget_unread()
        self.unsettled = False
        if self._alarm_at:
            self.service.alarms.discard(self, self._alarm_bucket)
            self._alarm_at = NEVER
        if self.link.known:
            self.service.leave(self)
            self.broker.close_session(self.session, now)


# The document's; the older dialects know no more.
DOCUMENT: Verbs = {
    commands.GRAB_JOB: (WORKER_PART, Worker.on_grab_job),
    commands.SCHED_LATER: (WORKER_PART, Worker.on_sched_later),
    commands.WORK_DONE: (WORKER_PART, Worker.on_work_done),
    commands.WORK_FAIL: (WORKER_PART, Worker.on_work_fail),
    commands.CAN_DO: (WORKER_PART, Worker.on_can_do),
    commands.CANT_DO: (WORKER_PART, Worker.on_cant_do),
    commands.PING: (CLIENT_PART, Client.on_ping),
    commands.SLEEP: (WORKER_PART, Worker.on_sleep),
    commands.SUBMIT_JOB: (CLIENT_PART, Client.on_submit_job),
    commands.STATUS: (CLIENT_PART, Client.on_status),
    commands.DROP_FUNC: (CLIENT_PART, Client.on_drop_func),
    commands.REMOVE_JOB: (CLIENT_PART, Client.on_remove_job),
    commands.DUMP: (CLIENT_PART, Client.on_dump),
    commands.LOAD: (CLIENT_PART, Client.on_load),
}
ALL: Verbs = {
    **DOCUMENT,
    commands.SHUTDOWN: (CLIENT_PART, Client.on_shutdown),
    commands.BROADCAST: (WORKER_PART, Worker.on_broadcast),
    commands.CONFIG_GET: (CLIENT_PART, Client.on_config_get),
    commands.CONFIG_SET: (CLIENT_PART, Client.on_config_set),
    commands.RUN_JOB: (CLIENT_PART, Client.on_run_job),
    commands.ACQUIRE: (WORKER_PART, Worker.on_acquire),
    commands.RELEASE: (WORKER_PART, Worker.on_release),
    commands.RECV_DATA: (CLIENT_PART, Client.on_recv_data),
    commands.WORK_DATA: (WORKER_PART, Worker.on_work_data),
    commands.JOB_ASSIGNED: (WORKER_PART, Worker.on_job_assigned),
    commands.JOB_UNASSIGNED: (WORKER_PART, Worker.on_job_unassigned),
}
