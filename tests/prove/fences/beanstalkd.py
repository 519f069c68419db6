"""beanstalkd: a job belongs to a connection until its end, its time or the connection's end. Whoever likes may delete
a job that nobody has."""

from __future__ import annotations

from tests.prove.fences import A_DONE, B_DONE, LEASE_S, Script, ignored

VARIANTS = ("timed", "gone")
LASTING = False
SUBMITS = ("beanstalkd", LEASE_S)

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack", "c fail"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack", "a fail"))),
    Script("bury twice", held=(("a", "fail", "failed"), *ignored("a fail", "c fail"))),
    Script("late, and nobody has it", expired=ignored("a fail", "c fail"), ready=ignored("a fail"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*ignored("a ack", "a fail", "x ack"), B_DONE, *ignored("a ack", "b ack", "a fail"))),
    Script("late, and B buries it", taken=(*ignored("a ack"), ("b", "fail", "failed"), *ignored("a fail", "b fail"))),
    Script("both are late", taken=ignored("a ack"), expired_again=ignored("a fail", "c fail", "b fail")),
)  # fmt: skip
