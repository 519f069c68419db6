"""`franca backup` asks for room before it writes anything."""

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
