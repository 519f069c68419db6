"""Lines of text: what operators and monitoring programs ask. The answers are exact to the byte.

Lists and `OK value` end with LF, a bare `OK` and every `ERR` with CRLF, as the original has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import Job, JobQuery, Millis, State
from franca.core.ready import Queue
from franca.protocols.gearman import lists
from franca.protocols.gearman.jobs import ORIGIN, id_in
from franca.protocols.gearman.wire import number_in, on_one_line

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

Words = list[bytes]

WORDS_MAX: Final = 5

OK: Final = b"OK\r\n"
_INTERNAL: Final = b"ERR UNKNOWN_ERROR\r\n"
_UNKNOWN_SHOW: Final = b"ERR UNKNOWN_SHOW_ARGUMENTS\r\n"
_UNKNOWN_JOB: Final = b"ERR UNKNOWN_JOB\r\n"
_NO_FUNCTION: Final = b"ERR function not found\r\n"
_IN_USE: Final = b"ERR there are still connected workers or executing clients\r\n"
_NOT_ALLOWED: Final = b"ERR NOT_ALLOWED This+command+is+not+taken+from+this+address\r\n"
_TOO_MANY: Final = b"ERR TOO_MANY_FUNCTIONS There+are+too+many+functions\r\n"
_TOO_MANY_LIMITS: Final = b"ERR TOO_MANY_LIMITS Too+many+functions+have+a+limit\r\n"
_TOO_LONG: Final = b"ERR INVALID_ARGUMENTS Function+name+too+large\r\n"


def on_line(conversation: GearmanConversation, line: bytes, now: Millis) -> None:
    """Act on one line. A line of too many words is not answered, as in the original."""
    words = _words(line)
    if len(words) > WORDS_MAX:
        conversation.link.close()
        return
    act = _COMMANDS.get(words[0].lower())
    if act is None:
        _say_unknown(conversation, words)
    else:
        conversation.link.known = True
        act(conversation, words, now)


def _words(line: bytes) -> Words:
    """What stands between spaces. A line that begins with one begins with an empty word."""
    first, *others = line.removesuffix(b"\n").removesuffix(b"\r").split(b" ")
    return [first, *(word for word in others if word)]


def _say_unknown(conversation: GearmanConversation, words: Words) -> None:
    word = on_one_line(words[0])
    conversation.link.write(b"ERR UNKNOWN_COMMAND Unknown+server+command%b\r\n" % word)


def _say_incomplete(conversation: GearmanConversation, words: Words) -> None:
    text = b"An+incomplete+set+of+arguments+was+sent+to+this+command+" + on_one_line(words[0])
    conversation.link.write(b"ERR INVALID_ARGUMENTS %b\r\n" % text)


def _is_allowed(conversation: GearmanConversation, who: str) -> bool:
    """Whether this peer may, where `all`, peers on this machine (`loopback`) or nobody may."""
    return who == "all" or (who == "loopback" and conversation.link.peer.local)


def _may_change(conversation: GearmanConversation) -> bool:
    if _is_allowed(conversation, conversation.service.settings.admin):
        return True
    conversation.link.write(_NOT_ALLOWED)
    return False


# -- about the server -----------------------------------------------------------------------------


def _on_version(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    conversation.link.write(b"OK %b\n" % conversation.service.settings.version.encode())


def _on_getpid(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    conversation.link.write(b"OK %d\n" % conversation.service.settings.pid)


def _on_verbose(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    conversation.link.write(b"OK %b\n" % conversation.service.settings.verbose.encode())


def _on_shutdown(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """shutdown [graceful]: the server has only the graceful way."""
    service = conversation.service
    if not _is_allowed(conversation, service.settings.remote_shutdown):
        _say_unknown(conversation, words)
    elif len(words) == 1 or [word.lower() for word in words[1:]] == [b"graceful"]:
        # The Perl server says it without CR; aiogear waits for one, and nobody minds it.
        conversation.link.write(OK)
        service.request_stop()
    else:
        _say_incomplete(conversation, words)


# -- lists --------------------------------------------------------------------------------


def _on_status(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    conversation.say_all(lists.status(conversation.service))


def _on_priority_status(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    conversation.say_all(lists.priority_status(conversation.service))


def _on_workers(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    conversation.say_all(lists.workers(conversation.service))


def _on_show(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """show jobs, show unique jobs."""
    what = [word.lower() for word in words[1:]]
    if not what:
        _say_unknown(conversation, words)
    elif what == [b"jobs"]:
        conversation.say_all(lists.show_jobs(conversation.service))
    elif what == [b"unique", b"jobs"]:
        conversation.say_all(lists.show_unique_jobs(conversation.service))
    else:
        conversation.link.write(_UNKNOWN_SHOW)


def _on_jobs(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    conversation.say_all(lists.jobs(conversation.service))


def _on_clients(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    conversation.say_all(lists.clients(conversation.service))


# -- changes --------------------------------------------------------------------------------


def _on_cancel(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """cancel job H: whoever waits for it hears that it failed; nobody runs it any more."""
    if len(words) < 3:
        _say_unknown(conversation, words)
    elif len(words) != 3 or words[1].lower() != b"job":
        conversation.link.write(_INTERNAL)
    elif _may_change(conversation):
        service = conversation.service
        handle = words[2]
        jobs = _ours(service.broker.first_named(handle.decode("utf-8", "replace")))
        if jobs:
            _cancel(conversation, handle, jobs[0], now)
        elif service.ended.get(handle) is State.CANCELLED:
            conversation.link.write(OK)
        elif job_id := id_in(handle):
            conversation.holding = True
            query = JobQuery(ids=(job_id,), limit=1)
            service.broker.recall(query, _CancelAsked(conversation, handle))
        else:
            conversation.link.write(_UNKNOWN_JOB)


def _ours(jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if job.origin == ORIGIN and job.state <= State.LEASED]


def _cancel(conversation: GearmanConversation, handle: bytes, job: Job, now: Millis) -> None:
    conversation.broker.cancel(job, now)
    conversation.service.ended[handle] = State.CANCELLED
    conversation.link.write_after_commit(OK)


class _CancelAsked:
    """A job to be cancelled that may be in the store."""

    def __init__(self, conversation: GearmanConversation, handle: bytes) -> None:
        self.link = conversation.link
        self._conversation = conversation
        self._handle = handle

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Cancel it, or say that there is none."""
        conversation = self._conversation
        if conversation.link.closed:
            return
        found = [job for job in _ours(jobs) if job.name.encode() == self._handle]
        if found:
            _cancel(conversation, self._handle, found[0], now)
        else:
            conversation.link.write(_UNKNOWN_JOB)
        conversation.go_on(now)


