"""T24: every way into the web side is open to the roles that it is for, and to nobody else.

A real server with a token for each role is asked for everything in its router, by nobody, by each role, with a wrong
token, and with a session. What is in no table, or says no role, is a way in that nobody declared.
"""

import hashlib
import http.client
from collections.abc import Mapping

from franca.control.caller import ROLES, may
from franca.web.pages import Health
from franca.web.router import PUBLIC, Entry
from franca.web.routes import PREFIX, ROUTES
from tests.prove.harness import Options, Result, Tally
from tests.support.server import HOST, Server

_OTHERS = (
    ("GET", f"{PREFIX}/events", "viewer"),
    ("GET", "/openapi.json", "viewer"),
    ("GET", "/stats", "viewer"),
)
_NAMED = {"{id}": "1", "{name}": "q"}
_REFUSED = (401, 403)


def _ways() -> list[tuple[str, str, str]]:
    """Method, path and role of all that a server of this table answers."""
    ways = [(route.method, f"{PREFIX}/{route.path}", route.does.role) for route in ROUTES]
    return [*ways, *_OTHERS, *((e.method, e.path, e.role) for e in _public())]


def _public() -> list[Entry]:
    health = Health.entries(Health.__new__(Health))
    return [entry for entry in health if entry.role == PUBLIC]


def _status(server: Server, method: str, path: str, headers: Mapping[str, str]) -> int:
    peer = http.client.HTTPConnection(HOST, server.ports["web"], timeout=20)
    try:
        body = None if method == "GET" else b"[]"
        peer.request(method, path, body, {"content-type": "application/json", **headers})
        return peer.getresponse().status
    finally:
        peer.close()


def run(options: Options) -> Result:
    tally = Tally("ways", "asked", "unexpected_allow", "unexpected_refusal", "undeclared_routes")
    tokens: dict[str, str] = {
        role: hashlib.sha256(f"{options.seed}{role}".encode()).hexdigest() for role in ROLES
    }
    lines = [
        f"{role}:{role}:{hashlib.sha256(t.encode()).hexdigest()}" for role, t in tokens.items()
    ]
    file = options.home / "tokens"
    file.write_text("\n".join(lines))
    flags = ("--web-tokens-file", str(file))
    with options.server(speaks=("web",), extra_args=flags) as server:
        for method, pattern, role in _ways():
            tally["ways"] += 1
            if role not in (PUBLIC, *ROLES):
                tally.note("undeclared_routes", f"{method} {pattern}")
            path = pattern
            for variable, value in _NAMED.items():
                path = path.replace(variable, value)
            for who in ("", *ROLES):
                tally["asked"] += 1
                headers = {"authorization": f"Bearer {tokens[who]}"} if who else {}
                refused = _status(server, method, path, headers) in _REFUSED
                allowed = role == PUBLIC or may(who, role)
                if refused is allowed:
                    name = "unexpected_refusal" if refused else "unexpected_allow"
                    tally.note(name, f"{method} {path} as {who or 'nobody'}")
        wrong = _status(server, "GET", f"{PREFIX}/queues", {"authorization": "Bearer nothing"})
        if wrong != 401:
            tally.note("unexpected_allow", f"a wrong token: {wrong}")
    held = not (
        tally["unexpected_allow"] or tally["unexpected_refusal"] or tally["undeclared_routes"]
    )
    return Result(held, str(tally), tally.examples[:10])
