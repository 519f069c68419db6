"""Lines of text: what operators and monitoring programs ask. The answers are exact to the byte.

Lists and `OK value` end with LF, a bare `OK` and every `ERR` with CRLF, as the original has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import Job, JobId, JobQuery, Millis, State
from franca.core.queues import Queue
from franca.protocols.conversation import ABOUT_CHARS, WHOLE_SHARE, Task
from franca.protocols.gearman.jobs import ORIGIN, id_in
from franca.protocols.gearman.lists import LISTS, functions
from franca.protocols.gearman.wire import ErrorReply, number_in, on_one_line

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
    conversation.spent += WHOLE_SHARE  # a list may be long
    # A line that begins with a space begins with an empty word.
    first, *others = line.removesuffix(b"\n").removesuffix(b"\r").split(b" ")
    words = [first, *(word for word in others if word)]
    if len(words) > WORDS_MAX:
        conversation.link.close()
        return
    act = _COMMANDS.get(first.lower())
    if act is None:
        raise _unknown(words)
    conversation.link.known = True
    act(conversation, words, now)
    if _is_change(words):
        about = b" ".join(words[1:])[:ABOUT_CHARS].decode("utf-8", "replace")
        conversation.link.did(first.decode().lower(), about)


def _is_change(words: Words) -> bool:
    """Whether a command that was carried out is one that only operators should give."""
    if words[0].lower() == b"cancel":
        return len(words) > 1
    return words[0].lower() in (b"shutdown", b"create", b"drop", b"maxqueue")


def _unknown(words: Words) -> ErrorReply:
    return ErrorReply(b"ERR UNKNOWN_COMMAND Unknown+server+command%b\r\n" % on_one_line(words[0]))


def _incomplete(words: Words) -> ErrorReply:
    text = b"An+incomplete+set+of+arguments+was+sent+to+this+command+" + on_one_line(words[0])
    return ErrorReply(b"ERR INVALID_ARGUMENTS %b\r\n" % text)


def _check_may_change(conversation: GearmanConversation) -> None:
    if not conversation.link.peer.may(conversation.service.settings.admin):
        raise ErrorReply(_NOT_ALLOWED)


# -- about the server -----------------------------------------------------------------------------


def _on_fact(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """version, getpid, verbose."""
    chosen = conversation.service.settings
    facts = {b"version": chosen.version, b"getpid": chosen.pid, b"verbose": chosen.verbose}
    conversation.link.write(f"OK {facts[words[0].lower()]}\n".encode())


def _on_shutdown(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """shutdown [graceful]: the server has only the graceful way."""
    service = conversation.service
    if not conversation.link.peer.may(service.settings.remote_shutdown):
        raise _unknown(words)
    if len(words) > 1 and [word.lower() for word in words[1:]] != [b"graceful"]:
        raise _incomplete(words)
    # The Perl server sends no CR; aiogear waits for one, and no client minds it.
    conversation.link.write(OK)
    service.request_stop()


def _on_list(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """status, prioritystatus, workers, clients, jobs; arguments are ignored."""
    conversation.write_in_turns(LISTS[words[0].lower()](conversation.service), now)


def _on_show(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """show jobs, show unique jobs."""
    if len(words) == 1:
        raise _unknown(words)
    pieces = LISTS.get(b" ".join(words).lower())
    if pieces is None:
        raise ErrorReply(_UNKNOWN_SHOW)
    conversation.write_in_turns(pieces(conversation.service), now)


# -- changes --------------------------------------------------------------------------------


def _on_cancel(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """cancel job H: clients that wait for it are told that it failed; it is not run any more."""
    if len(words) < 3:
        raise _unknown(words)
    if len(words) != 3 or words[1].lower() != b"job":
        raise ErrorReply(_INTERNAL)
    _check_may_change(conversation)
    service = conversation.service
    handle = words[2]
    jobs = _ours(service.broker.first_named(handle.decode("utf-8", "replace")))
    if jobs:
        _cancel(conversation, handle, jobs[0], now)
    elif service.ended.get(handle) is State.CANCELLED:
        conversation.link.write(OK)
    elif job_id := id_in(handle):
        conversation.begin(_cancel_stored(conversation, handle, job_id), now)
    else:
        conversation.link.write(_UNKNOWN_JOB)


def _ours(jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if job.origin == ORIGIN and job.state <= State.LEASED]


def _cancel(conversation: GearmanConversation, handle: bytes, job: Job, now: Millis) -> None:
    conversation.broker.cancel(job, now)
    conversation.service.ended[handle] = State.CANCELLED
    conversation.link.write_after_commit(OK)


def _cancel_stored(conversation: GearmanConversation, handle: bytes, job_id: JobId) -> Task:
    """Cancel a job that may be in the store, or say that there is none."""
    yield
    jobs = yield JobQuery(ids=(job_id,), limit=1)
    found = [job for job in _ours(jobs) if job.name.encode() == handle]
    if found:
        _cancel(conversation, handle, found[0], conversation.now)
    else:
        conversation.link.write(_UNKNOWN_JOB)
    return b""


def _function_in(conversation: GearmanConversation, words: Words) -> bytes:
    """The function of `create function F` and `drop function F`, which this peer may change."""
    if len(words) != 3 or words[1].lower() != b"function":
        raise _incomplete(words)
    _check_may_change(conversation)
    return words[2]


def _on_create(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """create function F: listed from now on."""
    service = conversation.service
    function = _function_in(conversation, words)
    if len(function) > service.limits.name_bytes_max:
        raise ErrorReply(_TOO_LONG)
    try:
        service.broker.list_queue(service.names.text(function))
    except Refused:
        raise ErrorReply(_TOO_MANY) from None
    conversation.link.write_after_commit(OK)


def _on_drop(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """drop function F: no longer listed; the jobs that wait in it are cancelled."""
    service = conversation.service
    function = _function_in(conversation, words)
    if len(function) > service.limits.name_bytes_max:
        raise ErrorReply(_NO_FUNCTION)
    queue = service.broker.queues.get(service.names.text(function))
    if queue is not None and queue.listed:
        _drop(conversation, queue, now)
    else:
        conversation.write_in_turns(_drop_alike(conversation, function.lower()), now)


def _drop_alike(conversation: GearmanConversation, folded: bytes) -> Iterator[bytes]:
    """Drop a function whose name differs only in case."""
    for queue in functions(conversation.service):
        if queue is not None and conversation.service.names.raw(queue.name).lower() == folded:
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
        service.broker.remove_queues((queue.name,), now)
        conversation.link.write_after_commit(OK)


def _on_maxqueue(conversation: GearmanConversation, words: Words, now: Millis) -> None:
    """maxqueue F [n | high normal low]: how many jobs a function may have, 0 is any number."""
    if len(words) == 1:
        raise _incomplete(words)
    _check_may_change(conversation)
    service = conversation.service
    # A function with a longer name does not exist, and takes no limit.
    is_name = len(words[1]) <= service.limits.name_bytes_max
    name = service.names.text(words[1]) if is_name else ""
    limits = [max(number_in(word), 0) for word in words[2:]]
    high, normal, low = limits * 3 if len(limits) == 1 else [*limits, 0, 0, 0][:3]
    queue = service.broker.queues.get(name)
    if queue is not None and queue.listed and not service.limit(name, (high, normal, low)):
        raise ErrorReply(_TOO_MANY_LIMITS)
    conversation.link.write(OK)


_COMMANDS: Final[Mapping[bytes, Callable[[GearmanConversation, Words, Millis], None]]] = {
    **dict.fromkeys((b"version", b"getpid", b"verbose"), _on_fact),
    **dict.fromkeys((b"status", b"prioritystatus", b"workers", b"clients", b"jobs"), _on_list),
    b"show": _on_show,
    b"cancel": _on_cancel,
    b"create": _on_create,
    b"drop": _on_drop,
    b"maxqueue": _on_maxqueue,
    b"shutdown": _on_shutdown,
}
