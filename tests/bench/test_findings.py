"""What a command that measures makes of its figures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import against, servers
from bench.against import AGAIN, NEW, OLD, Rounds, compared, verdicts
from bench.findings import Finding, Setup, play
from bench.measure import Load, Run
from bench.servers import Process, ServerFailed
from franca.control.client import CannotConnect


def test_a_figure_is_met_up_to_its_limit_or_from_it_on() -> None:
    assert str(Finding("x", "ms", 100.0, 100)) == "x ms=100.0 limit=100 ok"
    assert str(Finding("x", "ms", 100.1, 100)) == "x ms=100.1 limit=100 MISSED"
    assert str(Finding("x", "per_s", 9.0, 10, at_least=True)) == "x per_s=9.0 limit=10 MISSED"
    assert str(Finding("x", "per_s", 10.0, 10, at_least=True, more="n=1")).endswith("ok n=1")


@pytest.mark.parametrize("of", [ServerFailed, CannotConnect, AssertionError])
def test_a_scene_that_breaks_off_is_a_limit_that_was_missed(
    of: type[Exception], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(setup: Setup) -> Iterator[Finding]:
        yield Finding("first", "ms", 1, 2)
        raise of("it died")

    arguments = ["--dir", str(tmp_path), "--check"]

    assert play("word", None, {"broken": broken}, arguments) == 1
    assert f"first ms=1.0 limit=2 ok\nbroken failed=1.0 limit=0 MISSED {of.__name__}: it died" in (
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


@pytest.mark.parametrize("with_web", [set(), {NEW}])
def test_only_this_trees_servers_have_a_web_side_and_only_if_it_is_asked_for(
    with_web: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[list[str]] = []

    class Started(Exception):
        pass

    def spawn(command: list[str], *_: object, **__: object) -> Process:
        started.append(command)
        raise Started

    monkeypatch.setattr(servers, "spawn", spawn)
    load = Load(tmp_path, "faktory", 1, 1, 1.0)
    for name in (NEW, OLD):
        with pytest.raises(Started):
            against.run_round(load, {name: servers.SOURCE}, tmp_path, with_web)

    has_web = ["--web off" not in " ".join(command) for command in started]
    assert has_web == [NEW in with_web, False]
