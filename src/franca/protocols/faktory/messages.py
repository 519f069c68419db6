"""The messages of Faktory clients, as Structs that JSON is decoded into.

The shapes are strict: an unknown member, or a known one in another case, is left to
`go_json.py`. Arguments and `custom` stay as the producer wrote them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Byte = Annotated[int, Meta(ge=0, le=255)]


class WireJob(
    Struct, gc=False, eq=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A work unit, its members in the order in which the original writes them.

    Encoded again, it is what the server keeps. `priority` is known because three client
    libraries send it with every job; no server has looked at it since version 0.9.5.
    """

    retry: Int64 | None = None
    failure: Raw | UnsetType = UNSET
    custom: Raw | UnsetType = UNSET
    jid: str
    queue: str | None = None
    jobtype: str
    created_at: str | None = None
    enqueued_at: str | None = None
    at: str | None = None
    args: Raw
    reserve_for: Int64 | None = None
    backtrace: Int64 | None = None
    priority: Raw | UnsetType = UNSET


class LargeJob(WireJob, forbid_unknown_fields=False):
    """A work unit with unknown members, too large to look at each of them."""

    jid: str = ""
    jobtype: str = ""
    args: Raw = Raw(b"null")


class Hello(Struct, forbid_unknown_fields=True):
    """Who a client says it is. With a `wid` it is a connection of that worker."""

    hostname: str | None = None
    wid: str | None = None
    pid: Int64 | None = None
    labels: list[str | None] | None = None
    v: Byte | None = None
    pwdhash: str | None = None
    username: str | None = None
    rss_kb: Int64 | None = None


class Ack(Struct, gc=False, forbid_unknown_fields=True):
    """A job is done. The usual shape; others are read as a mapping of strings."""

    jid: str


class Fail(Struct, gc=False, forbid_unknown_fields=True):
    """A job failed, and why."""

    jid: str | None = None
    message: str | None = None
    errtype: str | None = None
    backtrace: list[str | None] | None = None


class LargeFail(Struct, gc=False):
    """The same where it is too large to decode all of it."""

    jid: str | None = None
    message: Raw = Raw(b"null")
    errtype: Raw = Raw(b"null")
    backtrace: Raw = Raw(b"null")


class Beat(Struct, gc=False, forbid_unknown_fields=True):
    """The heartbeat of a worker."""

    wid: str | None = None
    current_state: str | None = None
    rss_kb: Int64 | None = None


class Filter(Struct, forbid_unknown_fields=True):
    """Which jobs of a set a mutation is for; without a member, all."""

    jids: list[str | None] | None = None
    jobtype: str | None = None
    regexp: str | None = None


class Mutate(Struct, forbid_unknown_fields=True):
    """Change many jobs of one set at once."""

    cmd: str | None = None
    target: str | None = None
    filter: Raw | UnsetType = UNSET


class EarlierFailure(Struct, forbid_unknown_fields=True):
    """The failure that a job had elsewhere, as its producer describes it."""

    retry_count: Int64 = 0
    remaining: Int64 | None = None
    failed_at: str | None = None
    next_at: str | None = None
    message: str | None = None
    errtype: str | None = None
    backtrace: list[str | None] | None = None


class Failure(Struct, kw_only=True, omit_defaults=True):
    """What a job's last failure looks like to the next worker."""

    retry_count: int
    remaining: int
    failed_at: str
    next_at: str | None = None
    message: str
    errtype: str
    backtrace: list[str] | None = None
