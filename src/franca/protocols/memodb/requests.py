"""What clients asked, and for a while what they were answered: nobody's request runs twice.

NNG sends a request again when its patience ends or its connection broke, with the same id and the
same bytes. Such a request finds the job that already runs for it, or the reply that was lost on
the way. A job whose client is gone is watched in the client's place while it runs, so that its
result is there when the client comes back.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.events import Event, Finished
from franca.core.model import NEVER, Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.conversation import Conversation

DONE = State.DONE
LEASED = State.LEASED


class Request(Struct, eq=False, gc=False):
    """One JOB of a client: the job that it became until it is answered, the reply afterwards.

    `key` stands for its id and its bytes; for all of them, unless it is large: then `body` is
    kept to be compared, because to hash it would hold everybody up.
    """

    key: int
    job: Job | None
    body: bytes = b""
    reply: bytes = b""
    asked_at: Millis = NEVER
    answered_at: Millis = NEVER


class Requests(Conversation):
    """Every request that runs or was answered lately. It speaks for those whose client is gone."""

    def __init__(self, broker: Broker, remember_ms: int, count_max: int, bytes_max: int) -> None:
        self.by_key: dict[int, Request] = {}
        self.remembered_bytes = 0
        self._broker = broker
        self._remember_ms = remember_ms
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._answered: deque[Request] = deque()
        self._session: Session | None = None
        self._orphans: dict[JobId, Request] = {}

    # -- the life of a request ------------------------------------------------------------------

    def answered(self, request: Request, reply: bytes, now: Millis) -> None:
        """Remember the reply, and forget the oldest ones if there are too many."""
        if request.job is None:
            return  # answered to another client that asked the same
        request.job = None
        request.reply = reply
        request.answered_at = now
        answered = self._answered
        answered.append(request)
        self.remembered_bytes += len(reply) + len(request.body)
        if len(answered) > self._count_max or self.remembered_bytes > self._bytes_max:
            self._forget_oldest(now)

    def _forget_oldest(self, now: Millis) -> None:
        answered = self._answered
        by_key = self.by_key
        over = now - self._remember_ms
        while answered and (
            len(answered) > self._count_max
            or self.remembered_bytes > self._bytes_max
            or answered[0].answered_at <= over
        ):
            request = answered.popleft()
            key = request.key
            self.remembered_bytes -= len(request.reply) + len(request.body)
            if by_key.get(key) is request:
                del by_key[key]

    def forget(self, request: Request) -> None:
        """The request came to nothing: asked again, it is a new one."""
        if request.job is not None:
            request.job = None
            if self.by_key.get(request.key) is request:
                del self.by_key[request.key]

    # -- clients that are gone --------------------------------------------------------------------

    def adopt(self, request: Request) -> None:
        """Nobody waits for a request any more. If it runs, its reply may yet be asked for."""
        job = request.job
        if job is None or job.state is not LEASED or self._broker.watchers_of(job.id) > 1:
            return
        session = self._session
        if session is None:
            session = self._broker.open_session("memodb-requests", OnHangUp.KEEP, self)
            self._session = session
        self._broker.watch(job.id, session)
        self._orphans[job.id] = request

    def release(self, job: Job, now: Millis) -> None:
        """Somebody else watches the job again."""
        if self._orphans.pop(job.id, None) is not None and self._session is not None:
            self._broker.unwatch(job.id, self._session, now)

    def sweep(self, now: Millis) -> None:
        """Forget replies that are too old, and what waits to run once more for nobody."""
        self._forget_oldest(now)
        for job_id, request in list(self._orphans.items()):
            job = request.job
            if job is None:
                del self._orphans[job_id]
            elif job.state is not LEASED:
                self.release(job, now)
                self.forget(request)

    # -- a conversation with nobody ---------------------------------------------------------------

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A job that runs for nobody has ended."""
        if isinstance(event, Finished):
            orphan = self._orphans.pop(event.job.id, None)
            if orphan is not None:
                if event.state is DONE:
                    self.answered(orphan, event.result, now)
                else:
                    self.forget(orphan)

    def receive(self, data: bytes, now: Millis) -> bool:
        """Nobody speaks here."""
        return False

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """Nobody leaves."""

    def unread(self) -> int:
        """Nothing comes."""
        return 0
