"""Clients, workers and operators of a world: when they act, and what goes wrong with them."""

import json
from abc import abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import msgspec

from franca.core.model import Millis, State
from tests.prove import actors
from tests.prove.events import Event, Out
from tests.sim.world import Wire, World
from tests.support import peer as answers
from tests.support.faktory import Peer as FaktoryPeer
from tests.support.memodb import Peer as MemoDBPeer
from tests.support.peer import QUEUES, Answer, Grant, Offer, Peer
from tests.support.protocols import PEERS

NEVER: Millis = 1 << 60
SOMEDAY = "someday"
"""For jobs whose moment is named by a clock that goes wrong."""
WAITING_MAX = 4
ASK_AGAIN_MS = 30_000
HOPE_MS = 20_000
"""By then a client that waits alone for what nobody offers was hung up on."""


class Actor(actors.Actor):
    """One that acts when its moment has come."""

    kind = ""

    def __init__(self, world: World, name: str, protocol: str) -> None:
        super().__init__(lambda: world.now / 1000, world.history, protocol, name, world.rng)
        self.world = world
        self.variant = self.rng.choice(self.behaviour.variants.get(self.kind, ("",)))
        self.next_at: Millis = world.now + self.rng.randrange(1_000)
        self.retiring = False
        self.wire: Wire | None = None
        self.peer = self.new_peer()

    def new_peer(self) -> Peer:
        return self.peer_type(self._say, self.rng, **self.who())

    def _say(self, data: bytes) -> None:
        assert self.wire is not None
        self.wire.say(data)

    def complain(self, text: str) -> None:
        raise AssertionError(text)

    # -- the world's side ---------------------------------------------------------------------

    def act(self, now: Millis) -> None:
        """Connect, or do what one came for."""
        self.next_at = NEVER
        if self.wire is None:
            self.wire = self.world.connect(self, self.protocol)
            self.conn = self.wire.name
            self.connect()
        elif self.peer.is_open:
            self.work(now)

    def connect(self) -> None:
        """There is a new connection."""
        if not self.peer.lasts:
            self.peer = self.new_peer()
        self.peer.open()
        self.peer_rules = self.peer.peer_rules
        if self.peer.is_open:
            self.begin_work()

    def begin_work(self) -> None:
        """From now on more may be said."""
        self.after(1, 200)

    def heard(self, data: bytes, now: Millis) -> None:
        """Bytes from the server."""
        was_open = self.peer.is_open
        for answer in self.peer.hear(data):
            self.on(answer)
            if self.wire is None:
                return  # it has hung up
        if self.peer.is_open and not was_open:
            self.begin_work()

    def cut_off(self, now: Millis) -> None:
        """The connection is gone."""
        self.note_close(self.clock())
        self.wire = None
        self.next_at = now + self.rng.randrange(1, 2_000)
        self.gone(now)

    def retire(self) -> None:
        """No more faults of its own."""
        self.retiring = True

    def claim(self, now: Millis) -> tuple[str, str] | None:
        """The name of a job that this actor surely holds, and as whom; None if it may hold none."""
        return None

    def is_content(self) -> bool:
        """Nothing that was promised to it is still to come."""
        return True

    # -- what the kinds of actors do ---------------------------------------------------------------

    @abstractmethod
    def work(self, now: Millis) -> None:
        """Do one thing."""

    def gone(self, now: Millis) -> None:
        """The connection was lost."""

    def after(self, least: int, most: int) -> None:
        """Be asked again after so many milliseconds."""
        self.next_at = self.world.now + self.rng.randrange(least, most)

    def hang_up(self) -> None:
        assert self.wire is not None
        self.world.hang_up(self.wire)


# -- clients ---------------------------------------------------------------------------------------


