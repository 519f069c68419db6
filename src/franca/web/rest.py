"""REST: a request becomes an operation with its parameters, and its result an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.inspect import ListType, Type, type_info
from msgspec.structs import asdict, replace
from starlette.datastructures import QueryParams
from starlette.responses import Response

from franca.control.caller import VIEWER
from franca.control.job_actions import Result
from franca.control.operations import PARAMS_BYTES_MAX, Operation, perform
from franca.control.port import LARGE_BYTES, BadRequest, NodePort
from franca.core.errors import NotFound, Refused
from franca.web.body import JSON, Bodies
from franca.web.problems import Declined
from franca.web.redact import Redaction
from franca.web.router import Asked, Entry, Handler
from franca.web.routes import PREFIX, Route

QUERY_BYTES_MAX: Final = 8 * 1024
"""A longer query is refused."""
UNSENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""While more than this waits for peers that are slow, no large answer is made."""
SHORT_LIST: Final = 200
"""So many entries are written at once; more on another thread."""
ROOM_EVERY_S: Final = 0.05
ROOM_TRIES: Final = 400
RETRY: Final = {"retry-after": "5"}
SPARE_BYTES: Final = 64 * 1024
"""What a body may have beside a job's arguments or its result."""

Special = Callable[[Route], Handler]


class Rest:
    """Answers requests to the routes of a table. Answers that may be large are made in turn."""

    def __init__(
        self, node: NodePort, redaction: Redaction, unsent: Callable[[], int] = lambda: 0
    ) -> None:
        self.node = node
        self._unsent = unsent
        self.bodies = Bodies()
        self.redaction = redaction
        self._large_answers = asyncio.Lock()

    def entries(self, routes: Iterable[Route], special: Mapping[str, Special]) -> Iterable[Entry]:
        """A way in for each route."""
        for route in routes:
            handler: Handler = partial(self.answer, route)
            if route.special:
                handler = special[route.special](route)
            yield Entry(route.method, f"{PREFIX}/{route.path}", route.does.role, handler)

    async def answer(self, route: Route, asked: Asked) -> Response:
        """Carry the operation of a route out."""
        _check_accept(asked)
        async with AsyncExitStack() as turns:
            params = await self.params(route, asked, turns)
            result = await self.perform(route, asked, params, turns)
            return await self.response(route, asked, result)

    def on_one(self, route: Route) -> Handler:
        """The handler of an action on one job, which refuses what is refused to this one."""

        async def answer(asked: Asked) -> Response:
            _check_accept(asked)
            async with AsyncExitStack() as turns:
                params = await self.params(route, asked, turns)
                result = await self.perform(route, asked, params, turns)
                _check_done(result)
                return await self.response(route, asked, result)

        return answer

    async def perform(
        self, route: Route, asked: Asked, params: Raw, turns: AsyncExitStack
    ) -> object:
        """The result of the operation with these parameters."""

        async def wait_turn() -> None:
            if not await self.take_turn(turns):
                raise Declined(503, "busy", "others take their answers slowly", RETRY)

        caller = asked.caller
        if caller.role == VIEWER and self.redaction.is_on:
            caller = replace(caller, hide=self.redaction.text)
        return await perform(self.node, route.operation, params, wait_turn, caller)

    async def take_turn(self, turns: AsyncExitStack) -> bool:
        """Wait until a large answer may be made; False if too much is still unsent after a while.

        Peers that take nothing are cut off meanwhile.
        """
        await turns.enter_async_context(self._large_answers)
        for _ in range(ROOM_TRIES):
            if self._unsent() <= UNSENT_BYTES_MAX:
                return True
            await asyncio.sleep(ROOM_EVERY_S)
        return False

    async def params(self, route: Route, asked: Asked, turns: AsyncExitStack) -> Raw:
        """The parameters of the operation, as JSON."""
        operation = route.does
        filled = filling(route, asked.path)
        if route.is_read:
            query = _query(asked.request.query_params, operation.params, filled)
            return Raw(msgspec.json.encode(_together(query, filled)))
        if asked.request.url.query:
            raise BadRequest("parameters stand in the body here, not behind a question mark")
        body = await self.bodies.read_json(asked.request, self._most(operation), turns)
        if not filled:
            return Raw(body or b"{}")
        try:
            members = msgspec.json.decode(body or b"{}", type=dict[str, Raw])
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(f"the body is no JSON object: {error}") from None
        return Raw(msgspec.json.encode(_together(members, filled)))

    def _most(self, operation: Operation) -> int:
        if operation.carries:
            return self.node.engine.limits.body_bytes_max + SPARE_BYTES
        return PARAMS_BYTES_MAX

    async def response(self, route: Route, asked: Asked, result: object) -> Response:
        """A result as JSON; without what a viewer does not see."""
        loop = asyncio.get_running_loop()
        if asked.caller.role == VIEWER and self.redaction.is_on:
            content = await loop.run_in_executor(None, self._for_viewer, result)
        else:
            content = await _encoded(result)
        return Response(content, route.status, media_type=JSON)

    def _for_viewer(self, result: object) -> bytes:
        plain = msgspec.json.decode(msgspec.json.encode(result))
        return msgspec.json.encode(self.redaction.shown(plain))


