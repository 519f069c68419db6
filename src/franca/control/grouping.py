"""When two errors are the same: the same kind, and the same text but for what differs each time.

Numbers, hexadecimal digits and quoted parts are left out of the text.
"""

from __future__ import annotations

import re
import zlib

from franca.core.model import Attempt, Job, Outcome

TEXT_CHARS = 300
"""What is looked at of an error's text."""
LEFT_OUT = "…"

_DIFFERS = re.compile(
    r'"[^"]*"'
    r"|(?<!\w)'[^']*'"
    r"|`[^`]*`"
    r"|\b0[xX][0-9a-fA-F]+"
    r"|\b(?=[0-9a-fA-F-]*[0-9])[0-9a-fA-F]{6,}(?:-[0-9a-fA-F]+)*\b"
    r"|[0-9]+(?:[.:,][0-9]+)*"
)
"""Each part ends where it began or at its next character, so that nothing is looked at often."""
TROUBLES = (Outcome.FAILED, Outcome.EXPIRED, Outcome.LOST)


def last_trouble(job: Job) -> Attempt | None:
    """The last run of a job that failed or was lost, if any of those that are remembered."""
    for attempt in reversed(job.attempt_log or ()):
        if attempt.outcome in TROUBLES:
            return attempt
    return None


def common_text(text: str) -> str:
    """An error's first line without what differs each time."""
    line = text[:TEXT_CHARS].partition("\n")[0]
    return " ".join(_DIFFERS.sub(LEFT_OUT, line).split())


def class_id(kind: str, text: str) -> str:
    """What an error class is called: the same after a restart, and on every server."""
    name = f"{kind}\0{common_text(text)}".encode(errors="surrogatepass")
    return f"{zlib.crc32(name):08x}{zlib.adler32(name) & 0xFFFF:04x}"


def class_of(job: Job) -> str | None:
    """The error class that a job belongs to; None if it never failed."""
    trouble = last_trouble(job)
    return None if trouble is None else class_id(trouble.error_kind, trouble.error_text)
