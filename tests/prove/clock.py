"""T14: whoever sets the machine's clock starts no job early and ends no lease.

The wall clock of a real server (see `hands.py`) jumps by seconds, hours and days, forward and back, while
workers hold jobs, one worker beats, one waits in FETCH, and jobs are pushed for moments just ahead. A
job may come only once the wall clock has shown its time since it was pushed, and must come soon after. Leases,
heartbeats and waits are spans: no jump may end them, and none may stretch them.
"""

from __future__ import annotations

import datetime
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.prove.hands import SETTLED_S, TWEAK, Hands
from tests.prove.options import Options
from tests.support.faktory import Faktory, Reply, ack_line, fail_line, job, job_in
from tests.support.server import Server

NAME = "clock"
MUTANTS: tuple[str, ...] = ("wall-clock-lease",)

_HOUR, _DAY = 3_600.0, 86_400.0
_JUMPS = (_HOUR, -_HOUR, _DAY, -_DAY, 1.0, -1.0, 1_801.0, -1_801.0, 61.0, -61.0, 30 * _DAY, -30 * _DAY)  # fmt: skip
_HELD = 50
_LEASE_S = 1_800
_AHEAD_S = (0.2, 0.6, 1.2, 59.0, _HOUR - 2, _DAY - 2)  # when jobs are to run, from their push on
_EARLY_S = 0.001
_PATIENCE_S = 5.0
_LATE_S = 1.5  # a second, as promised, and this machine's own pauses
_FETCH_S = (1.5, 3.5)  # how long a FETCH that finds nothing may take


@dataclass
class Wall:
    """The wall clock as the server could see it: the latest it has shown since a job was pushed."""

    hands: Hands
    latest: dict[str, float] = field(default_factory=dict)  # of each job that has not come yet
    due_at: dict[str, float] = field(default_factory=dict)
    overdue_since: dict[str, float] = field(default_factory=dict)
    early: int = 0
    late: int = 0
    came: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pushed(self, jid: str, at: float) -> None:
        with self.lock:
            self.latest[jid] = self.hands.wall()
            self.due_at[jid] = at

    def look(self) -> None:
        """Take note of what the clock shows: before and after each jump, and as jobs come."""
        now, wall = time.monotonic(), self.hands.wall()
        with self.lock:
            for jid, latest in self.latest.items():
                self.latest[jid] = max(latest, wall)
                if wall >= self.due_at[jid]:
                    self.overdue_since.setdefault(jid, now)
                else:
                    self.overdue_since.pop(jid, None)

    def jump(self, seconds: float) -> None:
        """Set the clock; what it showed until then was seen."""
        self.look()
        self.hands.set_wall(seconds)
        self.look()

    def came_now(self, jid: str) -> None:
        self.look()
        with self.lock:
            self.came += 1
            self.early += self.latest.pop(jid) < self.due_at.pop(jid) - _EARLY_S
            since = self.overdue_since.pop(jid, None)
            self.late += since is not None and time.monotonic() - since > _LATE_S

    def missing(self) -> int:
        """Jobs whose time has long come and that have not."""
        self.look()
        now = time.monotonic()
        with self.lock:
            return sum(now - since > _LATE_S for since in self.overdue_since.values())


class Worker:
    """One `wid` that comes back when it is hung up on or not answered, and counts how often that was."""

    def __init__(self, port: int, wid: str) -> None:
        self.wid = wid
        self.hung_up = 0
        self._port = port
        self._client = self._come()

    def _come(self) -> Faktory:
        return Faktory(self._port, timeout=_PATIENCE_S).hello(wid=self.wid)

    def say(self, line: str) -> Reply:
        try:
            return self._client.call(line)
        except OSError:
            self.hung_up += 1
            self._client.close()
            self._client = self._come()
            return Reply("-", b"no answer")

    def beat(self) -> None:
        self.say(f'BEAT {{"wid":"{self.wid}"}}')

    def leave(self) -> None:
        self._client.close()


