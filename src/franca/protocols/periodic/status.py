"""STATUS: every function in a line of text, counted from the same source as any other tool's."""

from __future__ import annotations

from typing import Final

from franca.core.names import raw_of
from franca.protocols.periodic.speech import FuncStatus

# What would end a line or a column inside a name is written so that it cannot: one function with
# an odd name must not break the listing of all others.
_ODD: Final = ((b"%", b"%25"), (b",", b"%2C"), (b"\n", b"%0A"), (b"\r", b"%0D"))


def columns(status: FuncStatus, count: int) -> bytes:
    """The first `count` of: name, workers, jobs, running, locked, and the earliest time.

    With five, the time stands in the fifth: locks were not known yet.
    """
    if count == 6 and not (status.jobs or status.workers):
        # There may be very many of these.
        return b"%b,0,0,0,0,%d" % (_written(status.func), status.sched_at)
    numbers = [status.workers, status.jobs, status.running, status.locked, status.sched_at]
    if count == 5:
        del numbers[3]
    return b",".join([_written(status.func), *(b"%d" % n for n in numbers[: count - 1])])


def _written(func: str) -> bytes:
    name = raw_of(func)
    if b"," in name or b"\n" in name or b"\r" in name:
        for odd, written in _ODD:
            name = name.replace(odd, written)
    return name
