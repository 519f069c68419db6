"""Events: who listens hears what has changed, from where it left off."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from franca.control.workers import WorkersSeen
from franca.core.model import NewJob, Policy
from franca.web import events
from franca.web.changes import Rule, schedules_changed, workers_changed
from tests.web.kit import PATIENCE_S, Call, Site, bearer

Talk = Callable[[Call], Coroutine[Any, Any, None]]


def listen(site: Site, talk: Talk, headers: dict[str, str] | None = None) -> Call:
    """One listener, who hangs up when `talk` is over."""
    call, work = site.begin("GET", "/api/v1/events", None, headers)

    async def both() -> None:
        task = asyncio.ensure_future(work)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await call.until(b"retry:")
                await talk(call)
        finally:
            call.hung_up.set()
            async with asyncio.timeout(PATIENCE_S):
                await task

    site.run(both())
    return call


def last_id(call: Call) -> str:
    return call.body.rpartition(b"id: ")[2].partition(b"\n")[0].decode()


def test_a_listener_hears_what_is_told_and_leaves_nothing_behind(site: Site) -> None:
    async def talk(call: Call) -> None:
        assert site.web.events.listeners == 1
        site.web.events.publish("operation", {"id": "7", "done": 3})
        await call.until(b'event: operation\ndata: {"id":"7","done":3}\n\n')

    call = listen(site, talk)
    assert call.answer().headers["content-type"].startswith("text/event-stream")
    assert site.web.events.listeners == 0
    assert site.web.events._looking is None
    assert not site.web.events._ring


def test_nothing_is_kept_or_looked_at_while_nobody_listens(site: Site) -> None:
    site.web.events.publish("operation", {"id": "7"})
    assert not site.web.events._ring
    assert site.web.events._looking is None


def test_counts_and_paused_queues_are_told_when_they_change(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0)

    async def talk(call: Call) -> None:
        site.node.submit("mail")
        site.node.now += 1_000
        await call.until(b'"ready":1')
        site.node.now += 1_000
        site.node.broker.pause("mail")
        await call.until(b'event: queue\ndata: {"queue":"mail","paused":true}')
        site.node.now += 1_000
        site.node.broker.resume("mail", site.node.now)
        await call.until(b'"paused":false')

    call = listen(site, talk)
    assert call.body.count(b"event: jobs") <= 3, "it is told though nothing changed"


def test_how_far_an_action_on_many_jobs_is_is_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0)

    async def talk(call: Call) -> None:
        site.node.submit("mail")
        _, work = site.begin("POST", "/api/v1/jobs/actions", {"action": "kill", "q": "queue:mail"})
        await work
        await call.until(b'event: operation\ndata: {"id":"op-1","action":"kill"')
        await call.until(b'"done":1')

    call = listen(site, talk)
    assert call.body.count(b"event: operation") <= 3, "it is told though nothing changed"


def told(call: Call, event: str) -> list[Any]:
    """What was told in events of this kind."""
    parts = call.body.split(b"event: " + event.encode() + b"\ndata: ")[1:]
    return [msgspec.json.decode(part.partition(b"\n\n")[0]) for part in parts]


def test_workers_that_come_leave_or_do_something_else_are_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0)
    [anna, bert] = site.node.two.workers()
    here = [anna]
    monkeypatch.setattr(site.node.two, "workers", lambda now=0: iter(list(here)))

    async def talk(call: Call) -> None:
        for step, change in (
            (lambda: here.append(bert), b'"worker":"bert","protocol":"some","change":"came"'),
            (lambda: here.__setitem__(0, replace(anna, state="quiet")), b'"state":"quiet"'),
            (here.pop, b'"worker":"bert","protocol":"some","change":"left"'),
        ):
            step()
            site.node.now += 1_000
            await call.until(change)

    call = listen(site, talk)
    found = told(call, "workers")
    assert [(one["all"], len(one["changes"]), one["more"]) for one in found] == [
        (2, 1, 0),
        (2, 1, 0),
        (1, 1, 0),
    ]


def test_what_becomes_of_schedules_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0)
    rule = {"id": "s", "queue": "q", "type": "t", "cron": "0 3 * * *"}
    steps = (
        ("POST", "schedules", rule, "made"),
        ("PUT", "schedules/s", {"queue": "other"}, "edited"),
        ("PUT", "schedules/s", {"cron": "0 4 * * *"}, "edited"),
        ("POST", "schedules/s/pause", None, "paused"),
        ("POST", "schedules/s/resume", None, "resumed"),
        ("POST", "schedules/s/run", None, "fired"),
        ("DELETE", "schedules/s", None, "removed"),
    )

    async def talk(call: Call) -> None:
        for place, (method, path, body, _) in enumerate(steps):
            _, work = site.begin(method, f"/api/v1/{path}", body)
            await work
            site.node.now += 1_000
            while len(told(call, "schedules")) <= place:
                await asyncio.sleep(0)

    call = listen(site, talk)
    assert [one["changes"] for one in told(call, "schedules")] == [
        [{"schedule": "s", "change": change}] for *_, change in steps
    ]


def test_of_many_changes_some_are_told_and_the_others_counted() -> None:
    now = WorkersSeen(all=60, states={("some", f"w{n}"): "idle" for n in range(60)})
    news = workers_changed(WorkersSeen(), now)
    assert news is not None
    assert (news.all, len(news.changes), news.more) == (60, 50, 10)
    assert workers_changed(now, now) is None
    job = NewJob("q", "k", b"[]", Policy())
    rules = {f"s{n}": Rule(job, ("", 1_000, "UTC"), False, (0, 0)) for n in range(60)}
    changed = schedules_changed({}, rules)
    assert changed is not None
    assert (len(changed.changes), changed.more) == (50, 10)
    again = {name: rule._replace(job=replace(job)) for name, rule in rules.items()}
    assert schedules_changed(rules, again) is None


def test_of_very_many_workers_it_is_told_how_many_there_are() -> None:
    some = WorkersSeen(all=9, states={("some", "a"): "idle"})
    others = WorkersSeen(all=9, states={("some", "b"): "idle"})
    assert workers_changed(some, others) is None
    others.all = 10
    news = workers_changed(some, others)
    assert news is not None
    assert (news.all, news.changes) == (10, [])


def test_a_store_that_cannot_be_read_ends_no_stream(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def past() -> None:
        raise RuntimeError("damaged")

    monkeypatch.setattr(events, "EVERY_S", 0)
    monkeypatch.setattr(site.node, "past", past)

    async def talk(call: Call) -> None:
        while not site.errors:
            await asyncio.sleep(0)
        site.web.events.publish("a", {"n": 1})
        await call.until(b'"n":1')

    listen(site, talk)
    assert [str(error) for error in site.errors] == ["damaged"]
    site.errors.clear()


def test_who_comes_back_gets_what_it_missed(site: Site) -> None:
    async def first(call: Call) -> None:
        site.web.events.publish("a", {"n": 1})
        await call.until(b'"n":1')
        before = last_id(call)
        site.web.events.publish("a", {"n": 2})
        site.web.events.publish("a", {"n": 3})
        other, work = site.begin("GET", "/api/v1/events", None, {"last-event-id": before})
        task = asyncio.ensure_future(work)
        await other.until(b'"n":3')
        assert b'"n":2' in other.body
        assert b'"n":1' not in other.body
        assert b"gap" not in other.body
        other.hung_up.set()
        await task

    listen(site, first)


@pytest.mark.parametrize("known", ["nobody.3", "x", "..", "99999999999999999999"])
def test_who_missed_more_than_is_kept_is_told_of_a_gap(
    site: Site, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RING_EVENTS", 2)

    async def talk(call: Call) -> None:
        site.web.events.publish("a", {"n": 1})
        await call.until(b'"n":1')
        first = last_id(call)
        for number in (2, 3, 4, 5):
            site.web.events.publish("a", {"n": number})
        for after in (known, first):
            other, work = site.begin("GET", "/api/v1/events", None, {"last-event-id": after})
            task = asyncio.ensure_future(work)
            await other.until(b"event: gap")
            other.hung_up.set()
            await task

    listen(site, talk)
    call = listen(
        site,
        lambda call: call.until(b"event: gap"),
        {"last-event-id": f"{site.web.events._boot}.1"},
    )
    assert b"event: gap" in call.body


def test_a_slow_listener_is_told_of_a_gap_and_not_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RING_EVENTS", 4)

    async def talk(call: Call) -> None:
        for number in range(100):
            site.web.events.publish("a", {"n": number})
        await call.until(b"event: gap")
        site.web.events.publish("a", {"n": 1000})
        await call.until(b'"n":1000')
        assert len(site.web.events._ring) <= 4

    listen(site, talk)


def test_who_takes_nothing_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.web.app.SEND_S", 0.01)
    call, work = site.begin("GET", "/api/v1/events")

    async def stall() -> None:
        task = asyncio.ensure_future(work)
        await call.until(b"retry:")
        call.stuck = True
        site.web.events.publish("a", {})
        with pytest.raises(ConnectionAbortedError):
            async with asyncio.timeout(PATIENCE_S):
                await task

    site.run(stall())
    assert site.web.events.listeners == 0


def test_listeners_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LISTENERS_MAX", 1)

    async def talk(call: Call) -> None:
        other, work = site.begin("GET", "/api/v1/events")
        await work
        assert other.answer().status == 503

    listen(site, talk)


def test_when_the_server_stops_streams_end(site: Site) -> None:
    call, work = site.begin("GET", "/api/v1/events")

    async def stop() -> None:
        task = asyncio.ensure_future(work)
        await call.until(b"retry:")
        site.web.drain()
        async with asyncio.timeout(PATIENCE_S):
            await task

    site.run(stop())
    assert call.complete
    assert site.api("GET", "events").status == 503


def test_a_viewer_hears_no_secrets(guarded: Site) -> None:
    async def talk(call: Call) -> None:
        guarded.web.events.publish("operation", {"error": "token=hunter2"})
        await call.until(b"event: operation")
        assert b"hunter2" not in call.body

    listen(guarded, talk, bearer("viewer"))


def test_a_head_request_is_no_listener(site: Site) -> None:
    assert site.api("HEAD", "events").status == 200
    assert site.web.events.listeners == 0
