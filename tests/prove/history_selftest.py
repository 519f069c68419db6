"""T4: the checker knows every class of violation, and cries wolf at nothing legal."""

from __future__ import annotations

from tests.prove.harness import Options, Result
from tests.prove.history import CLASSES
from tests.prove.planted_histories import CLEAN, FAULTY, selftest


def run(options: Options) -> Result:
    complaints: list[str] = []
    classes, alarms = selftest(complaints.append)
    return Result(
        classes == len(CLASSES) and alarms == 0,
        complaints,
        classes=f"{classes}/{len(CLASSES)}",
        false_alarms=alarms,
        planted=len(FAULTY),
        clean=len(CLEAN),
    )
