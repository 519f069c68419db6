"""SCHEDULE and UNSCHEDULE: rules that make jobs, kept by the broker over restarts.

A rule is known by what it calls and with what, as the original knows it: the same call scheduled
again takes the place of the first, with whatever queue, interval and headers. A rule for a queue
that no worker has named makes its jobs in `default` until one does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha1
from typing import Final

from franca.core.broker import Broker
from franca.core.errors import Refused, StoreFull, TooMuch
from franca.core.model import Millis, Schedule
from franca.core.schedules import check_moments
from franca.protocols.eventmq.jobs import NO_MORE, ORIGIN, Intake, intended_queue
from franca.protocols.eventmq.texts import Unfit, is_set, number_in, number_of, read_headers

FRAMES_OF_DOCUMENT: Final = 7
FRAMES_WITH_INTERVAL: Final = 8
EVERY_MS_MIN: Final = 1_000
"""Shorter intervals are taken as this one: rules of which each fires all the time stop the rest."""
ADOPTED_AT_ONCE: Final = 500
"""Rules that change their queue in one tick."""
NOT_NOTED: Final = 1 << 62
"""More than there can be: all rules are looked at when it first matters."""
STALE_MAX: Final = 1_000
"""Notes of rules that have gone which are kept besides the others."""
_PREFIX: Final = f"{ORIGIN}:"
_SECONDS_MAX: Final = 100 * 365 * 86_400
_CRON_CHARS_MAX: Final = 256
_CALL_BYTES_MAX: Final = 64 * 1024
"""Longer calls, which cannot be read when they are cut off here, are known by all their bytes."""
_CALL: Final = {"args": [], **NO_MORE, "path": None, "callable": None}
"""What a rule is known by, and what each is by default."""


class Schedules:
    """Takes in rules and drops them. `timezone` is that of cron lines that name none."""

    def __init__(self, broker: Broker, intake: Intake, timezone: str) -> None:
        self._broker = broker
        self._intake = intake
        self._timezone = timezone
        self._rules = broker.schedules
        self._meant: dict[str, dict[str, None]] = {}
        """Rules by the queue that they are meant for, some of them gone."""
        self._noted = NOT_NOTED
        self._to_move: list[tuple[str, str]] = []

    def schedule(self, frames: list[bytes], now: Millis) -> None:
        """SCHEDULE in the code's form or the document's. `Refused` if it names no time."""
        if len(frames) < FRAMES_OF_DOCUMENT:
            raise Unfit("a SCHEDULE of too few frames")
        interval, cron, headers, body = _parts(frames)
        most = self._broker.limits.rules_bytes
        if len(body) > most:
            raise TooMuch(f"a SCHEDULE of {len(body)} bytes, and all rules have at most {most}")
        schedule = Schedule(schedule_id(body), self._intake.plain_job(frames[4], body))
        schedule.source = ORIGIN
        if cron:
            fields = cron.replace("?", "*").split()
            # Seconds come first in our library, and not last.
            schedule.cron = " ".join(fields[5:6] + fields[:5] if len(fields) == 6 else fields)
            schedule.timezone = headers.get("timezone", self._timezone)
        else:
            schedule.every_ms = max(int(interval * 1000), EVERY_MS_MIN)
        self._rules.check_room(schedule, self._broker.limits)
        runs = number_in(headers, "run_count")
        if runs is None:
            runs = number_in(headers, "run-count")
        if runs is not None and runs >= 0:
            if runs == 0:
                self._broker.drop_schedule(schedule.id)
                return
            schedule.runs_left = runs
        self._begin(schedule, now, hasty=not is_set(headers, "nohaste"))

    def _begin(self, schedule: Schedule, now: Millis, *, hasty: bool) -> None:
        """Put a rule in force. Its first run, if it is a hasty one, is already under way then.

        So it happens even if the rule is taken back or replaced at once; not if that rule was there
        before and is paused. While there is no room for new jobs it is left to the rule itself.
        `Refused`, and nothing happened, if the rule or its first job cannot be taken.
        """
        broker = self._broker
        try:
            check_moments(schedule, broker.wall(now))
        except Refused:
            # Its own text repeats the line, and a log is no place for what strangers write.
            raise Unfit("a cron line that names no moment, or no such time zone") from None
        fire_now = False
        in_force = self._rules.by_id.get(schedule.id)
        if hasty and not (in_force is not None and in_force.paused):
            try:
                broker.fire(schedule, now)
            except StoreFull:
                fire_now = True
            else:
                if schedule.runs_left > 0:
                    schedule.runs_left -= 1
                if schedule.runs_left == 0:
                    broker.drop_schedule(schedule.id)
                    return
        broker.put_schedule(schedule, now, fire_now=fire_now)
        self._note(schedule)

    def unschedule(self, frames: list[bytes]) -> None:
        """UNSCHEDULE: no more of what this message calls, by interval or by cron."""
        if len(frames) < FRAMES_OF_DOCUMENT:
            raise Unfit("an UNSCHEDULE of too few frames")
        body = frames[6] if len(frames) == FRAMES_OF_DOCUMENT else frames[7]
        if len(body) <= self._broker.limits.rules_bytes:
            self._broker.drop_schedule(schedule_id(body))

    def adopt(self, queues: Iterable[str]) -> None:
        """A worker names these queues for the first time: rules that were meant for one have it."""
        if self._noted > 2 * len(self._rules.by_id) + STALE_MAX:
            self._note_all()
            # A worker had named some of them before a restart, or just now.
            queues = [*queues, *(queue for queue in self._meant if queue in self._broker.queues)]
        for queue in queues:
            rule_ids = self._meant.pop(queue, {})
            self._noted -= len(rule_ids)
            self._to_move += [(queue, rule_id) for rule_id in rule_ids]
        self.move_some()

    def move_some(self) -> None:
        """Give some of the rules whose queue is there now that queue."""
        some = self._to_move[-ADOPTED_AT_ONCE:]
        del self._to_move[-ADOPTED_AT_ONCE:]
        for queue, rule_id in some:
            schedule = self._rules.by_id.get(rule_id)
            if schedule is not None and intended_queue(schedule.job) == queue:
                schedule.job.queue = queue
                schedule.job.extra = b""
                self._broker.amend_schedule(schedule)

    def _note_all(self) -> None:
        """Note of each rule for which queue it is meant; those that have gone are forgotten."""
        self._meant.clear()
        self._noted = 0
        for schedule in self._rules.by_id.values():
            if schedule.id.startswith(_PREFIX):
                self._note(schedule)

    def _note(self, schedule: Schedule) -> None:
        queue = intended_queue(schedule.job)
        if queue and self._noted <= 2 * self._broker.limits.rules_max + STALE_MAX:
            rule_ids = self._meant.setdefault(queue, {})
            self._noted += schedule.id not in rule_ids
            rule_ids[schedule.id] = None


def schedule_id(body: bytes) -> str:
    """What a rule is known by: the original's digest of the call, or one of what is no call."""
    try:
        call = json.loads(body[: _CALL_BYTES_MAX + 1])[1]
        named = json.dumps({name: call.get(name, _CALL[name]) for name in _CALL}, sort_keys=True)
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
