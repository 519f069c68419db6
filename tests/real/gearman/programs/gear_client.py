"""A client of PyPI's `gear`. It learns how a job goes in the callbacks of its receiving thread."""

import base64
import threading
from typing import Any

import gear

from tests.real.gearman.programs.peer import HOST, b64, outcome, spec, tls
from tests.real.programs.jobs import obey

PRECEDENCE = {p: getattr(gear, f"PRECEDENCE_{p.upper() or 'NORMAL'}") for p in ("", "high", "low")}


class Job(gear.Job):  # type: ignore[misc]
    """A job that can be waited for; the library's own only changes."""

    def __init__(self, name: str, arguments: bytes, unique: bytes | None) -> None:
        super().__init__(name, arguments, unique)
        self.ended = threading.Event()
        self.told = threading.Event()
        self.result = b""
        self.heard: dict[str, Any] = {"status": [], "data": [], "warnings": []}


class Client(gear.Client):  # type: ignore[misc]
    def handleWorkComplete(self, packet: gear.Packet) -> None:
        job = super().handleWorkComplete(packet)
        job.result = packet.getArgument(1, True)
        job.ended.set()

    def handleWorkFail(self, packet: gear.Packet) -> None:
        super().handleWorkFail(packet).ended.set()

    def handleWorkException(self, packet: gear.Packet) -> None:
        super().handleWorkException(packet).ended.set()

    def handleWorkStatus(self, packet: gear.Packet) -> None:
        job = super().handleWorkStatus(packet)
        job.heard["status"].append([int(job.numerator), int(job.denominator)])

    def handleWorkData(self, packet: gear.Packet) -> None:
        job = super().handleWorkData(packet)
        job.heard["data"].append(b64(job.data[-1]))

    def handleWorkWarning(self, packet: gear.Packet) -> None:
        job = super().handleWorkWarning(packet)
        job.heard["warnings"].append(b64(job.data[-1]))

    def handleStatusRes(self, packet: gear.Packet) -> None:
        super().handleStatusRes(packet).told.set()


client = Client("gear-client")
told = spec()
client.addServer(HOST, told["port"], **tls(told))
client.waitForServer()
client.setOption("exceptions")
sent: dict[str, Job] = {}


def submit(function: str, workload: str, unique: str = "", priority: str = "", **how: bool) -> Job:
    job = Job(function, base64.b64decode(workload), unique.encode() or None)
    client.submitJob(job, precedence=PRECEDENCE[priority], timeout=20, **how)
    return job


def do(*work: str, **options: Any) -> dict[str, object]:
    return end(submit(*work, **options))


def end(job: Job) -> dict[str, object]:
    job.ended.wait()
    if job.exception is not None:
        return outcome("exception", exception=b64(job.exception), **job.heard)
    return outcome("fail" if job.failure else "complete", job.result, **job.heard)


def many(function: str, workloads: list[str]) -> list[object]:
    return [end(job) for job in [submit(function, each) for each in workloads]]


def background(*work: str, **options: Any) -> str:
    job = submit(*work, **options, background=True)
    handle: str = job.handle.decode()
    sent[handle] = job
    return handle


def status(handle: str) -> list[int]:
    # The library reads the answer but has no call that asks.
    job = sent[handle]
    job.told.clear()
    packet = gear.Packet(gear.constants.REQ, gear.constants.GET_STATUS, job.handle)
    client.sendPacket(packet, job.connection)
    job.told.wait()
    return [int(job.known), int(job.running), int(job.numerator), int(job.denominator)]


def admin(name: str, *args: str) -> str:
    request = getattr(gear, f"{name}AdminRequest")(*args)
    client.getConnection().sendAdminRequest(request, timeout=20)
    return str(request.response.decode())


if __name__ == "__main__":
    obey(do, many, background, status, admin)