class Client(Actor, actors.Submitter):
    """Submits jobs, some of them again because nobody said that they had come.

    One that `waits` must hear one end of each job that was accepted; now and then it goes away.
    """

    results = (b"true", b"late")

    def __init__(self, world: World, name: str, protocol: str, *, waits: bool, exact: bool) -> None:
        self.kind = "waiter" if waits else "producer"
        super().__init__(world, name, protocol)
        self.waits = waits
        self._exact_times = exact
        self._versions: defaultdict[str, list[str]] = defaultdict(list)
        self._newest: dict[str, int] = {}
        self._heard_at = world.now

    def work(self, now: Millis) -> None:
        """One or a few more; or a sudden end of one that waits."""
        if self.retiring:
            self._wait_for_the_last_word(now)
        elif self.waits and self.rng.random() < 0.1:
            self.hang_up()
        elif self.waits:
            if len(self._waiting) + len(self._pushes) < WAITING_MAX:
                self._submit(self._new())
            self.after(1, 8_000)
        else:
            self._offer_some()

    def _offer_some(self) -> None:
        if self._doubtful and self.rng.random() < 0.5:
            self._submit(self._doubtful.pop())
        else:
            for _ in range(self.rng.choice((1, 1, 1, 4))):
                self._submit(self._new())
        self.after(1, 20_000 if self.rng.random() < 0.2 else 1_500)

    def _wait_for_the_last_word(self, now: Millis) -> None:
        """Where nothing is ever heard of jobs in a queue that was removed, for so long and no longer."""
        if self.behaviour.last_word_ms and (self._pushes or self._waiting):
            self.next_at = self._heard_at + self.behaviour.last_word_ms
            if self.next_at <= now:
                self.hang_up()

    def _new(self) -> Offer:
        rng = self.rng
        volatile = self.waits and self.behaviour.volatile_waits
        offer = self.new_offer(rng.choice(QUEUES), waits=self.waits, volatile=volatile)
        self.behaviour.vary(offer, rng)
        if offer.name:
            self._versions[offer.name].append(offer.jid)
        elif not (self.waits or offer.unique) and rng.random() < self.behaviour.later:
            offer.at = (self.world.wall() + rng.randrange(-5_000, 900_000)) // 1000
            offer.queue = offer.queue if self._exact_times else SOMEDAY
        return offer

    def _submit(self, offer: Offer) -> None:
        if offer.name:
            # It may be replaced before it is run, and waits behind a run of its name: its own
            # producer knows what must come of it, the history does not.
            self.end(self.begin("remove", offer.jid), "maybe")
        event = self.begin_push(offer)
        # Where the wall clock jumps, its moments cannot be compared with true ones.
        event.at = float(offer.at) if offer.at and self._exact_times else None
        self.peer.submit(offer)

    def on(self, answer: Answer) -> None:
        self._heard_at = self.world.now
        if not isinstance(answer, answers.Part):
            super().on(answer)

    def ended(self, result: answers.Result) -> None:
        """Of one that was not accepted before, this says that it was; where it failed, it may not have run."""
        if result.offer in self._pushes:
            self.world.tally.jobs += 1
            if result.failed:
                self.end(self.begin("remove", result.offer.jid), "maybe")
        super().ended(result)

    def accepted(self, offer: Offer, name: str) -> None:
        super().accepted(offer, name)
        self.world.names[name] = offer.jid
        if not offer.volatile:
            self.world.tally.accept(name, offer.queue)
            self.world.lasting.add(name)
        if offer.name:
            place = self._versions[offer.name].index(offer.jid)
            self._newest[offer.name] = max(self._newest.get(offer.name, 0), place)

    def gone(self, now: Millis) -> None:
        self.forget_pushes(0.5)

    def is_content(self) -> bool:
        """Nothing is waited for; of each name the newest that was accepted has run, or a later one."""
        ran = {e.jid for e in self.world.history if e.op == "fetch"}
        dead = {j.name for j in self.world.disk.rows.values() if j.state is State.DEAD}
        names = {} if self.world.tally.removed.intersection(QUEUES) else self._newest
        return not self._waiting and all(
            name in dead or ran.intersection(self._versions[name][place:])
            for name, place in names.items()
        )


# -- workers ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Run:
    """A job that a worker has, since which event, and until when it runs."""

    grant: Grant
    fetched: Event
    until: Millis