def filling(route: Route, path: Mapping[str, str]) -> dict[str, object]:
    """The parameters that the path says, and those that are always the same."""
    filled: dict[str, object] = dict(route.given)
    for variable, member in route.fill.items():
        name = member.removesuffix("[]")
        filled[name] = [path[variable]] if member.endswith("[]") else path[variable]
    return filled


def _together(said: Mapping[str, Any], filled: Mapping[str, object]) -> dict[str, object]:
    """Both; what the path says, or is always the same, is not said again."""
    twice = said.keys() & filled.keys()
    if twice:
        raise BadRequest(f"{sorted(twice)[0]!r} is not to be said here")
    return {**said, **filled}


def _query(
    query: QueryParams, params: type[Struct], filled: Mapping[str, object]
) -> dict[str, object]:
    """The members that a query says, of their types; lists are parted by commas, or said again."""
    if len(str(query)) > QUERY_BYTES_MAX:
        raise Declined(414, "too-much", f"a query has at most {QUERY_BYTES_MAX} bytes")
    known = {one.encode_name: one.type for one in _fields(params)}
    said: dict[str, object] = {}
    for name in query:
        if name not in known:
            raise BadRequest(f"there is no parameter {name!r}; there are {', '.join(known)}")
        values = query.getlist(name)
        if isinstance(_inner(known[name]), ListType):
            said[name] = [one for value in values for one in value.split(",") if one]
        elif len(values) > 1:
            raise BadRequest(f"{name} is said twice")
        else:
            said[name] = values[0]
    try:
        typed = msgspec.convert({**said, **filled}, params, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from None
    return {name: getattr(typed, _attribute(params, name)) for name in said}


def _fields(params: type[Struct]) -> tuple[msgspec.inspect.Field, ...]:
    info = type_info(params)
    assert isinstance(info, msgspec.inspect.StructType)
    return info.fields


def _attribute(params: type[Struct], name: str) -> str:
    return next(one.name for one in _fields(params) if one.encode_name == name)


def _inner(kind: Type) -> Type:
    """A type without what is only said about it."""
    return kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind


async def _encoded(result: object) -> bytes:
    """As JSON, on another thread if it may be long."""
    if _may_be_long(result):
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, msgspec.json.encode, result)
    return msgspec.json.encode(result)


def _may_be_long(value: object) -> bool:
    if isinstance(value, Raw | str):
        return bool(len(value) > LARGE_BYTES)
    if isinstance(value, list | dict) and len(value) > SHORT_LIST:
        return True
    if isinstance(value, Struct):
        value = asdict(value)
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and any(map(_may_be_long, value))


def _check_done(result: object) -> None:
    """`Refused` if nothing was done to the one job that was named."""
    assert isinstance(result, Result)
    if result.count:
        return
    for skipped in result.skipped:
        raise Refused(skipped.reason)
    raise NotFound("there is no such job")


def _check_accept(asked: Asked) -> None:
    """`Declined` if the caller takes no JSON."""
    accept = asked.request.headers.get("accept", "*/*").lower()
    for part in accept.split(","):
        media, _, rest = part.strip().partition(";")
        is_refused = rest.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000")
        if media in ("*/*", "application/*", JSON, "application/problem+json") and not is_refused:
            return
    raise Declined(406, "not-acceptable", f"the answer is {JSON}")
