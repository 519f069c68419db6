"""A worker of PyPI's `python3-gearman`. It knows text only."""

from types import TracebackType
from typing import Any

import python3_gearman

from tests.real.gearman.programs.peer import HOST, perform, spec
from tests.real.programs.jobs import say


class Worker(python3_gearman.GearmanWorker):  # type: ignore[misc]
    def on_job_exception(
        self, current_job: Any, exc_info: tuple[type[Exception], Exception, TracebackType]
    ) -> bool:
        """Its own way is WORK_FAIL alone; with a word about the reason it sends both packets."""
        if str(exc_info[1]) == "boom":
            self.send_job_exception(current_job, "boom")
            return False
        return bool(super().on_job_exception(current_job, exc_info))


def does(how: str) -> Any:
    def work(worker: Worker, job: Any) -> str:
        def tell(kind: str, *args: object) -> None:
            getattr(worker, f"send_job_{kind}")(job, *args)

        facts = {"handle": job.handle, "unique": job.unique}
        return perform(how, job.task, job.data.encode(), tell, **facts).decode()

    return work


if __name__ == "__main__":
    told = spec()
    worker = Worker([f"{HOST}:{told['port']}"])
    worker.set_client_id(told["id"])
    for name, how in told["functions"].items():
        worker.register_task(name, does(how))
    say("ready")
    worker.work(poll_timeout=60.0)
