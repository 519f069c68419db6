"""MemoDB: a worker speaks of the one job that it has, and has no other word than that it is done.

Its own jobs live in memory and have no name that a peer sees, so that it runs Faktory's here.
"""

from __future__ import annotations

from tests.prove.fences import A_DONE, B_DONE, LEASE_S, Script, ignored

VARIANTS = ("timed", "gone")
LASTING = False
SUBMITS = ("faktory", LEASE_S)

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack"))),
    Script("late, and nobody has it", expired=ignored("a ack", "c ack"), ready=ignored("a ack"), taken=(B_DONE,)),
    Script("late, and B has it", taken=(*ignored("a ack", "x ack"), B_DONE, *ignored("a ack", "b ack"))),
    Script("both are late", taken=ignored("a ack"), expired_again=ignored("a ack", "c ack", "b ack")),
)  # fmt: skip
