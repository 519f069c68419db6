"""The command that a worker of the `gearman` tool runs: workload in, result out, tales on fd 3."""

import os
import sys

from tests.real.gearman.programs.peer import Failed, perform

if __name__ == "__main__":
    function, does = sys.argv[1:]
    workload = sys.stdin.buffer.read()
    out = os.dup(1)
    os.dup2(3, 1)  # what is said goes where the test listens, not into the result
    try:
        result = perform(does, function, workload, lambda *part: None)
    except Failed:
        sys.exit(1)
    with open(out, "wb") as file:
        file.write(result)
