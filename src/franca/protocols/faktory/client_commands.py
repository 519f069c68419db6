"""PUSH and PUSHB: jobs as producers send them.

A large array of jobs is read twice: first to check it, so that nothing is pushed if an element does
not have the shape of a job, then to push it. Only a part of it is decoded at any time.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from franca.core.errors import Refused
from franca.core.model import Millis
from franca.protocols.conversation import Task
from franca.protocols.faktory import go_json
from franca.protocols.faktory.fetching import NO_JOB
from franca.protocols.faktory.go_json import BAD_JSON, LARGE_BYTES, Unfit, Unreadable
from franca.protocols.faktory.jobs import Intake, check_shape, size_of
from franca.protocols.faktory.messages import WireJob
from franca.protocols.faktory.wire import OK, bulk

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation

JOBS_A_TURN: Final = 500
"""Jobs taken in during one turn: more would delay all other peers."""
BYTES_A_TURN: Final = 1024 * 1024
PART_BYTES: Final = 128 * 1024
"""A large array is read in parts of about this size."""
CROWD_BYTES: Final = 64 * 1024
JOB_BYTES_MIN: Final = 32
"""A job with everything it must have is longer than this. Many shorter things are no jobs, and in
memory they would take a hundred times the room that they take on the wire."""
REFUSED_BYTES_MAX: Final = 4 * 1024 * 1024
"""What one PUSHB may take in memory for jobs that are not taken: some thousands of reasons."""
ALL_REFUSED_BYTES_MAX: Final = 16 * 1024 * 1024
_ENTRY_BYTES: Final = 200
_CHARACTER_BYTES: Final = 4
_NESTING_MAX: Final = 1_000
_EMPTY: Final = b"{},"
_NO_JOBS: Final = "most of these are too short to be jobs"
_FIRST: Final = re.compile(rb"[ \t\r]*+\[")
_COMMA: Final = re.compile(rb"[ \t\r]*+(?:,(?![ \t\r]*+\])|(?=\]))")
"""What follows an element: a comma and another element, or the end of the array."""
_LAST: Final = re.compile(rb"\][ \t\r]*+\Z")
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class _Anything(Struct, gc=False):
    """Any JSON object, decoded at the cost of an empty one: for counting them."""


_decode_all: Final = msgspec.json.Decoder(list[WireJob]).decode
_decode_shapes: Final = msgspec.json.Decoder(list[_Anything] | None).decode
_decode_each: Final = msgspec.json.Decoder(list[msgspec.Raw] | None).decode


def on_push(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """PUSH: one job. One that is large, or hard to read, takes several turns."""
    if len(rest) <= LARGE_BYTES and conversation.push(rest, now):
        # As `say_after_commit`, without the call: this is the most frequent reply.
        conversation.fetching.last_grant = NO_JOB
        conversation.link.write_after_commit(OK)
    else:
        conversation.begin(conversation.service.intake.push_slowly(rest, OK), now, len(rest))


def on_push_many(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """PUSHB: many jobs; the answer names those that were not taken."""
    conversation.begin(_push_many(conversation.service.intake, rest), now, len(rest))


class Refusals:
    """The jobs of one PUSHB that were not taken, and why.

    `Unfit` if there are too many: a client that is not told of each would take the rest for pushed.
    """

    def __init__(self, intake: Intake) -> None:
        self.taken = 0
        self._intake = intake
        self._reasons: dict[str, str] = {}
        self._bytes = 0

    def __enter__(self) -> Refusals:
        return self

    def __exit__(self, *_: object) -> None:
        self._intake.refusal_bytes -= self._bytes

    def add(self, jid: str, reason: str) -> None:
        """One more."""
        size = _ENTRY_BYTES + _CHARACTER_BYTES * (len(jid) + len(reason))
        total = self._intake.refusal_bytes + size
        if self._bytes + size > REFUSED_BYTES_MAX or total > ALL_REFUSED_BYTES_MAX:
            others = f"{self.taken} were taken before that, and those behind it were not looked at"
            raise Unfit(f"too many jobs were refused: {others}; the last reason was: {reason}")
        self._intake.refusal_bytes = total
        self._bytes += size
        self._reasons[jid] = reason

    def reply(self) -> bytes:
        """The answer to the command."""
        return bulk(_encode(self._reasons))


def _push_many(intake: Intake, text: bytes) -> Task:
    """Take in many jobs; the answer names those that were not taken, and why.

    `Unreadable`, and nothing happened, if one of them does not have the shape of a job.
    """
    with Refusals(intake) as refused:
        now = yield
        if len(text) > go_json.QUICK_BYTES:
            now = yield
        text = yield from go_json.as_utf8(text)
        if len(text) <= LARGE_BYTES:
            jobs = yield from _read(intake, text)
            yield from _push(intake, jobs, refused, now)
            return refused.reply()
        for is_sound in (False, True):
            for part in _parts(text):
                if part is not None:
                    jobs = yield from _read(intake, part)
                    if is_sound:
                        now = yield
                        yield from _push(intake, jobs, refused, now)
                yield
        return refused.reply()


def _push(
    intake: Intake, jobs: list[WireJob], refused: Refusals, now: Millis
) -> Generator[None, Millis, None]:
    """Take in jobs that were read, a turn's share at a time."""
    taken = size = 0
    for job in jobs:
        if taken == JOBS_A_TURN or size > BYTES_A_TURN:
            taken = size = 0
            now = yield
        try:
            job_size = size_of(job)
            is_large = job_size > LARGE_BYTES
            if is_large:
                yield from intake.check_large(job)
                now = yield
            intake.take(job, now, checked=is_large)
            refused.taken += 1
        except Refused as refusal:
            refused.add(job.jid, refusal.text)
        taken += 1
        size += job_size


