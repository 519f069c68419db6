"""Schema versions: numbered SQL files, forward only, each in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib import resources

from franca.store.port import StoreDamaged
from franca.store.renaming import rename_all

NAMES_VERSION = 2
"""The version from which on all names are written by one rule."""


def migrate(connection: sqlite3.Connection, step: Callable[[str], None]) -> None:
    """Bring the schema to this server's version. A newer one is refused, not guessed at.

    `step` is told before each file is made permanent; tests stop the server there.
    """
    files = migrations()
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(files):
        raise StoreDamaged(
            f"the store has schema version {version}, this server knows up to {len(files)}: "
            "it was written by a newer release"
        )
    # An index of millions of jobs is sorted on the disk, not in memory.
    connection.execute("PRAGMA temp_store = FILE")
    for number, text in enumerate(files[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        for statement in _statements(text):
            connection.execute(statement)
        if number == NAMES_VERSION:
            rename_all(connection)
        connection.execute(f"PRAGMA user_version = {number}")
        step("migrate")
        connection.execute("COMMIT")
    connection.execute("PRAGMA temp_store = MEMORY")


def migrations() -> list[str]:
    """The SQL of every version, in order."""
    folder = resources.files("franca.store") / "sql" / "sqlite"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def _statements(text: str) -> list[str]:
    """Single statements: `executescript` would commit in the middle."""
    statements: list[str] = []
    current = ""
    for line in text.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
