"""T4: the checker knows every class of violation, and cries wolf at nothing legal.

Histories are made by hand, in `history_selftest.txt`: one or more with a planted fault for each class, and legal
ones that look odd. Each fault must be flagged as its class and nothing else, and no legal history at all.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.prove.events import Event, Rules
from tests.prove.harness import Options, Result
from tests.prove.history import CLASSES, check
from tests.prove.tables import records


class Planted(NamedTuple):
    """One history. `kind` is the class of its fault, or `clean`."""

    kind: str
    name: str
    events: list[Event]
    rules: Rules


def history(text: str) -> list[Event]:
    """`push a 0 retry=3; fetch a 1; ...` as events; the file's head says how they are written."""
    protocol, _, said = text.rpartition(": ")
    return [_event(event.split(), protocol or "faktory") for event in said.split(";")]


def _event(words: list[str], protocol: str) -> Event:
    op, *plain = [word for word in words if "=" not in word]
    given = dict(word.split("=") for word in words if "=" in word)
    given |= dict.fromkeys([word for word in plain if word in ("waits", "volatile")], "true")
    times = [float(word) for word in plain if word.replace(".", "").isdigit()]
    if op == "count":
        return Event("count", t0=900.0, t1=900.1, tally={k: int(v) for k, v in given.items()})
    fields: dict[str, Any] = {"op": op, "proto": protocol, "conn": "c1", "queue": ""}
    subject = plain[0] if plain and not plain[0].replace(".", "").isdigit() else ""
    jid = "" if subject == "-" or op == "close" else subject
    bound = given.get("proto", protocol) == "gearman"
    match op:
        case "push":
            reserve = None if bound else 60.0
            fields |= {"conn": "p1", "queue": "q", "body": f"body-{jid}", "reserve": reserve}
        case "fetch":
            body, out = (f"body-{jid}", "ok") if jid else ("", "no")
            fields |= {"queue": "q", "body": body, "out": out}
        case "close":
            fields["conn"] = subject
        case "restart":
            fields["conn"] = ""
        case "pause" | "resume" | "remove":
            fields["queue"] = "" if jid else "q"
    fields |= {"jid": jid, "t0": times[0], "t1": times[1] if times[1:] else times[0] + 0.1}
    fields |= {name: None if value == "none" else value for name, value in given.items()}
    return msgspec.convert(fields, Event, strict=False)


def _read() -> list[Planted]:
    found: list[Planted] = []
    for head, *lines in records(Path(__file__).with_suffix(".txt")):
        kind, _, name = head.partition(": ")
        rules = Rules(volatile_overtakes=kind.startswith("long "))
        found.append(
            Planted(kind.removeprefix("long "), name, history(" ".join(lines).strip()), rules)
        )
    return found


ALL = _read()
FAULTY = [one for one in ALL if one.kind != "clean"]
CLEAN = [one for one in ALL if one.kind == "clean"]


def run(options: Options) -> Result:
    missed: set[str] = {kind for kind in CLASSES if all(kind != one.kind for one in FAULTY)}
    alarms, complaints = 0, list[str]()
    for kind, name, events, rules in ALL:
        broken = check(events, drained=True, rules=rules).broken
        if broken != ([] if kind == "clean" else [kind]):
            complaints.append(f"{kind} ({name}): found {broken}")
            alarms += kind == "clean"
            missed |= {kind} - {"clean"}
    figures = f"classes={len(CLASSES) - len(missed)}/{len(CLASSES)} false_alarms={alarms}"
    figures += f" planted={len(FAULTY)} clean={len(CLEAN)}"
    return Result(not missed and not alarms, figures, complaints)
