"""B7: how late a lease ends: a worker hangs, and another one is waiting for its job."""

import selectors
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.findings import Finding, Setup
from bench.servers import Server, ServerFailed, running, start_all
from tests.support.gearman import Gearman, Type

TRIALS = 100
TIMEOUT_MS = 1_000
LATE_P95_MS = 250.0
APART_S = 0.013  # so that trials begin in every phase of whatever the server does periodically
PATIENCE_S = 15.0


@dataclass(slots=True)
class Trial:
    """A worker that asks for a job and hangs, and one that sleeps until it may have it."""

    hung: Gearman
    asleep: Gearman
    asked_at: float = 0.0
    given_at: float = 0.0
    ended_at: float = 0.0


def leases(setup: Setup) -> Iterator[Finding]:
    """Many workers with CAN_DO_TIMEOUT hang at about the same time."""
    with running(start_all(setup.directory / "data")) as server:
        trials = [_prepared(server, f"hangs{number}") for number in range(TRIALS)]
        _watch(trials)
    ended = [trial for trial in trials if trial.ended_at]
    if len(ended) < TRIALS:
        raise ServerFailed(f"of {TRIALS} leases {len(ended)} ended within {PATIENCE_S} s")
    late_ms = sorted((trial.ended_at - trial.given_at) * 1e3 - TIMEOUT_MS for trial in trials)
    early_ms = max(TIMEOUT_MS - (trial.ended_at - trial.asked_at) * 1e3 for trial in trials)
    p95, more = late_ms[TRIALS * 95 // 100], f"max_ms={late_ms[-1]:.0f} trials={TRIALS}"
    yield Finding("lease-end", "late_p95_ms", p95, LATE_P95_MS, more=more)
    yield Finding("lease-end", "early_max_ms", early_ms, 0)


def _prepared(server: Server, function: str) -> Trial:
    hung, asleep, client = (Gearman(server.ports["gearman"]) for _ in range(3))
    client.submit(function, b"work")
    client.close()
    hung.can_do(function, timeout_ms=TIMEOUT_MS).echo()
    asleep.can_do(function).echo()
    return Trial(hung, asleep)


def _watch(trials: list[Trial]) -> None:
    """Let one worker after the other ask, and note when its job is given and when it is lost."""
    selector = selectors.DefaultSelector()
    waiting = list(trials)
    deadline = time.monotonic() + PATIENCE_S
    ask_at = time.monotonic()
    while (waiting or selector.get_map()) and time.monotonic() < deadline:
        if waiting and time.monotonic() >= ask_at:
            ask_at += APART_S
            trial = waiting.pop()
            trial.asked_at = time.monotonic()
            trial.hung.say(Type.GRAB_JOB)
            selector.register(trial.hung.fileno(), selectors.EVENT_READ, trial)
        for key, _ in selector.select(timeout=APART_S / 4):
            _heard(key.data, selector)


def _heard(trial: Trial, selector: selectors.BaseSelector) -> None:
    if not trial.given_at:
        trial.given_at = time.monotonic()
        trial.hung.read().checked(Type.JOB_ASSIGN)
        selector.unregister(trial.hung.fileno())
        trial.asleep.say(Type.PRE_SLEEP)
        selector.register(trial.asleep.fileno(), selectors.EVENT_READ, trial)
    else:
        trial.ended_at = time.monotonic()
        trial.asleep.read().checked(Type.NOOP)
        selector.unregister(trial.asleep.fileno())
