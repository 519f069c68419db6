"""One beanstalkd connection: commands in, verbs of the broker, replies out.

A connection may put, reserve and look at jobs in turn. Nothing more is read from it until its
`reserve` is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from franca.core.errors import Refused, TooMuch
from franca.core.events import Event, Granted, LeaseLost, Unmet
from franca.core.model import NEVER, Demand, Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.beanstalkd import (
    admin_commands,
    client_commands,
    messages,
    worker_commands,
)
from franca.protocols.beanstalkd.messages import Malformed
from franca.protocols.beanstalkd.wire import NOT_FOUND, OUT_OF_MEMORY, CommandReader
from franca.protocols.conversation import Conversation, Link
from franca.protocols.numbers import BEANSTALKD
from franca.protocols.undelivered import give_back_undelivered

if TYPE_CHECKING:
    from franca.protocols.beanstalkd.service import BeanstalkdService

DEFAULT: Final = "default"
SPARE_DEADLINES: Final = 64


class BeanstalkdConversation(Conversation):
    """The dialogue on one connection. A client that connects and says nothing is a proper one.

    `tube` is the one in use, `watched` those whose jobs may be reserved. `demand` is the `reserve`
    that waits for a job.
    """

    silent_ok = True
    hears_end = True
    reader: CommandReader

    def __init__(self, service: BeanstalkdService, link: Link) -> None:
        super().__init__(link)
        self.service = service
        self.broker = service.broker
        self.session = service.broker.open_session(link.id, OnHangUp.RETURN, self, BEANSTALKD)
        self.reader = CommandReader(service.max_job_size)
        self.tube = DEFAULT
        self.watched: dict[str, None] = {DEFAULT: None}
        self.demand: Demand | None = None
        self.is_producer = False
        self.is_worker = False
        self.seen_at = link.opened_at
        self.asked_at: Millis = NEVER
        self._deadlines: list[tuple[Millis, JobId]] = []

    def on_message(self, message: Any, now: Millis) -> None:
        """Act on a command."""
        self.seen_at = now
        kind = type(message)
        if kind is Malformed:
            self.service.commands[message.counts_as] += 1
            self.link.write(message.reply)
            return
        self.link.known = True
        self.service.commands[kind] += 1
        HANDLERS[kind](self, message, now)
        if self.link.input_ended:
            self._close_if_done()

    def on_partial(self, now: Millis) -> None:
        """Of a peer that sends no more, the rest of a command never comes."""
        if self.link.input_ended:
            self.link.close()

    def on_turn(self, now: Millis) -> None:
        """Go on with a command that takes long. A peer that sends no more waits for no job."""
        super().on_turn(now)
        if self.link.input_ended:
            if self.demand is not None:
                self.broker.withdraw(self.demand)
                self.demand = None
                self.holding = False
                worker_commands.not_reserved(self, now)
            self._close_if_done()

    def _close_if_done(self) -> None:
        if not (self.reader.has_input or self.holding):
            self.link.close()

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """A job came for the `reserve` that waits, or none did; or one was taken back."""
        if type(event) is Granted:
            self.demand = None
            worker_commands.reserved(self, event.job)
            self.resume()
        elif isinstance(event, Unmet):
            self.demand = None
            worker_commands.not_reserved(self, now)
            self.resume()
        elif isinstance(event, LeaseLost) and event.job.state <= State.LEASED:
            self.service.timeouts += 1

    def on_task_refused(self, refusal: Refused) -> None:
        """A job that was found has other plans, or the server has no room for it."""
        self.link.write(OUT_OF_MEMORY if isinstance(refusal, TooMuch) else NOT_FOUND)

    # -- the time to run of the jobs that the peer runs -------------------------------------------

    def note_deadline(self, job: Job) -> None:
        """A lease begins, or ends later than it did."""
        if not job.until:
            return
        deadlines = self._deadlines
        heappush(deadlines, (job.until, job.id))
        leases = self.session.leases
        if len(deadlines) > 2 * len(leases) + SPARE_DEADLINES:
            deadlines[:] = [(held.until, held.id) for held in leases.values() if held.until]
            heapify(deadlines)

    def next_deadline(self) -> Millis:
        """When the first of the leases ends, or NEVER."""
        deadlines, leases = self._deadlines, self.session.leases
        while deadlines:
            until, job_id = deadlines[0]
            job = leases.get(job_id)
            if job is not None and job.until == until:
                return until
            heappop(deadlines)
        return NEVER

    # -- the end ----------------------------------------------------------------------------------

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The peer is gone. A job whose delivery never left is as if it was never given."""
        self.end_task()
        if undelivered:
            give_back_undelivered(self.broker, self.session, self.seen_at, now)
        self._deadlines.clear()
        self.broker.close_session(self.session, now)
        # A demand knows its session, which knows this: the garbage collector does not see demands.
        self.demand = None
        self.service.left(self)

    def forget_unread(self) -> None:
        """Let go of what waits in the buffer."""
        self.reader.clear()

    def stop(self, now: Millis) -> None:
        """The server stops: no job is given any more. Running jobs may be finished.

        A `reserve` that waits is answered when its time is over.
        """
        if self.demand is not None:
            self.broker.withdraw(self.demand)
            self.demand = Demand(self.session, (), self.demand.until)
            # It ends when the other would have; the present moment decides nothing about it.
            self.broker.demand(self.demand, NEVER)


Handler = Callable[[BeanstalkdConversation, Any, Millis], None]

HANDLERS: Final[dict[type, Handler]] = {
    messages.Put: client_commands.on_put,
    messages.Use: client_commands.on_use,
    messages.Reserve: worker_commands.on_reserve,
    messages.ReserveWithTimeout: worker_commands.on_reserve_with_timeout,
    messages.ReserveJob: worker_commands.on_reserve_job,
    messages.Delete: worker_commands.on_delete,
    messages.Release: worker_commands.on_release,
    messages.Bury: worker_commands.on_bury,
    messages.Touch: worker_commands.on_touch,
    messages.Watch: worker_commands.on_watch,
    messages.Ignore: worker_commands.on_ignore,
    messages.Kick: admin_commands.on_kick,
    messages.KickJob: admin_commands.on_kick_job,
    messages.Peek: admin_commands.on_peek,
    messages.PeekReady: admin_commands.on_peek_ready,
    messages.PeekDelayed: admin_commands.on_peek_delayed,
    messages.PeekBuried: admin_commands.on_peek_buried,
    messages.StatsJob: admin_commands.on_stats_job,
    messages.StatsTube: admin_commands.on_stats_tube,
    messages.Stats: admin_commands.on_stats,
    messages.ListTubes: admin_commands.on_list_tubes,
    messages.ListTubeUsed: admin_commands.on_list_tube_used,
    messages.ListTubesWatched: admin_commands.on_list_tubes_watched,
    messages.PauseTube: admin_commands.on_pause_tube,
    messages.Quit: admin_commands.on_quit,
}
