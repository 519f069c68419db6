"""Work over HTTP: a lease has a token, and only whoever has it may report."""

import asyncio
from typing import Any

import pytest

from franca.control import http_workers
from franca.core.model import State
from tests.web.kit import Call, Site

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


# -- what workers are asked -------------------------------------------------------------------


def ask(site: Site, what: str, **which: Any) -> Any:
    return site.api("POST", f"workers/{what}", which or {"workers": ["w-1"]}).json


def until_it_waits(site: Site, **lease: Any) -> tuple[Call, asyncio.Task[None]]:
    """A request for a job that waits for one."""
    call, work = site.begin("POST", "/api/v1/lease", LEASE | {"wait_ms": 60_000} | lease)

    async def wait() -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        while not is_waited(site):
            await asyncio.sleep(0)
        return task

    return call, site.run(wait())


def is_waited(site: Site) -> bool:
    """Whether a request of a worker waits."""
    views = site.node.observer.http_workers.views(site.node.broker.leases, site.node.now)
    return any(view.connections for view in views)


def finish(site: Site, task: asyncio.Task[None]) -> None:
    async def wait() -> None:
        async with asyncio.timeout(20):
            await task

    site.run(wait())


@pytest.mark.parametrize(("what", "state"), [("quiet", "quiet"), ("stop", "stopping")])
def test_a_worker_that_was_asked_is_told_and_given_no_job(
    site: Site, what: str, state: str
) -> None:
    job, token = leased(site)
    site.node.submit()
    assert ask(site, what, workers=["w-1", "nobody"]) == {"count": 1, "missing": ["nobody"]}
    for report in ("heartbeat", "progress", "ack"):
        answer = site.api("POST", f"jobs/{job}/{report}", {"token": token})
        assert (answer.status, answer.json["asked"]) == (200, what)
    answer = site.api("POST", "lease", LEASE)
    assert (answer.status, answer.headers["franca-asked"]) == (204, what)
    assert site.node.do("work.lease", **LEASE)["asked"] == what
    [worker] = over_http(site)
    assert (worker["name"], worker["state"]) == ("w-1", state)
    other = site.api("POST", "lease", LEASE | {"worker": "w-2"}).json
    assert (other["job"]["id"], other["asked"]) == (2, None)


def test_who_was_not_asked_is_told_nothing(site: Site) -> None:
    job, token = leased(site)
    assert site.api("POST", f"jobs/{job}/heartbeat", {"token": token}).json["asked"] is None
    assert "franca-asked" not in site.api("POST", "lease", LEASE).headers


def test_who_was_asked_to_stop_is_not_asked_to_be_quiet_instead(site: Site) -> None:
    site.api("POST", "lease", LEASE)
    for what in ("quiet", "stop", "quiet"):
        ask(site, what)
    assert site.api("POST", "lease", LEASE).headers["franca-asked"] == "stop"


@pytest.mark.parametrize("which", [{"workers": ["w-1"]}, {"all": True}])
def test_who_waits_for_a_job_is_told_at_once(site: Site, which: dict[str, Any]) -> None:
    call, task = until_it_waits(site)
    [worker] = over_http(site)
    assert (worker["state"], worker["queues"], worker["connections"]) == ("idle", ["q"], 1)
    ask(site, "quiet", **which)
    finish(site, task)
    assert (call.answer().status, call.answer().headers["franca-asked"]) == (204, "quiet")
    assert site.node.broker.sessions.open == {}
    site.node.submit()
    site.node.engine.deliver(site.node.now)
    assert site.node.broker.leases.count == 0
    assert over_http(site)[0]["connections"] == 0


def test_no_job_comes_to_one_who_was_asked_before_it_is_answered(site: Site) -> None:
    call, task = until_it_waits(site)
    broker = site.node.broker
    site.node.observer.http_workers.ask("w-1", "quiet", broker, dict, site.node.now)
    site.node.submit()
    site.node.engine.deliver(site.node.now)
    assert broker.leases.count == 0
    finish(site, task)
    assert call.answer().status == 204


