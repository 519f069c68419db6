"""T21: whatever text a job, a queue, a worker or a schedule has, no page of the dashboard runs anything of it.

Markup that runs a script is put into every field that a page shows: over Faktory, Gearman, Periodic and REST, into a
server as it is served to people. Every page is then opened in a browser, its folds are opened, its palette and its
completion are asked. Each field tells its name when it runs. `unseen` fields were on no page, and show nothing.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tests.browser.browser import Browser
from tests.browser.shots import started
from tests.prove.harness import Options, Result, Tally
from tests.real.kit import CallRefused
from tests.support.faktory import Faktory, compact, job
from tests.support.gearman import Gearman, Type
from tests.support.periodic import Periodic
from tests.support.server import HOST, Server
from tests.support.web import api, ask

_STATES = ("ready", "running", "done", "dead", "cancelled", "retrying", "scheduled")
_MADE = "#page script, #page img, #side img, #toasts img, dialog img, [onerror], [onload], [onfocus], iframe, object, a[href^=javascript]"
_MARKED = "hit='"
_WITH_PALETTE = ("#/", "#/queues")
_WITH_COMPLETION = "#/jobs?state=ready"
"""They say the same everywhere."""


class Fields:
    """A text for each field, which tells the field's name if anything of it is run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> str:
        """Markup whose quotes are those that JSON lets be."""
        if name not in self.names:
            self.names.append(name)
        return f"\"'><img src=x onerror=hit='{name}'>"

    def seen_in(self, text: str) -> set[str]:
        return {name for name in self.names if f"{_MARKED}{name}'" in text}


def _over_faktory(port: int, field: Fields) -> None:
    """Jobs of every state, and workers whose every word is markup; they stay connected no longer than needed."""
    unseen = Fields()  # no page shows what stands around the arguments
    with Faktory(port).hello() as client:
        for number, queue in enumerate(("x-dead", "x-retry", "x-ready")):
            unit = job(f"faktory-{number}-{field('jid')}", field("args"), queue=queue)
            unit |= {
                "jobtype": field("jobtype"),
                "custom": {unseen("custom key"): unseen("custom")},
            }
            client.push(unit | {"retry": -1 if queue == "x-dead" else 5})
        later = job("faktory-later", queue="x-ready", at="2099-01-01T00:00:00Z")
        client.push(later | {"jobtype": field("jobtype")})


def _fail(worker: Faktory, field: Fields) -> None:
    for queue in ("x-dead", "x-retry"):
        got = worker.fetch(queue)
        assert got is not None
        trace = [f"{field('backtrace')}:{line}" for line in range(3)]
        report = {"errtype": field("errtype"), "message": field("message"), "backtrace": trace}
        worker.command(f"FAIL {compact({'jid': got['jid'], **report})}")


def _over_gearman(client: Gearman, field: Fields) -> None:
    client.say(Type.SET_CLIENT_ID, field("client id"))
    client.can_do(field("function"))
    client.submit(field("function"), field("workload"), field("unique"), Type.SUBMIT_JOB_BG)
    work = client.grab()
    assert work is not None
    client.say(Type.WORK_STATUS, work.handle, "1", "2")
    client.complete(work.handle, field("gearman result"))
    client.submit(field("function"), field("workload"), "second", Type.SUBMIT_JOB_BG)
    client.echo()


def _over_rest(port: int, field: Fields) -> list[int]:
    """Ids of jobs in several states."""
    ids: list[int] = []
    for number in range(4):
        unit = {
            "queue": field("queue"),
            "type": field("type"),
            "args": [{field("key"): field("value")}],
        }
        unit["name"] = f"rest-{number}-{field('name')}"
        ids.append(api(port, "POST", "jobs", unit)["id"])
    for verb in ("ack", "fail", "progress"):
        asked = {"queues": [field("queue")], "worker": field("worker")}
        leased = api(port, "POST", "lease", asked)
        report: dict[str, Any] = {"token": leased["token"]}
        if verb == "ack":
            report["result"] = {"r": field("result")}
        elif verb == "fail":
            report |= {"error": field("error"), "text": field("text"), "trace": [field("trace")]}
        else:
            report |= {"n": 1, "of": 2, "text": field("progress")}
        api(port, "POST", f"jobs/{leased['job']['id']}/{verb}", report)
    return ids


def _steer(port: int, field: Fields) -> None:
    """Schedules, and what operators did, which the record of it keeps."""
    rule = {
        "id": field("schedule"),
        "queue": field("schedule queue"),
        "type": field("schedule type"),
    }
    api(port, "POST", "schedules", rule | {"every_ms": 3_600_000, "args": [field("schedule args")]})
    api(port, "POST", f"schedules/{quote(field('schedule'), safe='')}/run")
    api(port, "POST", f"queues/{quote(field('queue'), safe='')}/pause", {})
    paused = quote(field("paused queue"), safe="")
    api(port, "POST", "jobs", {"queue": field("paused queue"), "type": "t"})
    api(port, "POST", f"queues/{paused}/pause", {})
    cancelled = api(port, "POST", "jobs", {"queue": "x-cancel", "type": field("type")})["id"]
    api(port, "POST", f"jobs/{cancelled}/cancel")


