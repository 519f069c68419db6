"""`python -m tests.cases.moved_clock ARGS...`: the server under test, its clocks set from outside (`tests/prove/hands.py`)."""

from __future__ import annotations

from tests.prove.hands import follow_hands

if __name__ == "__main__":
    from franca.cli.main import main

    follow_hands()
    main()
