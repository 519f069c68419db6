"""T16: whatever is said to a protocol, nothing breaks, nothing hangs, and it does not matter how the bytes were cut.

For so many seconds and each protocol, good exchanges (`hostile/`) are spoiled and played to the whole engine without
its sockets: once in one piece; once cut anywhere, which must make no difference; and once piece by piece, so that all
others act in between, or nobody, and then it must not either. Often peers of another protocol take part, spoiled or not, and
the jobs of all lie in one queue; what is heard then is not compared. A spoiled exchange that is answered as none was before is spoiled further. After each, all
links close and nothing may be left of them. An exception for which the engine had to end a link counts as one that
nobody handled, though no other link noticed.
"""

import signal
import time
import traceback
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from types import FrameType
from typing import Self

from msgspec.structs import replace

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.conversation import Peer
from franca.protocols.service import Service
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.prove.harness import Options, Result, Tally
from tests.prove.hostile import Exchange, of
from tests.prove.hostile.spoil import spoiled, visited
from tests.prove.mutants import BUGS, plant
from tests.sim import checks
from tests.sim.disk import Disk
from tests.support.protocols import PROTOCOLS, listeners

_LIMITS = Limits(body_bytes_max=1 << 16, frame_bytes_max=1 << 18, window_jobs=50, supply_jobs=10)
# A share that ends lets others act, and that may make a difference; so may a window that runs dry
# before the turn is over, for which a real one is too large.
_UNSHARED = replace(_LIMITS, turn_messages=1 << 20, window_jobs=1 << 20)
_SHARED = replace(_LIMITS, turn_messages=3)
_TURNS_MAX = 5_000
"""Turns without an end, beside one for each byte that came: a flood of tiny messages takes many."""
_HANGS_AFTER_S = 5
_PER_BYTE_S = 50e-6
"""Processor time after which it is called a hang: some words are dear, and may come a thousand times."""
_FORGOTTEN_MS = 120_000
"""After which nothing is remembered of those who left."""
_OF_SERVICES = {"eventmq-results", "memodb-requests"}
"""Sessions that end with the server."""
_CORPUS_MAX = 2_000
_PIECES_MAX = 40
_ENOUGH = 5
_ATTEMPTS = 12
"""How often something is cut otherwise before it is believed to make no difference."""
_LONGEST_SEARCH = 6
"""How many times longer than usual a planted bug is looked for: where it is found is a matter of luck."""
_GOOD = 0.25
"""How often a good exchange is spoiled rather than one that was spoiled before: those soon outnumber the good ones."""
_VISITED = 0.4
"""How often peers of another protocol take part."""


class Hang(BaseException):
    """It did not come to an end. No guard may take it for an error of the server's."""


class Unhandled(Exception):
    """The engine had to end a link because of this."""


