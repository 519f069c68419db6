"""`franca backup` asks for room before it writes anything."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from franca.cli.main import cli
from franca.node import exits
from tests.support.server import Server


def test_a_backup_for_which_the_disk_has_no_room_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    environment = {"FRANCA_LIMITS__DISK_RESERVE_BYTES": str(1 << 50)}
    with Server(tmp_path / "data", env=environment) as server:
        done = CliRunner().invoke(cli, ["backup", str(target), "--data", str(server.data)])
    assert done.exit_code == exits.REFUSED, done.output
    assert f"{target}: a copy of the store needs" in done.output
    assert f"{1 << 50} must stay free" in done.output
    assert not list(tmp_path.glob("copy.db*"))


def test_a_backup_for_which_there_is_room_is_written(tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with Server(tmp_path / "data") as server:
        done = CliRunner().invoke(cli, ["backup", str(target), "--data", str(server.data)])
    assert done.exit_code == exits.OK, done.output
    assert target.stat().st_size > 0


def test_on_a_terminal_a_bar_shows_how_far_a_backup_is(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        ours, theirs = pty.openpty()
        # Drawn at the first look, and then no more: a pipe that nobody reads soon takes nothing.
        code = (
            "import sys; from franca.cli import copies, terminal; from franca.cli.main import run\n"
            "terminal.REDRAWN_S = 10; copies.LOOK_S = 0\n"
            "sys.exit(run(sys.argv[1:]))"
        )
        words = [
            sys.executable,
            "-c",
            code,
            "backup",
            str(tmp_path / "c"),
            "--data",
            str(server.data),
        ]
        env = os.environ | {"TERM": "xterm"}
        done = subprocess.run(words, stderr=theirs, stdout=subprocess.PIPE, env=env, check=True)
        os.close(theirs)
        with open(ours, "rb", buffering=0) as reader:
            shown = reader.read(1 << 16)
    assert done.stdout.decode() == f"{tmp_path / 'c'}\n"
    assert b"\rbackup  [" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_what_goes_wrong_behind_a_bar_is_told(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        (tmp_path / "there").write_bytes(b"mine")
        ours, theirs = pty.openpty()
        words = [sys.executable, "-m", "franca", "backup", str(tmp_path / "there")]
        done = subprocess.run(
            [*words, "--data", str(server.data)], stderr=theirs, env=os.environ | {"TERM": "xterm"}
        )
        os.close(theirs)
        with open(ours, "rb", buffering=0) as reader:
            shown = reader.read(1 << 16)
    assert done.returncode == exits.FAILURE
    assert b"there exists" in shown
