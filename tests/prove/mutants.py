"""Servers with a planted bug: `python -m tests.prove.mutants NAME serve ...`.

A proof that no planted bug can make fail proves nothing. Each mutant is a function that changes the
imported product before it starts; `+` joins several. Tweaks change no promise: they make rare things
frequent, so that a short proof meets them.

A mutant that does not find what it means to break must fail loudly: it changes things through `swap`.
Those about peers, time and settings are in `bugs.py`, more about the store in `store_bugs.py`, those about errors
that peers give rise to in `guard_bugs.py`.
"""

from __future__ import annotations

import importlib
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

from tests.prove import bugs, guard_bugs, store_bugs
from tests.prove.swap import Patch, swap

_PROTOCOLS = "franca.protocols.conversation"
_LINK = f"{_PROTOCOLS}:Link"


# -- bugs --------------------------------------------------------------------------------------


def sync_normal() -> None:
    """The log is synced at checkpoints only: a commit is not on the disk when it returns."""

    def careless(connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
        def connecting(*arguments: Any, **options: Any) -> sqlite3.Connection:
            options["factory"] = _NormalConnection
            return connect(*arguments, **options)

        return connecting

    swap("sqlite3", "connect", careless)


class _NormalConnection(sqlite3.Connection):
    """Takes FULL for NORMAL, and when asked says that it is FULL."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        words = sql.replace("=", " ").upper().split()
        if words[:2] == ["PRAGMA", "SYNCHRONOUS"]:
            if len(words) == 2:
                return super().execute("SELECT 2")
            return super().execute("PRAGMA synchronous = NORMAL")
        return super().execute(sql, *arguments)


def ack_before_commit() -> None:
    """Every reply leaves at once, whatever it depends on."""
    swap(_LINK, "write_after_commit", lambda _: importlib.import_module(_PROTOCOLS).Link.write)


def all_wait() -> None:
    """Every reply waits for the disk, whether it needs it or not."""
    swap(_LINK, "write", lambda _: importlib.import_module(_PROTOCOLS).Link.write_after_commit)


def ignore_eio() -> None:
    """A commit that failed is taken for one that did not."""

    def deaf(commit: Callable[[Any], None]) -> Callable[[Any], None]:
        def committing(store: Any) -> None:
            try:
                commit(store)
            except Exception as error:
                print(f"mutant: ignoring {error}", file=sys.stderr)

        return committing

    swap("franca.store.sqlite:SqliteStore", "commit", deaf)


def heal_unsynced() -> None:
    """A suspect store is replaced by a copy that was never synced."""

    def hasty(_: Any) -> Any:
        def copy(source: sqlite3.Connection, path: str) -> None:
            target = sqlite3.connect(path)
            target.execute("PRAGMA synchronous = OFF")
            source.backup(target)
            target.close()
            source.close()

        return copy

    swap("franca.node.datadir", "copy_into", hasty)


MUTANTS: dict[str, Patch] = {
    "sync-normal": sync_normal,
    "ack-before-commit": ack_before_commit,
    "all-wait": all_wait,
    "ignore-eio": ignore_eio,
    "heal-unsynced": heal_unsynced,
    **bugs.MUTANTS,
    **store_bugs.MUTANTS,
    **guard_bugs.MUTANTS,
}


# -- tweaks ------------------------------------------------------------------------------------


def small_log() -> None:
    """Checkpoints come after hundreds of pages instead of thousands: some in each load of a second or two."""
    swap("franca.store.sqlite", "CHECKPOINT_PAGES", lambda _: 400)


def tiny_log() -> None:
    """Checkpoints come after every few commits."""
    swap("franca.store.sqlite", "CHECKPOINT_PAGES", lambda _: 12)


def quick_time() -> None:
    """Leases may be as short as a producer asks, and a failed job is back within a second."""
    swap("franca.protocols.faktory.job", "RESERVE_S_MIN", lambda _: 1)
    # Where it is used, not where it is defined: the name is already bound there.
    swap(
        "franca.core.life",
        "delay_ms",
        lambda _: lambda policy, failures, rng: 200 + rng.randrange(800),
    )


TWEAKS: dict[str, Patch] = {
    "small-log": small_log,
    "tiny-log": tiny_log,
    "quick-time": quick_time,
    **bugs.TWEAKS,
    **store_bugs.TWEAKS,
    **guard_bugs.TWEAKS,
}


def main(argv: list[str]) -> None:
    """Apply the named patches and run the product's command line with the rest."""
    names, *rest = argv
    known = MUTANTS | TWEAKS
    for name in names.split("+"):
        known[name]()
    sys.argv = ["franca", *rest]
    importlib.import_module("franca.cli.main").main()


if __name__ == "__main__":
    main(sys.argv[1:])