class Worker(Actor, actors.Runner):
    """Takes jobs, runs and reports them; or fails, oversleeps, falls silent, vanishes."""

    kind = "worker"

    def __init__(self, world: World, name: str, protocol: str, worker: str = "") -> None:
        self.worker = worker
        super().__init__(world, name, protocol)
        behaviour = self.behaviour
        self._slots = self.rng.choice(behaviour.slots)
        self._weights = behaviour.sleepy if self.rng.random() < 0.3 else behaviour.usual
        self._held: list[Run] = []
        self._left_behind: list[Run] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        super().begin_anew()
        self._reported_at: dict[str, float] = {}
        self._ask_at: Millis = 0
        self._beat_at: Millis = 0
        self._asked_again_at: Millis = 0
        self._silent_since: Millis = 0
        self._is_leaving = False

    def queues(self) -> tuple[str, ...]:
        return (*QUEUES, SOMEDAY, *(["default"] if self.behaviour.needs_spare else []))

    def begin_work(self) -> None:
        """Some report what they ran before; some libraries rest before they ever ask."""
        for run in self._left_behind:
            self.report(run.grant, run.fetched, "late")
        self._left_behind.clear()
        if self.peer.rests and self.rng.random() < 0.5:
            self._rest()
        super().begin_work()

    def claim(self, now: Millis) -> tuple[str, str] | None:
        """What it was given it has, as long as the job's time surely lasts."""
        if not self._held or self.wire is None or self.wire.link.closing or self._silent_since:
            return None
        grant, fetched = self._held[0].grant, self._held[0].fetched
        holder = self.peer.held_as.format(link=self.wire.link.id, worker=self.peer.worker)
        is_own = fetched.jid.startswith(self.protocol)
        # Of another's job the time is known only if it was told; and a lease that outlives the
        # connection may be of a job that does not outlive a crash.
        known = self.world.lasting if self.worker else self.world.names
        if not holder or grant.name not in known or not (is_own or grant.reserve):
            return None
        # It may have been given the job again before its report of an earlier run was heard.
        if self._reported_at.get(fetched.jid, 0.0) >= fetched.t0:
            return None
        # It was not given out before it was asked for, nor before its time by an honest clock.
        since = fetched.t0 if self.world.tally.jumps else max(fetched.t0, grant.at)
        if grant.reserve is not None and now >= 1000 * (since + grant.reserve):
            return None
        return grant.name, holder

    def work(self, now: Millis) -> None:
        """Beat if it is time; report what is done; ask for more; now and then go wrong."""
        if self._silent_since:
            self.hang_up()  # the server has given it up by now
            return
        if self.behaviour.beat_ms and now >= self._beat_at and not self._is_leaving:
            self._beat_at = now + self.behaviour.beat_ms
            self.peer.beat()
        for run in self._held[:]:
            if run.until <= now and not self._finish(run):
                return
        if self._is_leaving and not self._held and not self._reporting:
            self.hang_up()
            return
        self._ask_if_free(now)
        self._set_alarm()

    def _free(self) -> int:
        """How many more jobs it would take now."""
        busy = len(self._held) + len(self._asking)
        busy += 0 if self.behaviour.asks_at_once else len(self._reporting)
        return 0 if self._is_leaving else self._slots - busy

    def _ask_if_free(self, now: Millis) -> None:
        if now < self._ask_at:
            return
        if self._asking and self.rng.random() < 0.3 and self.peer.take_again():
            self._asked_again_at = now
        self._ask_at = now + ASK_AGAIN_MS
        for _ in range(self._free()):
            self.ask()

    def _rest(self) -> None:
        self._ask_at = NEVER if self.peer.rests else self.world.now + self.rng.randrange(1, 10_000)
        self.peer.rest()

    def _finish(self, run: Run) -> bool:
        """A run has ended, one way or another; False if the worker did."""
        words = self.behaviour.words
        word = "ack" if self.retiring else self.rng.choices(list(words), list(words.values()))[0]
        if word == "vanish":
            self.vanish()
            return False
        if word == "silence":
            self._silent_since = self.world.now
            self.next_at = self.world.now + 2 * self.behaviour.silence_ms + 1
            return False
        self._held.remove(run)
        if word == "goodbye" and not self._is_leaving:
            self._is_leaving = not self.peer.report_asks
            self.peer.leave()
        self.report(run.grant, run.fetched, word)
        if self.behaviour.asks_at_once:
            self._ask_at = self.world.now
        return True

    def report(self, grant: Grant, fetched: Event, word: str) -> None:
        self._reported_at[fetched.jid] = self.clock()
        super().report(grant, fetched, word)

    def vanish(self) -> None:
        self._held.clear()
        self.hang_up()

    def on(self, answer: Answer) -> None:
        """A job, none, or that something was heard."""
        match answer:
            case answers.Granted(grant) if self._asking:
                self.given(grant, self._asking.popleft())
            case answers.Granted(grant) if self._asked_again_at:
                # What was asked for again crossed with the job that answered it: one too many.
                event = self.begin("fetch")
                event.t0 = self._asked_again_at / 1000
                self.given(grant, event)
                self.report(grant, self._held.pop().fetched, "fail")
            case answers.Nothing(out):
                event = self._asking.popleft()
                if self.peer.rests or out == "maybe":
                    self.forget(event)  # whoever rests must be woken, or is told to begin anew
                else:
                    self.end(event, "no")
                self._rest()
            case answers.Woken():
                self._ask_at = self.world.now + self.rng.randrange(1, 50)
            case answers.Done(what, out):
                if what in self._reporting or not self.peer.lasts:
                    self.end(self._reporting.pop(what), out)
                self._ask_at = self.world.now + self.rng.randrange(1, 300)
            case answers.Refused(None, _):
                # A part of the result that came when the job's time was over.
                assert any(run.grant.reserve is not None for run in self._held), answer
            case _:
                self.complain(f"{self.name} did not ask for {answer}")
        if not self._silent_since:
            self._set_alarm()

    def given(self, grant: Grant, event: Event) -> None:
        super().given(grant, event)
        least, most = self.rng.choices(self.behaviour.spans, self._weights)[0]
        until = self.world.now + (1 if self.retiring else self.rng.randrange(least, most))
        self._held.append(Run(grant, event, until))
        if self.rng.random() < 0.3:
            self.peer.part(grant, b"part")
        if self.rng.random() < 0.1 and not self.retiring:
            self.peer.renew()

    def _set_alarm(self) -> None:
        moments = [run.until for run in self._held]
        if self._is_leaving and not (self._held or self._reporting):
            moments.append(self.world.now)
        elif self._asking or self._free() > 0:
            moments.append(self._ask_at)
        if self.behaviour.beat_ms and not self._is_leaving:
            moments.append(self._beat_at)
        self.next_at = max(min(moments, default=NEVER), self.world.now + 1)

    def gone(self, now: Millis) -> None:
        """What it ran is lost, or kept under its name, or may still be reported when it is back."""
        if self._silent_since:
            # From then on the server might take it for gone.
            moment = self._silent_since / 1000
            self.events.append(Event("close", self.peer_rules, self.conn, t0=moment, t1=moment))
        kept = [run for run in self._held if self.peer.lasts or self.rng.random() < 0.5]
        if not (self.worker or self.peer.lasts):
            self._left_behind += kept if self.behaviour.silence_ms else []
            kept = []
        self._held = kept
        self.begin_anew()


