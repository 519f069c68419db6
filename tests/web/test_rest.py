"""Operations over REST: what goes in, what comes out, and what is refused how."""

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

import pytest

from franca.control.operations import OPERATIONS
from franca.core.changes import Changes
from franca.core.model import Job
from franca.core.wants import Want
from franca.web import rest
from franca.web.routes import ROUTES
from tests.web.kit import Site, bearer


def submit(site: Site, **members: object) -> int:
    answer = site.api("POST", "jobs", {"queue": "q", "type": "t", **members})
    assert answer.status == 201
    return int(answer.json["id"])


def test_every_operation_has_a_route() -> None:
    # What these tell, others tell with more, in public words.
    older = {"jobs.find", "jobs.show", "workers.list"}
    assert {route.operation for route in ROUTES} == set(OPERATIONS) - older


def test_a_job_is_submitted_and_shown_where_location_says(site: Site) -> None:
    answer = site.api("POST", "jobs", {"queue": "mail", "type": "Send", "args": [1, "a"]})
    assert answer.status == 201
    assert answer.json["state"] == "ready"
    shown = site.call("GET", answer.headers["location"])
    job = shown.json
    assert (job["queue"], job["type"], job["via"]) == ("mail", "Send", "rest")
    assert job["body"]["text"] == '[1,"a"]'
    by_name = site.api("GET", f"jobs/{answer.json['name']}")
    assert by_name.json == shown.json


def test_jobs_are_found_by_what_the_query_says(site: Site) -> None:
    ids = [submit(site, queue=queue) for queue in ("a", "b", "a")]
    page = site.api("GET", "jobs?q=queue:a&state=ready,dead&limit=1").json
    assert [job["id"] for job in page["jobs"]] == ids[2:]
    behind = site.api("GET", f"jobs?q=queue:a&state=ready,dead&limit=1&after={page['next']}").json
    assert [job["id"] for job in behind["jobs"]] == ids[:1]


def test_jobs_submitted_together_came_over_rest_whatever_they_say(site: Site) -> None:
    jobs = [{"queue": "q", "type": "t"}, {"queue": "q", "type": "t", "via": "control"}, {}]
    answer = site.api("POST", "jobs/batch-submit", {"jobs": jobs}).json["jobs"]
    assert [one.get("state") for one in answer] == ["ready", "ready", None]
    assert "queue" in answer[2]["error"]
    assert {job.origin for job in site.node.broker.jobs.values()} == {"rest"}
    refused = site.api("POST", "jobs/batch-submit", {"jobs": jobs, "via": "control"})
    assert refused.status == 400


def test_a_job_is_killed_retried_and_deleted(site: Site) -> None:
    job = submit(site)
    assert site.api("POST", f"jobs/{job}/kill").json["count"] == 1
    assert site.api("GET", f"jobs/{job}").json["state"] == "dead"
    assert site.api("POST", f"jobs/{job}/retry").json["count"] == 1
    assert site.api("POST", "jobs/actions", {"action": "kill", "ids": [job]}).json["changed"] == 1
    assert site.api("DELETE", f"jobs/{job}").json["count"] == 1


def test_what_cannot_be_done_to_a_job_is_refused(site: Site) -> None:
    answer = site.api("POST", "jobs/77/retry")
    assert (answer.status, answer.json["detail"]) == (404, "there is no such job")
    job = submit(site)
    answer = site.api("POST", f"jobs/{job}/retry")
    assert (answer.status, answer.json["code"]) == (409, "refused")
    assert "ready" in answer.json["detail"]


