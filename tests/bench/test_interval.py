"""The interval of a ratio: against published tables, against chance, and against a disturbed run."""

import math
from random import Random

import pytest

from bench.interval import pairs_needed, ratio_of


def _ratios(logs: list[float]) -> list[float]:
    return list(map(math.exp, logs))


# Critical values of the signed-rank test, two-sided, as in every table of it: W is rejected up to these.
@pytest.mark.parametrize(
    ("count", "probability", "rejected"),
    [(6, 0.95, 0), (12, 0.95, 13), (12, 0.99, 7), (20, 0.95, 52), (30, 0.99, 109)],
)
def test_the_ends_are_the_means_that_the_table_says(
    count: int, probability: float, rejected: int
) -> None:
    logs = [2.0**-number for number in range(count)]
    means = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[: i + 1])

    ratio = ratio_of(_ratios(logs), probability)

    assert math.log(ratio.low) == pytest.approx(means[rejected])
    assert math.log(ratio.high) == pytest.approx(means[-1 - rejected])


def test_equal_pairs_are_one_and_a_constant_factor_is_itself() -> None:
    assert str(ratio_of([1.0] * 12)) == "1.000 [1.000, 1.000]"
    assert ratio_of([1.1] * 12).value == pytest.approx(1.1)


def test_the_truth_is_inside_as_often_as_is_said() -> None:
    chance = Random(5)
    inside = 0
    for _ in range(1_000):
        # Noise with heavy tails, as that of a machine that others use too.
        logs = [chance.gauss(0.05, 0.02 * chance.choice((1, 1, 1, 5))) for _ in range(12)]
        inside += ratio_of(_ratios(logs)).includes(math.exp(0.05))
    assert 945 <= inside <= 975


def test_one_disturbed_pair_moves_little() -> None:
    quiet = ratio_of(_ratios([0.01 * number for number in range(-6, 6)]))
    disturbed = ratio_of(_ratios([0.01 * number for number in range(-6, 5)] + [3.0]))
    assert disturbed.value == pytest.approx(quiet.value, abs=0.02)
    assert disturbed.high < 1.1


def test_too_few_pairs_are_refused() -> None:
    assert [pairs_needed(p) for p in (0.95, 0.99, 0.995)] == [6, 8, 9]
    with pytest.raises(ValueError, match="too few"):
        ratio_of([1.0] * 5)
