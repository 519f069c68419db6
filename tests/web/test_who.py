"""Who may: roles, passwords, tokens, sessions, other sites, other names."""

import asyncio
import base64

import pytest
from msgspec.structs import replace

from franca.control.caller import ADMIN, OPERATOR, ROLES, VIEWER, may
from franca.control.operations import OPERATIONS
from franca.web import auth, guard
from franca.web.router import PUBLIC, Entry, UndeclaredRole
from franca.web.routes import ROUTES, Route
from tests.web.kit import JSON, TOKENS, Site, bearer

NAMED = {"id": "1", "name": "q"}


def entries(site: Site) -> list[Entry]:
    return [entry for entry in site.web.app.router.entries if "..." not in entry.path]


def basic(password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()}


# -- routes and roles -------------------------------------------------------------------------


def test_every_way_in_is_open_to_those_who_may_and_to_nobody_else(guarded: Site) -> None:
    tried = 0
    for entry in entries(guarded):
        if entry.path in ("/api/v1/events", "/api/v1/server/stop"):
            continue
        path = entry.path
        for name, value in NAMED.items():
            path = path.replace(f"{{{name}}}", value)
        for role in (None, *ROLES):
            body: object = {} if entry.method in ("POST", "PUT") else None
            answer = guarded.call(entry.method, path, body, bearer(role) if role else None)
            allowed = entry.role == PUBLIC or (role is not None and may(role, entry.role))
            refused = answer.status == (401 if role is None else 403)
            if entry.path not in ("/login", "/"):
                assert refused is not allowed, (entry.method, path, role, answer.status)
            tried += 1
    assert tried >= 4 * len(ROUTES)


def test_reading_is_for_viewers_and_changing_is_not() -> None:
    for route in ROUTES:
        is_open = route.is_read and route.operation not in ("audit.list", "store.export")
        assert (route.does.role == VIEWER) is is_open, route
    admin = {route.operation for route in ROUTES if route.does.role == ADMIN}
    of_server = {"server.stop", "server.backup", "store.export", "store.import"}
    assert admin == {*of_server, "audit.list"}


