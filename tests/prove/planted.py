"""Histories made by hand: one or more with a planted fault for each class, and legal ones that look odd.

They are the checker's own proof (T4): each fault must be flagged as its class and nothing else, and
no legal history may be flagged at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.prove.events import Event, Op, Rules
from tests.prove.history import CLASSES, check

History = list[Event]


def _event(op: Op, jid: str, t0: float, t1: float, **fields: Any) -> Event:
    base: dict[str, Any] = {"proto": "faktory", "conn": "c1", "jid": jid, "t0": t0, "t1": t1}
    return Event(op, **(base | fields))


def push(jid: str, t0: float, **fields: Any) -> Event:
    base = {"conn": "p1", "queue": "q", "body": f"body-{jid}", "reserve": 60.0}
    return _event("push", jid, t0, t0 + 0.1, **(base | fields))


def _push_bound(jid: str, t0: float, **fields: Any) -> Event:
    """A push in a protocol whose leases have no time but end with the connection."""
    return push(jid, t0, **({"proto": "gearman", "reserve": None} | fields))


def fetch(jid: str, t0: float, **fields: Any) -> Event:
    base = {"queue": "q", "body": f"body-{jid}" if jid else "", "out": "ok" if jid else "no"}
    return _event("fetch", jid, t0, fields.pop("t1", t0 + 0.1), **(base | fields))


def ack(jid: str, t0: float, **fields: Any) -> Event:
    return _event("ack", jid, t0, t0 + 0.1, **fields)


def fail(jid: str, t0: float, **fields: Any) -> Event:
    return _event("fail", jid, t0, t0 + 0.1, **fields)


def on_queue(op: Op, t0: float, **fields: Any) -> Event:
    return _event(op, "", t0, t0 + 0.1, **({"queue": "q"} | fields))


def close(conn: str, t0: float) -> Event:
    return _event("close", "", t0, t0 + 0.1, conn=conn)


def restart(t0: float, t1: float) -> Event:
    return _event("restart", "", t0, t1, conn="")


def count(**tally: int) -> Event:
    return _event("count", "", 900.0, 900.1, tally=tally)


def whole(jid: str, t0: float, **fields: Any) -> History:
    """A job that lives as most do."""
    return [push(jid, t0, **fields), fetch(jid, t0 + 0.2), ack(jid, t0 + 0.4)]


# -- one fault each ----------------------------------------------------------------------------

PLANTED: list[tuple[str, str, History]] = [
    ("lost", "never delivered", [*whole("a", 0), push("b", 1)]),
    ("lost", "delivered once and then forgotten",
        [push("b", 1, retry=25), fetch("b", 2), restart(3, 4)]),
    ("lost", "the FAIL was taken, the retry never came",
        [push("b", 1, retry=3), fetch("b", 2), fail("b", 3)]),
    ("ghost", "refused, yet delivered", [push("a", 0, out="no"), fetch("a", 1), ack("a", 2)]),
    ("unexpected", "never pushed", [*whole("a", 0), fetch("b", 1), ack("b", 2)]),
    ("unexpected", "delivered before it was offered",
        [fetch("a", 0), push("a", 5), ack("a", 6)]),
    ("mangled", "another body", [push("a", 0), fetch("a", 1, body="body-b"), ack("a", 2)]),
    ("unexplained_dup", "a third run of two jobs of one name, each of which was done",
        [push("a", 0, out="maybe"), push("a", 1), fetch("a", 2, conn="c1"), ack("a", 2.5, conn="c1", out="maybe"),
         fetch("a", 4, conn="c2"), ack("a", 4.5, conn="c2", out="maybe"), fetch("a", 8, conn="c3"), ack("a", 8.5, conn="c3")]),
    ("two_leases", "to two workers at once",
        [push("a", 0), fetch("a", 1), fetch("a", 2, conn="c2"), ack("a", 70, conn="c2")]),
    ("two_leases", "the lease was forgotten in a restart",
        [push("a", 0), fetch("a", 1), restart(2, 3), fetch("a", 4, conn="c2"),
         ack("a", 70, conn="c2")]),
    ("two_leases", "the close came after the second delivery",
        [push("a", 0, reserve=None, proto="gearman"), fetch("a", 1, proto="gearman"),
         fetch("a", 2, proto="gearman", conn="c2"), close("c1", 3),
         ack("a", 4, proto="gearman", conn="c2")]),
    ("unexplained_dup", "no lease that could run out, nobody closed or failed",
        [push("a", 0, reserve=None, proto="gearman"), fetch("a", 1, proto="gearman"),
         fetch("a", 200, proto="gearman", conn="c2"), ack("a", 201, proto="gearman", conn="c2")]),
    ("unexplained_dup", "the ACK's answer was lost, the job came back at once",
        [push("a", 0), fetch("a", 1), ack("a", 2, out="maybe"), restart(2, 3),
         fetch("a", 4, conn="c2"), ack("a", 5, conn="c2")]),
    ("ran_after_ack", "fetched after its end",
        [push("a", 0), fetch("a", 1), ack("a", 2), fetch("a", 3, conn="c2"),
         ack("a", 4, conn="c2")]),
    ("ran_after_ack", "the ACK was forgotten in a restart",
        [push("a", 0), fetch("a", 1, worker="w"), restart(2, 3),
         ack("a", 4, conn="c9", worker="w"), restart(5, 6), fetch("a", 61.2, conn="c2")]),
    ("ran_after_ack", "its worker had said that it failed, and that is the end",
        [_push_bound("a", 0), fetch("a", 1, proto="gearman"), fail("a", 2, proto="gearman"),
         close("c1", 3), fetch("a", 4, proto="gearman", conn="c2")]),
    ("ran_after_ack", "its end was forgotten in a restart, though a later push was not",
        [_push_bound("a", 0), fetch("a", 1, proto="gearman"), ack("a", 2, proto="gearman"),
         push("b", 2.2), restart(3, 4), fetch("a", 5, proto="gearman", conn="c2"),
         *(fetch("b", 6), ack("b", 7))]),
    ("result", "one of two who joined heard nothing",
        [_push_bound("a", 0, unique="k", waits=True), fetch("a", 1, proto="gearman"),
         _push_bound("a", 1.5, unique="k", waits=True, conn="p2"), ack("a", 2, proto="gearman"),
         _event("result", "a", 2, 3, conn="p1")]),
    ("lost", "a waiting client left, and with it the job that another had submitted for good",
        [_push_bound("a", 0, unique="k"), close("p2", 2),
         _push_bound("a", 1, unique="k", waits=True, volatile=True, conn="p2")]),
    ("double_completion", "both the old and the new holder were told yes",
        [push("a", 0), fetch("a", 1, proto="core"), fetch("a", 70, proto="core", conn="c2"),
         ack("a", 71, proto="core"), ack("a", 72, proto="core", conn="c2")]),
    ("stale_effect", "the old holder's ACK ended the new holder's lease",
        [push("a", 0, retry=9), fetch("a", 1), fetch("a", 70, conn="c2"), ack("a", 71),
         fail("a", 72, conn="c2", out="no")]),
    ("stale_effect", "the old holder's FAIL gave the job to a third",
        [push("a", 0, retry=9), fetch("a", 1), fetch("a", 70, conn="c2"), fail("a", 71),
         fetch("a", 72, conn="c3"), ack("a", 73, conn="c3")]),
    ("fifo", "the second came first",
        [push("a", 0), push("b", 1), fetch("b", 2), ack("b", 3), fetch("a", 4), ack("a", 5)]),
    ("priority", "the less urgent came first",
        [push("a", 0, prio=1), push("b", 1, prio=5), fetch("a", 2), ack("a", 3),
         fetch("b", 4), ack("b", 5)]),
    ("early", "a second before its time",
        [push("a", 0, at=10.0), fetch("a", 8.9), ack("a", 11)]),
    ("late", "no work was said two seconds after it was due",
        [push("a", 0, at=10.0), fetch("", 12), fetch("a", 13), ack("a", 14)]),
    ("late", "a fetch blocked for two seconds beside a ready job",
        [push("a", 0), fetch("", 0.5, t1=3.0), fetch("a", 4), ack("a", 5)]),
    ("unique", "two alive with one key",
        [push("a", 0, unique="k"), push("b", 1, unique="k"), fetch("a", 2), ack("a", 3),
         fetch("b", 4), ack("b", 5)]),
    ("result", "the waiting client heard nothing",
        [push("a", 0, waits=True, proto="gearman"), fetch("a", 1, proto="gearman"),
         ack("a", 2, proto="gearman")]),
    ("result", "the waiting client heard the end twice",
        [push("a", 0, waits=True), fetch("a", 1), ack("a", 2),
         _event("result", "a", 2, 3, conn="p1"), _event("result", "a", 4, 5, conn="p1")]),
    ("result", "parts out of order",
        [push("a", 0, waits=True), fetch("a", 1), _event("data", "a", 2, 2.1, conn="p1", seq=2),
         _event("data", "a", 2.2, 2.3, conn="p1", seq=1), ack("a", 3),
         _event("result", "a", 3, 4, conn="p1")]),
    ("attempts", "one run more than retry allows",
        [push("a", 0, retry=1), fetch("a", 1), fail("a", 2), fetch("a", 30), fail("a", 31),
         fetch("a", 90), ack("a", 91)]),
    ("attempts", "retry=0 means once",
        [push("a", 0, retry=0), fetch("a", 1), fail("a", 2), fetch("a", 30), ack("a", 31)]),
    ("attempts", "a failure was forgotten",
        [push("a", 0, retry=9), fetch("a", 1), fail("a", 2), fetch("a", 30, attempt=0),
         ack("a", 31)]),
    ("attempts", "a failure was invented",
        [push("a", 0, retry=9), fetch("a", 1, attempt=0), fail("a", 2),
         fetch("a", 30, attempt=2), ack("a", 31)]),
    ("delivered_while_paused", "the fetch began after the pause",
        [*whole("a", 0), on_queue("pause", 1), push("b", 2), fetch("b", 3), ack("b", 4)]),
    ("delivered_while_paused", "it had been removed by name",
        [push("a", 0), _event("remove", "a", 1, 1.1), fetch("a", 2)]),
    ("delivered_while_paused", "its queue had been removed",
        [push("a", 0), on_queue("remove", 1), fetch("a", 2), ack("a", 3)]),
    ("counters", "the sums do not add up",
        [*whole("a", 0), count(pushed=1, done=0, dead=0, discarded=0, removed=0)]),
    ("counters", "more was counted than was pushed", [*whole("a", 0), count(pushed=2)]),
]  # fmt: skip


# -- odd, and right ----------------------------------------------------------------------------

CLEAN: list[tuple[str, History]] = [
    ("the plain life", [*whole("a", 0), *whole("b", 1), fetch("", 2)]),
    ("the lease ran out",
        [push("a", 0), fetch("a", 1), fetch("a", 62, conn="c2", attempt=1), ack("a", 63, conn="c2")]),
    ("the lease ran out while the next fetch was blocked",
        [push("a", 0), fetch("a", 1), fetch("a", 59.5, conn="c2", t1=61.5), ack("a", 62, conn="c2")]),
    ("the connection closed, in a protocol whose leases die with it",
        [push("a", 0, reserve=None, proto="gearman"), fetch("a", 1, proto="gearman"),
         close("c1", 2), fetch("a", 2.05, proto="gearman", conn="c2"),
         ack("a", 3, proto="gearman", conn="c2")]),
    ("a restart gave a bound job to another",
        [push("a", 0, reserve=None, proto="periodic"), fetch("a", 1, proto="periodic"),
         restart(2, 3), fetch("a", 4, proto="periodic", conn="c2"),
         ack("a", 5, proto="periodic", conn="c2")]),
    ("the silent worker's lease was given up after a minute",
        [push("a", 0, reserve=1800.0), fetch("a", 1), close("c1", 2), fetch("a", 63, conn="c2"),
         ack("a", 64, conn="c2")]),
    ("an unknown push turned up", [push("a", 0, out="maybe"), fetch("a", 1), ack("a", 2)]),
    ("two jobs of one name: one ran in between, the other again when its lease was over",
        [push("a", 0, out="maybe", reserve=5.0), push("a", 1, reserve=5.0), fetch("a", 2, conn="c1"),
         fetch("a", 4, conn="c2"), ack("a", 4.5, conn="c2"), fetch("a", 8, conn="c3"), ack("a", 8.5, conn="c3")]),
    ("an unknown push never turned up", [push("a", 0, out="maybe"), *whole("b", 1)]),
    ("a refused push stayed away", [push("a", 0, out="no"), *whole("b", 1)]),
    ("the push was said again and made no second job",
        [push("a", 0, out="maybe"), restart(0.1, 1), push("a", 2), fetch("a", 3), ack("a", 4)]),
    ("the push was said again and did make a second job",
        [push("a", 0, out="maybe"), fetch("a", 0.5), ack("a", 0.8), push("a", 2),
         fetch("a", 3), ack("a", 4)]),
    ("two jobs with one jid ran side by side",
        [push("a", 0), push("a", 1), fetch("a", 2), fetch("a", 2.5, conn="c2"), ack("a", 3),
         ack("a", 4, conn="c2")]),
    ("a late ACK, answered OK and without effect",
        [push("a", 0), fetch("a", 1), fetch("a", 62, conn="c2"), ack("a", 63),
         ack("a", 64, conn="c2")]),
    ("a late ACK, and the job came back because it had no effect",
        [push("a", 0), fetch("a", 1), ack("a", 61.05), fetch("a", 61.2, conn="c2"),
         ack("a", 64, conn="c2")]),
    ("the ACK's answer was lost and the lease ran out",
        [push("a", 0), fetch("a", 1), ack("a", 2, out="maybe"), restart(2, 3),
         fetch("a", 62, conn="c2"), ack("a", 63, conn="c2")]),
    ("an unknown ACK was the end", [push("a", 0), fetch("a", 1), ack("a", 2, out="maybe")]),
    ("an ACK of somebody else's job meant nothing",
        [push("a", 0), ack("a", 0.5, conn="c7"), fetch("a", 1), ack("a", 2)]),
    ("a worker came back over another connection and finished",
        [push("a", 0), fetch("a", 1, worker="w"), restart(2, 3),
         ack("a", 4, conn="c9", worker="w")]),
    ("an ACK said twice", [push("a", 0), fetch("a", 1), ack("a", 2), ack("a", 3)]),
    ("failed, and retried with the right count",
        [push("a", 0, retry=2), fetch("a", 1, attempt=0), fail("a", 2),
         fetch("a", 20, attempt=1), fail("a", 21), fetch("a", 60, attempt=2), ack("a", 61)]),
    ("failed for the last time and gave up",
        [push("a", 0, retry=1), fetch("a", 1), fail("a", 2), fetch("a", 20), fail("a", 21)]),
    ("discarded at the first failure", [push("a", 0, retry=0), fetch("a", 1), fail("a", 2)]),
    ("a run nobody saw failed too",
        [push("a", 0, retry=9), fetch("", 1, out="maybe"), restart(1, 2),
         fetch("a", 90, attempt=1), ack("a", 91)]),
    ("a second consumer was served first",
        [push("a", 0), push("b", 1), fetch("b", 2), fetch("a", 2.05, conn="c2"),
         ack("a", 3, conn="c2"), ack("b", 4)]),
    ("pushes that overlap have no order",
        [push("a", 0), push("b", 0.05, conn="p2"), fetch("b", 1), ack("b", 2), fetch("a", 3),
         ack("a", 4)]),
    ("overtaken because a lost fetch had held it",
        [push("a", 0), fetch("", 0.5, conn="c2", out="maybe"), push("b", 1), fetch("b", 2),
         ack("b", 3), fetch("a", 70), ack("a", 71)]),
    ("the urgent one came after the fetch began",
        [push("a", 0, prio=1), fetch("a", 2), push("b", 1.95, prio=5, conn="p2"), ack("a", 3),
         fetch("b", 4), ack("b", 5)]),
    ("a retried job is behind the others",
        [push("a", 0), push("b", 1), fetch("a", 2), fail("a", 3), fetch("b", 4), ack("b", 5),
         fetch("a", 30), ack("a", 31)]),
    ("delivered within a millisecond of its time",
        [push("a", 0, at=10.0), fetch("a", 8.5, t1=9.9995), ack("a", 11)]),
    ("no work, just before it was due",
        [push("a", 0, at=10.0), fetch("", 8.2, t1=10.2), fetch("a", 10.3), ack("a", 11)]),
    ("no work while paused",
        [*whole("a", 0), on_queue("pause", 1), push("b", 2), fetch("", 4), on_queue("resume", 5),
         fetch("b", 6), ack("b", 7)]),
    ("a fetch that was blocked when the pause came",
        [*whole("a", 0), fetch("b", 0.9, t1=2.5), on_queue("pause", 1), push("b", 2),
         ack("b", 3)]),
    ("a pause of a queue that did not exist",
        [on_queue("pause", 0), *whole("a", 1)]),
    ("a scheduled job outlives the removal of its queue",
        [push("a", 0, at=5.0), on_queue("remove", 1), fetch("a", 6), ack("a", 7)]),
    ("removed before anybody ran it", [push("a", 0), on_queue("remove", 1), fetch("", 2)]),
    ("the key was free again",
        [push("a", 0, unique="k"), fetch("a", 1), ack("a", 2), push("b", 3, unique="k"),
         fetch("b", 4), ack("b", 5)]),
    ("the second with the key was refused",
        [push("a", 0, unique="k"), push("b", 1, unique="k", out="no"), fetch("a", 2), ack("a", 3)]),
    ("the second joined the first",
        [push("a", 0, unique="k", waits=True, proto="gearman"),
         push("a", 1, unique="k", waits=True, proto="gearman", conn="p2"),
         fetch("a", 2, proto="gearman"), ack("a", 3, proto="gearman"),
         _event("result", "a", 3, 4, conn="p1"), _event("result", "a", 3, 4, conn="p2")]),
    ("nobody was left to hear the result",
        [push("a", 0, waits=True, proto="gearman"), fetch("a", 1, proto="gearman"),
         close("p1", 1.5), ack("a", 2, proto="gearman")]),
    ("its end was not on the disk when the server died",
        [_push_bound("a", 0), fetch("a", 1, proto="gearman"), ack("a", 2, proto="gearman"),
         restart(2.2, 3), fetch("a", 4, proto="gearman", conn="c2"),
         ack("a", 5, proto="gearman", conn="c2")]),
    ("failed, and that was the end",
        [_push_bound("a", 0), fetch("a", 1, proto="gearman"), fail("a", 2, proto="gearman")]),
    ("the second came too late to join, and made another job",
        [_push_bound("a", 0, unique="k"), fetch("a", 1, proto="gearman"),
         ack("a", 2, proto="gearman"), _push_bound("a", 3, unique="k", conn="p2"),
         fetch("a", 4, proto="gearman"), ack("a", 5, proto="gearman")]),
    ("a job of one protocol, run by a worker of another",
        [_push_bound("a", 0), fetch("a", 1), ack("a", 2), push("b", 3),
         fetch("b", 4, proto="gearman"), close("c1", 5), fetch("b", 6, proto="gearman", conn="c2"),
         ack("b", 7, proto="gearman", conn="c2")]),
    ("a volatile job died with the server",
        [push("a", 0, volatile=True, waits=True, proto="gearman"), restart(1, 2)]),
    ("still ahead when the history ends", [push("a", 0, at=500.0), *whole("b", 1)]),
    ("given up after ten silent workers",
        [push("a", 0), *(fetch("a", 1 + 61.0 * run, conn=f"c{run}") for run in range(10))]),
    ("the counters agree",
        [*whole("a", 0), count(pushed=1, done=1, dead=0, discarded=0, removed=0)]),
    ("the counters agree about what is unknown",
        [*whole("a", 0), push("b", 1, out="maybe"), fetch("b", 2), ack("b", 3, out="maybe"),
         count(pushed=2, done=1)]),
]  # fmt: skip


# -- a queue that is longer than its window ------------------------------------------------------

LONG = Rules(volatile_overtakes=True)
_FLEETING = {"volatile": True, "waits": True, "proto": "gearman", "reserve": None}

PLANTED_LONG: list[tuple[str, str, History]] = [
    ("fifo", "a stored job overtook an older stored one",
        [push("a", 0), push("b", 1), fetch("b", 2), ack("b", 3), fetch("a", 4), ack("a", 5)]),
    ("fifo", "a stored job overtook an older one that only memory had",
        [push("a", 0, **_FLEETING), push("b", 1), fetch("b", 2), ack("b", 3), fetch("a", 4), ack("a", 5),
         _event("result", "a", 5, 6, conn="p1")]),
    ("fifo", "of two that only memory had, the later was first",
        [push("a", 0, **_FLEETING), push("b", 1, conn="p2", **_FLEETING), fetch("b", 2), ack("b", 3),
         _event("result", "b", 3, 4, conn="p2"), fetch("a", 4), ack("a", 5), _event("result", "a", 5, 6, conn="p1")]),
    ("priority", "one that only memory had overtook a more urgent one in the store",
        [push("a", 0, prio=5), push("b", 1, prio=1, conn="p2", **_FLEETING), fetch("b", 2), ack("b", 3),
         _event("result", "b", 3, 4, conn="p2"), fetch("a", 4), ack("a", 5)]),
]  # fmt: skip

CLEAN_LONG: list[tuple[str, History]] = [
    ("one that only memory had overtook an older one in the store",
        [push("a", 0), push("b", 1, conn="p2", **_FLEETING), fetch("b", 2), ack("b", 3),
         _event("result", "b", 3, 4, conn="p2"), fetch("a", 4), ack("a", 5)]),
]  # fmt: skip


def selftest(tell: Callable[[str], None] = lambda _: None) -> tuple[int, int]:
    """How many classes were recognised in every planted history, and how many false alarms."""
    tables = ((None, PLANTED, CLEAN), (LONG, PLANTED_LONG, CLEAN_LONG))
    missed: set[str] = {kind for kind in CLASSES if all(kind != planted[0] for planted in PLANTED)}
    alarms = 0
    for rules, faults, legal in tables:
        for kind, name, events in faults:
            verdict = check(events, drained=True, rules=rules)
            if verdict.broken != [kind]:
                missed.add(kind)
                tell(f"planted {kind} ({name}): found {verdict.broken}")
        for name, events in legal:
            verdict = check(events, drained=True, rules=rules)
            if not verdict.ok:
                alarms += 1
                tell(f"clean ({name}): {verdict.samples}")
    return len(CLASSES) - len(missed), alarms
