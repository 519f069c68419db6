"""A client, and an admin, of PyPI's `python3-gearman`. It knows text only, and no exceptions."""

import base64
from typing import Any

import python3_gearman

from tests.real.gearman.programs.peer import HOST, b64, outcome, spec
from tests.real.programs.jobs import obey

PRIORITY = {
    p: getattr(python3_gearman, f"PRIORITY_{p.upper() or 'NONE'}") for p in ("", "high", "low")
}


def text(workload: str) -> str:
    return base64.b64decode(workload).decode()


address = [f"{HOST}:{spec()['port']}"]
client = python3_gearman.GearmanClient(address)
sent: dict[str, Any] = {}


def submit(function: str, workload: str, priority: str = "", **how: Any) -> Any:
    return client.submit_job(function, text(workload), priority=PRIORITY[priority], **how)


def do(*work: str, **options: Any) -> dict[str, object]:
    request = submit(*work, **options)
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


def many(function: str, workloads: list[str]) -> list[object]:
    jobs = [{"task": function, "data": text(each)} for each in workloads]
    done = client.submit_multiple_jobs(jobs)
    return [outcome("complete", request.result.encode()) for request in done]


def background(*work: str, **options: Any) -> str:
    request = submit(*work, **options, background=True, wait_until_complete=False)
    handle: str = request.job.handle
    sent[handle] = request
    return handle


def status(handle: str) -> list[int]:
    found = client.get_job_status(sent[handle]).status
    return [int(found[name]) for name in ("known", "running", "numerator", "denominator")]


def admin(name: str, *args: Any) -> Any:
    return getattr(python3_gearman.GearmanAdminClient(address), name)(*args)


if __name__ == "__main__":
    obey(do, many, background, status, admin)
