"""Gearman: a job belongs to a connection until its end, its time or the connection's end. No word counts after that."""

from __future__ import annotations

from tests.prove.fences import A_DONE, B_DONE, Script, ignored

VARIANTS = ("timed", "gone")
LASTING = False
SUBMITS = ("gearman", 0)

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack", "c fail"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack", "a fail"))),
    Script("WORK_COMPLETE after WORK_FAIL",
        held=(("a", "fail", "failed"), *ignored("a ack", "c ack", "a fail"))),
    Script("late, and nobody has it",
        expired=ignored("a ack", "a fail", "c ack"), ready=ignored("a ack"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*ignored("a ack", "a fail", "x ack"), B_DONE, *ignored("a ack", "b ack", "a fail"))),
    Script("late, and B fails",
        taken=(*ignored("a ack"), ("b", "fail", "failed"), *ignored("a ack", "b ack"))),
    Script("both are late",
        taken=ignored("a ack"), expired_again=ignored("a ack", "c ack", "b ack", "b fail")),
)  # fmt: skip
