"""Work over HTTP: a lease has a token, and only whoever has it may report."""

import asyncio
from typing import Any

import pytest

from franca.core.model import State
from tests.web.kit import Site

LEASE = {"queues": ["q"], "worker": "w-1"}


def leased(site: Site, **job: Any) -> tuple[int, str]:
    site.node.submit(**job)
    answer = site.api("POST", "lease", LEASE)
    assert answer.status == 200
    return answer.json["job"]["id"], answer.json["token"]


def test_a_job_is_leased_and_done(site: Site) -> None:
    job = site.node.submit(kind="Send", name="n-1")
    answer = site.api("POST", "lease", LEASE).json
    given = {
        "id": job.id,
        "name": "n-1",
        "queue": "q",
        "type": "Send",
        "args": ["[1]"],
        "attempt": 1,
    }
    assert answer["job"] == given | {"args": answer["job"]["args"]}
    assert answer["lease_until"]
    done = site.api("POST", f"jobs/{job.id}/ack", {"token": answer["token"], "result": {"n": 1}})
    assert (done.status, done.json["state"]) == (200, "done")
    shown = site.api("GET", f"jobs/{job.id}").json
    assert (shown["state"], shown["result"]["text"], shown["by"]) == ("done", '{"n":1}', "rest")
    # Whoever looks at the job learns who ran it, and not how to report about it.
    assert shown["worker"].startswith("rest link ")
    assert shown["worker"].endswith(" w-1")
    assert answer["token"] not in str(shown)


def over_http(site: Site) -> list[dict[str, Any]]:
    workers = site.api("GET", "workers").json["workers"]
    return [worker for worker in workers if worker["protocol"] == "rest"]


def test_who_works_over_http_is_a_worker_while_it_runs_a_job(site: Site) -> None:
    job, token = leased(site)
    other, _ = leased(site)
    [worker] = over_http(site)
    assert (worker["name"], worker["state"], worker["queues"]) == ("w-1", "busy", ["q"])
    assert [run["id"] for run in worker["running"]] == [job, other]
    asked = site.api("POST", "workers/stop", {"all": True}).json
    assert asked["missing"] == []
    site.api("POST", f"jobs/{job}/ack", {"token": token})
    [worker] = over_http(site)
    assert [run["id"] for run in worker["running"]] == [other]


def test_without_a_job_there_is_no_content(site: Site) -> None:
    answer = site.api("POST", "lease", LEASE)
    assert (answer.status, answer.body) == (204, b"")
    assert site.node.broker.sessions.open == {}


def test_a_caller_waits_for_a_job(site: Site) -> None:
    call, work = site.begin("POST", "/api/v1/lease", LEASE | {"wait_ms": 60_000})

    async def wait() -> None:
        task = asyncio.ensure_future(work)
        while not (queue := site.node.broker.queues.get("q")) or not queue.demands:
            await asyncio.sleep(0)
        site.node.submit()
        site.node.engine.deliver(site.node.now)
        async with asyncio.timeout(20):
            await task

    site.run(wait())
    assert call.answer().status == 200
    assert site.node.broker.sessions.open == {}


@pytest.mark.parametrize("with_job", [False, True])
def test_a_job_that_comes_for_one_who_hung_up_goes_back(site: Site, with_job: bool) -> None:
    call, work = site.begin("POST", "/api/v1/lease", LEASE | {"wait_ms": 60_000})

    async def hang_up() -> None:
        task = asyncio.ensure_future(work)
        while not (queue := site.node.broker.queues.get("q")) or not queue.demands:
            await asyncio.sleep(0)
        if with_job:
            site.node.submit()
        call.hung_up.set()
        if with_job:
            for _ in range(3):  # the disconnection is noticed before the job is told of
                await asyncio.sleep(0)
            site.node.engine.deliver(site.node.now)
        async with asyncio.timeout(20):
            await task

    site.run(hang_up())
    broker = site.node.broker
    assert broker.sessions.open == {}
    assert broker.leases.count == (1 if call.status == 200 else 0)
    if with_job and call.status != 200:
        assert broker.jobs[1].state is State.READY
        assert broker.jobs[1].attempts == 0


