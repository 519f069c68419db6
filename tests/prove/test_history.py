"""The checker is right about histories whose verdict is known beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prove.events import Event, Rules, digest, dump, load
from tests.prove.history import CLASSES, check
from tests.prove.model_server import legal_history
from tests.prove.planted import (
    CLEAN,
    CLEAN_LONG,
    LONG,
    PLANTED,
    PLANTED_LONG,
    History,
    fetch,
    push,
    selftest,
    whole,
)


@pytest.mark.parametrize(
    ("kind", "events"), [(kind, events) for kind, _, events in PLANTED],
    ids=[f"{kind}: {name}" for kind, name, _ in PLANTED],
)  # fmt: skip
def test_a_planted_fault_is_flagged_as_what_it_is(kind: str, events: History) -> None:
    assert check(events, drained=True).broken == [kind]


@pytest.mark.parametrize("events", [events for _, events in CLEAN], ids=[name for name, _ in CLEAN])
def test_a_legal_history_is_not_flagged(events: History) -> None:
    verdict = check(events, drained=True)
    assert verdict.ok, verdict.samples


@pytest.mark.parametrize("events", [events for _, events in CLEAN], ids=[name for name, _ in CLEAN])
def test_the_order_in_which_events_were_written_down_does_not_matter(events: History) -> None:
    assert check(reversed(events), drained=True).ok


@pytest.mark.parametrize(
    ("kind", "events"), [(kind, events) for kind, _, events in PLANTED_LONG],
    ids=[name for _, name, _ in PLANTED_LONG],
)  # fmt: skip
def test_a_fault_in_a_queue_that_is_longer_than_its_window_is_flagged(
    kind: str, events: History
) -> None:
    assert check(events, drained=True, rules=LONG).broken == [kind]


def test_only_in_a_queue_that_is_longer_than_its_window_may_memory_be_ahead_of_the_store() -> None:
    for _, events in CLEAN_LONG:
        assert check(events, drained=True, rules=LONG).ok
        assert check(events, drained=True).broken == ["fifo"]


def test_the_selftest_counts_every_class() -> None:
    assert selftest() == (len(CLASSES), 0)
    assert len(CLASSES) == 18


def test_without_a_drain_an_unseen_job_is_not_lost() -> None:
    assert check([push("a", 0)], drained=False).ok


def test_a_violation_between_protocols_is_counted_as_such() -> None:
    events = [push("a", 0, proto="gearman"), fetch("a", 1, body="other", proto="faktory")]
    assert check(events, drained=False).crossed == 1


def test_an_unknown_push_that_turns_up_is_counted_as_recovered() -> None:
    verdict = check([push("a", 0, out="maybe"), *whole("b", 1), fetch("a", 2)], drained=False)
    assert (verdict.accepted, verdict.recovered, verdict.deliveries) == (1, 1, 2)


def test_in_simulation_a_job_may_not_be_early_at_all() -> None:
    events = [push("a", 0, at=10.0), fetch("a", 9.0, t1=9.9995)]
    assert check(events, drained=False).ok
    assert check(events, drained=False, rules=Rules(epsilon=0)).broken == ["early"]


def test_the_summary_names_what_is_asked_for_and_what_is_broken() -> None:
    verdict = check([push("a", 0)], drained=True)
    assert verdict.line(["mangled"]) == "mangled=0 lost=1"


def test_a_history_survives_being_written_and_read(tmp_path: Path) -> None:
    events = [event for _, history in CLEAN for event in history]
    dump(events, tmp_path / "history.jsonl")
    with (tmp_path / "history.jsonl").open("rb") as file:
        assert list(load(file)) == events


def test_a_line_says_only_what_is_known(tmp_path: Path) -> None:
    dump([Event("close", "gearman", "c1", t0=1.0, t1=2.0)], tmp_path / "one")
    written = (tmp_path / "one").read_text()
    assert written == '{"op":"close","proto":"gearman","conn":"c1","t0":1.0,"t1":2.0}\n'


def test_bodies_that_differ_have_different_fingerprints() -> None:
    assert digest(b"[1]") == digest("[1]") != digest(b"[1.0]")


@pytest.mark.parametrize("seed", range(20))
def test_what_a_right_server_does_under_faults_is_never_flagged(seed: int) -> None:
    verdict = check(legal_history(seed), drained=True)
    assert verdict.ok, verdict.samples
    assert verdict.accepted > 100


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("lose", "lost"),
        ("duplicate", "two_leases"),
        ("no_fence", "stale_effect"),
        ("lifo", "fifo"),
        ("forget_ack", "ran_after_ack"),
    ],
)
def test_what_a_wrong_server_does_is_flagged(fault: str, kind: str) -> None:
    found: set[str] = set()
    for seed in range(8):
        found.update(check(legal_history(seed, frozenset([fault])), drained=True).broken)
    assert kind in found
