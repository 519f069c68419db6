"""The tools of the proofs do what the proofs rely on, and every planted bug has something to change."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

from franca.node.gauges import Gauges
from tests.prove import hostile
from tests.prove.harness import Options
from tests.prove.log_canary import Canaries
from tests.prove.mutants import BUGS, TWEAKS, resolve
from tests.prove.observe import ask, percentile, show
from tests.prove.registry import PROOFS
from tests.prove.wall_clock import SETTLED_S, TWEAK, WallClock
from tests.prove.witness import Witness
from tests.support.faktory import Faktory, job
from tests.support.protocols import PROTOCOLS
from tests.support.server import Server

HOUR_S = 3_600.0


@pytest.fixture
def wall_clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path / "clock")


@pytest.fixture
def server(tmp_path: Path, wall_clock: WallClock) -> Iterator[Server]:
    prefix = Options(seed=1).variant(TWEAK)
    with Server(tmp_path / "data", env=wall_clock.environment, argv_prefix=prefix) as server:
        yield server


def test_time_that_passes_ends_leases_and_a_clock_that_is_set_does_not(
    server: Server, wall_clock: WallClock
) -> None:
    with Faktory(server.port) as client:
        client.hello()
        client.push(job("held-job-1", queue="held", reserve_for=60))
        assert client.fetch("held") is not None

        wall_clock.set_wall(24 * HOUR_S)
        time.sleep(SETTLED_S)
        assert show(server, "held-job-1")["state"] == "leased"

        wall_clock.pass_time(59)
        assert show(server, "held-job-1")["state"] == "leased"
        wall_clock.pass_time(3)
        assert show(server, "held-job-1")["state"] == "waiting"


def test_the_servers_wall_clock_is_the_one_that_was_set(
    server: Server, wall_clock: WallClock
) -> None:
    wall_clock.set_wall(HOUR_S)
    time.sleep(SETTLED_S)
    with Faktory(server.port) as client:
        now: str = client.hello().info()["now"]
    assert now[:16] == time.strftime("%Y-%m-%dT%H:%M", time.gmtime(wall_clock.wall()))


def test_the_wall_clock_outlives_the_server(server: Server, wall_clock: WallClock) -> None:
    wall_clock.pass_time(HOUR_S)
    server.restart()
    assert ask(server, "server.status")["uptime_s"] < 60
    wall_clock.pass_time(HOUR_S)
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
    faktory = hostile.of("faktory")
    cases = faktory.shuffled_cases(1)
    assert len(cases) > 1_000
    assert cases == faktory.shuffled_cases(1)
    assert cases != faktory.shuffled_cases(2)
    outcomes = {case.outcome for case in cases}
    assert outcomes == {"closed", "refused", "answered", "either"}
    assert all(case.data.endswith(b"\n") for case in cases)
    assert all(case.data.count(b"\n") == 1 for case in cases if case.known)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_table_of_hostile_input_is_used(protocol: str) -> None:
    tables = hostile.of(protocol).tables
    text = Path(hostile.__file__).with_name(f"{protocol}.txt").read_text()
    used = {*re.findall(r"\{(?:any )?([A-Za-z ]+)\}", text), *hostile.HEAVY}
    used |= {"probe", "values", "silences", "endless", *hostile.OUTCOMES}
    used |= {name.partition(" + ")[2] for name in tables.names}
    for name in tables.names:
        kind = name.partition(" + ")[0].removeprefix("stranger ")
        assert kind in used or name.startswith("exchange "), name


@pytest.mark.parametrize("disguise", [str, str.upper, lambda word: word.encode().hex()])
def test_a_canary_is_found_in_a_thin_disguise(disguise: object) -> None:
    assert callable(disguise)
    canaries = Canaries(Random(1))
    text = f"... {disguise(canaries.words['args'])} ..."
    assert canaries.found(text, kept_out_only=True) == ["args"]
    assert canaries.found("nothing here", kept_out_only=False) == []


@pytest.mark.parametrize("name", [*BUGS, *TWEAKS])
def test_what_a_planted_bug_changes_is_there(name: str) -> None:
    for target in (BUGS | TWEAKS)[name]:
        resolve(target)


def test_every_proof_can_be_loaded_and_every_bug_is_caught_by_one_of_them() -> None:
    assert all(callable(import_module(proof.module).run) for proof in PROOFS.values())
    assert all(proof.mutants for proof in PROOFS.values() if proof.name != "history-selftest")
    # Those that lie outside this package fail when they are loaded if there is nothing to change.
    here = [proof for proof in PROOFS.values() if proof.module.startswith("tests.prove.")]
    assert Counter(mutant for proof in here for mutant in proof.mutants) == Counter(BUGS.keys())
