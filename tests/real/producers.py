"""One job pushed by each library, in its own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import faktory
from pyfaktory import Client, Job, Producer

from tests.real.kit import NODE_KINDS, Stage

Push = Callable[[str, str, str, Sequence[object]], None]


def push(stage: Stage, kind: str, address: str, jid: str, jobtype: str, *args: object) -> None:
    """Push a job into `default` with the library of that name."""
    if kind in NODE_KINDS:
        _push_by_node(stage, kind, address, {"jid": jid, "jobtype": jobtype, "args": args})
    else:
        _PUSHES[kind](address, jid, jobtype, args)


def _push_by_pyfaktory(address: str, jid: str, jobtype: str, args: Sequence[object]) -> None:
    with Client(faktory_url=address, role="producer") as client:
        assert Producer(client).push(Job(jid=jid, jobtype=jobtype, args=list(args)))


def _push_by_faktory(address: str, jid: str, jobtype: str, args: Sequence[object]) -> None:
    with faktory.connection(address) as client:
        assert client.queue(jobtype, args=list(args), jid=jid)


def _push_by_node(stage: Stage, kind: str, address: str, job: dict[str, object]) -> None:
    client = stage.client(kind, address)
    client.call("connect")
    assert client.call("push", job) == job["jid"]


_PUSHES: dict[str, Push] = {"pyfaktory": _push_by_pyfaktory, "faktory": _push_by_faktory}
