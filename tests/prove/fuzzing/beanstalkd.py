"""beanstalkd: lines of words, and bodies behind `put`."""

from __future__ import annotations

from tests.prove.fuzzing import Seeds, exchanges
from tests.prove.tables import tables
from tests.support.beanstalkd import said

_TABLES = tables(__file__)
SEEDS = Seeds(
    exchanges(_TABLES, lambda *words: words),
    _TABLES["values"],
    lambda words: b" ".join(words) + b"\r\n",
    said,
)