@pytest.mark.parametrize("name", ["mail", "a b", "a/b", "ü?#%", "..", "a//b"])
def test_a_queue_of_any_name_is_paused(site: Site, name: str) -> None:
    submit(site, queue=name)
    assert site.api("POST", f"queues/{quote(name, safe='')}/pause").status == 200
    [queue] = site.api("GET", "queues").json["queues"]
    assert (queue["queue"], queue["paused"]) == (name, True)
    assert site.api("POST", f"queues/{quote(name, safe='')}/purge").json["jobs"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code"),
    [
        ("GET", "nowhere", None, {}, 404, "not-found"),
        ("GET", "queues/%FF/pause", None, {}, 404, "not-found"),
        ("GET", "jobs/77", None, {}, 404, "not-found"),
        ("PUT", "jobs", {}, {}, 405, "method-not-allowed"),
        ("GET", "lease", None, {}, 405, "method-not-allowed"),
        ("GET", "jobs?limit=0", None, {}, 400, "bad-request"),
        ("GET", "jobs?unheard=1", None, {}, 400, "bad-request"),
        ("GET", "jobs?limit=1&limit=2", None, {}, 400, "bad-request"),
        ("GET", f"jobs?q={'x' * 9000}", None, {}, 414, "too-much"),
        ("GET", "jobs", None, {"accept": "text/html"}, 406, "not-acceptable"),
        ("GET", "jobs", None, {"accept": "application/json;q=0"}, 406, "not-acceptable"),
        ("POST", "jobs", b"{", {}, 400, "bad-request"),
        ("POST", "jobs", b"[" * 100_000, {}, 400, "bad-request"),
        ("POST", "jobs", {"queue": "q"}, {}, 400, "bad-request"),
        ("POST", "jobs", {"queue": "q", "type": "t", "args": {}}, {}, 400, "bad-request"),
        ("POST", "jobs", {"queue": "q", "type": "t", "unheard": 1}, {}, 400, "bad-request"),
        ("POST", "jobs?queue=q", {"type": "t"}, {}, 400, "bad-request"),
        ("POST", "jobs", {"queue": "q" * 2000, "type": "t"}, {}, 413, "too-much"),
        ("POST", "jobs", {"queue": "q", "type": "t"}, {"content-type": "text/plain"}, 415, "not-json"),
        ("POST", "jobs", {"queue": "q", "type": "t"}, {"content-type": "application/x-www-form-urlencoded"}, 415, "not-json"),
        ("POST", "jobs", {"queue": "q", "type": "t"}, {"content-encoding": "gzip"}, 415, "encoded"),
        ("POST", "jobs", {"queue": "q", "type": "t"}, {"content-length": "99999999999"}, 413, "too-much"),
        ("POST", "jobs/1/retry", {"jobs": ["2"]}, {}, 400, "bad-request"),
        ("POST", "jobs/1/retry", [1], {}, 400, "bad-request"),
        ("POST", "queues/nobody/pause", None, {}, 404, "not-found"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_and_says_why(
    site: Site,
    method: str,
    path: str,
    body: object,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    answer = site.api(method, path, body, headers)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert site.node.broker.totals.pushed == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/jobs", b'{"queue":"\xed\xa0\x80","type":"t"}'),
        ("/api/v1/jobs/batch-submit", b'{"jobs":[{"queue":"\xff","type":"t"}]}'),
        ("/api/v1/queues/q/pause", b'{"\xff": 1}'),
        ("/api/v1/store/import", b'{"lines":[{"kind":"\xff"}]}'),
        ("/login", b"&".join(b"a=%d" % number for number in range(20))),
        ("/login", b'{"password":"\xff"}'),
    ],
)
def test_what_is_no_text_or_no_form_is_refused(site: Site, path: str, body: bytes) -> None:
    assert site.call("POST", path, body).status in (400, 401)


def test_a_number_that_is_too_long_is_no_id(site: Site) -> None:
    for digits in ("0" * 5_000, "9" * 5_000, str(2**63)):
        answer = site.api("POST", f"jobs/{digits}/ack", {"token": "t"})
        assert (answer.status, answer.json["code"]) == (409, "not-held")
        assert site.api("GET", f"jobs/{digits}").status == 404


def test_head_and_options_say_what_a_get_would(site: Site) -> None:
    assert site.api("HEAD", "queues").status == 200
    options = site.api("OPTIONS", "jobs/1")
    assert (options.status, options.body) == (204, b"")
    assert options.headers["allow"] == "DELETE, GET, HEAD, OPTIONS"
    assert site.api("PUT", "jobs/1").headers["allow"] == options.headers["allow"]


def test_a_body_comes_in_pieces_and_is_not_gathered_beyond_its_bound(site: Site) -> None:
    body = b'{"queue": "q", "type": "t", "args": ["' + b"x" * 200_000 + b'"]}'
    pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)]
    assert site.api("POST", "jobs", {}, pieces=pieces).status == 201
    most = 12 * 1024 * 1024
    call, work = site.begin("POST", "/api/v1/jobs/actions", {}, pieces=[b" " * (1 << 20)] * 64)
    site.run(work)
    assert call.answer().status == 413
    assert len(call._body) > 64 - most // (1 << 20) - 3, "it went on reading"


