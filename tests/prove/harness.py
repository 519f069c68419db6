"""What a proof is given, and what it returns."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.prove import shim
from tests.prove.events import Event, dump
from tests.support.scoped import Scoped
from tests.support.server import PRODUCT, ROOT, Server


@dataclass(slots=True)
class Options:
    """One run of one proof. `extra` holds every `--name value` that is not listed here."""

    seed: int
    mutant: str | None = None
    short: bool = False
    keep: Path | None = None  # where to leave the evidence of a failure
    extra: Mapping[str, str] = field(default_factory=dict)
    home: Path = Path()  # a scratch directory, removed after the run

    @property
    def rng(self) -> Random:
        """A new source of chance, the same each time."""
        return Random(self.seed)

    def variant(self, *tweaks: str) -> tuple[str, ...]:
        """How to start the server: as it is, with the planted bug, with harmless changes that make
        what is to be proved happen more often."""
        names = [*tweaks, *([self.mutant] if self.mutant else [])]
        return ("-m", "tests.prove.mutants", "+".join(names)) if names else PRODUCT

    def number(self, name: str, full: int, *, short: int | None = None) -> int:
        """`--name N`, else the figure for a full or a short run."""
        if name in self.extra:
            return int(self.extra[name])
        return short if self.short and short is not None else full

    def server(self, data: str | Path = "data", *tweaks: str, **settings: Any) -> Server:
        """A server, not yet started, on this directory of the scratch directory."""
        return Server(self.home / data, argv_prefix=self.variant(*tweaks), **settings)

    def disk(self, data: str | Path = "data", **faults: object) -> dict[str, str]:
        """Variables for a server whose disk below this directory is recorded, is slow or fails."""
        directory = self.home / data
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return shim.preloaded(shim.build(self.home / "shim"), directory, **faults)

    def keep_history(self, events: Iterable[Event]) -> None:
        if self.keep is not None:
            dump(events, self.keep)


class Result(NamedTuple):
    """Whether the promise held, the figures of the summary line, and lines to be shown below it.

    What `missing` says could not be looked at here: the rest held, which is not a proof.
    """

    held: bool
    figures: str
    details: Sequence[str] = ()
    missing: str = ""


class Tally(Counter[str]):
    """Figures, in the order in which they are named, and examples of what was wrong."""

    def __init__(self, *names: str) -> None:
        super().__init__(dict.fromkeys(names, 0))
        self.examples: list[str] = []

    def note(self, name: str, example: str) -> None:
        self[name] += 1
        self.examples.append(example)

    def __str__(self) -> str:
        return " ".join(f"{name}={count}" for name, count in self.items())


def limits(**values: object) -> dict[str, str]:
    """Variables that set these limits of a server."""
    return {f"FRANCA_LIMITS__{name.upper()}": str(value) for name, value in values.items()}


def until(done: Callable[[], object], seconds: float, every_s: float = 0.05) -> bool:
    """Wait for something to be so; False if it was not in time."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


@contextmanager
def running(*acts: Callable[[threading.Event], object]) -> Iterator[None]:
    """Each in a thread of its own meanwhile; then they are told to stop, and awaited."""
    stop = threading.Event()
    threads = [threading.Thread(target=act, args=(stop,), daemon=True) for act in acts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


class SideProcess(Scoped):
    """A module of ours in a process of its own, which answers each line with a line."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, line: str = "") -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
