"""What a command that measures makes of its figures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.against import AGAIN, NEW, OLD, Rounds, compared, verdicts
from bench.findings import Finding, Setup, play
from bench.measure import Run
from bench.servers import ServerFailed


def test_a_figure_is_met_up_to_its_limit_or_from_it_on() -> None:
    assert str(Finding("x", "ms", 100.0, 100)) == "x ms=100.0 limit=100 ok"
    assert str(Finding("x", "ms", 100.1, 100)) == "x ms=100.1 limit=100 MISSED"
    assert str(Finding("x", "per_s", 9.0, 10, at_least=True)) == "x per_s=9.0 limit=10 MISSED"
    assert str(Finding("x", "per_s", 10.0, 10, at_least=True, more="n=1")).endswith("ok n=1")


def test_a_scene_that_breaks_off_is_a_limit_that_was_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(setup: Setup) -> Iterator[Finding]:
        yield Finding("first", "ms", 1, 2)
        raise ServerFailed("it died")

    arguments = ["--dir", str(tmp_path), "--check"]

    assert play("word", None, {"broken": broken}, arguments) == 1
    assert "first ms=1.0 limit=2 ok\nbroken failed=1.0 limit=0 MISSED ServerFailed: it died" in (
        capsys.readouterr().out
    )


def _run(cpu_us: float, per_s: float) -> Run:
    return Run("50/50", 1_000, per_s, 1.0, 1.0, cpu_us, None)


def _rounds(cost: float) -> Rounds:
    """Twelve rounds in which this tree's jobs cost so many times as much; one turn of each is disturbed."""
    rounds: Rounds = []
    for number in range(12):
        noise = 1 + number % 3 / 1_000
        turns = {
            NEW: [_run(50 * cost * noise, 1_000)] * 5 + [_run(900, 10)],
            OLD: [_run(50, 1_000)] * 6,
            AGAIN: [_run(50 * (1.001 if number % 2 else 0.999), 1_000)] * 6,
        }
        rounds.append(turns)
    return rounds


@pytest.mark.parametrize(("cost", "is_met"), [(1.00, True), (1.029, True), (1.04, False)])
def test_a_dearer_job_is_seen_and_a_disturbed_turn_is_not(cost: float, is_met: bool) -> None:
    news = {"faktory": compared(_rounds(cost), NEW, OLD, 0.95)}
    selves = {"faktory": compared(_rounds(cost), AGAIN, OLD, 0.975)}

    assert news["faktory"].cpu.value == pytest.approx(cost, abs=0.005)
    assert [verdict.is_met for verdict in verdicts(news, selves)] == [is_met, True]


def test_a_commit_that_differs_from_itself_is_told() -> None:
    selves = {"faktory": compared(_rounds(1.2), NEW, OLD, 0.975)}
    news = {"faktory": compared(_rounds(1.0), NEW, OLD, 0.95)}
    assert not verdicts(news, selves)[-1].is_met
