"""Medians over rounds, the table of them, and the verdict on each target of the benchmark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.measure import Run

Case = tuple[str, int]  # a store, and its number of producers and of consumers

LAG_MAX_MS = 20.0
DURABLE_RATIO_MIN = 0.30
MEMORY_RATIO_MIN = 0.58


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
        jobs=int(median(run.jobs for run in runs)),
        jobs_per_s=median(run.jobs_per_s for run in runs),
        submit_p50_ms=median(run.submit_p50_ms for run in runs),
        submit_p99_ms=median(run.submit_p99_ms for run in runs),
        cpu_us_per_job=median(run.cpu_us_per_job for run in runs),
        loop_lag_p99_ms=_median_or_none(run.loop_lag_p99_ms for run in runs),
        ratio=_median_or_none(run.ratio for run in runs),
    )


def table(results: dict[Case, Run]) -> str:
    """One line for each case."""
    lines = [
        "store   clients   jobs/s  p50 ms  p99 ms  CPU us/job  lag p99 ms  ratio to the floor",
        "------  -------  -------  ------  ------  ----------  ----------  ------------------",
    ]
    for (store, size), run in results.items():
        lines.append(
            f"{store:<6}  {f'{size}/{size}':>7}  {run.jobs_per_s:>7.0f}  {run.submit_p50_ms:>6.2f}"
            f"  {run.submit_p99_ms:>6.2f}  {run.cpu_us_per_job:>10.1f}"
            f"  {_figure(run.loop_lag_p99_ms, '.2f'):>10}  {_figure(run.ratio, '.3f'):>18}"
        )
    return "\n".join(lines)


def verdicts(results: dict[Case, Run]) -> list[Verdict]:
    """What came of each target."""
    return [
        _ratio_verdict(results, "sqlite", 50, DURABLE_RATIO_MIN),
        _ratio_verdict(results, "sqlite", 200, DURABLE_RATIO_MIN),
        _ratio_verdict(results, "memory", 50, MEMORY_RATIO_MIN),
        _lag_verdict(results),
    ]


def _ratio_verdict(results: dict[Case, Run], store: str, size: int, least: float) -> Verdict:
    run = results.get((store, size))
    value = run.ratio if run else None
    target = f"{store} {size}/{size} ratio to the floor >= {least:.2f}"
    return Verdict(target, value, value is not None and value >= least)


def _lag_verdict(results: dict[Case, Run]) -> Verdict:
    """The worst case decides, and a server that does not tell its lag has not shown it."""
    lags = [run.loop_lag_p99_ms for (store, _), run in results.items() if store != "echo"]
    known = [lag for lag in lags if lag is not None]
    worst = max(known) if known and len(known) == len(lags) else None
    target = f"event loop lag p99 < {LAG_MAX_MS:.0f} ms in every case"
    return Verdict(target, worst, worst is not None and worst < LAG_MAX_MS)


def _median_or_none(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _figure(value: float | None, form: str) -> str:
    return "n/a" if value is None else format(value, form)
