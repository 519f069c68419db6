"""What clients have asked for: requests, for a while their replies, and the room for large jobs.

NNG sends a request again when it has waited long enough or its connection broke, with the same id
and the same bytes. Such a request finds the job that already runs for it, or the reply that was
lost on the way, so no request runs twice. A job whose client is gone is watched in the client's
place while it runs, so that its result is there when the client comes back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.events import Event, Finished
from franca.core.model import NEVER, Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.memodb.settings import MemoDBSettings
from franca.protocols.memodb.wire import LARGE_BYTES

if TYPE_CHECKING:
    from franca.protocols.memodb.client_commands import Clients

DONE: Final = State.DONE
LEASED: Final = State.LEASED


class Room:
    """How much memory large jobs may take, of all connections together; and who waits for some.

    `coming` has those with room for a job of which only a part has come.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self.waiting: dict[Clients, None] = {}
        self.coming: dict[Clients, None] = {}

    def is_free(self, size: int) -> bool:
        """Whether a job of that size may come in. One may always."""
        return size <= LARGE_BYTES or not self.bytes or self.bytes + size <= self.bytes_max

    def take(self, size: int) -> None:
        """A job of that size comes in; of a negative size, one has gone."""
        if abs(size) > LARGE_BYTES:
            self.bytes += size

    def wake(self) -> None:
        """Something may be free: whoever waits looks again."""
        waiting, self.waiting = self.waiting, {}
        for clients in waiting:
            clients.retry_held()

    def sweep(self) -> None:
        """Once a second: while somebody waits, those whose job comes slowly have no room for it."""
        for clients in list(self.coming):
            clients.check_progress()
        self.wake()


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


class Requests:
    """Every request that runs or was answered lately. It is told of those whose client is gone."""

    def __init__(self, broker: Broker, settings: MemoDBSettings) -> None:
        self.by_key: dict[int, Request] = {}
        self.remembered_bytes = 0
        self._broker = broker
        self._replies_max = settings.remember_replies
        self._bytes_max = settings.remember_bytes
        self._remember_ms = settings.remember_ms
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
        self._answered.append(request)
        self.remembered_bytes += len(reply) + len(request.body)
        if len(self._answered) > self._replies_max or self.remembered_bytes > self._bytes_max:
            self._forget_oldest(now)

    def _forget_oldest(self, now: Millis) -> None:
        answered = self._answered
        while answered and (
            len(answered) > self._replies_max
            or self.remembered_bytes > self._bytes_max
            or answered[0].answered_at <= now - self._remember_ms
        ):
            request = answered.popleft()
            self.remembered_bytes -= len(request.reply) + len(request.body)
            self._forget_key(request)

    def forget(self, request: Request) -> None:
        """The request came to nothing: asked again, it is a new one."""
        if request.job is not None:
            request.job = None
            self._forget_key(request)

    def _forget_key(self, request: Request) -> None:
        if self.by_key.get(request.key) is request:
            del self.by_key[request.key]

    # -- clients that are gone --------------------------------------------------------------------

    def adopt(self, request: Request) -> None:
        """Nobody waits for a request any more. If it runs, its reply may yet be asked for."""
        job = request.job
        if job is None or job.state is not LEASED or self._broker.watchers_of(job.id) > 1:
            return
        if self._session is None:
            self._session = self._broker.open_session("memodb-requests", OnHangUp.KEEP, self)
        self._broker.watch(job.id, self._session)
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

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """A job that runs for nobody has ended."""
        if isinstance(event, Finished):
            orphan = self._orphans.pop(event.job.id, None)
            if orphan is not None:
                if event.state is DONE:
                    self.answered(orphan, event.result, now)
                else:
                    self.forget(orphan)