@pytest.mark.parametrize("report", ["ack", "fail", "heartbeat", "progress"])
def test_an_old_token_is_refused(site: Site, report: str) -> None:
    job, token = leased(site)
    assert site.api("POST", f"jobs/{job}/{report}", {"token": "another"}).status == 409
    site.node.broker.release(
        site.node.broker.jobs[job], site.node.broker.jobs[job].holder, 0, site.node.now
    )
    site.node.commit()
    new = site.api("POST", "lease", LEASE).json["token"]
    answer = site.api("POST", f"jobs/{job}/{report}", {"token": token})
    assert (answer.status, answer.json["code"]) == (409, "not-held")
    assert site.api("POST", f"jobs/{job}/{report}", {"token": new}).status == 200
    assert site.api("POST", "jobs/999/ack", {"token": new}).status == 409


def test_a_run_fails_and_is_tried_again(site: Site) -> None:
    job, token = leased(site)
    said = {"token": token, "error": "Boom", "text": "t" * 5_000, "trace": ["a", "b"]}
    answer = site.api("POST", f"jobs/{job}/fail", said)
    assert answer.json["state"] == "retrying"
    [attempt] = site.api("GET", f"jobs/{job}").json["attempt_log"]
    assert (attempt["error"], len(attempt["text"]), attempt["trace"]) == ("Boom", 1_000, ["a", "b"])
    assert site.api("POST", f"jobs/{job}/ack", {"token": token}).status == 409


def test_a_heartbeat_makes_the_lease_longer(site: Site) -> None:
    job, token = leased(site)
    before = site.node.broker.jobs[job].until
    answer = site.api("POST", f"jobs/{job}/heartbeat", {"token": token, "lease_ms": 7_200_000})
    assert answer.json["state"] == "running"
    assert site.node.broker.jobs[job].until == site.node.now + 7_200_000 > before


def test_progress_stays_with_the_job(site: Site) -> None:
    job, token = leased(site)
    said = {"token": token, "n": 3, "of": 10, "text": "third"}
    assert site.api("POST", f"jobs/{job}/progress", said).status == 200
    assert site.api("GET", f"jobs/{job}").json["progress"]["n"] == 3


def test_a_lease_outlives_a_restart_of_the_web_side(site: Site) -> None:
    job, token = leased(site)
    with Site(node=site.node) as other:
        assert other.api("POST", f"jobs/{job}/ack", {"token": token}).status == 200


def test_a_report_is_about_a_job_by_name_too(site: Site) -> None:
    _, token = leased(site, name="n-1")
    assert site.api("POST", "jobs/n-1/ack", {"token": token}).status == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": []}, {"queues": [""]}, {"queues": ["q"], "wait_ms": 10**9}, {"queues": ["q"] * 1_001},
        {"queues": "q"}, {"queues": ["q"], "worker": "w" * 201},
    ],
)  # fmt: skip
def test_a_wrong_question_is_refused(site: Site, wrong: dict[str, object]) -> None:
    site.node.submit()
    assert site.api("POST", "lease", wrong).status == 400
    assert site.node.broker.leases.count == 0


def test_when_the_server_stops_nobody_waits_for_a_job(site: Site) -> None:
    call, work = site.begin("POST", "/api/v1/lease", LEASE | {"wait_ms": 60_000})

    async def stop() -> None:
        task = asyncio.ensure_future(work)
        while not (queue := site.node.broker.queues.get("q")) or not queue.demands:
            await asyncio.sleep(0)
        site.web.drain()
        async with asyncio.timeout(20):
            await task

    site.run(stop())
    assert (call.answer().status, call.answer().json["code"]) == (503, "stopping")
    assert site.call("GET", "/readyz").status == 503
    assert site.call("GET", "/livez").status == 200
    assert site.api("POST", "lease", LEASE).status == 503
