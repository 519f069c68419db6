"""Figures that must keep to a limit: a line for each, and the commands that print them.

A command has scenes, each of which yields its findings one by one.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.command import describe_machine
from bench.servers import scratch


@dataclass(frozen=True, slots=True)
class Finding:
    """What was measured in a scene, and what it must be: at most `limit`, or at least."""

    name: str
    figure: str
    value: float
    limit: float
    at_least: bool = False
    more: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the figure keeps to its limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        word = "ok" if self.is_met else "MISSED"
        line = f"{self.name} {self.figure}={self.value:.1f} limit={self.limit:g} {word}"
        return f"{line} {self.more}".rstrip()


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a scene plays, and how large it is beside what is asked for."""

    directory: Path
    scale: float

    def sized(self, count: int) -> int:
        """So many, on this scale."""
        return max(int(count * self.scale), 1)


Scene = Callable[[Setup], Iterator[Finding]]


def play(word: str, description: str | None, scenes: Mapping[str, Scene], args: list[str]) -> int:
    """Play the scenes that are asked for; the exit code tells of missed limits if asked to."""
    options = _command_line(word, description, scenes).parse_args(args)
    missed = 0
    with scratch(options.dir) as directory:
        print(describe_machine(directory))
        if options.scale != 1:
            print(f"scale {options.scale:g}: these figures only show that the command works")
        for name in options.only:
            began = time.monotonic()
            with scratch(directory) as path:
                for finding in guarded(name, scenes[name](Setup(path, options.scale))):
                    missed += not finding.is_met
                    print(finding, flush=True)
            print(f"... {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{word}: missed={missed}")
    return int(options.check and missed > 0)


def guarded(name: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """The same findings; what breaks off has not shown its limits, which is one more."""
    try:
        yield from findings
    except Exception as error:
        yield Finding(name, "failed", 1, 0, more=f"{type(error).__name__}: {error}")


def _command_line(
    word: str, description: str | None, scenes: Mapping[str, Scene]
) -> argparse.ArgumentParser:
    def chosen(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(scenes):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(scenes)}")
        return names

    parser = argparse.ArgumentParser(prog=f"python -m bench {word}", description=description)
    parser.add_argument("--only", type=chosen, default=list(scenes), metavar="NAME,NAME")
    parser.add_argument("--scale", type=float, default=1.0, help="0.01: a hundredth of the jobs")
    parser.add_argument("--dir", type=Path, help="where the data goes")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a limit is missed")
    return parser
