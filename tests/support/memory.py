"""How much memory something takes."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


class Memory:
    """Bytes that Python's allocator gave out: what is held at the end, and the most at any time."""

    held = 0
    peak = 0


@contextmanager
def traced() -> Iterator[Memory]:
    """What is taken in this scope; it is known when the scope is left."""
    memory = Memory()
    tracemalloc.start()
    try:
        yield memory
        memory.held, memory.peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