def test_a_job_that_is_on_its_way_to_a_worker_is_still_given(site: Site) -> None:
    call, task = until_it_waits(site)
    site.node.submit()
    ask(site, "quiet")
    site.node.engine.deliver(site.node.now)
    finish(site, task)
    assert (call.answer().status, call.answer().json["asked"]) == (200, "quiet")


def test_who_was_told_and_asks_again_waits_as_long_as_it_says(site: Site) -> None:
    """It would ask without end otherwise, if it does not know what it is told."""
    site.api("POST", "lease", LEASE)
    ask(site, "quiet")
    assert site.api("POST", "lease", LEASE | {"wait_ms": 60_000}).status == 204
    call, task = until_it_waits(site)
    site.node.submit()
    site.node.engine.deliver(site.node.now)
    assert over_http(site)[0]["connections"] == 1
    assert not task.done()
    assert site.node.broker.leases.count == 0
    ask(site, "stop")
    finish(site, task)
    assert call.answer().headers["franca-asked"] == "stop"
    assert site.api("POST", "lease", LEASE | {"wait_ms": 1}).status == 204


def test_a_process_that_has_just_begun_was_asked_nothing(site: Site) -> None:
    site.api("POST", "lease", LEASE)
    ask(site, "stop")
    site.node.submit()
    assert site.api("POST", "lease", LEASE).status == 204
    assert site.api("POST", "lease", LEASE | {"first": True}).status == 200


@pytest.mark.parametrize(
    ("away_ms", "step_ms", "is_over"),
    [
        (60_000, 60_000, False),
        (60_001, 60_001, True),
        (86_400_000, 60_000, False),
        (86_460_000, 60_000, True),
    ],
)
def test_what_was_asked_is_forgotten_after_a_minute_of_silence_and_after_a_day(
    site: Site, away_ms: int, step_ms: int, is_over: bool
) -> None:
    site.api("POST", "lease", LEASE)
    ask(site, "quiet")
    site.node.submit()
    workers, broker = site.node.observer.http_workers, site.node.broker
    for _ in range(away_ms // step_ms):
        site.node.now += step_ms
        asked, _ = workers.fetches("w-1", ["q"], broker.leases, site.node.now, is_new=False)
    assert (asked is None) is is_over


def test_silence_does_not_end_what_was_asked_while_a_job_runs(site: Site) -> None:
    leased(site)
    ask(site, "quiet")
    site.node.now += 600_000
    [worker] = over_http(site)
    assert worker["state"] == "quiet"
    assert site.api("POST", "lease", LEASE).headers["franca-asked"] == "quiet"


def test_a_worker_without_a_name_is_asked_while_it_runs_a_job(site: Site) -> None:
    site.node.submit()
    answer = site.api("POST", "lease", {"queues": ["q"]}).json
    [worker] = over_http(site)
    assert ask(site, "stop", all=True)["count"] == 3
    token = {"token": answer["token"]}
    assert site.api("POST", f"jobs/{answer['job']['id']}/heartbeat", token).json["asked"] == "stop"
    assert over_http(site)[0] | {"state": "busy"} == worker
    site.api("POST", f"jobs/{answer['job']['id']}/ack", token)
    assert over_http(site) == []
    site.node.submit()
    assert site.api("POST", "lease", {"queues": ["q"]}).status == 200


def test_names_are_bounded_and_those_that_were_not_heard_of_are_not_listed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_workers, "NAMES_MAX", 2)
    for name in ("a", "b", "a", "c"):
        site.api("POST", "lease", {"queues": ["q" * 100] * 9, "worker": name})
    assert [worker["name"] for worker in over_http(site)] == ["a", "c"]
    assert ask(site, "quiet", workers=["a", "b", "c"])["missing"] == ["b"]
    site.node.now += 60_001
    assert over_http(site) == []
    assert ask(site, "quiet", workers=["a"])["missing"] == ["a"]


def test_of_what_a_worker_asks_for_little_is_kept(site: Site) -> None:
    site.api("POST", "lease", {"queues": [f"{n:0100}" for n in range(9)], "worker": "long"})
    site.api("POST", "lease", {"queues": [f"q{n}" for n in range(9)], "worker": "many"})
    assert [len(worker["queues"]) for worker in over_http(site)] == [2, 8]
