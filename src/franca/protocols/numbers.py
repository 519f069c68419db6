"""Protocols by the numbers under which jobs remember whose worker ran them (`Job.by`)."""

from __future__ import annotations

from typing import Final

NOBODY: Final = 0
FAKTORY: Final = 1
GEARMAN: Final = 2
PERIODIC: Final = 3
MEMODB: Final = 4
EVENTMQ: Final = 5
BEANSTALKD: Final = 6
REST: Final = 7

NAMES: Final = ("", "faktory", "gearman", "periodic", "memodb", "eventmq", "beanstalkd", "rest")
"""These numbers are on the disks of others: none ever changes, and a new one goes to the end."""


def name_of(number: int) -> str:
    """The name of a protocol; empty for that of nobody, and for one that is not known here."""
    return NAMES[number] if 0 <= number < len(NAMES) else ""