# -- those whose requests are said again -----------------------------------------------------------


class Resending(Actor):
    """A socket of NNG: what was not answered is said again when the connection was lost or patience ends."""

    peer: MemoDBPeer

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._patience_ms = self.rng.choice((5_000, 20_000, 60_000))
        self._again_at: Millis = 0
        # Of requests that are said again nobody can tell how many became jobs.
        self.world.tally.again = True

    def act(self, now: Millis) -> None:
        if self.wire is not None and self.peer.is_open and now >= self._again_at:
            self._again_at = now + self._patience_ms
            for number in list(self.peer.requests):
                self.peer.say_again(number)
        super().act(now)
        if self.wire is not None and self.peer.is_open:
            self.next_at = min(self.next_at, self._again_at)

    def retire(self) -> None:
        super().retire()
        self._patience_ms = min(self._patience_ms, 20_000)
        self._again_at = min(self._again_at, self.world.now + self._patience_ms)


class ResendingClient(Resending, Client):
    """Each job must be answered some day, on whatever connection, or is given up."""

    def work(self, now: Millis) -> None:
        if not self.retiring and self._pushes and self.rng.random() < 0.05:
            offer = self.rng.choice(list(self._pushes))
            self.peer.give_up([offer])
            self._note_push(offer, "maybe")  # it may run, and nobody hears of it
        super().work(now)

    def _submit(self, offer: Offer) -> None:
        super()._submit(offer)
        self.forget(self._pushes[offer])  # it is not over when the connection is

    def end_push(self, offer: Offer) -> None:
        self._note_push(offer, "ok")

    def _note_push(self, offer: Offer, out: Out) -> None:
        event = self._pushes.pop(offer)
        event.conn, event.out, event.t1 = self.conn, out, self.clock()
        self.events.append(event)

    def gone(self, now: Millis) -> None:
        pass

    def is_content(self) -> bool:
        return not self._pushes


class ResendingWorker(Resending, Worker):
    """Every request asks for work too, on each connection anew."""

    def begin_work(self) -> None:
        self._asking.extend(self.begin("fetch") for _ in self.peer.requests)
        super().begin_work()

    def vanish(self) -> None:
        """All that this process held is lost, and it begins anew."""
        self.peer.requests.clear()
        super().vanish()


