"""What Prometheus reads: scrapes, parsed and checked as its own tools would."""

import asyncio
import re
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from franca.web.metrics import Metrics

OPEN_METRICS = "application/openmetrics-text"
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
NOT_BASE_UNITS = (
    "ms",
    "milliseconds",
    "minutes",
    "hours",
    "kb",
    "mb",
    "kilobytes",
    "percent",
    "bits",
)
ENDINGS = {"counter": "_total", "histogram": ""}


class Scrape:
    """One answer, parsed; asked for samples by name and labels."""

    def __init__(self, content: bytes, accept: str = "") -> None:
        self.content = content
        parse: Any = parse_open if accept == OPEN_METRICS else parse_text
        self.families = list(parse(content.decode()))
        self.series: Series = {}
        for family in self.families:
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                assert key not in self.series, f"twice: {key}"
                self.series[key] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        return self.series[name, tuple(sorted(labels.items()))]

    def has(self, name: str, **labels: str) -> bool:
        return (name, tuple(sorted(labels.items()))) in self.series

    def values(self, name: str, label: str) -> dict[str, float]:
        """The samples of a name by one of their labels."""
        found = (
            (dict(labels), value) for (one, labels), value in self.series.items() if one == name
        )
        return {labels[label]: value for labels, value in found}

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.series}


def take(metrics: Metrics, accept: str = "") -> Scrape:
    """Scrape once."""
    return Scrape(asyncio.run(metrics.scrape(accept))[0], accept)


def faults(content: str) -> list[str]:
    """What `promtool check metrics` would say of a text."""
    found: list[str] = []
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", content, re.MULTILINE))
    helps = re.findall(r"^# HELP (\S+) (.*)$", content, re.MULTILINE)
    found += [f"{name}: no help" for name in kinds if not dict(helps).get(name)]
    found += [f"{name}: said twice" for name, _ in helps if [n for n, _ in helps].count(name) > 1]
    for name, kind in kinds.items():
        if kind == "counter" and not name.endswith("_total"):
            found.append(f"{name}: a counter ends in _total")
        if kind != "counter" and name.endswith(("_total", "_count", "_sum", "_bucket")):
            found.append(f"{name}: only a counter ends so")
        if not re.fullmatch(r"franca_[a-z]+(_[a-z]+)*", name):
            found.append(f"{name}: not a name of ours")
        if any(word in NOT_BASE_UNITS for word in name.split("_")):
            found.append(f"{name}: not in base units")
    for line in content.splitlines():
        name = re.split(r"[{ ]", line)[0]
        family = re.sub(r"_(bucket|count|sum)$", "", name)
        if not line.startswith("#") and name not in kinds and kinds.get(family) != "histogram":
            found.append(f"{name}: of no type")
    return found


def histogram_faults(scrape: Scrape) -> list[str]:
    """Histograms whose buckets do not grow, or lack the last one."""
    buckets: dict[object, list[tuple[float, float]]] = {}
    for (name, labels), value in scrape.series.items():
        if name.endswith("_bucket"):
            rest = tuple(pair for pair in labels if pair[0] != "le")
            buckets.setdefault((name, rest), []).append((float(dict(labels)["le"]), value))
    found = [str(key) for key, pairs in buckets.items() if pairs[-1][0] != float("inf")]
    for key, pairs in buckets.items():
        if pairs != sorted(pairs) or [v for _, v in pairs] != sorted(v for _, v in pairs):
            found.append(str(key))
    return found
