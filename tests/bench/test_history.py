"""What `bench million --only history` asks is what the dashboard asks, of jobs that can be there."""

import re
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
import pytest

from bench.findings import Setup
from bench.million.ended import GROUP, Ended
from bench.million.history import Stored, alternated
from bench.million.living import Living
from bench.million.pages import LIVE, Poller, calls
from franca.control.job_search import wanted_of
from franca.control.portable import KeptJob, Line
from franca.core.model import State
from franca.web.routes import ROUTES

JS = Path(__file__).parents[2] / "src" / "franca" / "web" / "static" / "js"
ASKED = re.compile(r'(\w+): \([^)]*\) =>\s*call\("GET", ["`]([^"`?]+)')
WHEN_EMPTY = {"overview": {"health"}, "jobs": {"health"}, "workers": {"health"}}
"""What a page asks for only where it has nothing to show yet."""
PAGES = calls("ended", "ready", "dead", "some queue")


def _kind(path: str) -> str:
    """What is asked for, whichever it is."""
    first, *rest = path.partition("?")[0].split("/")
    return f"{first}/…" if rest else first


@pytest.mark.parametrize(
    "page", [path.stem for path in (JS / "pages").glob("*.js") if path.stem != "first"]
)
def test_a_page_has_the_calls_of_its_module(page: str) -> None:
    paths = {name: _kind(path) for name, path in ASKED.findall((JS / "api.js").read_text())}
    said = re.findall(r"\bapi\.(\w+)\(", (JS / "pages" / f"{page}.js").read_text())
    asked = {paths[name] for name in said if name in paths} - WHEN_EMPTY.get(page, set())

    variants = [paths for name, paths in PAGES.items() if name.partition(":")[0] == page]
    assert variants
    for calls_of_one in variants:
        assert {_kind(path) for path in calls_of_one} <= asked
    assert asked == {_kind(path) for calls_of_one in variants for path in calls_of_one}


def test_every_call_is_one_that_rest_has() -> None:
    reads = {_kind(route.path) for route in ROUTES if route.is_read}
    asked = [path for paths in PAGES.values() for path in paths if not path.startswith("/")]

    assert {_kind(path) for path in asked} <= reads
    assert set(LIVE) <= set(PAGES)


def test_every_search_is_understood(tmp_path: Path) -> None:
    queries = list(Stored(Setup(tmp_path, 0.001)).queries())

    assert {query.name for query in queries if query.exists} >= {"state-done", "name-ready", "id"}
    for query in queries:
        wanted_of(query.state, query.q, 1)


def test_ended_jobs_have_ids_of_their_own_and_end_one_after_the_other() -> None:
    ended = Ended(3 * GROUP)
    jobs = [job for first in range(1, 3 * GROUP, GROUP) for job in ended.group(first, Random(1))]

    assert len({job.id for job in jobs}) == len(jobs) == 3 * GROUP
    assert [job.ended_at for job in jobs] == sorted(job.ended_at for job in jobs)
    assert {job.state for job in jobs} == {State.DONE, State.CANCELLED}
    assert jobs[-1].ended_at == ended.end


def test_each_search_of_a_store_comes_to_a_figure(tmp_path: Path) -> None:
    findings = list(Ended(3 * GROUP).fill(tmp_path / "franca.db"))

    assert {"store-index-step", "store-name", "store-rates-of-a-queue-day"} <= {
        finding.name for finding in findings
    }


@pytest.mark.parametrize("state", ["ready", "scheduled", "retrying", "dead"])
def test_live_jobs_are_lines_of_an_export(state: str) -> None:
    for line in Living(state, 2).lines(datetime.now(UTC)):
        read: Line = msgspec.json.decode(msgspec.json.encode(line), type=Line)
        assert isinstance(read, KeptJob)
        assert read.state == state


@pytest.mark.parametrize(("polled_ms", "is_met"), [(10.9, True), (11.1, False)])
def test_a_poller_may_make_others_three_times_slower_and_five_ms(
    polled_ms: float, is_met: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    polling = False

    class Stub(Poller):
        def __init__(self) -> None:
            self.asked = 1

        def __enter__(self) -> "Stub":
            nonlocal polling
            polling = True
            return self

        def __exit__(self, *_: object) -> None:
            nonlocal polling
            polling = False

    finding = alternated("polled", lambda: polled_ms if polling else 2.0, Stub)

    assert finding.is_met is is_met
    assert finding.value == polled_ms