def _on_create(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """create function F: listed from now on."""
    service = conversation.service
    if len(words) != 3 or words[1].lower() != b"function":
        _say_incomplete(conversation, words)
    elif _may_change(conversation):
        if len(words[2]) > service.limits.name_bytes_max:
            conversation.link.write(_TOO_LONG)
            return
        try:
            service.broker.list_queue(service.names.text(words[2]))
        except Refused:
            conversation.link.write(_TOO_MANY)
        else:
            conversation.link.write_after_commit(OK)


def _on_drop(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """drop function F: gone from the lists, and the jobs that wait in it are cancelled."""
    service = conversation.service
    if len(words) != 3 or words[1].lower() != b"function":
        _say_incomplete(conversation, words)
        return
    if not _may_change(conversation):
        return
    if len(words[2]) > service.limits.name_bytes_max:
        conversation.link.write(_NO_FUNCTION)
        return
    queue = service.broker.queues.get(service.names.text(words[2]))
    if queue is not None and queue.listed:
        _drop(conversation, queue, now)
    else:
        conversation.say_all(_drop_alike(conversation, words[2].lower()))


def _drop_alike(conversation: GearmanConversation, folded: bytes) -> Iterator[bytes]:
    """Drop a function whose name differs only in case."""
    raw = conversation.service.names.raw
    for queue in lists.listed(conversation.broker):
        if queue is not None and raw(queue.name).lower() == folded:
            _drop(conversation, queue, conversation.seen_at)
            return
        yield b""
    yield _NO_FUNCTION


def _drop(conversation: GearmanConversation, queue: Queue, now: Millis) -> None:
    service = conversation.service
    if queue.servers or queue.leased:
        conversation.link.write(_IN_USE)
    else:
        service.maxqueue.pop(queue.name, None)
        service.broker.remove_queue(queue.name, now)
        conversation.link.write_after_commit(OK)


def _on_maxqueue(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """maxqueue F [n | high normal low]: how many jobs a function may have, 0 is any number."""
    if len(words) == 1:
        _say_incomplete(conversation, words)
        return
    if not _may_change(conversation):
        return
    service = conversation.service
    if len(words[1]) > service.limits.name_bytes_max:
        conversation.link.write(OK)  # as of any function that is not there
        return
    name = service.names.text(words[1])
    limits = [max(number_in(word), 0) for word in words[2:]]
    high, normal, low = limits * 3 if len(limits) == 1 else [*limits, 0, 0, 0][:3]
    queue = service.broker.queues.get(name)
    if queue is not None and queue.listed:
        if not (high or normal or low):
            service.maxqueue.pop(name, None)
        elif not service.limit(name, (high, normal, low)):
            conversation.link.write(_TOO_MANY_LIMITS)
            return
    conversation.link.write(OK)


_COMMANDS: Final[Mapping[bytes, Callable[[GearmanConversation, Words, Millis], None]]] = {
    b"version": _on_version,
    b"getpid": _on_getpid,
    b"verbose": _on_verbose,
    b"status": _on_status,
    b"prioritystatus": _on_priority_status,
    b"workers": _on_workers,
    b"show": _on_show,
    b"jobs": _on_jobs,
    b"clients": _on_clients,
    b"cancel": _on_cancel,
    b"create": _on_create,
    b"drop": _on_drop,
    b"maxqueue": _on_maxqueue,
    b"shutdown": _on_shutdown,
}
