"""REST answers as its own document says, whatever is asked: no error of the server's, no status or shape that is not in it.

Requests are made from /openapi.json by schemathesis, some as the document wants them and some not, for every operation
of a real server. What they name exists: before each operation there are jobs in several states, a paused queue, a
schedule, and a lease with its token.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from requests import Session
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from tests.prove.harness import Options, Result, Tally
from tests.support.server import HOST, Server
from tests.support.web import api, ask

_LAST = "/server/stop"
_QUEUES = ("made", "paused")
_JOBS = tuple(f"made-{number}" for number in range(4))
_SCHEDULE = "made-rule"

_DEAD = "made-dead"
_WORDS: dict[str, list[Any]] = {
    "state": ["dead", "ready", "done", "waiting"],
    "q": ["", "queue:made", "type:t age>1s", "arg:1 -queue:x", "quue:x"],
    "cron": ["", "0 7 * * 1"],
    "timezone": ["UTC", "Europe/Berlin"],
    "every_ms": [None, 60_000],
    "workers": [["w"], ["none"]],
    "args": [[], [1]],
    "ids": [[_DEAD], ["none"]],
    "queue": ["made", "none"],
    "range": ["15m", "6h", "1d"],
    "wait_ms": [0, 20],
    "text": ["half"],
}
"""Of members and of variables of the query; what else there may be is asked, too."""
_BOUNDED = ("token", "path", "wait_ms")
"""And nothing else: no file is written anywhere else, and nobody waits for long."""

Document = dict[str, Any]
Case = schemathesis.Case[Any]
Pick = Callable[[list[Any], Document], Document]
POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


def _prepare(port: int, home: Path) -> Document:
    """Make what requests may name; what exists, by the member or path that it is for."""
    for number, name in enumerate((*_JOBS, _DEAD)):
        job = {"queue": _QUEUES[0], "type": "t", "args": [number], "name": name}
        api(port, "POST", "jobs", job | ({"in_ms": 60_000} if number == 3 else {}))
    api(port, "POST", "jobs", {"queue": _QUEUES[1], "type": "t", "name": "held"})
    api(port, "POST", f"queues/{_QUEUES[0]}/resume", {})
    # As a new process: an operation before this one may have asked the worker to take no more jobs.
    asked = {"queues": [_QUEUES[0]], "worker": "w", "first": True}
    lease = api(port, "POST", "lease", asked)
    api(port, "POST", "queues/paused/pause", {})
    rule = {"id": _SCHEDULE, "queue": "made", "type": "t", "every_ms": 3_600_000}
    ask(port, "POST", "/api/v1/schedules", rule)
    api(port, "POST", f"jobs/{_DEAD}/kill", {})
    action = {"action": "delete", "state": "dead", "q": "queue:none"}
    moved = api(port, "POST", "jobs/actions", action)["operation"]
    return {
        "jobs": [_DEAD, *_JOBS, "0"],
        "queues": [*_QUEUES, "none"],
        "schedules": [_SCHEDULE, "none"],
        "operations": [moved, "none"],
        "leased": [str(lease["job"]["id"])],
        "token": [lease["token"]],
        "path": [str(home / f"{lease['job']['id']}.db"), str(home)],
        **_WORDS,
    }


def _known(words: list[Any], schema: Document) -> Document:
    return {"enum": words}


def _any(words: list[Any], schema: Document) -> Document:
    return {"anyOf": [{"enum": words}, schema]}


_STREAM = "/events"
_STREAM_S = 20.0
_PASSES = ((_known, POSITIVE), (_any, POSITIVE), (_any, NEGATIVE))
"""As the document wants it, of words that there are and of others; and as it does not."""


def _narrowed(
    document: Document, operation: tuple[str, str], facts: Document, pick: Pick
) -> Document:
    """The document with this operation alone, in which words are picked from those that there are."""
    path, method = operation
    described: Document = copy.deepcopy(document["paths"][path][method])
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    members: Document = body.get("schema", {}).get("properties", {})
    of_lease = "token" in members
    for parameter in described.get("parameters", ()):
        name = parameter["name"]
        if parameter["in"] == "path":
            values = facts["leased" if of_lease else path.split("/")[1]]
            parameter["schema"] = {"type": "string", "enum": values}
        elif name in _WORDS:
            parameter["schema"] = pick(facts[name], parameter["schema"])
    for name, schema in members.items():
        if name in _BOUNDED:
            members[name] = {"enum": facts[name]}
        elif name in _WORDS:
            members[name] = pick(facts[name], schema)
    return document | {"paths": {path: {method: described}}}


def _operations(document: Document) -> Iterator[tuple[str, str]]:
    """All of them; the one that ends the server comes last."""
    found = [(path, method) for path, methods in document["paths"].items() for method in methods]
    return iter(sorted(found, key=lambda one: one[0] == _LAST))


def _try(
    document: Document,
    mode: schemathesis.GenerationMode,
    address: str,
    effort: tuple[int, int],
    tally: Tally,
) -> bool:
    """Requests for the one operation of a document, by seed and number; whether any was carried out."""
    chance, examples = effort
    schema = schemathesis.openapi.from_dict(document)
    [operation] = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    statuses = set[int]()
    with Session() as session:

        @seed(chance)
        @settings(
            max_examples=examples, database=None, deadline=None,
            phases=[Phase.generate], suppress_health_check=[*HealthCheck],
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode))
        def request(case: Case) -> None:
            if case.path == _STREAM:
                statuses.add(_begin_stream(case, address, session, tally))
                return
            answer = case.call(base_url=address, session=session)
            statuses.add(answer.status_code)
            _judge(case, answer, tally)

        # Nothing can be wrong with a request that has no parameters.
        with suppress(Unsatisfiable):
            request()
    return min(statuses, default=500) < 300


def _begin_stream(case: Case, address: str, session: Session, tally: Tally) -> int:
    """The status of an answer that goes on: of what comes, its beginning is read."""
    sent = case.as_transport_kwargs(base_url=address)
    with session.request(**sent, stream=True, timeout=_STREAM_S) as answer:
        tally["requests"] += 1
        asked = f"{answer.status_code} to {case.as_curl_command()[:300]}"
        if answer.status_code >= 500:
            tally.note("server_errors", asked)
        described = case.operation.definition.raw["responses"].get(str(answer.status_code))
        if described is None:
            tally.note("undocumented", asked)
        elif answer.headers["content-type"].partition(";")[0] not in described["content"]:
            tally.note("misshapen", asked)
        next(answer.iter_content(1))
        return int(answer.status_code)


def _judge(case: Case, answer: schemathesis.Response, tally: Tally) -> None:
    tally["requests"] += 1
    asked = f"{answer.status_code} to {case.as_curl_command()[:300]}"
    if answer.status_code >= 500:
        tally.note("server_errors", asked)
    if str(answer.status_code) not in case.operation.definition.raw["responses"]:
        tally.note("undocumented", asked)
        return
    try:
        case.validate_response(
            answer, checks=[content_type_conformance, response_schema_conformance]
        )
    except FailureGroup as group:
        tally.note("misshapen", f"{asked}: {group.exceptions[0]}"[:600])


def run(options: Options) -> Result:
    tally = Tally("operations", "done", "requests", "server_errors", "undocumented", "misshapen")
    never = list[str]()
    with options.server(speaks=("web",)) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        port = server.ports["web"]
        document = ask(port, "GET", "/openapi.json").json
        for operation in _operations(document):
            tally["operations"] += 1
            done = _one(server, document, operation, options, tally)
            tally["done"] += done
            if not done:
                never.append(f"never carried out: {operation}")
    wrong = tally["server_errors"] + tally["undocumented"] + tally["misshapen"]
    return Result(not wrong and not never, str(tally), [*never, *tally.examples[:12]])


def _one(
    server: Server, document: Document, operation: tuple[str, str], options: Options, tally: Tally
) -> bool:
    """Whether an operation was ever carried out."""
    port = server.ports["web"]
    if operation[0] == _LAST:
        return ask(port, "POST", f"/api/v1{_LAST}", {}).status == 202
    address = f"http://{HOST}:{port}{document['servers'][0]['url']}"
    done = False
    for pick, mode in _PASSES:
        facts = _prepare(port, options.home)
        narrowed = _narrowed(document, operation, facts, pick)
        # Of words that there are, enough for each operation to be carried out.
        examples = options.number("examples", 100, short=20) * (3 if pick is _known else 1)
        done |= _try(narrowed, mode, address, (options.seed, examples), tally)
    assert server.running, f"{operation} ended the server\n{server.log_tail()}"
    return done
