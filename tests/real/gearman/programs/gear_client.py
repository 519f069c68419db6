"""A client of PyPI's `gear`. It learns how a job goes in the callbacks of its receiving thread."""

from __future__ import annotations

import base64
import threading
from typing import Any

import gear

from tests.real.gearman.programs.peer import HOST, b64, obey, outcome, spec, tls

PRECEDENCE = {
    None: gear.PRECEDENCE_NORMAL,
    "high": gear.PRECEDENCE_HIGH,
    "low": gear.PRECEDENCE_LOW,
}


class Job(gear.Job):  # type: ignore[misc]
    """A job that can be waited for; the library's own only changes."""

    def __init__(self, name: str, arguments: bytes, unique: bytes | None = None) -> None:
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


def main() -> None:
    client = Client("gear-client")
    told = spec()
    client.addServer(HOST, told["port"], **tls(told))
    client.waitForServer()
    client.setOption("exceptions")
    sent: dict[str, Job] = {}

    def submit(function: str, workload: str, options: dict[str, str], background: bool) -> Job:
        unique = options.get("unique")
        job = Job(function, base64.b64decode(workload), unique.encode() if unique else None)
        client.submitJob(job, background, PRECEDENCE[options.get("priority")], timeout=20)
        return job

    def do(function: str, workload: str, options: dict[str, str]) -> dict[str, object]:
        job = submit(function, workload, options, background=False)
        job.ended.wait()
        if job.exception is not None:
            return outcome("exception", exception=b64(job.exception), **job.heard)
        if job.failure:
            return outcome("fail", **job.heard)
        return outcome("complete", job.result, **job.heard)

    def many(function: str, workloads: list[str], options: dict[str, str]) -> list[object]:
        jobs = [submit(function, workload, options, False) for workload in workloads]
        for job in jobs:
            job.ended.wait()
        return [outcome("complete", job.result) for job in jobs]

    def background(function: str, workload: str, options: dict[str, str]) -> str:
        job = submit(function, workload, options, background=True)
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
        answer: bytes = request.response
        return answer.decode()

    obey({"do": do, "many": many, "background": background, "status": status, "admin": admin})


if __name__ == "__main__":
    main()