class Waiter(threading.Thread):
    """A worker that is always in FETCH, and knows how long it waited in vain."""

    def __init__(self, port: int, wall: Wall) -> None:
        super().__init__(daemon=True)
        self.worker = Worker(port, "waiter")
        self.wall = wall
        self.odd_waits = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            asked = time.monotonic()
            reply = self.worker.say("FETCH timed")
            got = None if reply.is_error else job_in(reply)
            if got is not None:
                self.wall.came_now(got["jid"])
                self.worker.say(ack_line(got["jid"]))
            else:
                self.odd_waits += not _FETCH_S[0] < time.monotonic() - asked < _FETCH_S[1]
            self.worker.beat()
        self.worker.leave()


@dataclass
class Outcome:
    """What one run saw."""

    early: int
    mass_expiry: int
    hung_up: int
    late: int
    odd_waits: int
    came: int

    @property
    def held(self) -> bool:
        return not (self.early or self.mass_expiry or self.hung_up) and self.came > 0

    @property
    def in_time(self) -> bool:
        return not (self.late or self.odd_waits)


def run(options: Options) -> bool:
    jumps = options.number("jumps", 40, short=14)
    began = time.monotonic()
    outcome = _suffer(options, Random(options.seed), jumps)
    if outcome.held and not outcome.in_time:
        # What is late may be late because of the machine; then it is not late twice.
        outcome = _suffer(options, Random(options.seed), jumps)
    print(
        f"T14 {NAME}: early={outcome.early} mass_expiry={outcome.mass_expiry} jumps={jumps}"
        f" hung_up={outcome.hung_up} late={outcome.late} odd_waits={outcome.odd_waits}"
        f" came={outcome.came} seconds={time.monotonic() - began:.0f}"
    )
    return outcome.held and outcome.in_time


def _suffer(options: Options, rng: Random, jumps: int) -> Outcome:
    """Let the clock jump so often while there is work."""
    with tempfile.TemporaryDirectory(prefix="franca-clock-") as scratch:
        hands = Hands(Path(scratch) / "hands")
        prefix = options.variant(TWEAK)
        with (
            Server(Path(scratch) / "data", env=hands.environment, argv_prefix=prefix) as server,
            Faktory(server.port) as producer,
        ):
            producer.hello()
            holder = Worker(server.port, "holder")
            held = _hold(producer, holder)
            wall = Wall(hands)
            waiter = Waiter(server.port, wall)
            waiter.start()
            for number in range(jumps):
                _push_ahead(producer, wall, number)
                wall.jump(_JUMPS[number] if number < len(_JUMPS) else rng.choice(_JUMPS))
                time.sleep(SETTLED_S + rng.uniform(0, 0.3))
                holder.beat()
            time.sleep(_LATE_S)
            late = wall.late + wall.missing()
            waiter.stopping.set()
            waiter.join()
            expired = sum(_is_lost(holder, jid) for jid in held)
            hung_up = holder.hung_up + waiter.worker.hung_up
            holder.leave()
    return Outcome(wall.early, expired, hung_up, late, waiter.odd_waits, wall.came)


def _hold(producer: Faktory, holder: Worker) -> list[str]:
    """Have a worker hold many jobs for longer than the proof takes."""
    jids = [f"held-{number:06}" for number in range(_HELD)]
    producer.push_many(job(jid, queue="held", reserve_for=_LEASE_S) for jid in jids)
    got = [job_in(holder.say("FETCH held")) for _ in jids]
    assert [work["jid"] for work in got if work is not None] == jids, "cannot hold what was pushed"
    return jids


def _push_ahead(producer: Faktory, wall: Wall, number: int) -> None:
    """Push jobs for moments near and far ahead, as the clock shows now."""
    for index, ahead in enumerate(_AHEAD_S):
        at = wall.hands.wall() + ahead
        jid = f"timed-{number:03}-{index}"
        moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
        wall.pushed(jid, at)
        producer.push(job(jid, queue="timed", at=moment.isoformat(), reserve_for=_LEASE_S))


def _is_lost(holder: Worker, jid: str) -> bool:
    """Whether the job is no longer its holder's: then a FAIL is refused, where an ACK would be OK."""
    return holder.say(fail_line(jid)).is_error