def _pages(port: int) -> Iterator[str]:
    """Every page there is, those of single things for one of each kind."""
    for name in (
        "",
        "jobs",
        "queues",
        "types",
        "workers",
        "schedules",
        "errors",
        "settings",
        "audit",
    ):
        yield f"#/{name}"
    yield from ("try", "login")
    kinds = set[tuple[str, str]]()
    for state in _STATES:
        rows = api(port, "GET", f"jobs?state={state}")["jobs"]
        assert rows, f"no job is {state}"
        for row in rows:
            if (state, row["via"]) not in kinds:
                kinds.add((state, row["via"]))
                yield f"#/jobs/{row['id']}"
        yield f"#/jobs?state={state}"
    name = next(r["queue"] for r in api(port, "GET", "queues")["queues"] if _MARKED in r["queue"])
    yield f"#/queues/{quote(name, safe='')}"
    for one in api(port, "GET", "errors")["classes"]:
        yield f"#/errors?open={one['id']}"


def _look(browser: Browser, address: str, page: str) -> tuple[str, list[tuple[str, str]]]:
    """All the text of a page, and what went wrong on it, each with the name of its figure."""
    wrong: list[tuple[str, str]] = []
    try:
        browser.open(address + page)
        _use(browser, page)
    except CallRefused as error:
        wrong.append(("broken", f"could not be used: {error}"))
    text = str(browser.js("document.body.innerText + ' ' + document.body.textContent"))
    if browser.js("Boolean(window.hit)"):
        wrong.append(("executions", f"ran: {browser.js('window.hit')}"))
    if browser.js(f"document.querySelectorAll({json.dumps(_MADE)}).length"):
        wrong.append(("elements", "became elements"))
    if any("Content Security Policy" in one for one in browser.complaints()):
        wrong.append(("broken", "was only stopped by the page's policy"))
    if "could not be displayed" in text:
        wrong.append(("broken", "could not be displayed"))
    return text, wrong


def _use(browser: Browser, page: str) -> None:
    """Open its folds, and have the palette and completion make lists of what there is."""
    browser.js("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    if page in _WITH_PALETTE:
        browser.press("Control+k")
        browser.until("document.querySelectorAll('.palette-list li').length > 0")
        browser.type("x")
        browser.press("Escape")
    if page == _WITH_COMPLETION:
        browser.click("#filter")
        browser.type("queue:")
        browser.until("document.querySelectorAll('#filter-options li').length > 0")
        browser.press("ArrowDown", "Escape")


def run(options: Options) -> Result:
    field = Fields()
    tally = Tally("fields", "unseen", "pages", "executions", "elements", "broken", "csp_missing")
    speaks = ("web", "gearman", "periodic")
    who: dict[str, Any] = {"hostname": field("hostname"), "labels": [field("label")], "pid": 7}
    with (
        options.server(speaks=speaks) as server,
        Gearman(server.ports["gearman"]) as gearman,
        Faktory(server.port).hello(wid=field("wid"), **who) as worker,
        Periodic(server.ports["periodic"]) as producer,
    ):
        _over_faktory(server.port, field)
        _fail(worker, field)
        _over_gearman(gearman, field)
        producer.submit(field("periodic function"), field("periodic name"), b"x")
        _over_rest(server.ports["web"], field)
        _steer(server.ports["web"], field)
        _see(server, options, field, tally)
    wrong = sum(
        tally[name] for name in ("unseen", "executions", "elements", "broken", "csp_missing")
    )
    enough = tally["fields"] >= 12 and tally["pages"] >= 10
    return Result(not wrong and enough, str(tally), tally.examples[:20])


def _see(server: Server, options: Options, field: Fields, tally: Tally) -> None:
    address = f"http://{HOST}:{server.ports['web']}/"
    seen = set[str]()
    pages = list(_pages(server.ports["web"]))
    with started(options.home / "browser") as browser:
        for page in pages:
            tally["pages"] += 1
            text, wrong = _look(browser, address, page)
            seen |= field.seen_in(text)
            for kind, what in wrong:
                tally.note(kind, f"{page}: {what}")
            path = "/" + page.partition("#")[0]
            policy = ask(server.ports["web"], "GET", path).headers["content-security-policy"] or ""
            if "script-src 'self'" not in policy or "default-src 'none'" not in policy:
                tally.note("csp_missing", page)
    tally["fields"] = len(seen)
    for name in field.names:
        if name not in seen:
            tally.note("unseen", f"on no page: {name}")
