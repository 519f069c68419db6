"""What the test client of every protocol offers, in words that all protocols share.

A protocol's client is one file of this folder, written from the protocol's document: functions that encode
messages and cut answers, none of which is franca's; a connection with the protocol's own commands, on a blocking
socket or on a link of the unit tests' world; and a `Peer`, which knows neither. A `Peer` is told what to do in common words (submit, take, report, beat, rest,
leave) and returns what the server said in common words: the answers below. The simulation carries its bytes
over wires of its own, the proofs over a socket (`Wired`), so that producers and workers are written once.

`protocols.py` lists the clients. A protocol that lacks an action raises `NotImplementedError`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, NamedTuple

from tests.support.connection import Connection

QUEUES = ("alpha", "beta")
"""What everybody in a simulation submits to and works on, whatever they speak."""


@dataclass(slots=True, eq=False)
class Offer:
    """A job to submit; a protocol writes what it has words for. Times are in seconds."""

    jid: str
    queue: str
    body: bytes
    waits: bool = False
    volatile: bool = False
    reserve: int = 0
    retry: int | None = None
    at: int = 0
    prio: int = 0
    unique: str = ""
    name: str = ""
    custom: object = None

    def fields(self) -> dict[str, Any]:
        """What a history says of it."""
        told = {"queue": self.queue, "prio": self.prio, "retry": self.retry, "unique": self.unique}
        reserve = float(self.reserve) if self.reserve else None
        return told | {"reserve": reserve, "waits": self.waits, "volatile": self.volatile}


@dataclass(slots=True, eq=False)
class Grant:
    """A job in a worker's hands. `body` is what its producer gave, whatever protocol that spoke.

    `reserve` is how many seconds it may run. None if that was not told: then as long as its producer asked for, or
    without end. 0 if even so it may be taken back at any time.
    """

    handle: bytes
    name: str
    queue: str
    body: bytes
    reserve: float | None = None
    attempt: int | None = None
    at: int = 0
    holder: str = ""
    custom: object = None


# -- answers ---------------------------------------------------------------------------------------


class Accepted(NamedTuple):
    """The server has promised to keep the job, under this name."""

    offer: Offer
    name: str


class Refused(NamedTuple):
    offer: Offer | None
    why: str


class Part(NamedTuple):
    """A part of the result of a job that is waited for."""

    offer: Offer
    data: bytes


class Result(NamedTuple):
    """The end of a job that was waited for. Of one that was not accepted before it says that too."""

    offer: Offer
    data: bytes
    failed: bool = False


class Granted(NamedTuple):
    grant: Grant


@dataclass(slots=True)
class Nothing:
    """A `take` brought no job."""

    out: Any = "no"


@dataclass(slots=True)
class Woken:
    """Whoever rests should ask again."""


@dataclass(slots=True)
class Done:
    """A report or an order was heard."""

    what: object
    out: Any = "ok"


Answer = Accepted | Refused | Part | Result | Granted | Nothing | Woken | Done


# -- peers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PeerRules:
    """What a history must know of a protocol.

    Of its workers: `grace` is how long after its connection closed (or the server restarted) a lease
    may end, infinite where neither ends it; `ack_tells` says that an accepted completion is answered otherwise than a stale one;
    `ack_lasts` that it is on the disk by then. Where it is not, it is once a later promise was heard.

    Of its jobs, whoever runs them: `expiry_fails` says that a lease that ran out counts as a failure
    of the job; `fail_ends` that a job whose worker said it failed has ended.
    """

    grace: float = 0.0
    ack_tells: bool = False
    ack_lasts: bool = True
    expiry_fails: bool = False
    fail_ends: bool = False


@dataclass(frozen=True)
class Behaviour:
    """What producers and workers of a protocol are like in a simulation and under a load."""

    vary: Callable[[Offer, Random], None] = lambda offer, rng: None
    """Give a new job whatever the protocol has for jobs."""
    later: float = 0.0
    """How many of the jobs are for a later moment."""
    variants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By kind of actor, the variants that are drawn from."""
    producers: tuple[int, int] = (1, 3)
    waiters: tuple[int, int] = (0, 1)
    workers: tuple[int, int] = (1, 5)
    """How many there are in a world: at least so many, and fewer than so many."""
    words: Mapping[str, int] = field(default_factory=dict)
    """How a run ends, and how often; the first is that it is done."""
    spans: Sequence[tuple[int, int]] = ((1, 4_000), (10_000, 50_000), (60_000, 150_000))
    usual: Sequence[int] = (85, 9, 6)
    sleepy: Sequence[int] = (30, 30, 40)
    """How long runs take in milliseconds, with the weights of most workers and of slow ones."""
    slots: Sequence[int] = (1,)
    named: float = 0.0
    """How many workers have a name under which their jobs outlive the connection."""
    operated: bool = False
    beat_ms: int = 0
    asks_at_once: bool = False
    """Whether a worker asks for the next job before its report was heard."""
    silence_ms: int = 0
    """After which a silent worker may be given up."""
    last_word_ms: int = 0
    """How long clients wait for an answer that may never come."""
    ways: Sequence[tuple[str, str]] = ()
    """How the producers of a load submit, and in which variant: `one`, `many`, a `batch`, or to `wait`."""
    consumers: Sequence[str] = ("",)
    """The variants of a load's workers."""
    retry: int | None = None
    eager: bool = False
    """Whether workers ask for several jobs at once under a load."""
    has_reserve: bool = False
    has_custom: bool = False
    takes_bytes: bool = True
    joins: bool = False
    """Whether jobs have priorities, and one may be submitted again to wait for it."""
    volatile_waits: bool = False
    """Whether a job lives only as long as somebody waits for it."""
    waits_at_once: Sequence[int] = (1,)
    reports_promise: bool = False
    """Whether the answer to a report is a promise."""
    keeps_nothing: bool = False
    peer_rules: Mapping[str, PeerRules] = field(default_factory=dict)
    """By the name that `Peer.peer_rules` returns, where they are not the usual ones."""
    needs_spare: bool = False
    """Whether jobs may go to the queue `default` instead of the one that was named."""


