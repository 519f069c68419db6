"""Faktory: lines of a word and JSON."""

from __future__ import annotations

from tests.prove.fuzzing import Seeds, exchanges
from tests.prove.tables import tables
from tests.support.faktory import said

_TABLES = tables(__file__)
SEEDS = Seeds(
    exchanges(_TABLES, lambda *words: words),
    _TABLES["values"],
    lambda parts: b" ".join(parts) + b"\r\n",
    said,
)
