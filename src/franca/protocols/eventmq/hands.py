"""What a peer is that INFORMed: a worker with its free slots, or a scheduler with none.

Each READY is one more job that a worker would take. However many slots are free, it stands in
line once, and again behind the others after each job it was given: so the least recently used
worker is always next, of those that the queue prefers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.events import Granted
from franca.core.model import NEVER, Demand, Failure, Job, JobId, Millis, Session, State
from franca.protocols.eventmq.job import ORIGIN, Unfit, is_suspect, known_as, shown_msgid
from franca.protocols.eventmq.queues import USUAL_WEIGHT, Weighted, read_queues
from franca.protocols.eventmq.results import HOLDERS, TIMED_OUT, as_stranger_knows_it, failure_in
from franca.protocols.eventmq.workers import BEAT_EVERY_MS, Member, Members

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

SLOTS_MAX: Final = 10_000
"""Jobs that one worker holds and would take, together."""
ASKED_AT_ONCE: Final = 64
"""Jobs that one worker is given in one go, before others are heard."""
QUEUES_A_GRANT: Final = 64
"""With so many queues more to look at, each of them takes as long as two."""
SPARED_MAX: Final = 1_000
"""Jobs of a worker that is gone which are looked at one by one."""
MSGID_BYTES_MAX: Final = 4_096
"""No job goes by a longer name."""
SCHEDULERS_MAX: Final = 256
"""Each is told every UNSCHEDULE."""
COPIED_BYTES: Final = 4_096
"""A longer message to many is there once, however many of them do not read."""
EARLY_MS: Final = 250
"""How much sooner than the server a worker's clock may find that a timeout has passed."""
GHOST_MS: Final = BEAT_EVERY_MS + 1_000
"""A worker that lives is heard more often than this."""
LEASED = State.LEASED


