"""T2: what was acknowledged survives a power cut at any moment, and what was finished stays finished.

A server runs once under the shim, which records every write, sync and reply. From the record, crash
states are built: the power goes at a random point, and of what was not synced the disk keeps
nothing, everything, a random part, or a part with one torn write (`crash.py`). Each state is opened with SQLite,
checked, and compared with the replies that had left by then:

* a job whose PUSH had been answered is there, unless its ACK may have been on its way;
* a job whose ACK had been answered is not.

Each connection of the load has one command under way at a time, so the n-th reply that the server
sent to its port answers its n-th command.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.prove import shim, trace
from tests.prove.crash import Disk, materialise
from tests.prove.options import Options
from tests.support.faktory import Faktory, ack_line, fail_line, job, job_in, push_line
from tests.support.faktory import push_many_line as pushb_line
from tests.support.server import Server

NAME = "powerloss"
MUTANTS: tuple[str, ...] = ("sync-normal",)

_GREETINGS = 2  # HI and the answer to HELLO come before the first command's reply
_MAGIC = b"SQLite format 3\0"
_BATCH = 10


# -- the load ----------------------------------------------------------------------------------


class Command(NamedTuple):
    """What was said, and of which jobs."""

    verb: str
    jids: tuple[str, ...] = ()


@dataclass
class Dialogue:
    """One connection that waits for each answer before it speaks again."""

    client: Faktory
    said: list[Command] = field(default_factory=list)

    def say(self, command: Command, line: str) -> bytes | None:
        self.said.append(command)
        return self.client.call(line).checked().body


def _produce(talk: Dialogue, name: str, count: int) -> None:
    """Push one at a time, and every tenth time ten at once."""
    for number in range(count):
        jids = tuple(f"{name}-{number:05}-{i}" for i in range(_BATCH if number % 10 == 9 else 1))
        works = [job(jid, number, "x" * 50, queue="q", retry=25) for jid in jids]
        line = push_line(works[0]) if len(works) == 1 else pushb_line(works)
        talk.say(Command("push", jids), line)


def _consume(talk: Dialogue, rng: Random, stop: threading.Event) -> None:
    """Finish most of what comes, fail some, and keep some for ever."""
    while not stop.is_set():
        talk.said.append(Command("fetch"))
        got = job_in(talk.client.call("FETCH q"))
        if got is None:
            continue
        jid: str = got["jid"]
        talk.said[-1] = Command("fetch", (jid,))
        choice = rng.random()
        if choice < 0.6:
            talk.say(Command("ack", (jid,)), ack_line(jid))
        elif choice < 0.7:
            talk.say(Command("fail", (jid,)), fail_line(jid))


def record_run(server: Server, rng: Random, pushes: int) -> list[Dialogue]:
    """Serve a load from start to graceful stop; what each connection said."""
    producers = 3
    with server:
        talks = [Dialogue(Faktory(server.port).hello()) for _ in range(producers)]
        workers = [Dialogue(Faktory(server.port).hello(wid=f"worker-{n}")) for n in range(2)]
        stop = threading.Event()
        producing = [
            threading.Thread(target=_produce, args=(talk, f"job-{n}", pushes // producers))
            for n, talk in enumerate(talks)
        ]
        consuming = [
            threading.Thread(target=_consume, args=(worker, Random(rng.random()), stop))
            for worker in workers
        ]
        for thread in (*producing, *consuming):
            thread.start()
        for thread in producing:
            thread.join()
        stop.set()
        for thread in consuming:
            thread.join()
        for talk in (*talks, *workers):
            talk.client.end()
        server.terminate()
    return [*talks, *workers]


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


def fates(records: list[trace.Record], dialogues: list[Dialogue]) -> dict[str, Fate]:
    """Join what the connections said with the replies that the shim saw leaving."""
    told = trace.replies(records)
    jobs: dict[str, Fate] = {}
    for dialogue in dialogues:
        marks = told.get(dialogue.client.local_port, [])[_GREETINGS:]
        assert len(marks) <= len(dialogue.said), "more replies than commands"
        for command, mark in zip_longest(dialogue.said, marks):
            for jid in command.jids:
                _take_note(jobs.setdefault(jid, Fate()), command.verb, mark)
    return jobs


def _take_note(fate: Fate, verb: str, mark: trace.Mark | None) -> None:
    if verb == "ack":
        fate.ack_sent = True
    if mark is None or mark.reply.startswith(b"-"):
        return  # never answered, or refused
    if verb == "push" and mark.reply in (b"+OK\r\n", b"$2\r\n{}\r\n"):
        fate.pushed = mark.record
    elif verb == "fetch":
        fate.fetched = mark.record if fate.fetched is None else min(fate.fetched, mark.record)
    elif verb == "ack":
        fate.ended = mark.record


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
        with closing(sqlite3.connect(databases[0], isolation_level=None)) as db:
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
    records: list[trace.Record], count: int, rng: Random
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """So many crash states, ordered by the moment of the cut."""
    disk = Disk()
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
    examples: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.lost_acked or self.resurrected or self.corrupt)

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


def run(options: Options) -> bool:
    began = time.monotonic()
    rng = Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="franca-powerloss-") as scratch:
        home = Path(scratch).resolve()
        (home / "data").mkdir(mode=0o700)
        library = shim.build(home / "shim")
        recorder = shim.Shim(library, home / "data", trace=home / "trace")
        server = Server(
            home / "data", env=recorder.environment(), argv_prefix=options.variant("small-log")
        )
        dialogues = record_run(server, rng, options.number("pushes", 3_000, short=900))
        records = trace.read(home / "trace")
        jobs = fates(records, dialogues)
        assert sum(fate.pushed is not None for fate in jobs.values()) >= 100, "hardly any load"
        tally = Tally()
        for cut, files in crash_states(records, options.number("states", 2_000, short=200), rng):
            with _in_memory() as state:
                materialise(files, Path(state))
                tally.judge(cut, look_into(Path(state)), jobs)
        if options.keep is not None and not tally.ok:
            shutil.copy(home / "trace", options.keep)
    syncs = sum(record.kind is trace.Kind.SYNC for record in records)
    print(
        f"T2 {NAME}: states={tally.states} lost_acked={tally.lost_acked}"
        f" resurrected={tally.resurrected} corrupt={tally.corrupt} jobs={len(jobs)}"
        f" records={len(records)} syncs={syncs} jobs_lost={tally.jobs_lost}"
        f" seconds={time.monotonic() - began:.0f}"
    )
    for example in tally.examples[:5]:
        print(f"  {example}")
    return tally.ok


def _in_memory() -> tempfile.TemporaryDirectory[str]:
    """A scratch directory that costs no disk, where the system has one."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(
        prefix="franca-state-", dir=memory if memory.is_dir() else None
    )
