"""A server that writes down every statement that it gives to SQLite: `python -m tests.store.recording serve ...`.

Each is written once, as one line of JSON with the name of the thread, to the file that `RECORDING` names. Of
what happens before the server listens nothing is written.
"""

import json
import os
import sqlite3
import sys
from typing import Any

VARIABLE = "RECORDING"

_seen: set[str] = set()


def note(sql: str) -> None:
    if sql not in _seen:
        _seen.add(sql)
        with open(os.environ[VARIABLE], "a") as file:
            file.write(json.dumps(sql) + "\n")


class Recorded(sqlite3.Connection):
    """Every way in which a statement is given to a connection."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        note(sql)
        return super().execute(sql, *values)

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        note(sql)
        return super().executemany(sql, *values)

    def executescript(self, sql: str) -> sqlite3.Cursor:
        note(sql)
        return super().executescript(sql)

    def cursor(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a cursor of its own would not be written down")


def main() -> None:
    connect = sqlite3.connect
    sqlite3.connect = lambda *a, **o: connect(*a, **o, factory=Recorded)  # type: ignore[assignment]
    from franca.cli.main import main as product
    from franca.node.run import Server
    from franca.store import group, sweep

    group.FLUSHED_ROWS = 1  # so that tables are put aside
    sweep.SWEPT_ROWS = 10  # and emptied a little at a time
    catch = Server._catch_signals

    def ready(server: Server) -> None:
        os.truncate(os.environ[VARIABLE], 0)
        _seen.clear()
        catch(server)

    Server._catch_signals = ready  # type: ignore
    sys.argv[0] = "franca"
    product()


if __name__ == "__main__":
    main()
