"""The preloaded library times the passes of an event loop that does not know of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.build import CannotBuild
from bench.passes import Passes

PROGRAM = """
import asyncio, sys, time, uvloop

def compute():
    end = time.thread_time() + 0.06
    while time.thread_time() < end:
        pass

async def main():
    await asyncio.sleep(0.01)
    {act}
    await asyncio.sleep(0.01)

asyncio.Runner(loop_factory={loop}).run(main())
"""


@pytest.mark.parametrize("loop", ["uvloop.new_event_loop", "asyncio.new_event_loop"])
def test_time_on_the_processor_and_waits_are_told_apart(tmp_path: Path, loop: str) -> None:
    try:
        passes = Passes(tmp_path / "passes")
    except CannotBuild as missing:
        pytest.skip(str(missing))
    with passes:
        for act, least_cpu_ms, most_cpu_ms in (("compute()", 60, 100), ("time.sleep(0.06)", 0, 50)):
            passes.reset()
            program = PROGRAM.format(act=act, loop=loop)
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, **passes.environment},
                check=True,
            )
            assert passes.count >= 2
            assert passes.wall_max_ms >= 60
            assert least_cpu_ms <= passes.cpu_max_ms < most_cpu_ms
