"""`python -m tests.cases.moved_clock ARGS...`: the server under test, its clocks set from outside (`tests/prove/wall_clock.py`)."""

from tests.prove import wall_clock
from tests.prove.mutants import TWEAKS, plant

if __name__ == "__main__":
    from franca.cli.main import main

    plant(TWEAKS[wall_clock.TWEAK])
    main()
