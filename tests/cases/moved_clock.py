"""`python -m tests.cases.moved_clock ARGS...`: the server under test, its clocks set from outside (`tests/prove/wall_clock.py`)."""

from __future__ import annotations

from tests.prove.wall_clock import follow_clock

if __name__ == "__main__":
    from franca.cli.main import main

    follow_clock()
    main()
