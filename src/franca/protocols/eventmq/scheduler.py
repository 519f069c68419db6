"""SCHEDULE and UNSCHEDULE: rules that make jobs, kept by the broker over restarts.

A rule is known by what it calls and with what, as the original knows it: the same call scheduled
again takes the place of the first, with whatever queue, interval and headers. A rule for a queue
that no worker has spoken of makes its jobs in `default` until one does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha1
from typing import TYPE_CHECKING, Final

from franca.core.broker import Broker
from franca.core.errors import Refused, StoreFull, TooMuch
from franca.core.model import Millis, Schedule
from franca.core.schedules import check_moments, size_of
from franca.protocols.eventmq.headers import is_set, number_in, read_headers
from franca.protocols.eventmq.job import ORIGIN, Intake, Unfit, wished_queue
from franca.protocols.eventmq.literals import number_of
from franca.protocols.eventmq.zmtp import pieces

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

FRAMES_OF_DOCUMENT: Final = 7
FRAMES_WITH_INTERVAL: Final = 8
USUAL_BYTES: Final = 1_024
EVERY_MS_MIN: Final = 1_000
"""Shorter intervals are taken as this one: rules of which each fires all the time stop the rest."""
ADOPTED_AT_ONCE: Final = 500
"""Rules that change their queue in one tick."""
STALE_MAX: Final = 1_000
"""Notes of rules that have gone which are kept besides the others."""
_PREFIX: Final = f"{ORIGIN}:"
_SECONDS_MAX: Final = 100 * 365 * 86_400
_CRON_CHARS_MAX: Final = 256
_CALL_BYTES_MAX: Final = 64 * 1024
"""Longer calls, which cannot be read when they are cut off here, are known by all their bytes."""
_NAMED: Final = ("args", "kwargs", "class_args", "class_kwargs", "path", "callable")
_EMPTY: Final[Mapping[str, object]] = {
    "args": [],
    "kwargs": {},
    "class_args": [],
    "class_kwargs": {},
}


class Scheduling:
    """Takes in rules and drops them. `timezone` is that of cron lines that name none."""

    def __init__(self, broker: Broker, intake: Intake, timezone: str) -> None:
        self._broker = broker
        self._intake = intake
        self._timezone = timezone
        self._wishes: dict[str, dict[str, None]] | None = None
        """Rules by the queue that they wish for, some of them gone; noted once that matters."""
        self._wished = 0
        self._fulfilled: list[tuple[str, str]] = []

    def schedule(self, frames: list[bytes], now: Millis) -> None:
        """SCHEDULE in the code's form or the document's. `Refused` if it names no time."""
        if len(frames) < FRAMES_OF_DOCUMENT:
            raise Unfit("a SCHEDULE of too few frames")
        interval, cron, headers, body = _parts(frames)
        most = self._broker.limits.rules_bytes
        if len(body) > most:
            raise TooMuch(f"a SCHEDULE of {len(body)} bytes, and all rules have at most {most}")
        queue_frame = frames[4]
        new = self._intake.plain_job(queue_frame, body)
        schedule = Schedule(schedule_id(body), new)
        if cron:
            schedule.cron = _as_cronsim(cron)
            schedule.timezone = headers.get("timezone", self._timezone)
        else:
            schedule.every_ms = max(int(interval * 1000), EVERY_MS_MIN)
        self._check_room(schedule)
        runs = number_in(headers, "run_count")
        if runs is None:
            runs = number_in(headers, "run-count")
        if runs is not None and runs >= 0:
            if runs == 0:
                self._broker.drop_schedule(schedule.id)
                return
            schedule.runs_left = runs
        self._begin(schedule, now, hasty=not is_set(headers, "nohaste"))

    def _check_room(self, schedule: Schedule) -> None:
        """Rules are kept in memory, for good: there may be only so many."""
        rules, limits = self._broker.schedules, self._broker.limits
        old = rules.by_id.get(schedule.id)
        size = rules.bytes + size_of(schedule) - (0 if old is None else size_of(old))
        if (old is None and len(rules.by_id) >= limits.rules_max) or size > limits.rules_bytes:
            raise TooMuch(
                f"a SCHEDULE of {size_of(schedule)} bytes beyond {limits.rules_max} rules "
                f"or {limits.rules_bytes} bytes of them"
            )

    def _begin(self, schedule: Schedule, now: Millis, *, hasty: bool) -> None:
        """Put a rule in force. Its first run, if it is a hasty one, is already under way then.

        So it happens even if the rule is taken back or replaced in the same breath. While there
        is no room for new jobs it is left to the rule itself. `Refused`, and nothing happened, if
        the rule or its first job cannot be taken.
        """
        broker = self._broker
        try:
            check_moments(schedule, broker.wall(now))
        except Refused:
            # Its own text repeats the line, and a log is no place for what strangers write.
            raise Unfit("a cron line that names no moment, or no such time zone") from None
        hasty_later = hasty and broker.refusing_new
        if hasty and not hasty_later:
            try:
                broker.submit(schedule.job, now)
            except StoreFull:
                hasty_later = True
            else:
                if schedule.runs_left > 0:
                    schedule.runs_left -= 1
                if schedule.runs_left == 0:
                    broker.drop_schedule(schedule.id)
                    return
        broker.put_schedule(schedule, now, fire_now=hasty_later)
        self._note_wish(schedule)

    def unschedule(self, frames: list[bytes]) -> None:
        """UNSCHEDULE: no more of what this message calls, by interval or by cron."""
        if len(frames) < FRAMES_OF_DOCUMENT:
            raise Unfit("an UNSCHEDULE of too few frames")
        body = frames[6] if len(frames) == FRAMES_OF_DOCUMENT else frames[7]
        if len(body) <= self._broker.limits.rules_bytes:
            self._broker.drop_schedule(schedule_id(body))

    def adopt(self, queues: Iterable[str]) -> None:
        """A worker speaks of these queues for the first time: rules that wished for one have it."""
        wishes = self._wishes
        if wishes is None or self._wished > 2 * len(self._broker.schedules.by_id) + STALE_MAX:
            wishes = self._collect()
        for queue in queues:
            self._fulfil(wishes, queue)
        self.go_on()

    def _fulfil(self, wishes: dict[str, dict[str, None]], queue: str) -> None:
        rule_ids = wishes.pop(queue, {})
        self._wished -= len(rule_ids)
        self._fulfilled += [(queue, rule_id) for rule_id in rule_ids]

    def go_on(self) -> None:
        """Give some of the rules whose wish has come true their queue."""
        some = self._fulfilled[-ADOPTED_AT_ONCE:]
        del self._fulfilled[-ADOPTED_AT_ONCE:]
        for queue, rule_id in some:
            schedule = self._broker.schedules.by_id.get(rule_id)
            if schedule is not None and wished_queue(schedule.job) == queue:
                schedule.job.queue = queue
                schedule.job.extra = b""
                self._broker.amend_schedule(schedule)

    def _collect(self) -> dict[str, dict[str, None]]:
        """Note of each rule which queue it wishes for; those that have gone are forgotten."""
        wishes = self._wishes = {}
        self._wished = 0
        for schedule in self._broker.schedules.by_id.values():
            if schedule.id.startswith(_PREFIX):
                self._note_wish(schedule)
        for queue in [queue for queue in wishes if queue in self._broker.queues]:
            self._fulfil(wishes, queue)  # a worker had named it before a restart, or just now
        return wishes

    def _note_wish(self, schedule: Schedule) -> None:
        wished = wished_queue(schedule.job)
        if wished and self._wishes is not None:
            known = self._wishes.setdefault(wished, {})
            self._wished += schedule.id not in known
            known[schedule.id] = None
            if self._wished > 2 * self._broker.limits.rules_max + STALE_MAX:
                self._wishes = None  # of rules that are long gone, mostly


def on_schedule(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """SCHEDULE: jobs by a rule. There is no answer."""
    conversation.be_client()
    conversation.has_had_its_share |= _is_work(frames)
    try:
        conversation.service.scheduling.schedule(frames, now)
    except Refused as refusal:
        conversation.refuse(refusal.text)


def on_unschedule(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """UNSCHEDULE: no more jobs by this rule, nor by those that other schedulers keep."""
    conversation.be_client()
    schedulers = conversation.service.schedulers
    conversation.has_had_its_share |= _is_work(frames) or bool(schedulers.all)
    try:
        conversation.service.scheduling.unschedule(frames)
    except Refused as refusal:
        conversation.refuse(refusal.text)
        return
    if schedulers.all:
        schedulers.tell(pieces(b"", frames))


def _is_work(frames: list[bytes]) -> bool:
    """Whether to read such a message is more work than usual: long texts, or a cron line."""
    return sum(map(len, frames)) > USUAL_BYTES or (len(frames) > 8 and frames[8] != b"")


def schedule_id(body: bytes) -> str:
    """What a rule is known by: the original's digest of the call, or one of what is no call."""
    try:
        call = json.loads(body[: _CALL_BYTES_MAX + 1])[1]
        named = json.dumps(
            {name: call.get(name, _EMPTY.get(name)) for name in _NAMED}, sort_keys=True
        )
        digest = sha1(named.encode(), usedforsecurity=False)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        digest = sha1(body, usedforsecurity=False)
    return _PREFIX + digest.hexdigest()