class Hands:
    """One worker's or scheduler's standing with the broker."""

    def __init__(
        self,
        conversation: EventmqConversation,
        members: Members,
        queues: tuple[Weighted, ...],
        now: Millis,
    ) -> None:
        link = conversation.link
        old = None if conversation.hands is None else conversation.hands.member
        name = conversation.service.name_for(conversation.identity, link, old)
        self.session: Session = conversation.session
        self.member: Member = Member(name, self, queues, now, now, link.peer.address)
        self._members = members
        self._conversation = conversation
        self._service = conversation.service
        self._broker = conversation.broker
        self._link = link
        self._holder = self.session.holder
        self._result_max = conversation.service.limits.body_bytes_max
        self._handed = conversation.service.handed
        self._render = conversation.service.renderer.request
        self._queues = tuple(name for _, name in queues)
        ranks = {name: weight - USUAL_WEIGHT for weight, name in queues if weight != USUAL_WEIGHT}
        self._ranks = ranks or None
        self._slots = 0
        self._at_once = max(ASKED_AT_ONCE // (1 + len(queues) // QUEUES_A_GRANT), 1)
        self._asks_again = False
        self._demand: Demand | None = None
        self._last_grant: tuple[JobId, int] = (0, 0)

    @classmethod
    def of(
        cls, conversation: EventmqConversation, role: bytes, queues: bytes, now: Millis
    ) -> Hands:
        """A peer INFORMs that it is a `worker` of these queues, or a `scheduler`."""
        service = conversation.service
        if role == b"scheduler":
            if len(service.schedulers.all) >= SCHEDULERS_MAX:
                raise Unfit(f"an INFORM of more than {SCHEDULERS_MAX} schedulers")
            return cls(conversation, service.schedulers, (), now)
        if role != b"worker":
            raise Unfit("an INFORM of neither a worker nor a scheduler")
        weighted = read_queues(queues, service.limits.name_bytes_max)
        hands = cls(conversation, service.workers_here, weighted, now)
        size = service.workers_here.bytes + hands.member.size()
        if conversation.hands is not None and conversation.hands.member in service.workers_here.all:
            size -= conversation.hands.member.size()
        if size > service.limits.offered_bytes:
            raise Unfit("an INFORM of more queues than all workers may name together")
        return hands

    # -- coming and going -----------------------------------------------------------------------

    def claim(self) -> None:
        """Make its queues known, for good: a restart must not forget them. May be `Refused`."""
        broker = self._broker
        new = [name for name in self._queues if name not in broker.queues]
        broker.list_queue(*self._queues)
        if new:
            self._service.scheduling.adopt(new)

    def join(self) -> None:
        """Be known from now on, as one who serves its queues."""
        self._members.join(self.member)
        for name in self._queues:
            self._broker.serve(self.session, name)

    def leave(self) -> None:
        """Take no more jobs; what is held may still be finished, without another heartbeat."""
        self._slots = 0
        self.member.leaving = True
        if self._demand is not None:
            self._broker.withdraw(self._demand)
            self._demand = None
        for name in self._queues:
            self._broker.unserve(self.session, name)
        if not self.session.leases:
            self._members.leave(self.member)

    def replace(self) -> None:
        """The peer INFORMs again: what it holds goes on under its new description."""
        self.leave()
        self._members.leave(self.member)

    def end(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone. A job whose delivery never left is as if it was never given."""
        self._members.leave(self.member)
        if self._demand is not None:
            self._broker.withdraw(self._demand)  # or what is given back would come to it again
            self._demand = None
        job_id, attempt = self._last_grant
        job = self._broker.jobs.get(job_id)
        if unheard and job is not None and job.attempts == attempt:
            self._give_back(job, now)
        self._spare_the_innocent(now)

    def _give_back(self, job: Job, now: Millis) -> None:
        """A job that its worker will never hear of, unless it was taken away meanwhile."""
        try:
            self._broker.give_back(job, self._holder, now)
        except Refused:
            pass

    def _spare_the_innocent(self, now: Millis) -> None:
        """Where a worker may have died of what it could not read, its other jobs have lost nothing.

        A job manager drops its connection when it is given such a message. Without this a few of
        them, given again and again, would bring all jobs of their neighbourhood to the dead set.
        """
        jobs = self.session.leases.values()
        if any(map(is_suspect, jobs)):
            innocent = islice((job for job in jobs if not is_suspect(job)), SPARED_MAX)
            for job in list(innocent):
                self._broker.release(job, self._holder, NEVER, now)

    def stop(self) -> None:
        """The server stops: say goodbye, and give no more jobs."""
        self.leave()
        self._link.write(self._conversation.voice.kbye())

    # -- what the registry asks -------------------------------------------------------------------

    def hear(self, message: Sequence[bytes]) -> None:
        """Be told something, unless the peer does not even read. What is long is not copied."""
        link = self._link
        if not link.full:
            if len(message) > 1 or len(message[0]) > COPIED_BYTES:
                link.write_bulk(*message)
            else:
                link.write(message[0])

    def fell_silent(self, now: Millis) -> bool:
        """Take the peer for gone: its jobs go to others. It may INFORM again."""
        if self._conversation.holding:
            return False  # it is we who do not listen
        self._members.lost += 1
        self._conversation.forget(now)
        return True

    def slots(self) -> int:
        """How many more jobs the worker would take now."""
        return self._slots

    def held(self) -> Iterable[Job]:
        """The jobs that it has now."""
        return self.session.leases.values()

    # -- jobs -------------------------------------------------------------------------------------

    def ready(self, now: Millis) -> None:
        """One more job would be taken."""
        slots = self._slots
        if (
            slots + len(self.session.leases) < SLOTS_MAX
            and self._queues
            and not self.member.leaving
        ):
            self._slots = slots + 1
            if self._demand is None and not self._asks_again:
                self._ask(now)

    def go_on(self, now: Millis) -> None:
        """Ask for the jobs for which a turn had no time."""
        if self._asks_again:
            self._asks_again = False
            if self._demand is None:
                self._ask(now)

    def _ask(self, now: Millis) -> None:
        """Stand in line, as long as there are jobs and slots for them.

        After some of them others are heard, before it goes on.
        """
        broker = self._broker
        left = self._at_once
        while self._slots:
            if not left:
                self._asks_again = True
                self._link.again()
                return
            left -= 1
            demand = Demand(self.session, self._queues, ranks=self._ranks)
            answer = broker.demand(demand, now)
            if answer is None:
                self._demand = demand
                return
            assert isinstance(answer, Granted)
            self._hand_over(answer.job)

    def granted(self, event: Granted, now: Millis) -> None:
        """A job came for the demand that waits, or for one that was withdrawn meanwhile."""
        if event.demand is not self._demand or self._link.closing:
            self._give_back(event.job, now)
            return
        self._demand = None
        self._hand_over(event.job)
        if self._slots and not self._asks_again:
            self._ask(now)

    def _hand_over(self, job: Job) -> None:
        self._slots -= 1
        self.member.handed += 1
        self._handed[job.queue] += 1
        self._last_grant = job.id, job.attempts  # not the job: it may be large, and end elsewhere
        said = self._render(job)
        if len(said) == 1:
            self._link.write_after_commit(said[0])
        else:
            self._link.write_bulk(*said)
            self._link.after_commit = True

    def reply(self, result: bytes, msgid: bytes, now: Millis) -> None:
        """A job is done, or its worker says that it failed."""
        if len(result) > self._result_max:
            self._link.note(f"a result of {len(result)} bytes, at most {self._result_max}")
            self.reply_too_large(msgid, len(result), now)
            return
        broker = self._broker
        job = self.held_as(msgid) or self._held_by_its_ghost(msgid, now)
        if job is None:
            settle_late(broker, result, msgid, now)
            return
        holder = job.holder
        if result in TIMED_OUT and self._has_timed_out(job, now):
            broker.fail(job, holder, Failure("TimeoutError", "its timeout passed"), now)
        else:
            failure = failure_in(result, self._service.limits.error_text_chars)
            if failure is not None:
                broker.fail(job, holder, failure, now)
            else:
                if job.origin != ORIGIN:
                    result = as_stranger_knows_it(result)
                broker.finish(job, holder, result, now)
        self._note_done()

    def _note_done(self) -> None:
        member = self.member
        member.done += 1
        if member.leaving and not self.session.leases:
            self._members.leave(member)

    def reply_too_large(self, msgid: bytes, size: int, now: Millis) -> None:
        """A job is done, and nobody can be given what came of it.

        Who asked for it is told so; to run the job again would bring the same. A job whose result
        nobody waits for is simply done.
        """
        broker = self._broker
        job = self.held_as(msgid) or self._held_by_its_ghost(msgid, now) or self._only_job(msgid)
        if job is None:
            return
        if job.policy.tells_end or broker.watchers_of(job.id):
            text = f"its result has {size} bytes, at most {self._result_max}"
            broker.fail(job, job.holder, Failure("ResultTooLarge", text, final=True), now)
        else:
            broker.finish(job, job.holder, b"", now)
        self._note_done()

    def _only_job(self, msgid: bytes) -> Job | None:
        """The job that a REPLY is to that does not say so, if there is only one."""
        jobs = self.session.leases.values()
        return next(iter(jobs)) if not msgid and len(jobs) == 1 else None

    def reply_unnamed(self, result: bytes, msgid: bytes, now: Millis) -> None:
        """The document's REPLY, which does not say to what: to its own id, or to the only job."""
        if self.held_as(msgid) is None:
            if len(self.session.leases) != 1:
                self._conversation.refuse("a REPLY to nobody knows which request")
                return
            (job,) = self.session.leases.values()
            msgid = shown_msgid(job)
        self.reply(result, msgid, now)

    def _has_timed_out(self, job: Job, now: Millis) -> bool:
        """Whether the text means what it says, and another try may still help.

        A worker kills a job when its time is over and answers with that text. The last such
        answer is the job's result, as it always was.
        """
        timeout_ms = self._service.renderer.terms(job).timeout_ms
        failures = job.policy.failures
        return (
            0 < timeout_ms <= now - job.started_at + EARLY_MS
            and (failures < 0 or job.failures < failures)
        )  # fmt: skip

    def held_as(self, msgid: bytes) -> Job | None:
        """The job of that id that this worker holds."""
        if len(msgid) > MSGID_BYTES_MAX:
            return None
        try:
            job = self._broker.sole(msgid.decode())
        except UnicodeDecodeError:
            job = None
        if job is not None and job.state is LEASED and job.holder == self._holder:
            return job
        return self._held_among_namesakes(msgid)

    def _held_among_namesakes(self, msgid: bytes) -> Job | None:
        broker, holder = self._broker, self._holder
        jobs = known_as(broker, msgid, lambda name: broker.held_as(name, holder))
        return next((job for job in jobs if job.state is LEASED and job.holder == holder), None)

    def _held_by_its_ghost(self, msgid: bytes, now: Millis) -> Job | None:
        """The job of that id whose holder has been silent since before this worker came.

        A job manager that starts its conversation anew reports here what it was given before,
        while its old connection stays open in the processes that it forked. One who was heard
        since, or only just now, is somebody else; and of a job that was given out more than once
        nobody can say which run is meant.
        """
        for job in known_as(self._broker, msgid, self._broker.running_as):
            if job.state is LEASED and job.attempts == 1:
                holder = self._members.by_holder(job.holder)
                if holder is not None and holder.heard_at < min(self.member.since, now - GHOST_MS):
                    return job
        return None


def settle_late(broker: Broker, result: bytes, msgid: bytes, now: Millis) -> None:
    """A worker that is not taken for the holder any more says what came of a job.

    Its connection broke, or the server was restarted, while it ran; if nobody was given the job
    since, its word counts: better than to run the job again.
    """
    if result in TIMED_OUT or len(msgid) > MSGID_BYTES_MAX or failure_in(result, 0) is not None:
        return
    for job in known_as(broker, msgid, broker.returned_as):
        if (
            job.state in (State.READY, State.WAITING)
            and job.attempts
            and job.holder.startswith(HOLDERS)
            and not _has_failed(job)
        ):
            bare = result if job.origin == ORIGIN else as_stranger_knows_it(result)
            try:
                broker.finish_late(job, job.holder, bare, now)
            except Refused:
                pass  # it has left memory, or somebody else was given it
            return


def _has_failed(job: Job) -> bool:
    """Whether its last run ended with a word, and not without one."""
    last = job.story[-1] if job.story else None
    return last is not None and last.how == "failed" and last.started_at == job.started_at
