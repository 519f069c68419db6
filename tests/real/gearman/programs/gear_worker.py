"""A worker of PyPI's `gear`."""

from __future__ import annotations

import gear

from tests.real.gearman.programs.peer import HOST, PARTS, WHOLE, ran, say, spec, tls, until_allowed


def work(job: gear.WorkerJob, does: str) -> None:
    if does == "wait":
        job.sendWorkStatus(1, 2)
        until_allowed(job.name, job.arguments)
    ran(
        job.name,
        job.arguments,
        handle=job.handle.decode(),
        unique=(job.unique or b"").decode("latin-1"),
    )
    if does == "fail":
        job.sendWorkFail()
    elif does == "raise":
        job.sendWorkException(b"boom")
    elif does == "progress":
        tell = {
            "status": lambda part: job.sendWorkStatus(*part),
            "data": lambda part: job.sendWorkData(part.encode()),
            "warning": lambda part: job.sendWorkWarning(part.encode()),
        }
        for kind, part in PARTS:
            tell[kind](part)
        job.sendWorkComplete(WHOLE.encode())
    else:
        job.sendWorkComplete(b"" if does == "empty" else job.arguments[::-1])


class Worker(gear.Worker):  # type: ignore[misc]
    """Tells when it has asked for a job in vain: the server has nothing more to give it unasked."""

    def handleNoJob(self, packet: gear.Packet) -> None:
        super().handleNoJob(packet)
        say("asleep")


def main() -> None:
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


if __name__ == "__main__":
    main()
