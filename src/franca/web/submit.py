"""Submitting jobs over REST, with headers that say how: Idempotency-Key, and Prefer: wait."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from typing import Final

import msgspec
from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from franca.control import shapes
from franca.control.jobs import KEY_CHARS, Push
from franca.control.operations import OPERATIONS
from franca.control.port import BadRequest, pause_after
from franca.control.submit import submit_one, submitted
from franca.core.events import Event, Finished
from franca.core.model import JobId, JobQuery, Millis, OnHangUp, Session, State
from franca.engine.engine import Engine
from franca.web.body import JSON
from franca.web.rest import Rest
from franca.web.router import Asked, Handler
from franca.web.routes import PREFIX, VIA, Route
from franca.web.waiting import Waits

WAIT_S_MAX: Final = 300
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,6})(?:$|[,;\s])")
_SHOW: Final = Route("GET", "jobs/{id}", "jobs.get")


class Submits:
    """Answers POST /jobs and POST /jobs/batch-submit."""

    def __init__(self, rest: Rest, waits: Waits) -> None:
        self._rest = rest
        self._waits = waits
        self._node = rest.node

    def one(self, route: Route) -> Handler:
        """The handler of the route that submits one job."""

        async def answer(asked: Asked) -> Response:
            async with AsyncExitStack() as turns:
                params = await self._rest.params(route, asked, turns)
                push = await _read(params)
                del params
                if key := _key_in(asked.request):
                    push.idempotency_key = key
                taken = await submit_one(self._node, push)
                result = submitted(taken)
            return await self._respond(asked, result)

        return answer

    def many(self, route: Route) -> Handler:
        """The handler of the route that submits many."""

        async def answer(asked: Asked) -> Response:
            async with AsyncExitStack() as turns:
                params = await self._rest.params(route, asked, turns)
                if key := _key_in(asked.request):
                    said = msgspec.json.decode(params, type=dict[str, Raw])
                    said["idempotency_key"] = Raw(msgspec.json.encode(key))
                    params = Raw(msgspec.json.encode(said))
                result = await self._rest.perform(route, asked, params, turns)
                return await self._rest.response(route, asked, result)

        return answer

    # -- the answer -----------------------------------------------------------------------------

    async def _respond(self, asked: Asked, result: shapes.Submitted) -> Response:
        job_id = result.id
        assert job_id is not None
        headers = {"location": f"{PREFIX}/jobs/{job_id}"}
        if result.replayed:
            headers["idempotency-replayed"] = "true"
            result.replayed = False  # the answer is what it was
        wait_s = _wait_in(asked.request)
        status = 201
        if wait_s and result.state is not None:
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
        return Response(msgspec.json.encode(result), status, headers, JSON)

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
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest(str(error)) from None
    assert isinstance(push, Push)
    await pause_after(size)
    return push


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
