"""How programs are called: each answer belongs to one call."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real import kit
from tests.real.fetched import not_tested
from tests.real.kit import Program

IN_PYTHON = """
from tests.real.programs.jobs import obey, until_exists
def wait(path): until_exists(path); return "late"
def echo(text): return text
obey(wait, echo)
"""
IN_NODE = """
const { existsSync } = require("fs");
const { obey } = require("./tests/real/node/program.js");
const wait = async (path) => { while (!existsSync(path)) await new Promise((resolve) => setTimeout(resolve, 20)); return "late"; };
obey({ wait, echo: (text) => text }, () => {});
"""


@pytest.fixture(params=["python", "node"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Program]:
    argv = [sys.executable, "-c", IN_PYTHON]
    if request.param == "node":
        if not (found := shutil.which("node")):
            not_tested("node is not on the PATH")
        argv = [found, "-e", IN_NODE, "-", json.dumps({})]
    with Program(argv, tmp_path / "stderr") as started:
        started.said("ready")
        yield started


def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next_call(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, pytest.raises(AssertionError, match="no 'answer'"):
        patched.setattr(kit, "DEADLINE_S", 0.01)
        program.call("wait", str(tmp_path / "now"))
    (tmp_path / "now").touch()
    assert program.call("echo", "in time") == "in time"
