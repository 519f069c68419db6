"""What a crash left, held against what had been promised: shared by the proofs about power and disks.

A dialogue (`talks/`) is a connection with one command under way at a time, so the n-th reply that the
server sent to its port answers its n-th command. Joined with the trace this says, for every moment, which
jobs must be in the store and which must not.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.prove import trace
from tests.prove.crash import Disk, materialise
from tests.prove.load import BROKEN, left_in
from tests.prove.talks import Dialogue
from tests.support.faktory import Faktory
from tests.support.server import Server, ServerFailed

_MAGIC = b"SQLite format 3\0"


# -- what had been promised by when ------------------------------------------------------------


@dataclass(slots=True)
class Fate:
    """The records by which a job's replies had left; None: it never happened."""

    pushed: int | None = None
    fetched: int | None = None  # the first time
    ack_sent: bool = False
    ended: int | None = None

    def must_be_there(self, cut: int) -> bool:
        if self.pushed is None or self.pushed >= cut:
            return False
        # A worker says ACK only after it has the job: before that, nothing may remove it.
        return not self.ack_sent or self.fetched is None or self.fetched >= cut

    def must_be_gone(self, cut: int) -> bool:
        return self.ended is not None and self.ended < cut


def fates(records: list[trace.Record], dialogues: Sequence[Dialogue]) -> dict[str, Fate]:
    """Join what the connections said with the replies that the shim saw leaving, by stored name."""
    jobs: dict[str, Fate] = {}
    for dialogue in dialogues:
        marks = trace.replies(records, dialogue.local_port, dialogue.take_answers)
        marks = marks[dialogue.greetings :]
        assert len(marks) <= len(dialogue.said), "more replies than commands"
        for command, mark in zip_longest(dialogue.said, marks):
            promised = mark is not None and dialogue.is_yes(command.verb, mark.reply)
            for name in command.jobs:
                fate = jobs.setdefault(name, Fate())
                fate.ack_sent = fate.ack_sent or command.verb == "ack"
                if promised:
                    _take_note(fate, command.verb, mark.record)
    names = {name: called for dialogue in dialogues for name, called in dialogue.names.items()}
    return {names.get(name, name): fate for name, fate in jobs.items()}


def _take_note(fate: Fate, verb: str, record: int) -> None:
    if verb == "push":
        fate.pushed = record
    elif verb == "fetch":
        fate.fetched = record if fate.fetched is None else min(fate.fetched, record)
    elif verb == "ack":
        fate.ended = record


# -- the states --------------------------------------------------------------------------------


class Found(NamedTuple):
    """What a crash state turned out to hold."""

    names: frozenset[str]
    damage: str


def look_into(directory: Path) -> Found:
    """Open the database of a data directory as the next server would, and list its live jobs."""
    databases = [path for path in directory.iterdir() if _is_database(path)]
    if not databases:
        return Found(frozenset(), "")
    try:
        # The copy that is being made of a suspect store bears the store's name and something more.
        store = min(databases, key=lambda path: len(path.name))
        with closing(sqlite3.connect(store, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            verdict: str = db.execute("PRAGMA integrity_check").fetchone()[0]
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            names: set[str] = set()
            for table in {"jobs", "tail"} & tables:
                names.update(name for (name,) in db.execute(f"SELECT name FROM {table}"))
    except sqlite3.DatabaseError as error:
        return Found(frozenset(), str(error))
    return Found(frozenset(names), "" if verdict == "ok" else verdict)


def _is_database(path: Path) -> bool:
    if not path.is_file() or path.name.endswith(("-wal", "-shm", "-journal")):
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def crash_states(
    records: list[trace.Record], count: int, rng: Random, disk: Disk
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """So many crash states, ordered by the moment of the cut, of a disk as it was before."""
    fed = 0
    for cut in sorted(rng.randint(1, len(records)) for _ in range(count)):
        for record in records[fed:cut]:
            disk.feed(record)
        fed = cut
        yield cut, disk.after_crash(rng, _matters)


def _matters(name: str) -> bool:
    # Eight megabytes of nothing in every state would cost more time than all the rest.
    return name != "ballast"


@dataclass
class Tally:
    """How many states there were, and how many of them broke which promise."""

    states: int = 0
    lost_acked: int = 0
    resurrected: int = 0
    corrupt: int = 0
    jobs_lost: int = 0
    served: int = 0  # states on which a server was started
    refused: int = 0  # of those, the states it did not serve whole
    examples: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.lost_acked or self.resurrected or self.corrupt or self.refused)

    def add(self, other: Tally) -> None:
        self.states += other.states
        self.lost_acked += other.lost_acked
        self.resurrected += other.resurrected
        self.corrupt += other.corrupt
        self.jobs_lost += other.jobs_lost
        self.served += other.served
        self.refused += other.refused
        self.examples += other.examples

    def serve(self, cut: int, data: Path, held: int) -> None:
        """Start a server on the state; it must serve exactly the jobs that the file holds."""
        self.served += 1
        try:
            counted = served_count(data)
        except (ServerFailed, *BROKEN) as failure:
            self.refused += 1
            self.examples.append(f"cut={cut}: not served: {str(failure)[-300:]}")
            return
        if counted != held:
            self.refused += 1
            self.examples.append(f"cut={cut}: {held} jobs in the file, {counted} served")

    def judge(self, cut: int, found: Found, jobs: dict[str, Fate]) -> None:
        self.states += 1
        if found.damage:
            self.corrupt += 1
            self.examples.append(f"cut={cut}: damaged: {found.damage[:200]}")
            return
        lost = [jid for jid, f in jobs.items() if f.must_be_there(cut) and jid not in found.names]
        risen = [jid for jid in found.names if jid in jobs and jobs[jid].must_be_gone(cut)]
        self.lost_acked += bool(lost)
        self.jobs_lost += len(lost)
        self.resurrected += bool(risen)
        if lost or risen:
            self.examples.append(f"cut={cut}: lost {lost[:3]} risen {risen[:3]}")


def judge_states(
    states: Iterable[tuple[int, dict[str, bytes]]], jobs: dict[str, Fate], serve_every: int = 0
) -> Tally:
    """Open every state and hold it against what had been promised; serve every so-manieth."""
    tally = Tally()
    for number, (cut, files) in enumerate(states):
        with _in_memory() as scratch:
            found = look_into(materialise(files, Path(scratch) / "data"))
            tally.judge(cut, found, jobs)
            if serve_every and number % serve_every == 0:
                # From the raw state again: looking into a store already repairs it.
                fresh = materialise(files, Path(scratch) / "served")
                tally.serve(cut, fresh, len(found.names))
    return tally


def served_count(data: Path) -> int:
    """How many live jobs a server that is started on this directory says it has."""
    with Server(data) as server, Faktory(server.port) as client:
        info = client.hello().info()
    dead: int = info["faktory"]["tasks"]["Dead"]["size"]
    return left_in(info) + dead


def _in_memory() -> tempfile.TemporaryDirectory[str]:
    """A scratch directory that costs no disk, where the system has one."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(
        prefix="franca-state-", dir=memory if memory.is_dir() else None
    )
