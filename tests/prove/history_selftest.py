"""T4: the checker knows every class of violation, and cries wolf at nothing legal."""

from __future__ import annotations

from tests.prove.history import CLASSES
from tests.prove.options import Options
from tests.prove.planted import CLEAN, CLEAN_LONG, PLANTED, PLANTED_LONG, selftest

NAME = "history-selftest"
MUTANTS: tuple[str, ...] = ()


def run(options: Options) -> bool:
    complaints: list[str] = []
    classes, alarms = selftest(complaints.append)
    print(
        f"T4 {NAME}: classes={classes}/{len(CLASSES)} false_alarms={alarms}"
        f" planted={len(PLANTED + PLANTED_LONG)} clean={len(CLEAN + CLEAN_LONG)}"
    )
    for complaint in complaints:
        print(f"  {complaint}")
    return classes == len(CLASSES) and alarms == 0
