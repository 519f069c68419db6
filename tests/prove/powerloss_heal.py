"""T2, the second fall: the power goes while a server heals what a failed sync left behind.

A server runs into a failed sync and stops. The next one finds its mark, copies the store into a fresh
file and puts it in place; every moment of that is a moment at which the power may go. In each crash
state all that the first server acknowledged must still be there, and what it saw finished must not.
"""

from pathlib import Path

from tests.prove.crash import Disk, read_trace
from tests.prove.crash_states import StateTally, crash_states, fates
from tests.prove.fsync_eio import Point
from tests.prove.harness import Options, Result

_FIRST_SYNC, _LAST_SYNC = 20, 45  # after the start, before the stop


def run(options: Options) -> Result:
    rng = options.rng
    falls = options.number("falls", 10, short=3)
    states = options.number("states", 1_000, short=200) // falls
    tally, jobs_seen, healed = StateTally(), 0, 0
    # Under --mutant only the server that heals is the one with the bug.
    healthy = Options(options.seed, home=options.home)
    for number in range(falls):
        point = Point(healthy, str(number), rng.randint(_FIRST_SYNC, _LAST_SYNC))
        point.run(rng)
        assert point.failed_at is not None, "the load was too small for this sync"
        jobs = fates(point.records(), point.dialogues, long_ago=True)
        jobs_seen += len(jobs)
        before = _files(point.data)
        healed += "suspect" in before
        second = point.home / "second"
        with options.server(point.data, env=options.disk(point.data, trace=second)) as server:
            server.terminate()
        crashed = crash_states(read_trace(second), states, rng, Disk.holding(before))
        tally.judge(crashed, jobs, serve_every=states // 2)
    held = tally.ok and healed == falls
    figures = f"{tally} falls={falls} healed={healed} jobs={jobs_seen}"
    return Result(held, figures, tally.examples[:5])


def _files(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.iterdir() if path.is_file()]
    return {path.name: path.read_bytes() for path in files if not path.name.endswith("-shm")}
