"""What the process asks of the system that it runs on: descriptors, and how memory is kept."""

from __future__ import annotations

import ctypes
import os
import resource
import sys

from msgspec.structs import replace

from franca.core.limits import Limits

FILES_OF_OUR_OWN = 64
LARGE_BUFFER_BYTES = 1024 * 1024
KEPT_BYTES = 64 * 1024 * 1024
NO_LIMIT = 1 << 60
SWITCH_S = 0.0005
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def prefer_the_loop() -> None:
    """Bound how long a thread that computes, such as a search, keeps the event loop waiting.

    The loop waits for it after each call in which it lets others run, a sync of the disk among
    them. Python's own bound is 5 ms.
    """
    sys.setswitchinterval(SWITCH_S)


def keep_large_buffers() -> None:
    """Let the C library keep the memory of bodies for the next ones, but not of the largest.

    What it gives back to the kernel costs a fault for every page of the next one. But buffers that
    grow, one beside the other, leave holes behind where they were: of the largest, several times
    what is in use. Other C libraries are left as they are.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def open_standard_files() -> None:
    """Open the null device in place of each of 0, 1 and 2 that is closed.

    Else the next file that is opened takes its number: the log would be written into the store, and
    the event loop ends the process when it meets a descriptor of its own there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python has none for those that were closed when it began.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def within_file_limit(limits: Limits) -> Limits:
    """No more connections than there are file descriptors, less a few for files of our own."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(soft - FILES_OF_OUR_OWN, 1)
    return replace(limits, connections_max=min(limits.connections_max, most))


def raise_file_limit() -> None:
    """Allow as many open files as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            pass


def without_backlogs(limits: Limits) -> Limits:
    """A store in memory has nowhere to put a backlog that would not be memory too."""
    unbounded = ("window_jobs", "window_bytes", "held_jobs", "waiting_bytes", "large_bytes")
    return replace(limits, **dict.fromkeys(unbounded, NO_LIMIT))
