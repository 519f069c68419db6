"""Submitting a job over REST: once for each Idempotency-Key, and until it has ended if wanted.

A key becomes the name of its job, so it is in the commit of the job and goes where the job goes:
into the backlog, and into the history. What was said of the job is remembered by its digest. A key
is good for a day, as long as the server remembers the job.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from franca.control import shapes
from franca.control.jobs import Push, take_in
from franca.control.operations import OPERATIONS
from franca.control.port import LARGE_BYTES, BadRequest, pause_after
from franca.control.states import public_state
from franca.core.events import Event, Finished
from franca.core.model import Job, JobId, JobQuery, Millis, OnHangUp, Session, State
from franca.engine.engine import Engine
from franca.web.body import JSON
from franca.web.problems import Declined
from franca.web.rest import Rest
from franca.web.router import Asked, Handler
from franca.web.routes import PREFIX, VIA, Route
from franca.web.waiting import Waits

KEY_CHARS: Final = 255
KEY_MS: Final = 24 * 3_600_000
"""For so long the same key means the same job."""
WAIT_S_MAX: Final = 300
SAME_NAME_MAX: Final = 100
"""Jobs of one key that are looked at: there is one a day."""
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,6})(?:$|[,;\s])")
_SHOW: Final = Route("GET", "jobs/{id}", "jobs.get")


class Submits:
    """Answers POST /jobs."""

    def __init__(self, rest: Rest, waits: Waits) -> None:
        self._rest = rest
        self._waits = waits
        self._node = rest.node
        self._under_way: dict[str, asyncio.Event] = {}

    def handler(self, route: Route) -> Handler:
        """The handler of the route."""

        async def answer(asked: Asked) -> Response:
            async with AsyncExitStack() as turns:
                params = await self._rest.params(route, asked, turns)
                push = await _read(params)
                del params
                key = _key_in(asked.request)
                job, replayed = await self._submit(push, key)
                submitted = shapes.Submitted(job.id, job.name, public_state(job))
            return await self._respond(asked, submitted, replayed)

        return answer

    async def _submit(self, push: Push, key: str) -> tuple[Job, bool]:
        """The job that was made, and whether it was made before."""
        if not key:
            return await asyncio.shield(take_in(self._node, push)), False
        if push.name:
            raise BadRequest("a job with an Idempotency-Key is named by it: leave the name out")
        push.name = name = f"key:{key}"
        digest = await _digest(push)
        # Not cut short: the next one with this key must find what this one made.
        return await asyncio.shield(self._submit_once(push, name, digest))

    async def _submit_once(self, push: Push, name: str, digest: int) -> tuple[Job, bool]:
        async with self._alone(name):
            before = await self._said_before(name)
            if before is None:
                return await take_in(self._node, push, digest), False
            if before.digest != digest:
                text = "another job was submitted with this Idempotency-Key"
                raise Declined(422, "key-differs", text)
            return before, True

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """One at a time with this name."""
        while (other := self._under_way.get(name)) is not None:
            await other.wait()
        done = self._under_way[name] = asyncio.Event()
        try:
            yield
        finally:
            del self._under_way[name]
            done.set()

    async def _said_before(self, name: str) -> Job | None:
        """The job that was submitted with this key within a day, wherever it is by now."""

        def held(engine: Engine, now: Millis) -> tuple[list[Job], Millis]:
            return list(engine.broker.last_named(name)), now

        jobs, now = await self._node.ask(held)
        if not any(_is_meant(job, now) for job in jobs):
            query = JobQuery(names=(name,), limit=SAME_NAME_MAX, newest_first=True)
            jobs = await self._node.find(msgspec.structs.replace(query, with_bodies=False))
        meant = [job for job in jobs if _is_meant(job, now)]
        return max(meant, key=lambda job: job.id) if meant else None

    # -- the answer -----------------------------------------------------------------------------

    async def _respond(self, asked: Asked, submitted: shapes.Submitted, replayed: bool) -> Response:
        job_id = submitted.id
        assert job_id is not None
        headers = {"location": f"{PREFIX}/jobs/{job_id}"}
        if replayed:
            headers["idempotency-replayed"] = "true"
        wait_s = _wait_in(asked.request)
        status = 201
        if wait_s:
            headers["preference-applied"] = f"wait={wait_s}"
            ended = await self._waits.unless_gone(asked.request, self._wait(job_id, wait_s))
            if ended:
                params = Raw(msgspec.json.encode({"job": job_id}))
                async with AsyncExitStack() as turns:
                    whole = await self._rest.perform(_SHOW, asked, params, turns)
                    response = await self._rest.response(_SHOW, asked, whole)
                response.headers.update(headers)
                return response
            status = 202
        return Response(msgspec.json.encode(submitted), status, headers, JSON)

    async def _wait(self, job_id: JobId, wait_s: int) -> bool:
        """Wait for the end of a job; False if it has not come by then."""
        watcher = _Watcher()

        def begin(engine: Engine, now: Millis) -> bool:
            broker = engine.broker
            watcher.session = broker.open_session(f"{VIA} watch", OnHangUp.KEEP, watcher)
            broker.watch(job_id, watcher.session)
            job = broker.jobs.get(job_id)
            return job is not None and job.state < State.DONE

        def end(engine: Engine, now: Millis) -> None:
            if watcher.session is not None:
                engine.broker.close_session(watcher.session, now)

        try:
            async with asyncio.timeout(wait_s):
                lives = await self._node.ask(begin)
                if not lives:
                    found = await self._node.find(JobQuery(ids=(job_id,), with_bodies=False))
                    lives = any(job.state < State.DONE for job in found)
                if lives:
                    await watcher.ended.wait()
                # It is told of its end when the disk has it.
                await self._node.ask(lambda engine, now: None)
            return True
        except TimeoutError:
            return False
        finally:
            await asyncio.shield(self._node.ask(end))


class _Watcher:
    """Hears of the end of one job."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.session: Session | None = None

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to the job."""
        if isinstance(event, Finished):
            self.ended.set()


async def _read(params: Raw) -> Push:
    """The job that a body describes."""
    size = len(memoryview(params))
    await pause_after(size)
    try:
        push = msgspec.json.decode(params, type=OPERATIONS["jobs.push"].params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(str(error)) from None
    assert isinstance(push, Push)
    await pause_after(size)
    return push


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


def _is_meant(job: Job, now: Millis) -> bool:
    return job.origin == VIA and job.created_at > now - KEY_MS


def _key_in(request: Request) -> str:
    """The key, which may stand in quotes; empty if there is none."""
    found = request.headers.getlist("idempotency-key")
    if not found:
        return ""
    key = found[0].strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(found) > 1 or not _KEY.fullmatch(key):
        text = f"an Idempotency-Key is one word of 1 to {KEY_CHARS} printable characters"
        raise BadRequest(text)
    return key


def _wait_in(request: Request) -> int:
    """How many seconds a caller would wait for the job's end."""
    found = _WAIT.search(request.headers.get("prefer", "").lower())
    return min(int(found[1]), WAIT_S_MAX) if found else 0
