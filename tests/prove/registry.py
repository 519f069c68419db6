"""Every proof there is. A new one is a module and a row of `registry.txt`, which says what is in a row."""

import importlib
from pathlib import Path
from typing import NamedTuple

from tests.prove.harness import Options, Result


class Proof(NamedTuple):
    """One row."""

    name: str
    label: str
    timed: bool
    module: str
    mutants: tuple[str, ...]

    def run(self, options: Options) -> Result:
        result: Result = importlib.import_module(self.module).run(options)
        return result


def _proof(row: str) -> Proof:
    name, label, *words = row.split()
    label = label.strip("-")
    timed = words[:1] == ["timed"]
    if words[:1] == ["in"]:
        folder = words[1]
        bugs = importlib.import_module(f"{folder}.mutants").MUTANTS
        return Proof(name, label, timed, f"{folder}.proof", tuple(bugs))
    return Proof(name, label, timed, f"tests.prove.{name.replace('-', '_')}", tuple(words[timed:]))


_ROWS = Path(__file__).with_suffix(".txt").read_text().splitlines()
PROOFS = {row.split()[0]: _proof(row) for row in _ROWS if row and not row.startswith("#")}