class Hopeful(Resending):
    """Asks for what nobody offers: never answered, and hung up on when it waits alone for long."""

    def begin_work(self) -> None:
        self._asked_at = [self.world.now for _ in self.peer.requests]
        super().begin_work()

    def work(self, now: Millis) -> None:
        """One more; the one before is given up."""
        assert len(self._asked_at) != 1 or now - self._asked_at[0] < HOPE_MS, "alone, and it waits"
        self.peer.requests.clear()
        if self.retiring:
            if self._asked_at:
                self.hang_up()
            return
        reserve = self.rng.choice((1, 30, 150))
        self.peer.submit(Offer("", "nowhere", b"%d" % now, waits=True, reserve=reserve))
        self._asked_at.append(now)
        self.after(5_000, 90_000)

    def on(self, answer: Answer) -> None:
        self.complain(f"{answer} to what nobody offers")


# -- operators -------------------------------------------------------------------------------------


class Operator(Actor):
    """Pauses and resumes queues, and changes single jobs."""

    peer: FaktoryPeer

    def __init__(self, world: World, name: str, clients: list[Client]) -> None:
        super().__init__(world, name, "faktory")
        self._clients = clients
        self._has_resumed = False

    def work(self, now: Millis) -> None:
        """One order."""
        if self.retiring:
            for queue in () if self._has_resumed else (*QUEUES, SOMEDAY):
                self._steer("resume", queue)
            self._has_resumed = True
            return
        what = self.rng.choices(("pause", "resume", "mutate", "remove"), (25, 50, 22, 3))[0]
        if what == "mutate":
            self._mutate()
        else:
            self._steer(what, self.rng.choice(QUEUES))
        self.after(1_000, 60_000)

    def _steer(self, what: str, queue: str) -> None:
        if what == "remove":
            self.world.tally.remove(queue)
        self.peer.order(self.begin(what, queue=queue), "QUEUE", what.upper(), queue)

    def _mutate(self) -> None:
        """Discard or kill one job, or queue it again, if it is where the order looks for it."""
        jids = self.rng.choice(self._clients).jids
        target = self.rng.choice(("retries", "scheduled", "dead"))
        cmd = self.rng.choice(("discard", "kill", "requeue"))
        if not jids or (target, cmd) == ("scheduled", "requeue"):
            return  # it would run before its time, and rightly so
        jid = self.rng.choice(jids)
        event = self.begin("release" if cmd == "requeue" else "remove", jid)
        orders = {"cmd": cmd, "target": target, "filter": {"jids": [jid]}}
        self.peer.order(event, "MUTATE", json.dumps(orders))

    def on(self, answer: Answer) -> None:
        """OK is said too where there was no such job in that set."""
        assert isinstance(answer, answers.Done), answer
        assert isinstance(answer.what, Event)
        self.end(answer.what, "maybe" if answer.what.jid else "ok")

    def cut_off(self, now: Millis) -> None:
        """A queue that may not have been resumed may still be paused; say so again at the end."""
        resumed = [event for event in self._under_way.values() if event.op == "resume"]
        super().cut_off(now)
        for event in resumed:
            self.world.history.append(msgspec.structs.replace(event, op="pause", t0=event.t1))
        self._has_resumed = False


def populate(world: World, protocol: str, *, exact_times: bool) -> None:
    """Some of each kind."""
    rng, peer, behaviour = world.rng, PEERS[protocol], PEERS[protocol].behaviour
    client, worker = (ResendingClient, ResendingWorker) if peer.lasts else (Client, Worker)
    kinds = (("prod", False, behaviour.producers), ("wait", True, behaviour.waiters))
    clients = [
        client(world, f"{protocol}-{kind}{n}", protocol, waits=waits, exact=exact_times)
        for kind, waits, count in kinds
        for n in range(rng.randrange(*count))
    ]
    world.actors += clients
    for n in range(rng.randrange(*behaviour.workers)):
        name = f"worker-{n}" if rng.random() < behaviour.named else ""
        world.actors.append(worker(world, f"{protocol}-work{n}", protocol, name))
    if behaviour.operated:
        world.actors.append(Operator(world, f"{protocol}-operator", clients))
    if peer.lasts:
        world.actors.append(Hopeful(world, f"{protocol}-hopeful", protocol))
