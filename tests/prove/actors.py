"""What producers and workers of any protocol say, and what they note of it.

The simulation carries their bytes over wires of its own (`tests/sim/actors.py`), a load over sockets (`load.py`).
When they act, and what goes wrong with them, is in those. An actor believes only what it is told, and notes
`maybe` where it was told nothing.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from tests.prove import bodies
from tests.prove.events import Event, Op, Out
from tests.support import peer as answers
from tests.support.peer import Answer, Grant, Offer, Peer
from tests.support.protocols import PEERS

_REPORTS: dict[str, Op] = {"fail": "fail", "exception": "fail", "release": "release"}
"""What a history calls the words of a report; all others say that the job is done."""


class Actor(ABC):
    """One peer on one connection after another, and what it notes: what it is about to say, and what came of that."""

    peer: Peer
    variant = ""
    conn = ""
    worker = ""
    """The name under which it holds jobs, where they outlive the connection."""

    def __init__(
        self, clock: Callable[[], float], events: list[Event], protocol: str, name: str, rng: Random
    ) -> None:
        self.clock = clock
        self.events = events
        self._under_way: dict[int, Event] = {}
        self.protocol = self.peer_rules = protocol
        self.name = name
        self.rng = Random(rng.getrandbits(32))
        self.peer_type = PEERS[protocol]
        self.behaviour = self.peer_type.behaviour

    def queues(self) -> tuple[str, ...]:
        """Those that it works on."""
        return ()

    def who(self) -> dict[str, Any]:
        """What its peer is told of itself."""
        return {"worker": self.worker, "queues": self.queues(), "variant": self.variant}

    @abstractmethod
    def on(self, answer: Answer) -> None:
        """The server said something."""

    @abstractmethod
    def complain(self, text: str) -> None:
        """The server said what it may not say; no history can tell."""

    def note_close(self, last_open: float) -> None:
        """The connection is gone: what was asked and not answered may have happened or not."""
        for event in list(self._under_way.values()):
            self.end(event, "maybe")
        now = self.clock()
        self.events.append(Event("close", self.peer_rules, self.conn, t0=last_open, t1=now))

    def begin(self, op: Any, jid: str = "", **fields: Any) -> Event:
        """This is about to be said; it is written down when `end` is told what came of it."""
        now = self.clock()
        event = Event(op, self.peer_rules, self.conn, jid, now, now, worker=self.worker, **fields)
        self._under_way[id(event)] = event
        return event

    def end(self, event: Event, out: Out = "ok") -> None:
        """Its answer is here."""
        self.forget(event)
        event.t1, event.out = self.clock(), out
        self.events.append(event)

    def forget(self, event: Event) -> None:
        """What came of it is no news."""
        del self._under_way[id(event)]


class Submitter(Actor):
    """Submits jobs, and hears what becomes of them."""

    results: tuple[bytes, ...] = (b"true",)
    """Of what a result may consist, beside the fingerprint of the job's body."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.jids: list[str] = []
        self._pushes: dict[Offer, Event] = {}
        self._waiting: set[Offer] = set()
        self._doubtful: list[Offer] = []

    def new_offer(self, queue: str, **fields: Any) -> Offer:
        jid = f"{self.name}-{len(self.jids) + 1:07}"
        self.jids.append(jid)
        body = bodies.as_json(bodies.args_for(jid, self.rng))
        if self.behaviour.takes_bytes and not self.variant:
            body = bodies.bytes_for(jid, self.rng)
        custom = custom_of(jid) if self.behaviour.has_custom else None
        return Offer(jid, queue, body, custom=custom, **fields)

    def begin_push(self, offer: Offer) -> Event:
        event = self.begin("push", offer.jid, body=bodies.told(offer.body)[1], **offer.fields())
        self._pushes[offer] = event
        return event

    def end_push(self, offer: Offer) -> None:
        self.end(self._pushes.pop(offer))

    def on(self, answer: Answer) -> None:
        match answer:
            case answers.Accepted(offer, name):
                self.accepted(offer, name)
            case answers.Refused(offer, _) if offer is not None:
                self.end(self._pushes.pop(offer), "no")
            case answers.Part(offer, data):
                self.end(self.begin("data", offer.jid, seq=int(data)))
            case answers.Result():
                self.ended(answer)
            case _:
                self.complain(f"{self.name} heard {answer}")

    def accepted(self, offer: Offer, name: str) -> None:
        self.end_push(offer)
        if offer.waits:
            self._waiting.add(offer)

    def ended(self, result: answers.Result) -> None:
        offer, data = result.offer, result.data
        right = (bodies.told(offer.body)[1].encode(), *self.results)
        if data and not result.failed and not any(word in data for word in right):
            self.complain(f"{offer.jid} ended with {data!r}")
        if offer in self._pushes:
            self.end_push(offer)
        self._waiting.discard(offer)
        if data != b"expired":
            self.end(self.begin("result", offer.jid))

    def forget_pushes(self, chance: float) -> None:
        """Some of what was not answered is said again some time, unless somebody waits or only the newest counts."""
        own = [offer for offer in self._pushes if not (offer.waits or offer.name)]
        self._doubtful += [offer for offer in own if self.rng.random() < chance]
        self._pushes.clear()
        self._waiting.clear()


def custom_of(jid: str) -> object:
    """What else an odd job carries, for workers of its own protocol."""
    return {"of": jid} if bodies.is_odd(jid) else None


class Runner(Actor):
    """Takes jobs and reports them."""

    queue = ""
    """The one that its requests are noted with."""

    def begin_anew(self) -> None:
        """Nothing is asked for or reported on a new connection."""
        self._asking: deque[Event] = deque()
        self._reporting: dict[object, Event] = {}

    def ask(self) -> None:
        self._asking.append(self.begin("fetch", queue=self.queue))
        self.peer.take()

    def given(self, grant: Grant, event: Event) -> None:
        """Note a job that came, in answer to this request."""
        event.jid, event.body = bodies.told(grant.body)
        event.queue, event.reserve = grant.queue, grant.reserve
        event.worker = grant.holder or self.worker
        if event.jid.startswith(f"{self.protocol}-") and grant.attempt is not None:
            event.attempt = grant.attempt
            if grant.custom != custom_of(event.jid):
                event.body = f"custom {grant.custom}"
        self.end(event)

    def report(self, grant: Grant, fetched: Event, word: str) -> None:
        event = self.begin(_REPORTS.get(word, "ack"), fetched.jid)
        event.worker = grant.holder or self.worker
        if word == "late":
            event.worker = fetched.conn  # it is reported over another connection
        self._reporting[grant] = event
        if self.peer.report_asks:
            self._asking.append(self.begin("fetch", queue=self.queue))
        self.peer.report(grant, word, fetched.body.encode())
