"""One seed, from the first connection to an empty server, and the verdict on it."""

from collections import Counter
from random import Random
from typing import NamedTuple

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import OnHangUp
from franca.protocols.service import Service
from tests.prove import history
from tests.prove.events import Event, Rules
from tests.sim import checks
from tests.sim.actors import SOMEDAY, populate
from tests.sim.world import Faults, World
from tests.support import protocols
from tests.support.peer import QUEUES
from tests.support.protocols import PROTOCOLS
from tests.support.queue_counts import queue_counts

STEPS = 1_200
DRAIN_STEPS = 20_000
CHECK_EVERY = 7
"""Steps between two looks at everything; a prime, so that no rhythm hides from it."""
LEASE_MS = 120_000
"""Of jobs that have no lease of their own, in the hands of workers without a link."""
DRAINED_QUIETLY_MS = 200_000
"""Longer than any lease of a puppet that went away with a job."""
BY_THE_CLOCK = ("late", "early", "fifo", "priority")
"""Verdicts that compare `at` with true time; `checks.py` looks after it where the wall jumps."""
FAR_AHEAD_MS = 60 * 24 * 3_600_000
"""A wall clock on which everything is due that was put off while it went wrong."""


class Life(NamedTuple):
    """What came of a seed."""

    world: World
    protocols: list[str]
    violations: list[str]


def _services(broker: Broker, rng: Random) -> dict[str, Service]:
    """All of them. Somebody serves the queues all the time: EventMQ puts a request for one that
    nobody has named, or that was removed, into `default`, and no client can tell whether that has happened.
    """
    keeper = broker.open_session("keeper", OnHangUp.KEEP, None)
    for queue in (*QUEUES, SOMEDAY):
        broker.serve(keeper, queue)
    return protocols.services(broker, rng)


def live(seed: int, only: str = "") -> Life:
    """Live through a seed, in a world in which this protocol takes part if one is named.

    Whatever does not hold is among the violations.
    """
    rng = Random(seed)
    faults = Faults(rng)
    small = {"window_jobs": 6, "supply_jobs": 3} if rng.random() < 0.6 else {}
    world = World(rng.getrandbits(64), _services, Limits(**small, lease_ms=LEASE_MS), faults)
    # Some worlds speak one language, some two or three: what crosses is worth as much as what does not.
    spoken = rng.sample(PROTOCOLS, rng.choice((1, 2, 2, 3)))
    if only and only not in spoken:
        spoken[0] = only
    for protocol in spoken:
        populate(world, protocol, exact_times=not faults.jump)
    broken: list[str] = []
    try:
        _storm(world)
        _calm(world)
    except Exception as error:
        broken.append(f"after {world.tally.steps} steps: {type(error).__name__}: {error}")
    else:
        broken += _judge(world, exact_times=not faults.jump)
    return Life(world, sorted(spoken), broken)


def _storm(world: World) -> None:
    for number in range(STEPS):
        crashes, jumps = world.tally.crashes, world.tally.jumps
        world.step()
        if world.tally.crashes != crashes:
            checks.accepted_is_kept(world.tally.accepted, world.disk)
        if number % CHECK_EVERY == 0:
            jumped = world.tally.jumps != jumps
            checks.after_step(world.server.engine, world.disk, world.now, wall_jumped=jumped)
        claims = [actor.claim(world.now) for actor in world.actors]
        checks.holders_hold(world.server.broker, [claim for claim in claims if claim])


def _calm(world: World) -> None:
    """No more faults: let everybody finish, until the server has nothing left to give."""
    world.chaos = False
    if world.tally.jumps:
        world.set_wall(FAR_AHEAD_MS)
    for actor in world.actors:
        actor.retire()
        actor.next_at = min(actor.next_at, world.now + 1)
    quiet_since = world.now
    for _ in range(DRAIN_STEPS):
        world.step()
        counts = queue_counts(world.server.broker)
        if any(c.ready or c.leased or c.scheduled or c.retrying for c in counts):
            quiet_since = world.now
        elif world.now - quiet_since > DRAINED_QUIETLY_MS:
            checks.after_step(world.server.engine, world.disk, world.now, wall_jumped=False)
            checks.accepted_is_kept(world.tally.accepted, world.disk)
            checks.everybody_heard(world.actors)
            return
    raise AssertionError(f"not drained: {queue_counts(world.server.broker)}")


def _judge(world: World, *, exact_times: bool) -> list[str]:
    # Of requests that were said again nobody can tell how many became jobs.
    tally = {} if world.tally.again else {"pushed": world.server.broker.totals.pushed}
    moment = world.now / 1000
    world.history.append(Event("count", t0=moment, t1=moment, tally=tally))
    # Puppets are cut off in an order of their own, not in that of time.
    events = sorted(world.history, key=lambda event: (event.t1, event.t0))
    # When an answer was decided is known no better than the wires and the disk are quick.
    quick = world.faults.delay_ms <= 40 and not world.faults.slow_disk
    rules = Rules(epsilon=0.0, slack=1.0 if quick else 15.0, volatile_overtakes=True)
    verdict = history.check(events, drained=True, rules=rules)
    broken = [kind for kind in verdict.broken if exact_times or kind not in BY_THE_CLOCK]
    # A run that nobody heard of may have been a job's last; here we can look where it lies.
    lost = [row.name for row in world.disk.rows.values() if row.losses]
    dead = {f"lost: {world.names.get(name, name)}" for name in lost}
    samples = [sample for kind in broken for sample in verdict.samples.get(kind, [kind])]
    # Of a jid that was pushed twice, two jobs may run, and whose run is whose nobody can tell.
    pushes = Counter(event.jid for event in events if event.op == "push")
    return [
        sample
        for sample in samples
        if ": ".join(sample.split(": ")[:2]) not in dead
        and (sample.startswith("result") or pushes[sample.split(": ")[1]] < 2)
    ]