@pytest.mark.parametrize("role", ["", "everybody"])
def test_a_route_that_does_not_say_who_may_keeps_the_server_from_starting(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = replace(OPERATIONS["server.status"], role=role)
    monkeypatch.setitem(OPERATIONS, "server.planted", operation)
    planted = Route("GET", "planted", "server.planted")
    with pytest.raises(UndeclaredRole, match="planted"):
        Site(routes=[*ROUTES, planted])


def test_a_role_that_does_not_exist_may_nothing() -> None:
    assert not may("root", VIEWER)
    assert not may(ADMIN, "")
    assert may(ADMIN, OPERATOR)
    assert not may(VIEWER, OPERATOR)


def test_without_any_password_everybody_here_may_everything(site: Site) -> None:
    assert site.api("GET", "audit").status == 200


# -- passwords and tokens ---------------------------------------------------------------------


def test_a_password_is_an_operator_and_the_other_protocols_too() -> None:
    with Site(password="the-password", other_passwords=["of-faktory"]) as site:
        for word in ("the-password", "of-faktory"):
            assert site.api("POST", "queues/q/pause", {}, basic(word)).status == 404
            assert site.api("POST", "server/stop", {}, basic(word)).status == 403
        answer = site.api("GET", "jobs", None, basic("wrong"))
        assert (answer.status, answer.json["code"]) == (401, "wrong-password")
        assert "Basic" in answer.headers["www-authenticate"]


def test_a_browser_does_not_ask_by_itself_when_a_script_was_refused(guarded: Site) -> None:
    answer = guarded.api(
        "GET", "jobs", None, {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    )
    assert answer.status == 401
    assert "Basic" not in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "header", ["Basic !!!", "Bearer", "Digest x", "Bearer " + "x" * 5000, "basic ", "x"]
)
def test_an_authorization_that_is_none_is_refused(guarded: Site, header: str) -> None:
    assert guarded.api("GET", "jobs", None, {"authorization": header}).status == 401


def test_who_is_wrong_too_often_waits_and_others_do_not(guarded: Site) -> None:
    for _ in range(auth.FAILURES_MAX):
        assert guarded.api("GET", "jobs", None, basic("wrong")).status == 401
    answer = guarded.api("GET", "jobs", None, basic("the-password"))
    assert (answer.status, answer.headers["retry-after"]) == (429, "61")
    assert guarded.call("POST", "/login", b"password=the-password").status == 429
    assert guarded.api("GET", "jobs", None, basic("the-password"), client="10.0.0.1").status == 200
    guarded.now += auth.FAILURES_MS
    assert guarded.api("GET", "jobs", None, basic("the-password")).status == 200


def test_who_is_wrong_many_times_at_once_is_compared_no_more_often(
    guarded: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bytes] = []

    def compare(self: auth.Authentication, known: bytes) -> bool:
        compared.append(known)
        return False

    monkeypatch.setattr(auth.Authentication, "_compare", compare)
    calls = [
        guarded.begin("GET", "/api/v1/queues", None, basic(f"wrong-{n}"))
        for n in range(2 * auth.FAILURES_MAX)
    ]

    async def at_once() -> None:
        await asyncio.gather(*(work for _, work in calls))

    guarded.run(at_once())
    assert len(compared) == auth.FAILURES_MAX
    assert {call.status for call, _ in calls} == {401, 429}


def test_addresses_of_one_network_are_one(guarded: Site) -> None:
    for number in range(auth.FAILURES_MAX):
        guarded.api("GET", "jobs", None, basic("wrong"), client=f"2001:db8::{number}")
    assert guarded.api("GET", "jobs", None, basic("wrong"), client="2001:db8::ffff").status == 429
    assert guarded.api("GET", "jobs", None, basic("wrong"), client="2001:db9::1").status == 401


def test_a_right_password_is_hashed_slowly_once(
    guarded: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[bytes] = []
    real = auth.Authentication._slow_hash

    def slow_hash(self: auth.Authentication, word: bytes) -> bytes:
        hashed.append(word)
        return real(self, word)

    monkeypatch.setattr(auth.Authentication, "_slow_hash", slow_hash)
    for _ in range(5):
        assert guarded.api("GET", "jobs", None, basic("the-password")).status == 200
    assert hashed == [b"the-password", b"the-password"]  # the stored one, and the one that came
    assert guarded.api("GET", "jobs", None, bearer("viewer")).status == 200
    assert len(hashed) == 2


# -- sessions -----------------------------------------------------------------------------------


def sign_in(site: Site, secret: str, scheme: str = "http") -> tuple[str, str]:
    answer = site.call("POST", "/login", f"password={secret}".encode(), scheme=scheme)
    assert (answer.status, answer.headers["location"]) == (303, "./")
    cookie = answer.headers["set-cookie"]
    return cookie.partition(";")[0], cookie.lower()


@pytest.mark.parametrize(("scheme", "name"), [("http", "franca="), ("https", "__Host-franca=")])
def test_a_session_is_a_cookie_that_only_this_site_gets(
    guarded: Site, scheme: str, name: str
) -> None:
    cookie, whole = sign_in(guarded, "the-password", scheme)
    assert cookie.startswith(name)
    assert "httponly" in whole
    assert "samesite=strict" in whole
    assert "path=/" in whole
    assert ("secure" in whole) is (scheme == "https")
    assert "domain" not in whole
    assert guarded.api("GET", "jobs", None, {"cookie": cookie}, scheme=scheme).status == 200
    assert guarded.api("GET", "audit", None, {"cookie": cookie}, scheme=scheme).status == 403


def test_a_session_has_the_role_of_the_token_that_began_it(guarded: Site) -> None:
    cookie, _ = sign_in(guarded, TOKENS["viewer"])
    assert guarded.api("GET", "jobs", None, {"cookie": cookie}).status == 200
    assert guarded.api("POST", "jobs", {}, {"cookie": cookie}).status == 403


def test_a_session_ends_when_it_is_idle_or_old_or_signed_out(guarded: Site) -> None:
    def works(cookie: str) -> bool:
        return guarded.api("GET", "jobs", None, {"cookie": cookie}).status == 200

    cookie, _ = sign_in(guarded, "the-password")
    guarded.now += guarded.settings.session_idle_ms - 1
    assert works(cookie)
    guarded.now += guarded.settings.session_idle_ms
    assert not works(cookie)
    cookie, _ = sign_in(guarded, "the-password")
    for _ in range(15):
        guarded.now += guarded.settings.session_idle_ms - 1
        last = works(cookie)
    assert not last, "it went on for ever"
    cookie, _ = sign_in(guarded, "the-password")
    assert guarded.call("POST", "/logout", None, {"cookie": cookie}).status == 303
    assert not works(cookie)


def test_sessions_are_bounded(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "SESSIONS_MAX", 2)
    first, second, third = (sign_in(guarded, TOKENS["viewer"])[0] for _ in range(3))
    statuses = [
        guarded.api("GET", "jobs", None, {"cookie": one}).status for one in (first, second, third)
    ]
    assert statuses == [401, 200, 200]


def test_who_has_no_session_is_led_to_the_page_to_sign_in(guarded: Site) -> None:
    assert guarded.call("GET", "/").headers["location"] == "login"
    wrong = guarded.call(
        "POST",
        "/login",
        b"password=x",
        {"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"},
    )
    assert wrong.headers["location"] == "login?wrong"
    assert guarded.call("POST", "/login", b'{"password": 1}').status == 401


# -- other sites and other names ------------------------------------------------------------------

ATTACKS = [
    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "unheard-of"},
    {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:9999"},
    {"origin": "http://127.0.0.1"}, {"origin": ""  " "},
    {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:7420"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
]  # fmt: skip
BODIES: list[tuple[object, dict[str, str]]] = [
    ({}, JSON),
    (b"a=b", {"content-type": "application/x-www-form-urlencoded"}),
    (b'{"x":1}', {"content-type": "text/plain"}),
]
UNSAFE = [
    ("DELETE", "jobs/1"), ("POST", "jobs/1/retry"), ("POST", "jobs/1/kill"), ("POST", "queues/q/pause"),
    ("POST", "queues/q/purge"), ("POST", "workers/stop"), ("POST", "server/stop"), ("POST", "lease"), ("POST", "jobs"),
]  # fmt: skip


def effects_of_attacks(site: Site) -> tuple[int, int]:
    """How many requests of other sites were tried, and how many were not refused."""
    tried = effects = 0
    for method, path in UNSAFE:
        for attack in ATTACKS:
            for body, headers in BODIES:
                answer = site.api(method, path, body, headers | attack)
                tried += 1
                effects += answer.status not in (403, 415)
    return tried, effects


def test_a_page_of_another_site_changes_nothing(site: Site) -> None:
    site.node.submit()
    tried, effects = effects_of_attacks(site)
    assert tried >= 60
    assert effects == 0
    assert site.node.broker.queues["q"].ready == 1
    assert not site.node.stopping
    assert not site.node.broker.queues["q"].paused


def test_with_the_check_off_such_a_page_would_be_seen_to_change_something(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("franca.web.app.check_origin", lambda method, headers: None)
    site.node.submit()
    assert effects_of_attacks(site)[1] > 0
    assert site.node.stopping


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"origin": "http://127.0.0.1:7420"},
        {"origin": "https://LOCALHOST:7420", "host": "localhost:7420"},
        {},
    ],
)
def test_the_own_pages_and_programs_may(site: Site, headers: dict[str, str]) -> None:
    site.node.submit()
    assert site.api("POST", "queues/q/pause", {}, headers).status == 200


def test_no_get_changes_anything(site: Site) -> None:
    site.node.submit()
    before = site.node.broker.totals.pushed, site.node.broker.queues["q"].ready
    for entry in entries(site):
        if entry.method == "GET" and entry.path != "/api/v1/events":
            site.call("GET", entry.path.replace("{id}", "1").replace("{name}", "q"))
    assert not site.node.broker.has_changes()
    assert before == (site.node.broker.totals.pushed, site.node.broker.queues["q"].ready)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:7420", 200), ("localhost", 200), ("localhost:1", 200), ("LocalHost.:7420", 200), ("[::1]:7420", 200),
        ("192.168.1.2:7420", 200), ("jobs.example:7420", 200), ("JOBS.example", 200), ("evil.example", 421),
        ("127.0.0.1:", 200), ("[::1", 421), ("[::1]x", 421), ("127.0.0.1:[", 421), ("127.0.0.1:7420:1", 421),
        ("127.0.0.1:x", 421), ("x@127.0.0.1", 421), ("localhost/x", 421), ("::1", 421),
        ("evil.example:7420", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421),
        ("evil.example#127.0.0.1", 421), ("[evil.example]", 421), ("", 400),
    ],
)  # fmt: skip
def test_the_server_is_called_by_its_own_names_only(host: str, status: int) -> None:
    with Site(hosts=("jobs.example",)) as site:
        assert site.call("GET", "/livez", None, {"host": host}).status == status
        assert site.api("GET", "queues", None, {"host": host}).status == status


@pytest.mark.parametrize("text", ["127.1", "0x7f.1", "2130706433", "1.2.3.4.5", "::1%eth0.evil"])
def test_what_only_seems_to_be_an_address_is_a_name(text: str) -> None:
    if guard.is_address(text):
        pytest.fail(f"{text} passed for an address")


def test_a_request_that_has_nothing_to_do_with_us_is_not_answered(site: Site) -> None:
    call, _ = site.begin("GET", "/livez")
    call.scope["type"] = "websocket"
    site.run(site.web.app(call.scope, call.receive, call.send))
    assert not call.status
