"""T14: whoever sets the machine's clock starts no job early and ends no lease.

The wall clock of a real server (see `wall_clock.py`) jumps by seconds, hours and days, forward and back, while
workers hold jobs, one worker beats, one waits in FETCH, and jobs are pushed for moments just ahead. A
job may come only once the wall clock has shown its time since it was pushed, and must come soon after. Leases,
heartbeats and waits are spans: no jump may end them, and none may stretch them.
"""

import datetime
import threading
import time
from dataclasses import dataclass
from functools import partial

from tests.prove.harness import Options, Result, Tally, running
from tests.prove.wall_clock import SETTLED_S, TWEAK, WallClock
from tests.support.faktory import Faktory, Reply, ack_line, fail_line, job, job_in

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
class Timed:
    """A job that has not come yet: when it is due, and the latest that the clock has shown since its push."""

    due_at: float
    latest: float
    overdue_since: float | None = None

    def look(self, wall: float) -> None:
        self.latest = max(self.latest, wall)
        if wall < self.due_at:
            self.overdue_since = None
        elif self.overdue_since is None:
            self.overdue_since = time.monotonic()

    @property
    def is_late(self) -> bool:
        return self.overdue_since is not None and time.monotonic() - self.overdue_since > _LATE_S


class Wall:
    """The wall clock as the server could see it, and the jobs that wait for it."""

    def __init__(self, clock: WallClock) -> None:
        self.clock = clock
        self.jobs: dict[str, Timed] = {}
        self.tally = Tally("early", "mass_expiry", "jumps", "hung_up", "late", "odd_waits", "came")
        self.lock = threading.Lock()

    def look(self) -> None:
        """Take note of what the clock shows: before and after each jump, and as jobs come."""
        wall = self.clock.wall()
        with self.lock:
            for one in self.jobs.values():
                one.look(wall)

    def jump(self, seconds: float) -> None:
        """Set the clock; what it showed until then was seen."""
        self.look()
        self.clock.set_wall(seconds)
        self.look()

    def came_now(self, jid: str) -> None:
        self.look()
        with self.lock:
            one = self.jobs.pop(jid)
            self.tally["came"] += 1
            self.tally["early"] += one.latest < one.due_at - _EARLY_S
            self.tally["late"] += one.is_late

    def note_missing(self) -> None:
        """Jobs whose time has long come and that have not are late too."""
        self.look()
        with self.lock:
            self.tally["late"] += sum(one.is_late for one in self.jobs.values())


class Worker:
    """One `wid` that comes back when it is hung up on or not answered, and counts how often that was."""

    def __init__(self, port: int, wid: str, tally: Tally) -> None:
        self._port, self._wid, self._tally = port, wid, tally
        self._client = self._connect()

    def _connect(self) -> Faktory:
        return Faktory(self._port, timeout=_PATIENCE_S).hello(wid=self._wid)

    def say(self, line: str) -> Reply:
        try:
            return self._client.call(line)
        except OSError:
            self._tally["hung_up"] += 1
            self._client.close()
            self._client = self._connect()
            return Reply("-", b"no answer")

    def beat(self) -> None:
        self.say(f'BEAT {{"wid":"{self._wid}"}}')

    def fetch(self, wall: Wall, stop: threading.Event) -> None:
        """Be always in FETCH, and know how long it waited in vain."""
        while not stop.is_set():
            asked = time.monotonic()
            reply = self.say("FETCH timed")
            got = None if reply.is_error else job_in(reply)
            if got is not None:
                wall.came_now(got["jid"])
                self.say(ack_line(got["jid"]))
            else:
                waited_s = time.monotonic() - asked
                self._tally["odd_waits"] += not _FETCH_S[0] < waited_s < _FETCH_S[1]
            self.beat()
        self.leave()

    def leave(self) -> None:
        self._client.close()


def run(options: Options) -> Result:
    for data in ("first", "again"):
        seen = _let_it_jump(options, data, options.number("jumps", 40, short=14))
        held = not (seen["early"] or seen["mass_expiry"] or seen["hung_up"]) and seen["came"] > 0
        in_time = not (seen["late"] or seen["odd_waits"])
        # What is late may be late because of the machine; then it is not late twice.
        if in_time or not held:
            break
    return Result(held and in_time, str(seen))


def _let_it_jump(options: Options, data: str, jumps: int) -> Tally:
    """Let the clock jump so often while there is work; what was seen."""
    rng, wall = options.rng, Wall(WallClock(options.home / "clock"))
    with (
        options.server(data, TWEAK, env=wall.clock.environment) as server,
        Faktory(server.port).hello() as producer,
    ):
        holder, waiter = (Worker(server.port, wid, wall.tally) for wid in ("holder", "waiter"))
        held = _hold(producer, holder)
        with running(partial(waiter.fetch, wall)):
            for number in range(jumps):
                _push_ahead(producer, wall, number)
                wall.jump(_JUMPS[number] if number < len(_JUMPS) else rng.choice(_JUMPS))
                time.sleep(SETTLED_S + rng.uniform(0, 0.3))
                holder.beat()
            time.sleep(_LATE_S)
            wall.note_missing()
        # A FAIL of a job that is no longer its holder's is refused, where an ACK would be OK.
        wall.tally["mass_expiry"] = sum(holder.say(fail_line(jid)).is_error for jid in held)
        holder.leave()
    wall.tally["jumps"] = jumps
    return wall.tally


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
        at = wall.clock.wall() + ahead
        jid = f"timed-{number:03}-{index}"
        moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
        with wall.lock:
            wall.jobs[jid] = Timed(at, wall.clock.wall())
        producer.push(job(jid, queue="timed", at=moment.isoformat(), reserve_for=_LEASE_S))
