"""What a harness writes down: one event for each thing a client did, in the clients' own time.

All times are seconds of one monotonic clock that every process of the machine shares. `t0` is the
moment before the first byte was sent, `t1` the moment after the last byte of the answer was read:
whatever the server did, it did in between. The rules that judge a history are in `history.py`.

| op | meaning | fields beside op, proto, conn, t0, t1, out |
|---|---|---|
| push | a job was offered | jid, queue, body, prio, at, retry, unique, reserve, waits, volatile |
| fetch | work was asked for; ok: `jid` came; no: the server said it has none | jid, queue, body, attempt, reserve, worker |
| ack, fail | a holder reported its run | jid, worker |
| release | a job was put back without failing (also by an operator) | jid, worker |
| remove | a client or operator took a job away, or a whole queue (`*`: all) | jid or queue |
| pause, resume | of a queue | queue |
| result | a waiting client heard the end of its job | jid |
| data | a waiting client heard a part of its job's output | jid, seq |
| close | a connection ended; t0 is the last moment it was surely open | |
| restart | the server: t0 before it was killed, t1 when it greeted again | |
| count | what the server itself counts, after the drain | tally |

`out` is `ok`, `no` (a definite refusal, or "no work") or `maybe`: a timeout, a lost connection, and
also every answer that is neither (a FETCH answered with an error, a FETCH of a quiet worker).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

Op = Literal[
    "push", "fetch", "ack", "fail", "release", "remove", "pause", "resume",
    "result", "data", "close", "restart", "count",
]  # fmt: skip
Out = Literal["ok", "no", "maybe"]


class Event(msgspec.Struct, omit_defaults=True, gc=False):
    """One line of a history. `at` is in the clock of t0 and t1; a larger `prio` goes first;
    `attempt` is how many failures of the job the delivery told of; `worker` names the holder when
    it may come back over another connection."""

    op: Op
    proto: str = ""
    conn: str = ""
    jid: str = ""
    t0: float = 0.0
    t1: float = 0.0
    out: Out = "ok"
    worker: str = ""
    queue: str = ""
    body: str = ""
    prio: int = 0
    at: float | None = None
    retry: int | None = None
    unique: str = ""
    reserve: float | None = None
    attempt: int | None = None
    waits: bool = False
    volatile: bool = False
    seq: int | None = None
    tally: dict[str, int] | None = None

    @property
    def holder(self) -> str:
        """Who holds a lease that this event got or reports on."""
        return self.worker or self.conn


class Habits(msgspec.Struct, frozen=True):
    """What a history must know of a protocol.

    Of its workers: `grace` is how long after its connection closed (or the server restarted) a lease
    may end; `ack_tells` says that an accepted completion is answered otherwise than a stale one;
    `ack_lasts` that it is on the disk by then. Where it is not, it is once a later promise was heard.

    Of its jobs, whoever runs them: `expiry_fails` says that a lease that ran out counts as a failure
    of the job; `fail_ends` that a job whose worker said it failed has ended.
    """

    grace: float
    ack_tells: bool = False
    ack_lasts: bool = True
    expiry_fails: bool = False
    fail_ends: bool = False


# Faktory's leases outlive the connection; a worker that stays silent for a minute is given up.
BOUND = Habits(grace=0.0)
HABITS: dict[str, Habits] = {
    "": BOUND,
    "faktory": Habits(grace=60.0, expiry_fails=True),
    # A worker hears nothing of a completion but an error; an echo behind it says that there was none.
    "gearman": Habits(grace=0.0, ack_tells=True, ack_lasts=False, fail_ends=True),
    "periodic": Habits(grace=0.0, expiry_fails=True),
    # The document's dialect answers no report; a PING behind it says that it was heard, not that it lasts.
    "periodic-doc": Habits(grace=0.0, ack_lasts=False, expiry_fails=True),
    "memodb": BOUND,
    "eventmq": BOUND,
    # A harness inside the process, which sees what the broker itself answered.
    "core": Habits(grace=60.0, ack_tells=True, expiry_fails=True),
}


class Rules(msgspec.Struct, frozen=True):
    """How exact the clock is, how late is late, and after how many unclean ends a job is given up.

    Where a queue is longer than its window, a volatile job, which is never put into the store, may
    overtake older ones of its priority that were: `volatile_overtakes`. Nothing else may.
    """

    epsilon: float = 0.001
    slack: float = 1.0
    losses_max: int = 10
    volatile_overtakes: bool = False


def digest(body: bytes | str) -> str:
    """A short fingerprint of a job's body: enough to see a difference, too small to fill a disk."""
    raw = body.encode() if isinstance(body, str) else body
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def load(lines: Iterable[bytes | str]) -> Iterator[Event]:
    """Events from JSON lines, one at a time; an open file will do."""
    decode = msgspec.json.Decoder(Event).decode
    return (decode(line) for line in lines if line.strip())


def dump(events: Iterable[Event], path: Path) -> None:
    """Write a history as JSON lines, for another day."""
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        file.writelines(encode(event) + b"\n" for event in events)