class Peer(ABC):
    """One connection, without the socket: bytes go out through `say` and come in through `hear`.

    With queues it is a worker's, and `worker` is the name under which it holds jobs if they outlive the
    connection. `variant` chooses between ways to speak, where there are several.
    """

    protocol: ClassVar[str]
    behaviour: ClassVar[Behaviour]
    lasts = False
    """Whether it says again on the next connection what was not answered on this one."""
    report_asks = False
    """Whether a report asks for the next job too."""
    held_as = ""
    """As whom the server knows the `worker` on this `link`; empty if that cannot be told."""
    rests = False
    """Whether a worker to which there was nothing to give is woken when there is."""

    def __init__(
        self, say: Callable[[bytes], None], rng: Random, *, worker: str = "",
        queues: Sequence[str] = (), variant: str = "",
    ) -> None:  # fmt: skip
        self.say = say
        self.rng = rng
        self.worker = worker
        self.queues = list(queues)
        self.variant = variant
        self.peer_rules = self.protocol
        """Under what name a history knows how this peer behaves."""
        self.is_open = False
        self.unread = bytearray()

    def open(self) -> None:
        """Say what is said first. `is_open` once more may be said."""
        self.is_open = True

    def hear(self, data: bytes) -> Iterator[Answer]:
        """Take what came; what it says."""
        self.unread += data
        while (message := self.cut()) is not None:
            yield from self.answers(message)

    @abstractmethod
    def cut(self) -> Any:
        """Take the next whole message off `unread`; None until it is there."""

    @abstractmethod
    def answers(self, message: Any) -> Iterable[Answer]:
        """What a message says; `AssertionError` if it is what no server may say now."""

    def unanswered(self) -> Sequence[Offer]:
        """Offers that are said again on each connection."""
        return ()

    def give_up(self, offers: Iterable[Offer]) -> None:
        """Say these no more; the server hears nothing of that."""

    # -- actions -----------------------------------------------------------------------------------

    def submit(self, *offers: Offer) -> None:
        raise NotImplementedError

    def submit_batch(self, *offers: Offer) -> None:
        """Submit all of them in one message, where there is one for it."""
        self.submit(*offers)

    def serve(self, queue: str) -> None:
        """Work on this queue from now on, and on no other; what was taken is kept."""
        self.queues = [queue]

    @staticmethod
    def handle_of(name: str) -> bytes:
        """How to speak of a job that was not taken, whose queue is called as it is."""
        return name.encode()

    def take(self) -> None:
        """Ask for a job."""
        raise NotImplementedError

    def take_again(self) -> bool:
        """Ask once more for the job that was asked for; False where that is not done."""
        return False

    def report(self, grant: Grant, word: str, result: bytes = b"") -> None:
        """`ack`, `fail`, or another of the `words` of its behaviour; `late` is an `ack` over another connection."""
        raise NotImplementedError

    def part(self, grant: Grant, data: bytes) -> None:
        """Send a part of the result, where there are parts."""

    def renew(self) -> None:
        """Say anew what one can do, where that is said."""

    def rest(self) -> None:
        """Wait to be woken, where workers are."""

    def beat(self) -> None:
        """Say that one is alive, where that is said."""

    def leave(self) -> None:
        """Say that one goes, where that is said."""


class Wired(Connection[Answer]):
    """A peer, which may have had another connection before, on a blocking socket."""

    def __init__(
        self, kind: type[Peer], port: int, rng: Random, *, timeout: float = 10.0,
        peer: Peer | None = None, **who: Any,
    ) -> None:  # fmt: skip
        super().__init__(port, timeout=timeout)
        self._timeout = timeout
        self._said: list[bytes] = []
        self.peer = peer or kind(self._said.append, rng, **who)
        self.peer.say = self._said.append
        self.peer.open()
        while not self.peer.is_open:
            self.hear()

    def flush(self) -> None:
        if self._said:
            self.set_timeout(self._timeout)
            self.send_bytes(b"".join(self._said))
            self._said.clear()

    def hear(self, seconds: float | None = None) -> list[Answer]:
        """Send all that was said; what the next bytes say, perhaps nothing yet."""
        self.flush()
        self.set_timeout(self._timeout if seconds is None else seconds)
        return list(self.peer.hear(self._received()))
