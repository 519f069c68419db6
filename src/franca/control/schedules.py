"""Schedules: rules that make jobs, whoever made them; making, changing, running, pausing them."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from franca.control import shapes
from franca.control.fill import ARGS_SHOWN_BYTES
from franca.control.jobs import (
    LEASE_MS,
    ORIGIN,
    LeaseMs,
    Retries,
    arguments,
    check_name,
    no_arguments,
)
from franca.control.port import BadRequest, NodePort
from franca.control.states import public_name
from franca.control.views import View, moment
from franca.core.errors import NotUnique
from franca.core.model import Backoff, Millis, NewJob, Policy, Schedule
from franca.core.schedules import check_moments, upcoming
from franca.engine.engine import Engine

EVERY_MS_MIN = 1_000
EVERY_MS_MAX = 366 * 24 * 3_600_000
LISTED_AT_ONCE = 100
"""Schedules whose next moments are found in one pass of the event loop."""
UPCOMING = 5
UPCOMING_MAX = 400
"""Moments that a list tells of each, and that are told of one."""
DAY_MS = 24 * 3_600_000

Every = Annotated[int, Meta(ge=EVERY_MS_MIN, le=EVERY_MS_MAX)]
Cron = Annotated[str, Meta(max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=1_024)]


class Which(Struct, forbid_unknown_fields=True):
    """A schedule, by its id."""

    id: Name


class Create(Struct, forbid_unknown_fields=True):
    """A new rule: by a `cron` line on the clocks of `timezone`, or every `every_ms`."""

    id: Name
    queue: Name
    type: Name
    args: Raw = field(default_factory=no_arguments)
    cron: Cron = ""
    every_ms: Every | None = None
    timezone: Annotated[str, Meta(max_length=100)] = "UTC"
    retry: Retries = 25
    lease_ms: LeaseMs = LEASE_MS


class Edit(Struct, forbid_unknown_fields=True):
    """What is to be changed of a rule; what is left out stays."""

    id: Name
    queue: Name | None = None
    type: Name | None = None
    args: Raw | UnsetType = UNSET
    cron: Cron | None = None
    every_ms: Every | None = None
    timezone: Annotated[str, Meta(max_length=100)] | None = None
    retry: Retries | None = None
    lease_ms: LeaseMs | None = None


async def list_all(node: NodePort, params: Struct) -> shapes.ScheduleList:
    """Every schedule with its next moments, the next one to run first."""
    rules = await node.ask(lambda engine, now: list(engine.broker.schedules.by_id.values()))
    rules.sort(key=lambda rule: (rule.paused, rule.next_at, rule.id))
    found: list[shapes.Schedule] = []
    for start in range(0, len(rules), LISTED_AT_ONCE):
        some = rules[start : start + LISTED_AT_ONCE]
        found += await node.ask(partial(_shapes, some))
        await asyncio.sleep(0)
    return shapes.ScheduleList(found)


def _shapes(rules: Sequence[Schedule], engine: Engine, now: Millis) -> list[shapes.Schedule]:
    there = engine.broker.schedules.by_id
    wall = engine.broker.wall(now)
    return [shape_of(rule, wall, UPCOMING) for rule in rules if there.get(rule.id) is rule]


async def show(node: NodePort, params: Which) -> shapes.Schedule:
    """One schedule, with its next moments within a day."""

    def look(engine: Engine, now: Millis) -> tuple[Schedule, Millis]:
        broker = engine.broker
        return replace(broker.schedules.existing(params.id)), broker.wall(now)

    rule, wall = await node.ask(look)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, shape_of, rule, wall, UPCOMING_MAX)


def shape_of(rule: Schedule, wall: Millis, most: int) -> shapes.Schedule:
    """A schedule as people see it. Of many moments those within a day are told."""
    moments = upcoming(rule, wall, most)
    near = [at for place, at in enumerate(moments) if place < UPCOMING or at < wall + DAY_MS]
    job, last = rule.job, rule.last
    return shapes.Schedule(
        id=rule.id,
        queue=job.queue,
        type=job.kind,
        cron=rule.cron,
        every_ms=rule.every_ms,
        timezone=rule.timezone,
        args=job.body[:ARGS_SHOWN_BYTES].decode("utf-8", "replace"),
        next_at=None if rule.paused else moment(rule.next_at),
        upcoming_at=[text for at in near if (text := moment(at))],
        runs_left=rule.runs_left,
        paused=rule.paused,
        source=rule.source,
        last=None
        if last is None
        else shapes.LastRun(
            id=last.job_id,
            state=public_name(last.state),
            started_at=moment(last.started_at),
            ran_ms=last.ended_at - last.started_at if last.started_at and last.ended_at else None,
        ),
    )


async def create(node: NodePort, params: Create) -> shapes.Schedule:
    """Make jobs by a new rule from now on. Refused if there is one of this id."""
    if bool(params.cron) == bool(params.every_ms):
        raise BadRequest("say when it runs: by cron, or by every_ms")
    limits = node.engine.limits
    body = await arguments(params.args, limits.nesting_max)
    for what, text in (("id", params.id), ("queue", params.queue), ("type", params.type)):
        check_name(what, text, limits)
    policy = Policy(max_failures=params.retry, backoff=Backoff.POWER, lease_ms=params.lease_ms)
    job = NewJob(params.queue, params.type, body, policy, params.id, "json-args", ORIGIN)
    job.digest = zlib.crc32(body)
    rule = Schedule(
        params.id,
        job,
        every_ms=params.every_ms or 0,
        cron=params.cron,
        timezone=params.timezone,
        source=ORIGIN,
    )

    def put(engine: Engine, now: Millis) -> shapes.Schedule:
        if params.id in engine.broker.schedules.by_id:
            raise NotUnique(f"there is a schedule {params.id!r}")
        return _put(engine, rule, now)

    return await node.ask(put)


def _put(engine: Engine, rule: Schedule, now: Millis) -> shapes.Schedule:
    broker = engine.broker
    broker.schedules.check_room(rule, broker.limits)
    check_moments(rule, broker.wall(now))
    broker.put_schedule(rule, now, fire_now=False)
    return shape_of(rule, broker.wall(now), UPCOMING)


async def edit(node: NodePort, params: Edit) -> shapes.Schedule:
    """Change a rule. If when it runs is changed, it counts from now on."""
    if params.cron and params.every_ms:
        raise BadRequest("a schedule runs by cron or by every_ms, not both")
    limits = node.engine.limits
    for what, text in (("queue", params.queue), ("type", params.type)):
        if text is not None:
            check_name(what, text, limits)
    body = None
    if not isinstance(params.args, UnsetType):
        body = await arguments(params.args, limits.nesting_max)

    def change(engine: Engine, now: Millis) -> shapes.Schedule:
        old = engine.broker.schedules.existing(params.id)
        rule = replace(old, job=_edited(old, params, body))
        if params.cron is None and params.every_ms is None and params.timezone is None:
            engine.broker.schedules.check_room(rule, limits)
            old.job = rule.job
            engine.broker.amend_schedule(old)
            return shape_of(old, engine.broker.wall(now), UPCOMING)
        rule.cron = "" if params.every_ms else params.cron or rule.cron
        rule.every_ms = 0 if rule.cron else params.every_ms or rule.every_ms
        rule.timezone = params.timezone or rule.timezone
        return _put(engine, rule, now)

    return await node.ask(change)


def _edited(rule: Schedule, params: Edit, body: bytes | None) -> NewJob:
    """The job that a rule makes from now on."""
    job = rule.job
    is_changed = body is not None or any(
        value is not None for value in (params.queue, params.type, params.retry, params.lease_ms)
    )
    if not is_changed:
        return job
    if rule.source != ORIGIN:
        raise BadRequest(f"what it submits was said over {rule.source}, and can be changed there")
    policy = replace(
        job.policy,
        max_failures=job.policy.max_failures if params.retry is None else params.retry,
        lease_ms=params.lease_ms or job.policy.lease_ms,
    )
    changed = replace(
        job,
        queue=params.queue or job.queue,
        kind=params.type or job.kind,
        body=job.body if body is None else body,
        policy=policy,
    )
    changed.digest = zlib.crc32(changed.body)
    return changed


async def run(node: NodePort, params: Which) -> View:
    """Let a rule make its job now, beside its moments."""

    def fire(engine: Engine, now: Millis) -> View:
        job = engine.broker.run_schedule(params.id, now)
        return {"id": job.id, "name": job.name, "state": public_name(job.state)}

    return await node.ask(fire)


async def turn(
    act: Callable[[Engine, str, Millis], None], node: NodePort, params: Which
) -> shapes.Schedule:
    """Pause a rule, or let it go on."""

    def turn_it(engine: Engine, now: Millis) -> shapes.Schedule:
        act(engine, params.id, now)
        broker = engine.broker
        return shape_of(broker.schedules.existing(params.id), broker.wall(now), UPCOMING)

    return await node.ask(turn_it)


def pause(engine: Engine, name: str, now: Millis) -> None:
    """Let a rule make no more jobs."""
    engine.broker.pause_schedule(name)


def resume(engine: Engine, name: str, now: Millis) -> None:
    """Let a rule make jobs again, from its next moment on."""
    engine.broker.resume_schedule(name, now)


async def delete(node: NodePort, params: Which) -> View:
    """Forget a rule. Jobs that it made stay."""

    def drop(engine: Engine, now: Millis) -> View:
        engine.broker.schedules.existing(params.id)
        engine.broker.drop_schedule(params.id)
        return {"id": params.id}

    return await node.ask(drop)
