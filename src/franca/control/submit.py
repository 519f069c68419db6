"""Submitting jobs: one, or many of which each is taken in or refused by itself.

An idempotency key is stored in the commit of the job that it came with, beside a digest of
everything that was said of the job. For a day it means that job, whatever becomes of it; with
another job it is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict, replace

from franca.control import shapes
from franca.control.jobs import KeyText, Push, Via, by_ids, new_job_of, submit
from franca.control.port import LARGE_BYTES, BadRequest, NodePort, pause_after
from franca.control.states import public_state
from franca.control.views import View
from franca.core.changes import IdempotencyKey
from franca.core.errors import Refused
from franca.core.model import Job, Millis, NewJob
from franca.engine.engine import Engine

JOBS_MAX = 1_000
"""Jobs in one request."""
AT_ONCE = 200
"""Jobs that are submitted in one turn."""


class KeyDiffers(Refused):
    """Another job was submitted with this idempotency key."""

    code = "key-differs"


class SubmitMany(Struct, forbid_unknown_fields=True):
    """New jobs, each as `jobs.push` takes it. They came over `via`, or each over its own.

    With an `idempotency_key` for all, each has one of its own, made of it and of its place.
    """

    jobs: Annotated[list[Raw], Meta(max_length=JOBS_MAX)]
    idempotency_key: KeyText = ""
    via: Via | None = None


class Taken(Struct):
    """What came of a submit. There is no `job` if it has left the history since."""

    id: int
    name: str
    job: Job | None
    replayed: bool = False


class KeysInUse:
    """Idempotency keys of submits that are under way, so that no two have the same one."""

    def __init__(self) -> None:
        self._ends: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def alone(self, keys: Iterable[str]) -> AsyncIterator[None]:
        """Wait until nobody uses any of these keys, and use them."""
        wanted = set(keys)
        while used := wanted & self._ends.keys():
            await self._ends[used.pop()].wait()
        end = asyncio.Event()
        self._ends |= dict.fromkeys(wanted, end)
        try:
            yield
        finally:
            for key in wanted:
                del self._ends[key]
            end.set()


async def push(node: NodePort, params: Push) -> View:
    """Make a job that a worker of any protocol can run; its id and name."""
    taken = await submit_one(node, params)
    state = taken.job.state.name.lower() if taken.job is not None else None
    view: View = {"id": taken.id, "name": taken.name, "state": state}
    return view | ({"replayed": True} if taken.replayed else {})


async def submit_one(node: NodePort, params: Push) -> Taken:
    """The new job, or the one that its key means."""
    [taken] = await _submit_some(node, [params])
    if isinstance(taken, Refused):
        raise taken
    return taken


async def submit_many(node: NodePort, params: SubmitMany) -> shapes.SubmittedMany:
    """Take in what can be taken in; of each job its id, or why it was refused."""
    answers: list[shapes.Submitted] = []
    for start in range(0, len(params.jobs), AT_ONCE):
        some: list[Push | Refused] = []
        for place, raw in enumerate(params.jobs[start : start + AT_ONCE], start):
            some.append(_read(raw, place, params))
            await pause_after(len(memoryview(raw)))
        answers += [submitted(taken) for taken in await _submit_some(node, some)]
    return shapes.SubmittedMany(answers)


def submitted(taken: Taken | Refused) -> shapes.Submitted:
    """What came of a submit, in public words."""
    if isinstance(taken, Refused):
        return shapes.Submitted(error=taken.text)
    state = public_state(taken.job) if taken.job is not None else None
    return shapes.Submitted(taken.id, taken.name, state, taken.replayed)


def _read(raw: Raw, place: int, many: SubmitMany) -> Push | Refused:
    try:
        push = msgspec.json.decode(raw, type=Push)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return BadRequest(str(error))
    push.via = many.via or push.via
    if many.idempotency_key and not push.idempotency_key:
        # With a blank, which no key that is said has.
        push.idempotency_key = f"{many.idempotency_key} {place}"
    return push


async def _submit_some(node: NodePort, pushes: Sequence[Push | Refused]) -> list[Taken | Refused]:
    keys = {one.idempotency_key for one in pushes if isinstance(one, Push)} - {""}
    if not keys:
        return await _submit_alone(node, pushes, keys)
    # Not cut short: the next submit with a key must find what this one made.
    return await asyncio.shield(_submit_alone(node, pushes, keys))


class _New(Struct):
    """A job that is to be made, and the digest of what was said of it if it has a key."""

    push: Push
    job: NewJob
    digest: int


async def _submit_alone(
    node: NodePort, pushes: Sequence[Push | Refused], keys: set[str]
) -> list[Taken | Refused]:
    some: list[_New | Refused] = []
    for push in pushes:
        try:
            if isinstance(push, Refused):
                raise push
            new = await new_job_of(push, node.engine.limits)
            digest = await _digest(push) if push.idempotency_key else 0
            some.append(_New(push, new, digest))
        except Refused as error:
            some.append(error)
    if not keys:
        return await node.ask(partial(_make, some, {}))
    async with node.keys_in_use.alone(keys):
        known = await node.find_keys(sorted(keys))
        taken = await node.ask(partial(_make, some, known))
    await _look_for_replayed(node, taken)
    return taken


def _make(
    some: Sequence[_New | Refused],
    known: dict[str, IdempotencyKey],
    engine: Engine,
    now: Millis,
) -> list[Taken | Refused]:
    taken: list[Taken | Refused] = []
    for new in some:
        try:
            if isinstance(new, Refused):
                raise new
            taken.append(_make_one(engine, new, known, now))
        except Refused as error:
            taken.append(error)
    return taken


def _make_one(engine: Engine, new: _New, known: dict[str, IdempotencyKey], now: Millis) -> Taken:
    key = new.push.idempotency_key
    before = known.get(key) if key else None
    if before is None:
        job = submit(engine.broker, new.push, new.job, now)
        if key:
            known[key] = IdempotencyKey(key, new.digest, job.id, job.name, now)
            engine.broker.keep_key(known[key])
        return Taken(job.id, job.name, job)
    if before.digest != new.digest:
        raise KeyDiffers("this idempotency key was used for another job")
    return Taken(before.job_id, before.job_name, engine.broker.jobs.get(before.job_id), True)


async def _look_for_replayed(node: NodePort, taken: Sequence[Taken | Refused]) -> None:
    """Find jobs that are no longer in memory."""
    sought = [one for one in taken if isinstance(one, Taken) and one.job is None]
    query = by_ids({str(one.id) for one in sought})
    if query is not None:
        found = await node.find(replace(query, with_bodies=False))
        jobs = {job.id: job for job in found}
        for one in sought:
            one.job = jobs.get(one.id)


async def _digest(push: Push) -> int:
    """What was said of a job, as one number. White space between arguments says nothing."""

    def compute() -> int:
        said = asdict(push)
        args = bytes(push.args)
        try:
            said["args"] = msgspec.json.format(args, indent=-1).decode()
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise BadRequest("args must be a JSON array") from None
        hashed = hashlib.blake2b(msgspec.json.encode(said), digest_size=8)
        return int.from_bytes(hashed.digest(), "big") >> 1

    if len(memoryview(push.args)) <= LARGE_BYTES:
        return compute()
    return await asyncio.get_running_loop().run_in_executor(None, compute)
