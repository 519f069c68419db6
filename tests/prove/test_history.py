"""The checker is right about histories whose verdict is known beforehand.

Long legal histories, which must not be flagged, and those of servers with bugs, which must, come from
the simulation: `tests/sim/test_seeds.py` and `make prove`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.prove.events import Event, Rules, digest, dump
from tests.prove.harness import Options
from tests.prove.history import CLASSES, check
from tests.prove.history_selftest import ALL, CLEAN, Planted, history, run


@pytest.mark.parametrize("planted", ALL, ids=[f"{kind}: {name}" for kind, name, *_ in ALL])
def test_a_fault_is_flagged_as_what_it_is_and_a_legal_history_is_not(planted: Planted) -> None:
    verdict = check(planted.events, drained=True, rules=planted.rules)
    assert verdict.broken == ([] if planted.kind == "clean" else [planted.kind]), verdict.samples


@pytest.mark.parametrize("planted", CLEAN, ids=[one.name for one in CLEAN])
def test_the_order_in_which_events_were_written_down_does_not_matter(planted: Planted) -> None:
    assert check(reversed(planted.events), drained=True, rules=planted.rules).ok


def test_only_in_a_queue_that_is_longer_than_its_window_may_memory_be_ahead_of_the_store() -> None:
    (long,) = [one for one in CLEAN if one.rules.volatile_overtakes]
    assert check(long.events, drained=True).broken == ["fifo"]


def test_the_selftest_counts_every_class() -> None:
    assert run(Options(seed=1)).figures.startswith("classes=18/18 false_alarms=0 ")
    assert len(CLASSES) == 18


def test_without_a_drain_an_unseen_job_is_not_lost() -> None:
    assert check(history("push a 0"), drained=False).ok


def test_a_violation_between_protocols_is_counted_as_such() -> None:
    events = history("push a 0 proto=gearman; fetch a 1 body=other")
    assert check(events, drained=False).crossed == 1


def test_an_unknown_push_that_turns_up_is_counted_as_recovered() -> None:
    verdict = check(
        history("push a 0 out=maybe; push b 1; fetch b 1.2; ack b 1.4; fetch a 2"), drained=False
    )
    assert (verdict.accepted, verdict.recovered, verdict.deliveries) == (1, 1, 2)


def test_in_simulation_a_job_may_not_be_early_at_all() -> None:
    events = history("push a 0 at=10; fetch a 9 9.9995")
    assert check(events, drained=False).ok
    assert check(events, drained=False, rules=Rules(epsilon=0)).broken == ["early"]


def test_the_summary_names_what_is_asked_for_and_what_is_broken() -> None:
    verdict = check(history("push a 0"), drained=True)
    assert verdict.figures(["mangled"]).startswith("acked=1 mangled=0 lost=1 protocols=faktory:1 ")


def test_a_history_survives_being_written_and_read(tmp_path: Path) -> None:
    events = [event for planted in CLEAN for event in planted.events]
    dump(events, tmp_path / "history.jsonl")
    assert (
        msgspec.json.Decoder(Event).decode_lines((tmp_path / "history.jsonl").read_bytes())
        == events
    )


def test_a_line_says_only_what_is_known(tmp_path: Path) -> None:
    dump([Event("close", "gearman", "c1", t0=1.0, t1=2.0)], tmp_path / "one")
    written = (tmp_path / "one").read_text()
    assert written == '{"op":"close","proto":"gearman","conn":"c1","t0":1.0,"t1":2.0}\n'


def test_bodies_that_differ_have_different_fingerprints() -> None:
    assert digest(b"[1]") == digest("[1]") != digest(b"[1.0]")
