"""Whatever scripts rely on is still there: commands and flags, settings, `--json`, exit codes, events of the log.

`promised.json` is what 6424626 and 4665859 have of it.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from franca.cli.main import cli, run
from franca.node import exits
from franca.node.config import keys, load, variable_of
from tests.support.faktory import Faktory, compact
from tests.support.server import ROOT, Server

PROMISED = json.loads(Path(__file__).with_name("promised.json").read_text())
HOME = {"HOME": "/home/anna"}
WORDS = """\
push q t 1 {"a":1.50}
jobs ls
jobs ls --limit 1
jobs show retrying
jobs show running-1
jobs show dead-0001
queues ls
workers ls
status
jobs retry waiting-1 running-1 nobody
jobs kill waiting-1
jobs cancel running-1
jobs delete dead-0001
queues pause q
queues resume q
queues purge q --yes
workers quiet w1 nobody
workers stop --all
doctor
config show
backup FILE
stop"""


def prepared(port: int) -> Faktory:
    """A worker, and a job in each state."""
    worker = Faktory(port).hello("w1", hostname="h", pid=7, labels=["a"])
    failure = {"errtype": "E", "message": "m", "backtrace": ["x"]}
    for jid in ("retrying", "dead-0001", "running-1"):
        worker.push(jid, 1, queue=jid, retry=-1 if jid == "dead-0001" else 25)
        assert worker.fetch(jid)
        if jid != "running-1":
            worker.command(f"FAIL {compact({'jid': jid, **failure})}")
    worker.push("waiting-1", at="2099-01-01T00:00:00Z")
    return worker


def members(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path of every member, and the type of what it is. A body is its submitter's."""
    yield path, type(value).__name__
    if isinstance(value, dict) and not path.endswith(".body"):
        for name, inner in value.items():
            yield from members(inner, f"{path}.{name}")
    elif isinstance(value, list) and not path.endswith(".body"):
        for inner in value:
            yield from members(inner, f"{path}[]")


def walked(command: click.Command, path: str) -> Iterator[tuple[str, list[str]]]:
    """A command and those below it, with their flags."""
    yield path, [flag for one in command.params for flag in one.opts + one.secondary_opts]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walked(found, f"{path} {name}")


def test_every_command_has_the_flags_that_it_had() -> None:
    there = dict(walked(cli, "franca"))
    lost = {
        name: set(flags) - set(there.get(name, ())) for name, flags in PROMISED["commands"].items()
    }
    assert {name: flags for name, flags in lost.items() if flags or name not in there} == {}


def test_every_setting_takes_what_it_took(tmp_path: Path) -> None:
    path = tmp_path / "franca.toml"
    for key, values in PROMISED["settings"].items():
        table, _, name = key.rpartition(".")
        for value in values:
            path.write_text((f"[{table}]\n" if table else "") + f"{name} = {json.dumps(value)}\n")
            load({}, HOME, str(path))
            if not isinstance(value, list):
                load({}, HOME | {variable_of(key): str(value)})


def test_every_flag_sets_what_it_did() -> None:
    there = {one.flag: name for name, one in keys().items()}
    assert {flag: there.get(flag) for flag in PROMISED["flags"]} == PROMISED["flags"]


def test_exit_codes_and_events_are_called_what_they_were() -> None:
    assert {name: vars(exits).get(name) for name in PROMISED["exits"]} == PROMISED["exits"]
    sources = "".join(file.read_text() for file in (ROOT / "src" / "franca" / "node").glob("*.py"))
    assert [event for event in PROMISED["events"] if f'"{event}"' not in sources] == []


def test_what_json_tells_has_every_member_that_it_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(tmp_path / "data") as server, prepared(server.port):
        monkeypatch.setattr(os, "environ", HOME)
        for line in WORDS.splitlines():
            promised = PROMISED["json"][line]
            words = line.replace("FILE", str(tmp_path / "copy.db")).split()
            code = run([*words, "--json", "--data", str(server.data)])
            found: dict[str, set[str]] = {}
            for path, kind in members(json.loads(capsys.readouterr().out)):
                found.setdefault(path, set()).add(kind)
            old = {path: set(kinds) for path, kinds in promised["members"].items()}
            lost = {
                path: found.get(path) for path in old if not found.get(path, {"lost"}) <= old[path]
            }
            assert (line, code, lost) == (line, promised["code"], {})