def _parts(frames: list[bytes]) -> tuple[float, str, dict[str, str], bytes]:
    """Interval, cron line, headers and message, from wherever they stand."""
    headers = read_headers(frames[5])
    if len(frames) < FRAMES_WITH_INTERVAL:
        interval = _seconds(headers.get("interval", "-1"))
        cron = "" if interval > 0 else headers.get("cron", "")
        body = frames[6]
    else:
        interval = _seconds(_text(frames[6]))
        cron = _text(frames[8]) if len(frames) > 8 else ""
        body = frames[7]
        if interval >= 0:
            cron = ""
    if not cron and not 0 < interval <= _SECONDS_MAX:
        raise Unfit("a schedule without an interval or a cron line")
    if len(cron) > _CRON_CHARS_MAX:
        raise Unfit(f"a cron line has at most {_CRON_CHARS_MAX} characters")
    return interval, cron, headers, body


def _text(frame: bytes) -> str:
    return frame[: 4 * _CRON_CHARS_MAX + 4].decode("utf-8", "replace").strip()


def _seconds(text: str) -> float:
    number = number_of(text)
    return -1 if number is None else number


def _as_cronsim(cron: str) -> str:
    """The same line with its fields where our library has them: seconds come first, not last."""
    fields = cron.replace("?", "*").split()
    if len(fields) == 6:
        fields = [fields[5], *fields[:5]]
    return " ".join(fields)
