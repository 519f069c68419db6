"""The tools of the proofs about peers and time do what the proofs rely on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from franca.node.gauges import Gauges
from tests.prove import bugs, guard_bugs, log_canary, registry
from tests.prove.hands import SETTLED_S, TWEAK, Hands
from tests.prove.hostile import faktory as hostile_faktory
from tests.prove.looking import ask, show
from tests.prove.mutants import MUTANTS, TWEAKS
from tests.prove.options import Options
from tests.prove.witness import Witness, percentile
from tests.support.faktory import Faktory, job
from tests.support.server import Server

HOUR_S = 3_600.0
PROOFS = (
    "fence", "clock", "poison", "faktory-auth", "bind-policy", "log-canary", "slow",
    "hostile-frames", "herd", "worker-chaos", "cases", "neighbours",
)  # fmt: skip


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path / "hands")


@pytest.fixture
def server(tmp_path: Path, hands: Hands) -> Iterator[Server]:
    prefix = Options(seed=1).variant(TWEAK)
    with Server(tmp_path / "data", env=hands.environment, argv_prefix=prefix) as server:
        yield server


def test_time_that_passes_ends_leases_and_a_clock_that_is_set_does_not(
    server: Server, hands: Hands
) -> None:
    with Faktory(server.port) as client:
        client.hello()
        client.push(job("held-job-1", queue="held", reserve_for=60))
        assert client.fetch("held") is not None

        hands.set_wall(24 * HOUR_S)
        time.sleep(SETTLED_S)
        assert show(server, "held-job-1")["state"] == "leased"

        hands.pass_time(59)
        assert show(server, "held-job-1")["state"] == "leased"
        hands.pass_time(3)
        assert show(server, "held-job-1")["state"] == "waiting"


def test_the_servers_wall_clock_is_the_one_that_was_set(server: Server, hands: Hands) -> None:
    hands.set_wall(HOUR_S)
    time.sleep(SETTLED_S)
    with Faktory(server.port) as client:
        now: str = client.hello().info()["now"]
    assert now[:16] == time.strftime("%Y-%m-%dT%H:%M", time.gmtime(hands.wall()))


def test_the_hands_outlive_the_server(server: Server, hands: Hands) -> None:
    hands.pass_time(HOUR_S)
    server.restart()
    assert ask(server, "server.status")["uptime_s"] < 60
    hands.pass_time(HOUR_S)
    assert ask(server, "server.status")["uptime_s"] >= HOUR_S


def test_a_witness_sees_an_idle_server_without_a_fault(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server, Witness(server.port) as witness:
        seen = witness.over(0.3)
        assert (seen.faults, seen.examples) == (0, [])
        assert min(seen.commands, seen.beats) > 10
        server.kill9()
        time.sleep(0.2)
        assert witness.figures().faults > 0


@pytest.mark.parametrize(
    ("values", "share", "wanted"),
    [([1.0], 0.99, 1.0), ([3.0, 1.0, 2.0], 0.5, 2.0), (list(map(float, range(100))), 0.99, 99.0)],
)
def test_a_percentile_is_one_of_the_values(
    values: list[float], share: float, wanted: float
) -> None:
    assert percentile(values, share) == wanted


def test_no_values_are_worse_than_any() -> None:
    assert percentile([], 0.5) > 1e6


def test_a_standstill_counts_for_as_long_as_it_lasted() -> None:
    gauges = Gauges()
    for number in range(1, 901):
        gauges.sample(number * 0.01, 0.01)
    assert gauges.lag_p99_ms() < 1
    gauges.sample(10.0, 0.01)
    assert gauges.lag_p99_ms() > 800


def test_there_are_hostile_cases_of_every_outcome_and_the_seed_orders_them() -> None:
    cases = hostile_faktory.cases(1)
    names = [case.name for case in cases]
    assert len(cases) > 1_000
    assert names == [case.name for case in hostile_faktory.cases(1)]
    assert names != [case.name for case in hostile_faktory.cases(2)]
    outcomes = {case.outcome for case in cases}
    assert outcomes == {"closed", "refused", "answered", "either"}
    assert all(case.data.endswith(b"\n") for case in cases)
    assert all(case.data.count(b"\n") == 1 for case in cases if case.known)


@pytest.mark.parametrize("disguise", [str, str.upper, lambda word: word.encode().hex()])
def test_a_canary_is_found_in_a_thin_disguise(disguise: object) -> None:
    assert callable(disguise)
    cage = log_canary.Cage(Random(1))
    text = f"... {disguise(cage.word('args'))} ..."
    assert cage.found(text, kept_out_only=True) == ["args"]
    assert cage.found("nothing here", kept_out_only=False) == []


def test_every_bug_is_in_the_table_and_every_proof_names_bugs_that_exist() -> None:
    planted = bugs.MUTANTS | guard_bugs.MUTANTS
    assert planted.items() <= MUTANTS.items()
    assert (bugs.TWEAKS | guard_bugs.TWEAKS).items() <= TWEAKS.items()
    named = {mutant for name in PROOFS for mutant in registry.load(name).MUTANTS}
    assert named == set(planted)
