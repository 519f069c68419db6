"""A Gearman job as the core sees it: its priority, its id, when two are one, how far it is."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from franca.core.model import Job, JobId, Progress
from franca.core.names import raw_of, text_of
from franca.protocols.gearman.wire import number_text

ORIGIN: Final = "gearman"
HIGH: Final = -1
NORMAL: Final = 0
LOW: Final = 1

BOOT_DIGITS: Final = 12
"""Those of a handle that all handles of one run of the server have in common."""
BY_UNIQUE: Final = "u:"
_BY_WORKLOAD: Final = "w:"
_BY_NAME: Final = "n:"
_DIGEST_BYTES: Final = 16
_ID_DIGITS: Final = 18
_FOREIGN_NAME_BYTES: Final = 63
"""What libgearman keeps of a unique id."""
_BY_ITS_WORKLOAD: Final = b"-"


def id_in(handle: bytes) -> JobId:
    """The id of the job that was given this handle, or 0: it is the number at its end.

    The store finds every job by its id, and only some by their names.
    Handles of earlier versions have the id alone behind the last colon.
    """
    begin, _, number = handle.rpartition(b":")
    job_id = number[BOOT_DIGITS:] or number
    if begin[:2] == b"H:" and number.isdigit() and len(job_id) <= _ID_DIGITS:
        return int(job_id)
    return 0


def key_of(unique: bytes, workload: bytes, name: str) -> str:
    """The key that makes a job the same as another of its function; empty if it never is.

    `-` stands for the workload; without one the job is the same as no other, and its `name` is the
    key.
    """
    if not unique:
        return ""
    if unique == _BY_ITS_WORKLOAD:
        if not workload:
            return _BY_NAME + name
        return _BY_WORKLOAD + blake2b(workload, digest_size=_DIGEST_BYTES).hexdigest()
    return BY_UNIQUE + (unique.decode("ascii") if unique.isascii() else text_of(unique))


def unique_of(job: Job) -> bytes:
    """The unique id that a job was submitted with; a job of another protocol goes by its name."""
    key = job.key
    if job.origin != ORIGIN:
        whole = job.name.encode()[:_FOREIGN_NAME_BYTES].decode("utf-8", "ignore")
        return whole.replace("\0", " ").encode()
    if key.startswith(BY_UNIQUE):
        return raw_of(key[len(BY_UNIQUE) :])
    return _BY_ITS_WORKLOAD if key else b""


# -- how far a job is --------------------------------------------------------------------------


def progress_in(data: bytes) -> Progress:
    """What the two numbers of a WORK_STATUS say."""
    numerator, _, denominator = data.partition(b"\0")
    return Progress(_number_of(numerator), _number_of(denominator), said=data)


def _number_of(text: bytes) -> int | float:
    number = number_text(text)
    return float(number) if b"." in number else int(number)


def said_of(progress: Progress) -> bytes:
    """The numbers of a WORK_STATUS: as they were sent, if that was by a worker of Gearman."""
    if b"\0" in progress.said:
        return progress.said
    return b"%b\0%b" % (_text_of(progress.n), _text_of(progress.of))


def _text_of(number: int | float | None) -> bytes:
    if number is None:
        return b"0"
    return b"%d" % number if number == int(number) else f"{number:f}".rstrip("0").encode()
