"""A worker of PyPI's `python3-gearman`. It knows text only."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import python3_gearman

from tests.real.gearman.programs.peer import HOST, PARTS, WHOLE, ran, say, spec, until_allowed


class Worker(python3_gearman.GearmanWorker):  # type: ignore[misc]
    def on_job_exception(
        self, current_job: Any, exc_info: tuple[type[Exception], Exception, TracebackType]
    ) -> bool:
        """Its own way is WORK_FAIL alone; with a word about the reason it sends both packets."""
        if str(exc_info[1]) == "boom":
            self.send_job_exception(current_job, "boom")
            return False
        failed: bool = super().on_job_exception(current_job, exc_info)
        return failed


class Failed(Exception):
    pass


def does(how: str) -> Any:
    def work(worker: Worker, job: Any) -> str:
        if how == "wait":
            until_allowed(job.task, job.data.encode())
        ran(job.task, job.data.encode(), handle=job.handle, unique=job.unique)
        if how == "fail":
            raise Failed
        if how == "raise":
            raise ValueError("boom")
        if how == "progress":
            for kind, part in PARTS:
                if kind == "status":
                    worker.send_job_status(job, *part)
                elif kind == "data":
                    worker.send_job_data(job, part)
                else:
                    worker.send_job_warning(job, part)
            return WHOLE
        return "" if how == "empty" else str(job.data[::-1])

    return work


def main() -> None:
    told = spec()
    worker = Worker([f"{HOST}:{told['port']}"])
    worker.set_client_id(told["id"])
    for name, how in told["functions"].items():
        worker.register_task(name, does(how))
    say("ready")
    worker.work(poll_timeout=60.0)


if __name__ == "__main__":
    main()
