"""Health, files, the document of REST, what viewers see, and what is recorded."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from franca.control.audit import FILE_BYTES, KEPT, AuditLog
from franca.control.caller import OWNER
from franca.control.operations import OPERATIONS
from franca.web import redact
from franca.web.files import Files
from franca.web.redact import HIDDEN, Redaction
from franca.web.router import Router
from franca.web.routes import ROUTES
from franca.web.settings import REDACTED_KEYS, read_globs, read_hosts, read_tokens
from tests.web.kit import Site, bearer

# -- health -----------------------------------------------------------------------------------


def test_health_is_told_to_everybody(guarded: Site) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        assert guarded.call("GET", path).status == 200
        assert guarded.call("HEAD", path).status == 200
        assert guarded.call("POST", path).status == 405


def test_a_server_that_takes_no_jobs_is_not_ready(site: Site) -> None:
    site.node.broker.refusing_new = True
    answer = site.call("GET", "/readyz")
    assert answer.status == 503
    assert b"store: full" in answer.body
    assert site.call("GET", "/livez").status == 200


def test_what_monitors_of_another_server_ask_is_answered_where_it_is_served(site: Site) -> None:
    assert site.call("GET", "/health").status == 404
    asked: list[str] = []

    def over_http(path: str, now: int) -> tuple[bytes, ...]:
        asked.append(path)
        return () if len(asked) < 3 else (b'{"a":', b"1}")

    site.node.two.over_http = over_http  # type: ignore[method-assign]
    assert site.call("GET", "/stats").json == {"a": 1}
    assert asked == ["/stats"] * 3


# -- files ------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "static"
    (folder / "js").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>" + "x" * 2000)
    (folder / "js" / "a.js").write_text("1;")
    (folder / "notes.txt").write_text("not served")
    (tmp_path / "secret.js").write_text("secret")
    (folder / "out.js").symlink_to(tmp_path / "secret.js")
    with Site() as site:
        pages = site.web.app.router.entries
        router = Router(
            msgspec.structs.replace(e, handler=Files(folder).answer) if "..." in e.path else e
            for e in pages
        )
        site.web.app.router = router
        yield site


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/index.html", 200), ("/js/a.js", 200), ("/notes.txt", 404), ("/out.js", 404), ("/../secret.js", 404),
        ("/%2e%2e/secret.js", 404), ("/js/..%2f..%2fsecret.js", 404), ("/js", 404), ("/js/", 404), ("/a/b/c/d/e/f/g/h/i/j", 404),
    ],
)  # fmt: skip
def test_files_of_the_folder_are_served_and_no_others(files: Site, path: str, status: int) -> None:
    assert files.call("GET", path).status == status


def test_a_file_is_packed_and_not_sent_again(files: Site) -> None:
    plain = files.call("GET", "/index.html")
    packed = files.call("GET", "/index.html", None, {"accept-encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 10
    assert plain.headers["vary"] == "accept-encoding"
    tag = {"if-none-match": plain.headers["etag"]}
    assert (files.call("GET", "/index.html", None, tag).status, packed.headers["etag"]) == (
        304,
        tag["if-none-match"],
    )


# -- the document -----------------------------------------------------------------------------


def test_the_document_has_every_route_with_its_role(site: Site) -> None:
    document = site.call("GET", "/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert document["info"]["x-stability"] == "unstable"
    ids = set()
    for route in ROUTES:
        described = document["paths"][f"/{route.path}"][route.method.lower()]
        assert described["x-role"] == route.does.role
        assert described["summary"] == route.does.summary
        ids.add(described["operationId"])
        assert str(route.status) in described["responses"]
        named = {one["name"] for one in described.get("parameters", ()) if one["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", route.path))
    assert len(ids) == len(ROUTES)
    refs = set(re.findall(r'"#/components/schemas/(\w+)"', msgspec.json.encode(document).decode()))
    assert refs <= document["components"]["schemas"].keys()


def test_the_document_says_what_an_operation_takes(site: Site) -> None:
    paths = site.call("GET", "/openapi.json").json["paths"]
    body = paths["/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"queue", "type"} == set(body["required"])
    assert "args" in body["properties"]
    find = {one["name"]: one for one in paths["/jobs"]["get"]["parameters"]}
    assert find["limit"]["schema"]["maximum"] == 500
    ack = paths["/jobs/{id}/ack"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "job" not in ack["properties"]
    assert ack["required"] == ["token"]


# -- what a viewer sees -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('[{"password":"hunter2","u":1}]', '[{"password":"[redacted]","u":1}]'),
        ('{"a":{"api_key":[1,{"x":"]"}]},"u":1}', '{"a":{"api_key":"[redacted]"},"u":1}'),
        ('{"Password" : 12345, "u":1}', '{"Password" : "[redacted]", "u":1}'),
        ('{"password":"cut off he', '{"password":"[redacted]"'),
        ('{"password":"a\\"b","u":1}', '{"password":"[redacted]","u":1}'),
        ('"{\\"token\\":\\"abc\\",\\"u\\":1}"', '"{\\"token\\":\\"[redacted]\\",\\"u\\":1}"'),
        ('{"pass\\u0077ord":"x"}', '{"pass\\u0077ord":"[redacted]"}'),
        ("{'db_password': 'x', 'u': 2}", "{'db_password': '[redacted]', 'u': 2}"),
        ("refused: password=hunter2, user=u", "refused: password=[redacted], user=u"),
        ("Authorization: Bearer abc\nnext", "Authorization: [redacted]\nnext"),
        ("the password is wrong", "the password is wrong"),
        ('[1,2,{"user":"password"}]', '[1,2,{"user":"password"}]'),
    ],
)
def test_values_of_secret_names_are_hidden_wherever_they_stand(text: str, shown: str) -> None:
    assert Redaction(REDACTED_KEYS).text(text) == shown


def test_a_long_text_is_looked_through_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorder:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self._pattern = pattern
            self.spans: list[int] = []

        def search(self, text: str, at: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
            self.spans.append(min(end, len(text)) - at)
            return self._pattern.search(text, at, end)

    recorder = Recorder(redact._NAMED)
    monkeypatch.setattr(redact, "_NAMED", recorder)
    hide = Redaction(REDACTED_KEYS).text
    assert hide("words " * 20_000) == "words " * 20_000
    # A step in which no other thread has its turn is short.
    assert max(recorder.spans) <= redact.AT_ONCE_CHARS + redact.NAMED_CHARS
    monkeypatch.setattr(redact, "AT_ONCE_CHARS", 16)
    for place in range(64):
        for name in ("password=", '"password" : ', "my.longer.name.of.a.password: "):
            assert hide(f"{'x ' * place}{name}hunter2") == f"{'x ' * place}{name}" + (
                '"[redacted]"' if '"' in name else "[redacted]"
            )


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2_000_000,
        '"a"' * 500_000,
        "\\" * 1_000_000,
        "password=" * 100_000,
        '{"password":' * 5_000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """Ten times as much takes no more than about ten times as long."""
    import time

    hide = Redaction(REDACTED_KEYS).text

    def took(part: str) -> float:
        begun = time.process_time()
        hide(part)
        return time.process_time() - begun

    small = min(took(text[: len(text) // 10]) for _ in range(3))
    assert took(text) < 60 * small + 0.5


SECRET = "hunter2-of-the-job"


def test_a_viewer_sees_no_secret_in_lists_jobs_errors_results_and_events(guarded: Site) -> None:
    args = [{"password": SECRET, "to": "anna"}]
    guarded.api(
        "POST", "jobs", {"queue": "q", "type": "t", "args": args, "name": "n-1"}, bearer("operator")
    )
    node = guarded.node
    node.fail(node.lease(), f"login failed with token={SECRET} for anna")
    guarded.api("POST", "jobs/n-1/retry", {}, bearer("operator"))
    lease = guarded.api("POST", "lease", {"queues": ["q"]}, bearer("operator")).json
    assert lease["job"]["args"] == args
    said = {"token": lease["token"], "result": {"secret": SECRET, "n": 1}}
    guarded.api(
        "POST",
        "jobs/n-1/progress",
        {"token": lease["token"], "text": f"secret: {SECRET}"},
        bearer("operator"),
    )
    for path in ("jobs/n-1", "jobs"):
        seen = guarded.api("GET", path, None, bearer("viewer")).body.decode()
        assert SECRET not in seen
    guarded.api("POST", "jobs/n-1/ack", said, bearer("operator"))
    whole = guarded.api("GET", "jobs/n-1", None, bearer("viewer")).body.decode()
    assert SECRET not in whole
    assert HIDDEN in whole
    assert "anna" in whole
    assert guarded.api("GET", "jobs/n-1", None, bearer("operator")).body.decode().count(SECRET) >= 3


@pytest.mark.parametrize(
    ("query", "viewer", "operator"),
    [
        ("arg:hunter2", 0, 1), ("hunter2", 0, 1), ("arg:h", 0, 1), ("error:hunter2", 0, 1),
        ("arg:password*hunter2", 0, 1), ("error:*hunter*", 0, 1), ("-arg:hunter2", 1, 0),
        ("name:token=h*", 0, 1), ("arg:hunter2,anna", 1, 1), ("-arg:zoe", 1, 1),
        ("anna", 1, 1), ("arg:anna", 1, 1), ("error:login", 1, 1), ("redacted", 1, 0),
        ("queue:q anna", 1, 1), ("tries>0 via:rest", 1, 1), ("name:*", 1, 1),
    ],
)  # fmt: skip
def test_a_viewer_does_not_find_out_what_is_hidden_by_searching(
    guarded: Site, query: str, viewer: int, operator: int
) -> None:
    job = {
        "queue": "q",
        "type": "t",
        "args": [{"password": SECRET, "to": "anna"}],
        "name": f"token={SECRET}",
    }
    guarded.api("POST", "jobs", job, bearer("operator"))
    node = guarded.node
    node.fail(node.lease(), f"login failed with token={SECRET}")
    for role, count in (("viewer", viewer), ("operator", operator)):
        page = guarded.api("GET", f"jobs?q={quote(query)}", None, bearer(role)).json
        assert (len(page["jobs"]), page["total"]) == (count, count), role


def test_bytes_that_are_no_text_are_not_shown_to_a_viewer() -> None:
    shown = Redaction(REDACTED_KEYS).shown({"body": {"base64": "c2VjcmV0", "bytes": 6}})
    assert shown == {"body": {"base64": HIDDEN, "bytes": 6}}
    assert Redaction(()).shown({"password": 1}) == {"password": 1}


# -- the record ---------------------------------------------------------------------------------


def test_what_operators_do_is_recorded_with_who_and_how(guarded: Site) -> None:
    guarded.node.submit()
    guarded.api("POST", "queues/q/pause", {}, bearer("operator"))
    guarded.api("POST", "queues/nobody/purge", {}, bearer("operator"))
    guarded.node.do("queues.resume", queues=["q"])
    guarded.api("POST", "jobs", {"queue": "q", "type": "t"}, bearer("operator"))
    entries = guarded.api("GET", "audit", None, bearer("admin")).json["entries"]
    assert [(e["who"], e["over"], e["operation"], e["outcome"]) for e in entries] == [
        ("owner", "control", "queues.resume", "ok"),
        ("operator-1", "rest", "queues.purge", "not-found"),
        ("operator-1", "rest", "queues.pause", "ok"),
    ]
    assert '"q"' in entries[0]["about"]


def test_every_route_that_changes_something_is_recorded_but_submits_and_work() -> None:
    unrecorded = {r.operation for r in ROUTES if not r.is_read and not r.does.is_recorded}
    work = {name for name in OPERATIONS if name.startswith("work.")}
    assert unrecorded == {"jobs.push", "jobs.submit", *work}
    assert [r.operation for r in ROUTES if r.is_read and r.does.is_recorded] == ["store.export"]


def test_the_record_is_there_after_a_restart_and_bounded(tmp_path: Path) -> None:
    log = AuditLog(lambda: 1_000, str(tmp_path))
    for number in range(KEPT + 10):
        log.note(OWNER, "queues.pause", f"{number} " + "x" * 1_000)
    again = AuditLog(lambda: 2_000, str(tmp_path))
    assert again.newest(1)[0].about.startswith(f"{KEPT + 9} ")
    assert len(log.entries) == KEPT
    for number in range(40_000):
        log.note(OWNER, "queues.pause", f"{number} " + "x" * 1_000)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert sum(sizes) < 2 * FILE_BYTES + 1_000
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o600"}
    (tmp_path / "audit.jsonl").open("ab").write(b'{"at": "cut o')
    assert len(AuditLog(lambda: 0, str(tmp_path)).entries) == KEPT


def test_a_disk_that_takes_nothing_holds_nobody_up(tmp_path: Path) -> None:
    log = AuditLog(lambda: 1_000, str(tmp_path / "missing"))
    log.note(OWNER, "queues.pause", "")
    assert len(log.newest(10)) == 1


# -- settings -----------------------------------------------------------------------------------


def test_settings_are_read() -> None:
    [token] = read_tokens(f"# who\nci:operator:{'a' * 64}\n")
    assert (token.name, token.role) == ("ci", "operator")
    assert read_hosts("Jobs.example, [::1]") == ("jobs.example", "[::1]")
    assert read_globs(["*Key*"]) == ("*key*",)


@pytest.mark.parametrize("text", ["ci:root:" + "a" * 64, "ci:viewer:abc", "viewer:" + "a" * 64, 5])
def test_a_token_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"token|list"):
        read_tokens(text)


def test_wrong_hosts_and_globs_are_refused() -> None:
    with pytest.raises(ValueError, match="host"):
        read_hosts("http://jobs.example/")
    with pytest.raises(ValueError, match="characters"):
        read_globs(["*a*a*a*a*a*"])
