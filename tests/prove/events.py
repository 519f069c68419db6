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

import hashlib
from collections.abc import Iterable
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


def dump(events: Iterable[Event], path: Path) -> None:
    """Write a history as JSON lines, for another day."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(events)))
