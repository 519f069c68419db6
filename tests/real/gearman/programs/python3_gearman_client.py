"""A client, and an admin, of PyPI's `python3-gearman`. It knows text only, and no exceptions."""

from __future__ import annotations

import base64
from typing import Any

import python3_gearman

from tests.real.gearman.programs.peer import HOST, b64, obey, outcome, spec

PRIORITY = {
    None: python3_gearman.PRIORITY_NONE,
    "high": python3_gearman.PRIORITY_HIGH,
    "low": python3_gearman.PRIORITY_LOW,
}


def main() -> None:
    address = [f"{HOST}:{spec()['port']}"]
    client = python3_gearman.GearmanClient(address)
    sent: dict[str, Any] = {}

    def submit(function: str, workload: str, options: dict[str, str], background: bool) -> Any:
        return client.submit_job(
            function,
            base64.b64decode(workload).decode(),
            unique=options.get("unique"),
            priority=PRIORITY[options.get("priority")],
            background=background,
            wait_until_complete=not background,
        )

    def do(function: str, workload: str, options: dict[str, str]) -> dict[str, object]:
        request = submit(function, workload, options, background=False)
        # It keeps the last status only.
        last = request.status
        heard: dict[str, Any] = {
            "last_status": [last["numerator"], last["denominator"]] if last else None,
            "data": [b64(each.encode()) for each in request.data_updates],
            "warnings": [b64(each.encode()) for each in request.warning_updates],
        }
        if request.state == python3_gearman.JOB_FAILED:
            return outcome("fail", **heard)
        assert request.state == python3_gearman.JOB_COMPLETE, request.state
        return outcome("complete", request.result.encode(), **heard)

    def many(function: str, workloads: list[str], options: dict[str, str]) -> list[object]:
        jobs = [{"task": function, "data": base64.b64decode(each).decode()} for each in workloads]
        done = client.submit_multiple_jobs(jobs)
        return [outcome("complete", request.result.encode()) for request in done]

    def background(function: str, workload: str, options: dict[str, str]) -> str:
        request = submit(function, workload, options, background=True)
        handle: str = request.job.handle
        sent[handle] = request
        return handle

    def status(handle: str) -> list[int]:
        found = client.get_job_status(sent[handle]).status
        return [int(found[name]) for name in ("known", "running", "numerator", "denominator")]

    def admin(name: str, *args: Any) -> Any:
        return getattr(python3_gearman.GearmanAdminClient(address), name)(*args)

    obey({"do": do, "many": many, "background": background, "status": status, "admin": admin})


if __name__ == "__main__":
    main()
