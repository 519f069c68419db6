"""Gives room in the file that is no longer needed back to the disk, a few pages at a time.

A file that was made without `auto_vacuum` cannot do that; `franca compact` makes it one that can.
"""

from __future__ import annotations

import sqlite3

PAGE_BYTES = 4_096
STEP_PAGES, STEP_PAGES_MIN = 1_000, 16
SPARE_PAGES = 1_024
"""Unused pages that a file may always have."""
SPARE_PART = 4
"""And those of which it may have more: a quarter of its pages. Then half of them are given back:
a backlog that comes and goes shall find the room that it left."""


class Shrinker:
    """Looks at how many pages of the file are unused, and lets the last ones go.

    `shrinking` says that it has looked, and that some are to go.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.shrinking = False
        self._can_shrink = db.execute("PRAGMA auto_vacuum").fetchone() == (2,)

    def has_work(self, room: int) -> bool:
        """Whether the file has unused pages to spare, or enough to help a disk without room."""
        if not self._can_shrink:
            return False
        if not self.shrinking:
            unused, pages = self._pages()
            many = unused > SPARE_PAGES and unused > pages // SPARE_PART
            self.shrinking = many or unused * PAGE_BYTES > room // 4
        return self.shrinking

    def shrink(self, room: int) -> bool:
        """Let a few pages go; False if that was all. The file is cut when its log is moved."""
        # Pages that are moved pass through the log, each with one or two that lead to it.
        few = max(STEP_PAGES_MIN, min(STEP_PAGES, room // (4 * PAGE_BYTES)))
        # Stepped to its end: `execute` would stop after one page.
        self._db.executescript(f"PRAGMA incremental_vacuum({few})")
        unused, pages = self._pages()
        spare = max(SPARE_PAGES, pages // SPARE_PART) // 2
        self.shrinking = unused > spare or unused * PAGE_BYTES > room // 16
        return self.shrinking

    def _pages(self) -> tuple[int, int]:
        [unused] = self._db.execute("PRAGMA freelist_count").fetchone()
        [pages] = self._db.execute("PRAGMA page_count").fetchone()
        return unused, pages
