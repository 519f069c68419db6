"""The dashboard and the alerts ask only for metrics, and labels of them, that the server has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from franca.core.history import MINUTE_MS
from franca.web.metrics import Metrics
from tests.web.metric_kit import take
from tests.web.test_metrics import Busy

CONTRIB = Path(__file__).parents[2] / "contrib"
DASHBOARD = CONTRIB / "grafana" / "franca.json"
ALERTS = CONTRIB / "prometheus" / "alerts.yml"
PAGE = CONTRIB.parent / "docs" / "metrics.md"
OF_PROMETHEUS = {"instance", "le"}
"""Labels that Prometheus adds, or that histograms have."""
_NAME = re.compile(r"\bfranca_\w+")
_MATCHED = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_RATED = re.compile(r"\b(?:rate|increase)\((franca_\w+)")


def queries_of(value: Any) -> Iterator[str]:
    """Every query of a dashboard."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key in ("expr", "definition") and isinstance(one, str):
                yield one
            else:
                yield from queries_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from queries_of(one)


def alerts_of(text: str) -> dict[str, str]:
    """Every alert and its query: on the line of `expr`, or indented below it."""
    found: dict[str, str] = {}
    for rule in text.split("- alert: ")[1:]:
        expr = re.search(r"^( +)expr: (?:\|\n((?:\1 .*\n)+)|(.*)\n)", rule, re.MULTILINE)
        assert expr is not None, rule
        found[rule.split("\n")[0]] = expr[2] or expr[3]
    return found


def wrong(query: str, known: dict[str, set[str]]) -> list[str]:
    """Names in a query that no metric, or none of its metrics, has."""
    names = _NAME.findall(query)
    found = [f"no metric {name}" for name in names if name not in known]
    labels = set(_MATCHED.findall(query))
    for grouped in _GROUPED.findall(query):
        labels |= {label.strip() for label in grouped.split(",")}
    there = OF_PROMETHEUS.union(*(known.get(name, set()) for name in names))
    found += [f"no label {label}" for label in sorted(labels - there)]
    found += [f"{n} is no counter" for n in _RATED.findall(query) if not _is_counter(n)]
    found += [] if names else ["asks for nothing of ours"]
    found += [] if query.count("(") == query.count(")") else ["brackets do not match"]
    return found


def _is_counter(name: str) -> bool:
    return name.endswith(("_total", "_bucket", "_sum", "_count"))


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """The labels of every metric of a server on which some jobs ran."""
    node = Busy()
    metrics = Metrics(node)
    node.work()
    node.now += 2 * MINUTE_MS
    found: dict[str, set[str]] = {}
    for name, labels in take(metrics).series:
        found.setdefault(name, set()).update(label for label, _ in labels)
    return found


def test_the_dashboard_asks_for_what_there_is(known: dict[str, set[str]]) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = list(queries_of(dashboard))
    assert len(queries) > 30
    assert [(query, wrong(query, known)) for query in queries if wrong(query, known)] == []


def test_the_panels_of_the_dashboard_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_alerts_ask_for_what_there_is(known: dict[str, set[str]]) -> None:
    alerts = alerts_of(ALERTS.read_text())
    assert list(alerts) == [
        "FrancaQueueFallsBehind",
        "FrancaOldestJobIsOld",
        "FrancaDeadJobsGrow",
        "FrancaCommitsSlow",
        "FrancaNoWorkers",
        "FrancaDiskNearlyFull",
        "FrancaGone",
    ]
    assert {
        name: wrong(query, known) for name, query in alerts.items() if wrong(query, known)
    } == {}


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("rate(franca_jobs_pushed[5m])", "no metric"),
        ('franca_queue_jobs{status="ready"}', "no label status"),
        ("sum by (type) (franca_queue_jobs)", "no label type"),
        ("rate(franca_queue_jobs[5m])", "is no counter"),
        ("sum(franca_queue_jobs", "brackets"),
        ("up == 0", "nothing of ours"),
    ],
)
def test_a_query_for_what_there_is_not_is_seen(
    query: str, fault: str, known: dict[str, set[str]]
) -> None:
    assert fault in " ".join(wrong(query, known))


def test_the_page_lists_every_metric_with_its_labels(known: dict[str, set[str]]) -> None:
    section = PAGE.read_text().partition("## What there is\n")[2].partition("\n## ")[0]
    rows = re.findall(
        r"^\| ((?:`franca_\w+`(?:, )?)+) \| (\w+) \| ([^|]*)\|", section, re.MULTILINE
    )
    listed: dict[str, set[str]] = {}
    for names, kind, labels in rows:
        for name in re.findall(r"franca_\w+", names):
            ending = "_bucket" if kind == "histogram" else ""
            listed[name + ending] = {label.strip() for label in labels.split(",") if label.strip()}
    there = {name: labels - {"le"} for name, labels in known.items()}
    spared = {"franca_store_commit_duration_seconds", "franca_store_batch_jobs"}
    for name in spared:
        del there[f"{name}_sum"], there[f"{name}_count"]
    assert listed == there