class World(AnyWorld):
    """The services of those who take part in an exchange, their links and a disk.

    `heard` is all that was said to each link, `closed` are those that the server hung up on.
    """

    def __init__(self, exchange: Exchange, limits: Limits = _UNSHARED) -> None:
        self.disk = Disk()
        super().__init__(limits, store=self.disk)
        self.services: dict[str, Service] = {}
        for protocol in sorted({step.protocol for step in exchange}):
            self.services |= listeners(protocol, self.broker, Random(1))
        self.serve(self.services)
        self.heard: dict[str, bytearray] = {}
        self.closed: set[str] = set()
        self._exchange = exchange
        self._by_name: dict[str, AnyPuppet] = {}
        self._bytes_said = 0

    def play(self, cuts: Random | None = None, *, slowly: bool = False) -> Self:
        """Say it all, in one piece or cut anywhere, or piece by piece; then everybody leaves."""
        for step in self._exchange:
            if step.pass_ms:
                self.pass_time(step.pass_ms)
            link = self._puppet(step.link).link
            hostility = of(step.protocol)
            data = b"".join(map(hostility.encode, step.messages))
            data = hostility.fill(self.services[link.protocol], data)
            for piece in _cut(data, cuts):
                self.engine.inputs.append((link, piece))
                self._bytes_said += len(piece)
                if slowly:
                    self.run()
            self.run()
            self.pass_time(10)
        for name, puppet in self._by_name.items():
            if puppet.is_hung_up:
                self.closed.add(name)
            else:
                puppet.hang_up()
        for _ in range(_FORGOTTEN_MS // 10_000):
            self.pass_time(10_000)
        return self

    def answers(self) -> dict[str, list[bytes]]:
        """What each link was told; what was not asked for may come a little sooner or later."""
        found: dict[str, list[bytes]] = {}
        for name, said in self.heard.items():
            hostility = of(name.partition("/")[0])
            found[name] = sorted((hostility.compared or hostility.said)(bytes(said)))
        return found

    def pass_time(self, ms: int, *, step: int = 0) -> None:
        """Let time pass, not all at once."""
        super().pass_time(ms, step=step or max(ms // 2, 1))

    def _puppet(self, name: str) -> AnyPuppet:
        if name not in self._by_name:
            protocol, _, own = name.partition("/")
            listener = of(protocol).links.get(own, protocol)
            link = self.open_link(listener, Peer("127.0.0.1", local=True))
            self._by_name[name] = self.puppets[link] = AnyPuppet(self, link)
            self.heard[name] = self._by_name[name].unread
        return self._by_name[name]

    def run(self) -> None:
        """Turn until there is nothing to act on; `Hang` if that takes for ever."""
        turns_max = _TURNS_MAX + self._bytes_said
        for _ in range(turns_max):
            self.engine.turn(self.now)
            self.commit()
            self.listen()
            engine = self.engine
            if not (engine.has_input() or engine.with_output or self.broker.has_changes()):
                return
        raise Hang(f"{turns_max} turns, and no end")

    def check(self) -> None:
        """All are gone: nothing may be left of them, and what is left must be sound."""
        for notice in self.engine.notices:
            if notice.error is not None:
                raise Unhandled(notice.reason) from notice.error
        assert not self.engine.links, "a link is left"
        assert not self.broker.leases.holders, f"held for ever: {list(self.broker.leases.holders)}"
        sessions = self.broker.sessions.open.values()
        left = {one.holder for one in sessions if one.owner is not None} - _OF_SERVICES
        assert not left, f"sessions are left: {left}"
        for job_id in self.broker.watches.by_job:
            # A lease may outlive its worker's connection: until it ends the result may still come.
            assert self.broker.jobs[job_id].state is State.LEASED, "watched by nobody"
        checks.after_step(self.engine, self.disk, self.now, wall_jumped=False)


def _cut(data: bytes, cuts: Random | None) -> list[bytes]:
    if cuts is None or len(data) < 2:
        return [data] if data else []
    count = min(len(data) - 1, cuts.choice((1, 3, _PIECES_MAX)))
    places = [0, *sorted(cuts.sample(range(1, len(data)), count)), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


# -- the hunt ----------------------------------------------------------------------------------


Shape = tuple[bytes, ...]
"""What the answers to an exchange look like."""
KINDS = ("crashes", "hangs", "unhandled", "differ", "unsound")


class Finds(Tally):
    """What was found, in one protocol."""

    def __init__(self) -> None:
        super().__init__("execs", "visited", *KINDS)
        self.found: list[tuple[str, str, Exchange]] = []

    def keep(self, kind: str, what: str, exchange: Exchange) -> None:
        self[kind] += 1
        self.found.append((kind, what, exchange))


def run(options: Options) -> Result:
    seconds = options.number("seconds", 60, short=4)
    signal.signal(signal.SIGPROF, _alarm)
    names = [name for name in PROTOCOLS if name in options.extra.get("only", PROTOCOLS)]
    enough = _ENOUGH
    if options.mutant:
        plant(BUGS[options.mutant])
        # A bug is named after its protocol: all the time there is goes to that one. The hunt ends
        # when it is found, so that the longest search costs nothing but where a bug escapes.
        seconds *= len(names) * _LONGEST_SEARCH
        names = [name for name in names if options.mutant.startswith(name)]
        enough = 1
    total, details = Tally("execs", *KINDS), list[str]()
    searched = True
    for name in names:
        tally = Finds()
        # Of the processor's time: a machine that is busy with something else has less to give.
        _hunt(name, options.rng, time.process_time() + seconds, tally, enough)
        details.append(f"{name}: {tally}")
        for kind, what, exchange in tally.found[:3]:
            short = _shortened(kind, exchange)
            details += [f"  {kind}: {what}", *(f"  {step!r}"[:4_000] for step in short)]
            if options.keep is not None:
                with options.keep.open("a") as file:
                    file.writelines([f"# {name}\n", *(f"{step!r}\n" for step in short)])
        searched = searched and tally["execs"] > 0
        total.update({kind: tally[kind] for kind in total})
    found = any(total[kind] for kind in KINDS)
    return Result(searched and not found, f"parsers={len(names)} {total}", details)


def _hunt(protocol: str, rng: Random, until: float, tally: Finds, enough: int) -> None:
    corpora = {name: [_of(name, exchange) for exchange in of(name).exchanges] for name in PROTOCOLS}
    corpus = corpora.pop(protocol)
    good = corpus[:]
    visitors = [exchange for other in corpora.values() for exchange in other]
    shapes: set[Shape] = set()
    for exchange in good:
        _try(exchange, rng, tally)
    while time.process_time() < until and len(tally.found) < enough:
        exchange = spoiled(rng.choice(good if rng.random() < _GOOD else corpus), corpus, rng)
        if rng.random() < _VISITED:
            tally["visited"] += 1
            other = rng.choice(visitors)
            other = spoiled(other, [other], rng) if rng.random() < 0.5 else other
            exchange = visited(exchange, other, rng)
        shape = _try(exchange, rng, tally)
        tally["execs"] += 1
        if shape is not None and shape not in shapes and len(corpus) < _CORPUS_MAX:
            shapes.add(shape)
            corpus.append(exchange)


def _of(protocol: str, exchange: Exchange) -> Exchange:
    """The same with links that say which protocol they speak."""
    return tuple(step._replace(link=f"{protocol}/{step.link}") for step in exchange)


def _try(exchange: Exchange, rng: Random, tally: Finds, *, again: bool = False) -> Shape | None:
    """Play it three times; what the answers look like, or None if something was wrong."""
    size = sum(len(part) for step in exchange for message in step.messages for part in message)
    state = rng.getstate()
    signal.setitimer(signal.ITIMER_PROF, _HANGS_AFTER_S + size * _PER_BYTE_S)
    try:
        whole, cut = World(exchange).play(), World(exchange).play(Random(rng.random()))
        alone = len({step.link for step in exchange}) == 1
        # Some read several messages before others hear of the first: then it matters to a worker of
        # another protocol, which asks for its next job as soon as it hears of one.
        mixed = len({step.protocol for step in exchange}) > 1
        slow = World(exchange, _UNSHARED if alone else _SHARED)
        slow.play(Random(rng.random()), slowly=True)
        for world in (whole, cut, slow):
            world.check()
        if alone and whole.answers() == cut.answers():
            # Nobody else can act in between: however slowly it comes, it is the same.
            cut = slow
        said, said_cut = whole.answers(), cut.answers()
    except Hang as hang:
        if not again:
            # A machine that stood still is not a hang: the same would take as long once more.
            rng.setstate(state)
            return _try(exchange, rng, tally, again=True)
        tally.keep("hangs", str(hang), exchange)
    except Unhandled as unhandled:
        tally.keep("unhandled", _where(unhandled.__cause__ or unhandled), exchange)
    except Exception as error:
        is_crash = "franca" in Path(traceback.extract_tb(error.__traceback__)[-1].filename).parts
        tally.keep("crashes" if is_crash else "unsound", _where(error), exchange)
    else:
        for name in whole.closed & cut.closed:
            _forgive(said[name], said_cut[name])
        if not mixed and (said != said_cut or whole.closed != cut.closed):
            what = f"cut otherwise, heard otherwise: {_unlike(said, said_cut)}"
            tally.keep("differ", what, exchange)
            return None
        return tuple(answer[:14] for answers in said.values() for answer in answers[:20])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _shortened(kind: str, exchange: Exchange) -> Exchange:
    """The same without whatever is not needed to find something of this kind."""
    if kind == "hangs":
        return exchange
    place = 0
    while place < len(exchange):
        step = exchange[place]
        said = step.messages
        fewer = [step._replace(messages=said[:at] + said[at + 1 :]) for at in range(len(said))]
        for shorter in ([], *([one] for one in fewer)):
            attempt = (*exchange[:place], *shorter, *exchange[place + 1 :])
            tally = Finds()
            for seed in range(_ATTEMPTS if kind == "differ" else 1):
                _try(attempt, Random(seed), tally)
            if tally[kind]:
                exchange = attempt
                break
        else:
            place += 1
    return exchange


def _where(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}: {error!r:.300}"


def _forgive(one: list[bytes], other: list[bytes]) -> None:
    """What only one of them heard, when it was hung up on before anything else could be said."""
    extra = Counter(one) - Counter(other), Counter(other) - Counter(one)
    if not (extra[0] and extra[1]):
        one[:] = other[:] = []


def _unlike(one: dict[str, list[bytes]], other: dict[str, list[bytes]]) -> str:
    for name in one:
        if one[name] != other[name]:
            only = [a[:80] for a in one[name] if a not in other[name]][:2]
            more = [a[:80] for a in other[name] if a not in one[name]][:2]
            return f"{name}: whole {only}, cut {more}"
    return "hung up on others"


def _alarm(number: int, frame: FrameType | None) -> None:
    raise Hang("more processor time than it may need")
