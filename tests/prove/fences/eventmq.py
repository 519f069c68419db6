"""EventMQ: a job belongs to a connection. A worker has no name that outlives it, so that of a job which nobody has, and
which a worker of this protocol had last, any of them may say that it is done: better than to run it again.
"""

from __future__ import annotations

from tests.prove.fences import A_DONE, B_DONE, LEASE_S, Script, ignored

VARIANTS = ("timed", "gone")
LASTING = False
SUBMITS = ("eventmq", LEASE_S - 2)  # the server waits so much longer than a job's timeout

SCRIPTS = (
    Script("a stranger's word", held=(*ignored("c ack", "c fail"), A_DONE, *ignored("c ack"))),
    Script("a word in another language", held=(*ignored("x ack", "x fail"), A_DONE, *ignored("x ack"))),
    Script("the same word twice", held=(A_DONE, *ignored("a ack", "a fail"))),
    Script("done after it failed", held=(("a", "fail", "failed"), *ignored("a ack", "c ack", "a fail"))),
    Script("late, and nobody has it", expired=(A_DONE, *ignored("a ack", "c ack"))),
    Script("a late failure", expired=ignored("a fail"), ready=ignored("a fail"), taken=(B_DONE,)),
    Script("late, and B has it",
        taken=(*ignored("a ack", "a fail", "x ack"), B_DONE, *ignored("a ack", "b ack", "a fail"))),
    Script("late, and B fails",
        taken=(*ignored("a ack"), ("b", "fail", "failed"), *ignored("a ack", "b ack"))),
    Script("both are late", taken=ignored("a ack"), expired_again=(B_DONE, *ignored("b ack", "a ack"))),
)  # fmt: skip