def _read(intake: Intake, text: bytes) -> go_json.Steps[list[WireJob]]:
    """The jobs of an array, all of which have a job's shape."""
    if len(text) > CROWD_BYTES and text.count(_EMPTY) * 2 * len(_EMPTY) > len(text):
        raise Unreadable(_NO_JOBS)
    if len(text) > LARGE_BYTES:
        yield
    try:
        jobs = _decode_all(text)
    except BAD_JSON:
        text = yield from go_json.without_lone_surrogates(text)
        jobs = yield from _read_each(intake, text)
    for job in jobs:
        check_shape(job)
    return jobs


def _read_each(intake: Intake, text: bytes) -> go_json.Steps[list[WireJob]]:
    try:
        # An element that is no object is refused here, before the rest is decoded.
        crowd = _decode_shapes(text) if len(text) > CROWD_BYTES else None
        if crowd and len(crowd) * JOB_BYTES_MIN > len(text):
            raise Unreadable(_NO_JOBS)
        del crowd
        if len(text) > LARGE_BYTES:
            yield
        texts = _decode_each(text) or []
    except BAD_JSON as error:
        raise go_json.unreadable(error) from None
    jobs: list[WireJob] = []
    for number, each in enumerate(texts):
        if number % JOBS_A_TURN == 0 and len(text) > go_json.QUICK_BYTES:
            yield
        jobs.append(intake.read(each))
    return jobs


def _parts(text: bytes) -> Iterator[bytes | None]:
    """A large array in parts, each of them an array of whole elements; None is a pause.

    What is between the parts is checked here, and what is in them where they are read.
    """
    opening = _FIRST.match(text)
    if opening is None:
        yield text  # no array: let the decoder say so
        return
    start = opening.end()
    for end in go_json.ends_of_elements(text, start - 1, _NESTING_MAX):
        if not end:
            yield None
        elif end < 0 or end - start >= PART_BYTES:
            is_last = end < 0
            end = -end - 1 if is_last else end
            between = (_LAST if is_last else _COMMA).match(text, end)
            if between is None:
                break
            yield b"".join((b"[", memoryview(text)[start:end], b"]"))
            start = between.end()
            if is_last:
                return
    raise Unreadable("these are not the elements of an array")
