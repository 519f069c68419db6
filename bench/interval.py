"""A robust interval of how many times larger one figure of a pair is than the other.

The ratio is the median of the means of every two pairs' log-ratios (Hodges and Lehmann), its
interval the one that Wilcoxon's signed-rank test would not reject. Nothing is asked of how noise is
distributed but that swapping a pair would not change it. A run during which somebody else had the
machine moves an end by a rank; an interval by Student's t would become twice as wide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio and between what it lies, with the probability that was asked for."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def includes(self, value: float) -> bool:
        """Whether the interval does."""
        return self.low <= value <= self.high


def ratio_of(ratios: Sequence[float], probability: float = 0.95) -> Ratio:
    """What the ratios of several pairs come to."""
    logs = list(map(math.log, ratios))
    means = sorted((logs[i] + logs[j]) / 2 for i in range(len(logs)) for j in range(i + 1))
    cut = _cut_off(len(logs), probability)
    low, high = means[cut], means[-1 - cut]
    return Ratio(math.exp(median(means)), math.exp(low), math.exp(high))


def pairs_needed(probability: float) -> int:
    """The fewest pairs of which an interval of this probability can be had."""
    return math.ceil(1 - math.log2(1 - probability))


def _cut_off(pairs: int, probability: float) -> int:
    """How many of the means lie outside at each end."""
    if pairs < pairs_needed(probability):
        raise ValueError(f"{pairs} pairs are too few for an interval of {probability:.1%}")
    # Of all ways to give ranks 1 to n a sign, how many have each sum of positive ranks.
    ways = [1]
    for rank in range(1, pairs + 1):
        longer = ways + [0] * rank
        ways = [n + m for n, m in zip(longer, [0] * rank + ways, strict=True)]
    most = (1 - probability) / 2 * 2**pairs
    return len([total for total in accumulate(ways) if total <= most]) - 1