def test_an_error_of_ours_is_told_to_us_and_not_to_the_caller(site: Site) -> None:
    def status() -> dict[str, object]:
        raise RuntimeError("a secret of the server")

    site.node.status = status  # type: ignore[method-assign]
    answer = site.api("GET", "stats")
    assert (answer.status, answer.json["code"]) == (500, "failed")
    assert b"secret" not in answer.body
    [error] = site.errors
    assert "secret" in str(error)
    site.errors.clear()


def test_while_much_is_unsent_no_large_answer_is_made(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("franca.web.rest.ROOM_EVERY_S", 0)
    unsent = [rest.UNSENT_BYTES_MAX + 1] * 5
    monkeypatch.setattr(site.web._rest, "_unsent", lambda: unsent.pop() if unsent else 0)
    assert site.api("GET", "jobs").status == 200
    assert not unsent
    monkeypatch.setattr(site.web._rest, "_unsent", lambda: rest.UNSENT_BYTES_MAX + 1)
    assert site.api("GET", "jobs").status == 503
    assert site.api("GET", "stats").status == 200


# -- Idempotency-Key ----------------------------------------------------------------------------

KEY = {"idempotency-key": "order-17"}
JOB = {"queue": "q", "type": "t", "args": [1]}


def test_the_same_key_is_the_same_job_also_when_it_has_ended(site: Site) -> None:
    first = site.api("POST", "jobs", JOB, KEY)
    again = site.api(
        "POST",
        "jobs",
        b'{"type":"t","queue":"q","args": [ 1 ]}',
        KEY | {"content-type": "application/json"},
    )
    assert again.json == first.json
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (
        None,
        "true",
    )
    site.node.broker.finish(site.node.lease(), "worker-1", b"", site.node.now)
    site.node.commit()
    ended = site.api("POST", "jobs", JOB, KEY)
    assert (ended.status, ended.json["id"], ended.json["state"]) == (201, first.json["id"], "done")
    assert site.node.broker.totals.pushed == 1


@pytest.mark.parametrize("change", [{"args": [2]}, {"queue": "other"}, {"retry": 3}, {"in_ms": 5}])
def test_the_same_key_with_another_job_is_refused(site: Site, change: dict[str, object]) -> None:
    site.api("POST", "jobs", JOB, KEY)
    other = site.api("POST", "jobs", JOB | change, KEY)
    assert (other.status, other.json["code"]) == (422, "key-differs")
    site.node.broker.finish(site.node.lease(), "worker-1", b"", site.node.now)
    site.node.commit()
    assert site.api("POST", "jobs", JOB | change, KEY).status == 422
    assert site.node.broker.totals.pushed == 1


def test_a_job_in_time_is_the_same_job_though_its_time_was_said_later(site: Site) -> None:
    first = site.api("POST", "jobs", JOB | {"in_ms": 60_000}, KEY)
    site.node.now += 5_000
    assert site.api("POST", "jobs", JOB | {"in_ms": 60_000}, KEY).json == first.json


def test_after_a_day_the_key_is_free(site: Site) -> None:
    first = site.api("POST", "jobs", JOB, KEY)
    site.node.now += 24 * 3_600_000 - 1
    assert site.api("POST", "jobs", JOB, KEY).json["id"] == first.json["id"]
    site.node.now += 2
    assert site.api("POST", "jobs", JOB | {"args": [2]}, KEY).json["id"] != first.json["id"]


def test_a_key_means_its_job_when_the_server_has_forgotten_it(site: Site) -> None:
    first = site.api("POST", "jobs", JOB | {"name": "mine"}, KEY)
    site.api("DELETE", f"jobs/{first.json['id']}")
    site.node.store.ended.clear()
    again = site.api("POST", "jobs", JOB | {"name": "mine"}, KEY | {"prefer": "wait=30"})
    assert (again.status, again.json) == (201, {"id": first.json["id"], "name": "mine"})
    assert site.api("POST", "jobs", JOB, KEY).status == 422
    assert site.node.broker.totals.pushed == 1


def test_a_key_is_kept_in_the_commit_of_its_job(site: Site) -> None:
    groups: list[tuple[int, int]] = []
    write = site.node.store.write

    def told(changes: Changes, wants: Sequence[Want]) -> list[list[Job]]:
        groups.append((len(changes.added), len(changes.idempotency_keys)))
        return write(changes, wants)

    site.node.store.write = told  # type: ignore[method-assign]
    site.api("POST", "jobs", JOB, KEY)
    assert (1, 1) in groups
    assert sum(keys for _, keys in groups) == 1


def test_a_flush_frees_the_keys(site: Site) -> None:
    site.api("POST", "jobs", JOB, KEY)
    site.node.broker.flush(site.node.now)
    site.node.commit()
    assert site.api("POST", "jobs", JOB | {"args": [2]}, KEY).status == 201


def test_many_jobs_with_one_key_are_submitted_once(site: Site) -> None:
    many = {"jobs": [JOB, {"queue": ""}, JOB | {"idempotency_key": "own"}]}
    first = site.api("POST", "jobs/batch-submit", many, KEY).json["jobs"]
    assert ["id" in one for one in first] == [True, False, True]
    many["jobs"][1] = JOB
    second = site.api("POST", "jobs/batch-submit", many, KEY).json["jobs"]
    assert [one.get("replayed", False) for one in second] == [True, False, True]
    assert (second[0]["id"], second[2]["id"]) == (first[0]["id"], first[2]["id"])
    many["jobs"][0] = JOB | {"args": [2]}
    third = site.api("POST", "jobs/batch-submit", many, KEY).json["jobs"]
    assert "idempotency key" in third[0]["error"]
    assert third[1] == second[1] | {"replayed": True}
    assert site.api("POST", "jobs", JOB, {"idempotency-key": "own"}).json["id"] == first[2]["id"]
    assert site.node.broker.totals.pushed == 3


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "ü".encode().decode("latin-1")])
def test_a_key_that_is_none_is_refused(site: Site, key: str) -> None:
    headers = {"idempotency-key": key or '""'}
    assert site.api("POST", "jobs", JOB, headers).status == 400


