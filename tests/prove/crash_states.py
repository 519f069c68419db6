"""What a crash left, held against what had been promised: shared by the proofs about power and disks.

A dialogue (`dialogues/`) is a connection with one command under way at a time, so the n-th reply that the
server sent to its port answers its n-th command. Joined with the trace this says, for every moment, which
jobs must be in the store and which must not.
"""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import zip_longest
from pathlib import Path
from random import Random

from tests.prove.crash import Disk, Record, materialise, replies
from tests.prove.dialogues import YES, Dialogue
from tests.prove.harness import Tally
from tests.prove.load import BROKEN, left_in
from tests.support.faktory import Faktory
from tests.support.server import Server, ServerFailed

_MAGIC = b"SQLite format 3\0"
_BALLAST = "ballast"
_BROKEN_PROMISES = ("lost_acked", "resurrected", "corrupt", "refused")

NEVER = 1 << 60
State = tuple[int, dict[str, bytes]]
"""How many records had been made when the power went, and the files that were found."""


# -- what had been promised by when ------------------------------------------------------------


class Fate(dict[str, int]):
    """By verb, the record by which the first reply that promised it had left; `NEVER`: it did not happen."""

    ack_sent = False

    def __missing__(self, verb: str) -> int:
        return NEVER

    def must_be_there(self, cut: int) -> bool:
        # A worker says ACK only after it has the job: before that, nothing may remove it.
        return self["push"] < cut and not (self.ack_sent and self["fetch"] < cut)

    def must_be_gone(self, cut: int) -> bool:
        return self["ack"] < cut


Fates = dict[str, Fate]
"""Those of jobs, by the names under which they are stored."""


def fates(records: list[Record], dialogues: Sequence[Dialogue], *, long_ago: bool = False) -> Fates:
    """Join what the connections said with the replies that the shim saw leaving, by stored name.

    `long_ago`: as seen from another trace, which began after this one.
    """
    jobs: Fates = {}
    for dialogue in dialogues:
        marks = replies(records, dialogue.local_port, dialogue.replay())
        assert len(marks) <= len(dialogue.said), "more replies than commands"
        for command, mark in zip_longest(dialogue.said, marks):
            for name in command.jobs:
                fate = jobs.setdefault(name, Fate())
                fate.ack_sent = fate.ack_sent or command.verb == "ack"
                if mark is not None and mark.reply == YES:
                    fate[command.verb] = min(-1 if long_ago else mark.record, fate[command.verb])
    names = {name: called for dialogue in dialogues for name, called in dialogue.names.items()}
    return {names.get(name, name): fate for name, fate in jobs.items()}


# -- the states --------------------------------------------------------------------------------


def crash_states(records: list[Record], count: int, rng: Random, disk: Disk) -> Iterator[State]:
    """So many crash states, ordered by the moment of the cut, of a disk as it was before."""
    fed = 0
    for cut in sorted(rng.randint(1, len(records)) for _ in range(count)):
        for record in records[fed:cut]:
            disk.feed(record)
        fed = cut
        # Eight megabytes of nothing in every state would cost more time than all the rest.
        yield cut, disk.after_crash(rng, but_for=_BALLAST)


def names_in(directory: Path) -> set[str]:
    """The live jobs in the database of a data directory, opened as the next server would.

    `DatabaseError` if it is damaged.
    """
    databases = [path for path in directory.iterdir() if _is_database(path)]
    if not databases:
        return set()
    # The copy that is being made of a suspect store bears the store's name and something more.
    store = min(databases, key=lambda path: len(path.name))
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        verdict: str = db.execute("PRAGMA integrity_check").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        found = [db.execute(f"SELECT name FROM {table}") for table in {"jobs", "tail"} & tables]
        return {name for rows in found for (name,) in rows}


def _is_database(path: Path) -> bool:
    if not path.is_file() or path.name.endswith(("-wal", "-shm", "-journal")):
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


class StateTally(Tally):
    """How many states there were, and how many of them broke which promise."""

    def __init__(self) -> None:
        super().__init__("states", *_BROKEN_PROMISES, "served", "jobs_lost")

    @property
    def ok(self) -> bool:
        return not any(self[kind] for kind in _BROKEN_PROMISES)

    def judge(self, states: Iterable[State], jobs: Fates, *, serve_every: int = 0) -> None:
        """Open every state and hold it against what had been promised; serve every so-manieth."""
        for number, (cut, files) in enumerate(states):
            with in_memory() as scratch:
                names = self._judge_one(cut, materialise(files, scratch / "data"), jobs)
                if serve_every and number % serve_every == 0:
                    # From the raw state again: looking into a store already repairs it.
                    self._serve(cut, materialise(files, scratch / "served"), len(names))

    def _judge_one(self, cut: int, data: Path, jobs: Fates) -> set[str]:
        self["states"] += 1
        try:
            names = names_in(data)
        except sqlite3.DatabaseError as error:
            self.note("corrupt", f"cut={cut}: damaged: {str(error)[:200]}")
            return set()
        lost = [jid for jid, f in jobs.items() if f.must_be_there(cut) and jid not in names]
        risen = [jid for jid in names if jid in jobs and jobs[jid].must_be_gone(cut)]
        self["jobs_lost"] += len(lost)
        if lost:
            self.note("lost_acked", f"cut={cut}: lost {lost[:3]}")
        if risen:
            self.note("resurrected", f"cut={cut}: risen {risen[:3]}")
        return names

    def _serve(self, cut: int, data: Path, held: int) -> None:
        """Start a server on the state; it must serve exactly the jobs that the file holds."""
        self["served"] += 1
        try:
            with Server(data) as server, Faktory(server.port) as client:
                info = client.hello().info()
        except (ServerFailed, *BROKEN) as failure:
            self.note("refused", f"cut={cut}: not served: {str(failure)[-300:]}")
            return
        served = left_in(info) + info["faktory"]["tasks"]["Dead"]["size"]
        if served != held:
            self.note("refused", f"cut={cut}: {held} jobs in the file, {served} served")


@contextmanager
def in_memory() -> Iterator[Path]:
    """A scratch directory that costs no disk, where the system has one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        yield Path(scratch)
