"""The document that describes REST to programs, made from the table of routes and operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

import msgspec

from franca import __version__
from franca.control import shapes
from franca.control.caller import VIEWER
from franca.control.http_workers import What
from franca.control.jobs import Push
from franca.control.submit import SubmitMany
from franca.web.problems import MEDIA, Problem
from franca.web.routes import PREFIX, Route

ABOUT: Final = (
    "Everything that an operator, a script or a worker may ask of a running server. This version "
    "is not stable yet: names and members may change until batches and throttles are in it. "
    "Moments are RFC 3339 in UTC in members that end in _at or _until, spans are milliseconds in "
    "members that end in _ms. Names in a path are percent-encoded, slashes too."
)
ASKED: Final = "Franca-Asked"
"""What tells a worker that is given no job what it was asked."""
Schema = Mapping[str, Any]
_REF: Final = "#/components/schemas/{name}"
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_ALWAYS: Final = {
    "400": "The request is wrong",
    "401": "No password or token, or a wrong one",
    "403": "The caller's role may not do this, or a page of another site asked",
    "404": "There is no such thing",
    "406": "The answer is JSON, which the caller does not take",
    "409": "It cannot be done to what is there",
    "413": "Too long, or beyond a limit of the server",
    "414": "The query is too long",
    "421": "The request was sent to a name that is not this server's",
    "429": "Too many wrong passwords",
    "500": "The server made a mistake",
    "503": "Too much is asked at a time, or the server stops",
}
_WITH_BODY: Final = {
    "408": "The body came too slowly",
    "415": "The body is no JSON",
    "422": "This idempotency key was used for another job",
    "507": "The disk is nearly full",
}
_KEY: Final = ("Idempotency-Key", "For 24 hours one key submits one job", {"type": "string"})
_PARAMETERS: Final = {
    "submit": (_KEY, ("Prefer", "wait=30 waits up to 30 s for the job to end", {"type": "string"})),
    "submit many": (_KEY,),
    "events": (("Last-Event-ID", "Continue after this event", {"type": "string"}),),
}


def document(routes: Iterable[Route]) -> dict[str, object]:
    """The whole document, as OpenAPI 3.1 has it."""
    routes = tuple(routes)
    types: list[Any] = [Problem, shapes.Submitted, shapes.Job, Push, SubmitMany]
    for route in routes:
        types += route.does.params, route.does.result
    refs, components = msgspec.json.schema_components(types, ref_template=_REF)
    of_problem, submitted, of_job, push, _, *schemas = refs
    components["SubmitMany"]["properties"]["jobs"]["items"] = push
    paths: dict[str, dict[str, object]] = {}
    for route, params, result in zip(routes, schemas[::2], schemas[1::2], strict=True):
        whole = components[str(params["$ref"]).removeprefix(_REF.format(name=""))]
        responses = _responses(route, submitted if route.special == "submit" else result)
        if route.special == "submit":
            responses |= _once_it_has_ended(of_job, submitted)
        refusals = _ALWAYS if route.is_read else _ALWAYS | _WITH_BODY
        responses |= {s: _answer(about, of_problem, MEDIA) for s, about in refusals.items()}
        described = _described(route, whole, responses)
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = described
    paths["/events"] = {"get": _events()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Franca",
            "version": __version__,
            "description": ABOUT,
            "x-stability": "unstable",
        },
        "servers": [{"url": PREFIX}],
        "security": [{"token": []}, {"password": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _described(route: Route, schema: Schema, responses: Schema) -> dict[str, object]:
    filled = {member.removesuffix("[]") for member in route.fill.values()} | {*route.given}
    properties = {n: s for n, s in schema.get("properties", {}).items() if n not in filled}
    required = [name for name in schema.get("required", ()) if name in properties]
    parameters = [_in_path(name) for name in _VARIABLE.findall(route.path)]
    parameters += _in_header(route.special)
    described: dict[str, object] = {
        "operationId": f"{route.operation}.{route.method.lower()}.{_words(route.path)}",
        "summary": route.does.summary,
        "tags": [route.path.partition("/")[0]],
        "x-role": route.does.role,
        "responses": responses,
    }
    if route.is_read:
        parameters += [_in_query(name, one, name in required) for name, one in properties.items()]
    else:
        whole = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            whole["required"] = required
        content = {"application/json": {"schema": whole}}
        described["requestBody"] = {"required": bool(required), "content": content}
    if parameters:
        described["parameters"] = parameters
    return described


def _responses(route: Route, result: Schema) -> dict[str, object]:
    responses: dict[str, object] = {str(route.status): _answer("It was done", result)}
    if route.special == "lease":
        schema = {"enum": get_args(What)}
        header = {"description": "What operators have asked of the worker", "schema": schema}
        responses["204"] = {"description": "No job came", "headers": {ASKED: header}}
    return responses


def _once_it_has_ended(of_job: Schema, submitted: Schema) -> dict[str, object]:
    return {
        "200": _answer("The job has ended", of_job),
        "202": _answer("The job has not ended yet", submitted),
    }


def _answer(about: str, schema: Schema, media: str = "application/json") -> dict[str, object]:
    return {"description": about, "content": {media: {"schema": schema}}}


def _in_header(special: str) -> list[dict[str, object]]:
    return [
        {"name": name, "in": "header", "description": about, "schema": kind}
        for name, about, kind in _PARAMETERS.get(special, ())
    ]


def _events() -> dict[str, object]:
    stream = _answer("Events, until somebody hangs up", {"type": "string"}, "text/event-stream")
    return {
        "operationId": "events",
        "summary": "What changes, as it changes",
        "tags": ["events"],
        "x-role": VIEWER,
        "parameters": _in_header("events"),
        "responses": {"200": stream},
    }


def _in_path(name: str) -> dict[str, object]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
    }


def _in_query(name: str, schema: Mapping[str, object], required: bool) -> dict[str, object]:
    parameter: dict[str, object] = {"name": name, "in": "query", "schema": schema}
    if schema.get("type") == "array":
        parameter |= {"style": "form", "explode": False}
    return parameter | ({"required": True} if required else {})


def _words(path: str) -> str:
    return re.sub(r"\W+", "_", path).strip("_")
