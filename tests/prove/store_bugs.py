"""Planted bugs in the store and in what surrounds it, and the tweak that kills a server at a point.

The contract is that of `mutants.py`, whose tables take these in.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.prove.swap import Patch, swap

KILL_VARIABLE = "PROVE_KILL"
EMPTY_TOTALS = 2537878664
"""The checksum of the totals of a new store, as its SQL has it."""
KILLED = 137
"""The exit code of a server that died at its point, as of one that was killed."""

_STORE = "franca.store.sqlite:SqliteStore"

Function = Callable[..., Any]


# -- bugs --------------------------------------------------------------------------------------


def skip_commit() -> None:
    """Every other group is only committed together with the next one."""

    def lazy(commit: Function) -> Function:
        def committing(store: Any) -> None:
            store.skipped = not getattr(store, "skipped", False)
            if not store.skipped:
                commit(store)

        return committing

    def going_on(execute: Function) -> Function:
        def executing(store: Any) -> None:
            if not store._db.in_transaction:
                execute(store)
                return
            for statement, rows in store._group:
                store._db.executemany(statement, rows)

        return executing

    swap(_STORE, "_commit", lazy)
    swap(_STORE, "_execute", going_on)


def no_crc() -> None:
    """Every checksum of ours is right."""
    swap("franca.store.rows", "crc32", lambda _: lambda data, start=0: EMPTY_TOTALS)


def no_log_check() -> None:
    """A log is taken as far as SQLite can read it."""
    swap("franca.store.sqlite", "check_log", lambda _: lambda path: None)


def no_ballast() -> None:
    """Nothing is held back that could be given up when the disk is full."""
    swap("franca.node.datadir:DataDir", "take_ballast", lambda _: lambda self, size: None)


def loose_modes() -> None:
    """Files are made as readable as everybody else's."""

    def loose(real: Function) -> Function:
        return lambda mask: real(0o022)

    swap("os", "umask", loose)
    swap("os", "chmod", lambda _: lambda *_, **__: None)
    os.umask(0o022)


MUTANTS: dict[str, Patch] = {
    "skip-commit": skip_commit,
    "no-crc": no_crc,
    "no-log-check": no_log_check,
    "no-ballast": no_ballast,
    "loose-modes": loose_modes,
}


# -- tweaks ------------------------------------------------------------------------------------


def kill_point() -> None:
    """The process ends, as if killed, when it comes to the point that its environment names.

    `before-commit:7` is the seventh time that the store is about to commit. `before-reply` and
    `after-reply` are about bytes that leave for a peer.
    """
    point, _, count = os.environ[KILL_VARIABLE].partition(":")
    left = int(count)

    def step(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0:
                os._exit(KILLED)

    def noticed(send: Function) -> Function:
        def sending(connection: Any, data: bytes) -> None:
            step("before-reply")
            send(connection, data)
            step("after-reply")

        return sending

    swap("franca.node.run", "SqliteStore", lambda made: partial(made, step=step))
    swap("franca.node.connection:Connection", "send", noticed)


TWEAKS: dict[str, Patch] = {"kill-point": kill_point}
