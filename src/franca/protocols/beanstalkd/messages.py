"""Every command of the protocol as a value. `Malformed` is none, and has its reply."""

from __future__ import annotations

from msgspec import Struct

from franca.core.model import JobId


class Put(Struct, gc=False):
    """put: a new job for the tube in use."""

    priority: int
    delay_s: int
    ttr_s: int
    body: bytes


class Use(Struct, gc=False):
    """use: the tube that `put`, `kick` and the peeks mean."""

    tube: str


class Reserve(Struct, gc=False):
    """reserve: a job of the watched tubes, however long it takes."""


class ReserveWithTimeout(Struct, gc=False):
    """reserve-with-timeout: the same within so many seconds; a negative number is without end."""

    timeout_s: int


class ReserveJob(Struct, gc=False):
    """reserve-job: this very job."""

    id: JobId


class Delete(Struct, gc=False):
    """delete: the job is done, or not wanted any more."""

    id: JobId


class Release(Struct, gc=False):
    """release: back to its tube, now or after a delay."""

    id: JobId
    priority: int
    delay_s: int


class Bury(Struct, gc=False):
    """bury: put aside until it is kicked."""

    id: JobId
    priority: int


class Touch(Struct, gc=False):
    """touch: the time to run begins anew."""

    id: JobId


class Watch(Struct, gc=False):
    """watch: reserve jobs of this tube too."""

    tube: str


class Ignore(Struct, gc=False):
    """ignore: reserve no jobs of this tube."""

    tube: str


class Kick(Struct, gc=False):
    """kick: make so many buried jobs ready, or delayed ones if none is buried."""

    bound: int


class KickJob(Struct, gc=False):
    """kick-job: make this job ready."""

    id: JobId


class Peek(Struct, gc=False):
    """peek: show a job."""

    id: JobId


class PeekReady(Struct, gc=False):
    """peek-ready: show the next ready job of the tube in use."""


class PeekDelayed(Struct, gc=False):
    """peek-delayed: show the delayed job that is due first."""


class PeekBuried(Struct, gc=False):
    """peek-buried: show the job that was buried first."""


class StatsJob(Struct, gc=False):
    """stats-job: what is known of a job."""

    id: JobId


class StatsTube(Struct, gc=False):
    """stats-tube: what is known of a tube."""

    tube: str


class Stats(Struct, gc=False):
    """stats: what is known of the server."""


class ListTubes(Struct, gc=False):
    """list-tubes: the tubes that exist."""


class ListTubeUsed(Struct, gc=False):
    """list-tube-used: the tube in use."""


class ListTubesWatched(Struct, gc=False):
    """list-tubes-watched: the watched tubes."""


class PauseTube(Struct, gc=False):
    """pause-tube: give out no job of this tube for so long."""

    tube: str
    delay_s: int


class Quit(Struct, gc=False):
    """quit: end the connection."""


class Malformed(Struct, gc=False):
    """Not a command, or one that cannot be carried out as it stands; it may be counted as one."""

    reply: bytes
    counts_as: type | None = None
