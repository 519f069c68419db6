"""What a proof is told on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.server import PRODUCT


@dataclass(slots=True)
class Options:
    """One run of one proof. `extra` holds every `--name value` that is not listed here."""

    seed: int
    mutant: str | None = None
    short: bool = False
    keep: Path | None = None  # where to leave the evidence of a failure
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def argv_prefix(self) -> tuple[str, ...]:
        """How to start the server: as it is, or with the planted bug."""
        return self.variant()

    def variant(self, *tweaks: str) -> tuple[str, ...]:
        """The same, with harmless changes that make what is to be proved happen more often."""
        names = [*tweaks, *([self.mutant] if self.mutant else [])]
        return ("-m", "tests.prove.mutants", "+".join(names)) if names else PRODUCT

    def number(self, name: str, full: int, *, short: int | None = None) -> int:
        """`--name N`, else the figure for a full or a short run."""
        if name in self.extra:
            return int(self.extra[name])
        return short if self.short and short is not None else full

    def text(self, name: str, default: str) -> str:
        return self.extra.get(name, default)
