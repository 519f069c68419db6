"""What anybody may say: peek, kick, stats, lists of tubes, pause-tube, quit."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from franca.core.errors import Refused
from franca.core.model import Job, JobQuery, Millis, State
from franca.protocols.beanstalkd.jobs import body_of, counted, counts_of, find, stats
from franca.protocols.beanstalkd.messages import (
    Kick,
    KickJob,
    ListTubes,
    ListTubesWatched,
    ListTubeUsed,
    PauseTube,
    Peek,
    PeekBuried,
    PeekDelayed,
    PeekReady,
    Quit,
    Stats,
    StatsJob,
    StatsTube,
)
from franca.protocols.beanstalkd.wire import NOT_FOUND, job_reply, yaml_dict, yaml_list
from franca.protocols.beanstalkd.worker_commands import SEARCHED_AT_ONCE
from franca.protocols.conversation import Task

if TYPE_CHECKING:
    from franca.protocols.beanstalkd.conversation import BeanstalkdConversation

_A_ROUND_TRIP: Final = JobQuery(ids=(0,), limit=1)
"""No job has this id: whoever asks for it waits for the store."""
KICKED_A_TURN: Final = 100
LISTED_A_TURN: Final = 1_000


# -- peek -----------------------------------------------------------------------------------------


def on_peek(conversation: BeanstalkdConversation, message: Peek, now: Millis) -> None:
    """peek: this job."""
    conversation.begin(_peek(conversation, find(conversation, message.id)), now)


def on_peek_ready(conversation: BeanstalkdConversation, message: PeekReady, now: Millis) -> None:
    """peek-ready: the job that would be reserved next."""
    conversation.begin(_peek(conversation, _next_ready(conversation)), now)


def on_peek_delayed(
    conversation: BeanstalkdConversation, message: PeekDelayed, now: Millis
) -> None:
    """peek-delayed: the job that is due first."""
    conversation.begin(_peek(conversation, _first(conversation, State.WAITING)), now)


def on_peek_buried(conversation: BeanstalkdConversation, message: PeekBuried, now: Millis) -> None:
    """peek-buried: the job that was buried first."""
    conversation.begin(_peek(conversation, _first(conversation, State.DEAD)), now)


def _peek(conversation: BeanstalkdConversation, search: Generator[Any, Any, Job | None]) -> Task:
    yield
    job = yield from search
    if job is None:
        return NOT_FOUND
    pieces = job_reply(b"FOUND", job.id, body_of(job))
    conversation.link.write_pieces(pieces, durable=True)
    return b""


def _next_ready(conversation: BeanstalkdConversation) -> Generator[Any, Any, Job | None]:
    broker, tube = conversation.broker, conversation.tube
    while (job := broker.peek(tube)) is None and (queue := broker.queues.get(tube)) and queue.ready:
        yield _A_ROUND_TRIP  # the store has been asked for the next ones
    return job


def _first(conversation: BeanstalkdConversation, state: State) -> Generator[Any, Any, Job | None]:
    jobs = yield JobQuery(states=(state,), queue=conversation.tube, limit=1, by_time=True)
    return jobs[0] if jobs else None


# -- kick -----------------------------------------------------------------------------------------


def on_kick(conversation: BeanstalkdConversation, message: Kick, now: Millis) -> None:
    """kick: buried jobs of the tube in use are ready again, or delayed ones if none is buried."""
    conversation.begin(_kick(conversation, message), now)


def _kick(conversation: BeanstalkdConversation, message: Kick) -> Task:
    yield
    count = 0
    for state in (State.DEAD, State.WAITING):
        while count < message.bound:
            limit = min(message.bound - count, KICKED_A_TURN)
            query = JobQuery(states=(state,), queue=conversation.tube, limit=limit, by_time=True)
            jobs = yield query
            kicked = sum(_kick_one(conversation, job) for job in jobs)
            count += kicked
            if not kicked:
                break
        if count:
            break
    conversation.link.did("kick", f"{conversation.tube}: {count} jobs")
    return b"KICKED %d\r\n" % count


def on_kick_job(conversation: BeanstalkdConversation, message: KickJob, now: Millis) -> None:
    """kick-job: a buried or delayed job of any tube is ready again."""
    conversation.begin(_kick_job(conversation, message), now)


def _kick_job(conversation: BeanstalkdConversation, message: KickJob) -> Task:
    yield
    job = yield from find(conversation, message.id)
    if job is None or job.state not in (State.DEAD, State.WAITING):
        return NOT_FOUND
    return b"KICKED\r\n" if _kick_one(conversation, job) else NOT_FOUND


def _kick_one(conversation: BeanstalkdConversation, job: Job) -> bool:
    counts = counts_of(job)
    extra = counted(job, counts._replace(kicks=counts.kicks + 1))
    try:
        conversation.broker.retry(job, conversation.now, extra=extra)
    except Refused:
        return False  # another job has taken its key meanwhile
    return True


# -- stats ----------------------------------------------------------------------------------------


def on_stats_job(conversation: BeanstalkdConversation, message: StatsJob, now: Millis) -> None:
    """stats-job: what is known of a job."""
    conversation.begin(_stats_job(conversation, message), now)


def _stats_job(conversation: BeanstalkdConversation, message: StatsJob) -> Task:
    yield
    job = yield from find(conversation, message.id)
    if job is None:
        return NOT_FOUND
    now = conversation.now
    return yaml_dict(stats(job, now, conversation.broker.wall(now)))


def on_stats_tube(conversation: BeanstalkdConversation, message: StatsTube, now: Millis) -> None:
    """stats-tube: what is known of a tube."""
    conversation.begin(_stats_tube(conversation, message), now)


def _stats_tube(conversation: BeanstalkdConversation, message: StatsTube) -> Task:
    now = yield
    service, tube = conversation.service, message.tube
    if not service.exists(tube):
        return NOT_FOUND
    # What is counted over all connections may take as long as many commands.
    conversation.spent += len(service.conversations) // SEARCHED_AT_ONCE
    counts = yield from service.job_counts(iter((tube,)))
    return yaml_dict([("name", tube), *counts, *service.tube_stats(tube, now)])


def on_stats(conversation: BeanstalkdConversation, message: Stats, now: Millis) -> None:
    """stats: what is known of the server."""
    conversation.begin(_stats(conversation), now)


def _stats(conversation: BeanstalkdConversation) -> Task:
    yield
    service = conversation.service
    conversation.spent += len(service.conversations) // SEARCHED_AT_ONCE
    counts = yield from service.job_counts(iter(list(conversation.broker.queues)))
    tubes = yield from _listed(service.tubes())
    return yaml_dict([*counts, *service.stats(len(tubes))])


# -- tubes ----------------------------------------------------------------------------------------


def on_list_tubes(conversation: BeanstalkdConversation, message: ListTubes, now: Millis) -> None:
    """list-tubes: the tubes that exist."""
    conversation.begin(_list(conversation.service.tubes()), now)


def on_list_tubes_watched(
    conversation: BeanstalkdConversation, message: ListTubesWatched, now: Millis
) -> None:
    """list-tubes-watched: the tubes whose jobs the connection may reserve."""
    conversation.begin(_list(iter(list(conversation.watched))), now)


def _list(tubes: Iterator[str]) -> Task:
    yield
    listed = yield from _listed(tubes)
    return yaml_list(listed)


def _listed(tubes: Iterator[str]) -> Generator[None, None, list[str]]:
    listed: list[str] = []
    while some := list(islice(tubes, LISTED_A_TURN)):
        listed += some
        if len(some) == LISTED_A_TURN:
            yield
    return listed


def on_list_tube_used(
    conversation: BeanstalkdConversation, message: ListTubeUsed, now: Millis
) -> None:
    """list-tube-used: the tube in use."""
    conversation.link.write(b"USING %b\r\n" % conversation.tube.encode())


def on_pause_tube(conversation: BeanstalkdConversation, message: PauseTube, now: Millis) -> None:
    """pause-tube: no job of this tube is reserved for so long."""
    service = conversation.service
    if not service.exists(message.tube):
        conversation.link.write(NOT_FOUND)
        return
    service.pause(message.tube, message.delay_s, now)
    conversation.link.did("pause-tube", f"{message.tube} {message.delay_s}")
    conversation.link.write_after_commit(b"PAUSED\r\n")


def on_quit(conversation: BeanstalkdConversation, message: Quit, now: Millis) -> None:
    """quit: the connection ends."""
    conversation.link.close()
