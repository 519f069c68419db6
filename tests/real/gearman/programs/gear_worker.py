"""A worker of PyPI's `gear`."""

import gear

from tests.real.gearman.programs.peer import HOST, Failed, perform, spec, tls
from tests.real.programs.jobs import say


def work(job: gear.WorkerJob, does: str) -> None:
    def tell(kind: str, *args: int | str) -> None:
        send = getattr(job, f"sendWork{kind.title()}")
        send(*(each.encode() if isinstance(each, str) else each for each in args))

    if does == "wait":
        job.sendWorkStatus(1, 2)
    facts = {"handle": job.handle.decode(), "unique": (job.unique or b"").decode("latin-1")}
    try:
        job.sendWorkComplete(perform(does, job.name, job.arguments, tell, **facts))
    except Failed:
        job.sendWorkFail()
    except ValueError:
        job.sendWorkException(b"boom")


class Worker(gear.Worker):  # type: ignore[misc]
    """Tells when it has asked for a job in vain: the server has nothing more to give it unasked."""

    def handleNoJob(self, packet: gear.Packet) -> None:
        super().handleNoJob(packet)
        say("asleep")


if __name__ == "__main__":
    told = spec()
    worker = Worker(told["id"])
    worker.addServer(HOST, told["port"], **tls(told))
    worker.waitForServer()
    for name in told["functions"]:
        worker.registerFunction(name)
    say("ready")
    while True:
        job = worker.getJob()
        work(job, told["functions"][job.name])