def test_two_at_once_with_one_key_make_one_job(site: Site) -> None:
    calls = [site.begin("POST", "/api/v1/jobs", JOB, KEY) for _ in range(20)]

    async def both() -> None:
        await asyncio.gather(*(work for _, work in calls))

    site.run(both())
    assert {call.answer().status for call, _ in calls} == {201}
    assert len({call.answer().json["id"] for call, _ in calls}) == 1
    assert site.node.broker.totals.pushed == 1


# -- Prefer: wait ---------------------------------------------------------------------------------


def test_a_caller_waits_for_the_end_of_its_job(site: Site) -> None:
    call, work = site.begin("POST", "/api/v1/jobs", JOB, {"prefer": "wait=30"})

    async def wait() -> None:
        task = asyncio.ensure_future(work)
        while not site.node.broker.watches.count:
            await asyncio.sleep(0)
        assert not call.status
        site.node.broker.finish(site.node.lease(), "worker-1", b'{"sum":3}', site.node.now)
        site.node.engine.deliver(site.node.now)
        site.node.commit()
        async with asyncio.timeout(20):
            await task

    site.run(wait())
    answer = call.answer()
    assert (answer.status, answer.headers["preference-applied"]) == (200, "wait=30")
    job = answer.json
    assert (job["state"], job["result"]["text"]) == ("done", '{"sum":3}')
    assert site.node.broker.watches.count == 0
    assert [one.holder for one in site.node.broker.sessions.open.values()] == ["worker-1"]


def test_a_job_that_has_not_ended_in_time_is_accepted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda s: real(0.01 if s == 7 else s))
    answer = site.api("POST", "jobs", JOB, {"prefer": "respond-async, wait=7"})
    assert (answer.status, answer.json["state"]) == (202, "ready")
    assert answer.headers["location"] == f"/api/v1/jobs/{answer.json['id']}"
    assert site.node.broker.watches.count == 0


def test_who_hangs_up_is_waited_for_no_more_and_the_job_stays(site: Site) -> None:
    call, work = site.begin("POST", "/api/v1/jobs", JOB, {"prefer": "wait=30"})

    async def hang_up() -> None:
        task = asyncio.ensure_future(work)
        while not site.node.broker.watches.count:
            await asyncio.sleep(0)
        call.hung_up.set()
        async with asyncio.timeout(20):
            await task

    site.run(hang_up())
    assert site.node.broker.watches.count == 0
    assert site.node.broker.queues["q"].ready == 1


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_who_asks_is_told_what_they_may(guarded: Site, role: str) -> None:
    for path in ("overview", "health", "overview"):
        assert guarded.api("GET", path, None, bearer(role)).json["role"] == role
