"""The clock: spans that nobody can shorten by setting the machine's clock, and a slow drift to it."""

import time
from random import Random

import pytest

from franca.node.clock import SystemClock

HOUR = 3_600_000
TICK = 50


class Machine:
    """The machine's two clocks, in milliseconds; `set` is somebody who sets the wall's."""

    def __init__(self) -> None:
        self.monotonic = 5_000
        self.wall = 1_700_000_000_000

    def passes(self, span: int) -> None:
        self.monotonic += span
        self.wall += span

    def set(self, by: int) -> None:
        self.wall += by


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(time, "monotonic_ns", lambda: machine.monotonic * 1_000_000 + 999_999)
    monkeypatch.setattr(time, "time_ns", lambda: machine.wall * 1_000_000 + 999_999)
    return machine


def test_it_begins_with_the_wall_and_counts_with_it(machine: Machine) -> None:
    clock = SystemClock()
    assert clock.now() == machine.wall
    machine.passes(1_234)
    assert clock.now() == machine.wall
    assert clock.wall_ahead_ms() == 0


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 24 * HOUR, 1, -1])
def test_setting_the_wall_changes_nothing_at_once(machine: Machine, jump: int) -> None:
    clock = SystemClock()
    machine.passes(3)
    before = clock.now()
    machine.set(jump)
    assert clock.now() == before
    assert clock.wall_ahead_ms() == jump
    assert clock.now() == before


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 700, -700])
def test_it_drifts_by_a_tenth_of_the_time_that_passes(machine: Machine, jump: int) -> None:
    clock = SystemClock()
    machine.set(jump)
    began = clock.now()
    for _ in range(100):
        machine.passes(TICK)
        clock.wall_ahead_ms()
    passed = 100 * TICK
    assert abs(clock.now() - began - passed) <= passed // 10
    assert abs(machine.wall - clock.now()) == max(0, abs(jump) - passed // 10)


@pytest.mark.parametrize("jump", [40_000, -40_000])
def test_it_reaches_the_wall_and_stays_with_it(machine: Machine, jump: int) -> None:
    clock = SystemClock()
    machine.set(jump)
    for _ in range(10_000):
        machine.passes(TICK)
        clock.wall_ahead_ms()
    assert clock.wall_ahead_ms() == 0
    assert clock.now() == machine.wall


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_process_that_was_stopped_takes_no_great_step(machine: Machine, jump: int) -> None:
    clock = SystemClock()
    machine.set(jump)
    machine.passes(10 * HOUR)
    before = clock.now()
    clock.wall_ahead_ms()
    machine.passes(200)
    assert 100 <= clock.now() - before <= 300


@pytest.mark.parametrize("seed", range(20))
def test_it_never_goes_back_nor_thinks_the_wall_later(machine: Machine, seed: int) -> None:
    rng = Random(seed)
    clock = SystemClock()
    last = clock.now()
    ahead = clock.wall_ahead_ms()
    for _ in range(2_000):
        machine.passes(rng.choice((0, 0, 1, 7, TICK, 500)))
        if rng.random() < 0.01:
            machine.set(rng.choice((HOUR, -HOUR, 300, -300, -5)))
            ahead = clock.wall_ahead_ms()
        if rng.random() < 0.3:
            ahead = clock.wall_ahead_ms()
        now = clock.now()
        assert now >= last
        assert now + ahead <= machine.wall
        last = now
