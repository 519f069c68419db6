"""Medians over rounds, the table of them, and the verdict on each target of a benchmark."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.measure import Run

Case = tuple[str, str]  # a server, and the load on it: "50/50" producers and consumers
Column = tuple[str, Callable[[Run], float | None], str]  # its head, its figure, its format

COLUMNS: tuple[Column, ...] = (
    ("jobs/s", lambda run: run.jobs_per_s, ".0f"),
    ("p50 ms", lambda run: run.submit_p50_ms, ".2f"),
    ("p99 ms", lambda run: run.submit_p99_ms, ".2f"),
    ("CPU us/job", lambda run: run.cpu_us_per_job, ".1f"),
    ("lag p99 ms", lambda run: run.loop_lag_p99_ms, ".2f"),
)

LAG_MAX_MS = 20.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target, and what was measured of it: `value` is None where nothing was."""

    target: str
    value: float | None
    is_met: bool

    def __str__(self) -> str:
        word = "met" if self.is_met else "MISSED"
        shown = "not measured" if self.value is None else f"{self.value:.2f} {word}"
        return f"target {self.target}: {shown}"


def medians(runs: Sequence[Run]) -> Run:
    """The median of each figure by itself, over the rounds that have it."""
    return Run(
        size=runs[0].size,
        jobs=int(median(run.jobs for run in runs)),
        jobs_per_s=median(run.jobs_per_s for run in runs),
        submit_p50_ms=median(run.submit_p50_ms for run in runs),
        submit_p99_ms=median(run.submit_p99_ms for run in runs),
        cpu_us_per_job=_median_or_none(run.cpu_us_per_job for run in runs),
        loop_lag_p99_ms=_median_or_none(run.loop_lag_p99_ms for run in runs),
        unanswered=int(median(run.unanswered for run in runs)),
        submit_max_ms=median(run.submit_max_ms for run in runs),
        ratio=_median_or_none(run.ratio for run in runs),
        cpu_ratio=_median_or_none(run.cpu_ratio for run in runs),
    )


def table(results: dict[Case, Run], *more: Column) -> str:
    """One line for each case, with the columns that every benchmark has and those it adds."""
    rows = [
        [server, load, *(_figure(figure(run), form) for _, figure, form in COLUMNS + more)]
        for (server, load), run in results.items()
    ]
    heads = ["server", "clients", *(head for head, _, _ in COLUMNS + more)]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{word:>{width}}" for word, width in zip(row[1:], widths[1:], strict=True))
        for row in [heads, ["-" * width for width in widths], *rows]
    )


def at_least(target: str, value: float | None, least: float) -> Verdict:
    """The verdict on a figure that must not be below `least`."""
    return Verdict(f"{target} >= {least:.2f}", value, value is not None and value >= least)


def at_most(target: str, value: float | None, most: float) -> Verdict:
    """The verdict on a figure that must not be above `most`."""
    return Verdict(f"{target} <= {most:.2f}", value, value is not None and value <= most)


def lag_verdict(runs: Iterable[Run]) -> Verdict:
    """The worst case decides, and a server that does not tell its lag has not shown it."""
    lags = [run.loop_lag_p99_ms for run in runs]
    known = [lag for lag in lags if lag is not None]
    worst = max(known) if known and len(known) == len(lags) else None
    target = f"event loop lag p99 < {LAG_MAX_MS:.0f} ms in every case"
    return Verdict(target, worst, worst is not None and worst < LAG_MAX_MS)


def _median_or_none(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _figure(value: float | None, form: str) -> str:
    return "n/a" if value is None else format(value, form)
