"""What SUBMIT_JOB, GRAB_JOB and WORK_DONE cost, for one producer and one worker.

`python -m tests.protocols.periodic.hotpath`
"""

from __future__ import annotations

from tests.protocols.hotpath import JOBS_A_TURN, HotPath, measure, on
from tests.protocols.periodic.puppet import World
from tests.support import periodic as p
from tests.support.periodic import packed, str8


def main() -> None:
    world = World()
    producer, worker = world.client(), world.worker("bench")
    grabs = [worker.message(p.GRAB_JOB, b"", b"grab")] * JOBS_A_TURN

    def play(path: HotPath, numbers: range) -> None:
        names = [f"load{number:012}" for number in numbers]
        jobs = [packed("bench", name, b"x" * 64) for name in names]
        handles = [str8("bench") + str8(name) for name in names]
        submits = [producer.message(p.SUBMIT_JOB, job, b"subm") for job in jobs]
        reports = [worker.message(p.WORK_DONE, handle, b"done") for handle in handles]
        path.turn("SUBMIT_JOB", on(producer.link, submits))
        path.turn("GRAB_JOB", on(worker.link, grabs))
        path.turn("WORK_DONE", on(worker.link, reports))
        path.drain()

    measure(world, play)


if __name__ == "__main__":
    main()
