"""`franca config show`, the flags of `franca serve`, the banner and the doctor."""

import json
import os
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from franca.cli.serve import banner
from franca.node import exits, log
from franca.node import run as node_run
from franca.node.config import load
from franca.node.datadir import DataDir
from franca.node.settings import LISTENERS, Settings, flag_of, secrets_of
from franca.store.sqlite import SqliteStore
from tests.cli.conftest import Shell
from tests.control.kit import FakeNode

# -- config show ------------------------------------------------------------------------------


def test_each_value_is_shown_with_where_it_comes_from(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "franca.toml"
    config.write_text("stop_grace = '3s'\n")
    monkeypatch.setenv("FAKTORY_PASSWORD", "canary")
    words = ["config", "show", "-c", str(config), "--faktory", "/s", "--faktory", ":1"]

    shown = shell.json(*words)
    assert shown["stop_grace"] == {"value": "3s", "source": str(config)}
    assert shown["faktory.listen"] == {"value": ["/s", ":1"], "source": "flag --faktory"}
    assert shown["data"]["source"] == "environment FRANCA_DATA"
    assert shown["timezone"] == {"value": "local", "source": "default"}
    assert shown["faktory.password"]["value"] == "***"

    text = shell(*words).stdout
    assert 'stop_grace = "3s"' in text
    assert f"# {config}" in text
    assert "canary" not in text + json.dumps(shown)


def test_a_wrong_setting_ends_the_command(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRANCA_LOG_LVEL", "info")
    said = shell("config", "show", code=exits.BAD_CONFIG).stderr
    assert "did you mean FRANCA_LOG_LEVEL?" in said


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_directory_whose_name_is_no_utf_8_is_shown_with_its_bytes_written_out(
    shell: Shell, form: list[str]
) -> None:
    assert "x\\\\xff" in shell("config", "show", "--data", "/tmp/x\udcff", *form).stdout


# -- serve ------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """`franca serve` ends at once with 7; what it would have run with."""
    settings: list[Settings] = []

    def run(given: Settings, announce: Any) -> int:
        settings.append(given)
        announce([("faktory", "127.0.0.1:7419")])
        return 7

    monkeypatch.setattr(node_run, "run", run)
    return settings


def test_serve_ends_with_the_servers_code(shell: Shell, started: list[Settings]) -> None:
    shell("serve", code=7)
    assert started[0].data == str(shell.data)


def test_every_flag_reaches_the_settings(
    shell: Shell, started: list[Settings], tmp_path: Path
) -> None:
    (tmp_path / "pw").write_text("hush")
    words = ["--data", "/d", "--store", "memory:", "--faktory", "0.0.0.0:1", "--faktory", "/s"]
    words += ["--password-file", str(tmp_path / "pw"), "--tls-cert", "c.pem", "--tls-key", "k.pem"]
    words += ["--log-format", "json", "--log-level", "debug", "--insecure-bind"]
    words += ["--gearman-exceptions"]
    shell("serve", *words, code=7)
    settings = started[0]
    assert (settings.data, settings.store, settings.insecure_bind) == ("/d", "memory:", True)
    assert [str(address) for address in settings.listeners["faktory"]] == ["0.0.0.0:1", "unix:/s"]
    assert secrets_of(settings) == ["hush"]
    assert settings.tls.certificate.endswith("/c.pem")
    assert (settings.log_format, settings.log_level) == ("json", "debug")
    assert settings.protocols["gearman"]["exceptions"]


def test_an_open_door_without_a_password_is_refused(shell: Shell, started: list[Settings]) -> None:
    said = shell("serve", "--faktory", "0.0.0.0:1", code=exits.BAD_CONFIG).stderr
    assert "--insecure-bind" in said
    assert not started


def test_the_banner_is_for_people_only_and_goes_through_the_log(
    shell: Shell, started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(log, "show", shown.append)
    assert shell("serve", "--log-format", "console", code=7).stderr == ""
    assert "push a first job" in shown.pop()
    assert shell("serve", code=7).stderr == ""
    assert not shown


# -- the banner -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "env", "address", "expected"),
    [
        ({}, {}, "127.0.0.1:7419", "export FAKTORY_URL=tcp://127.0.0.1:7419"),
        ({}, {}, "0.0.0.0:7419", "export FAKTORY_URL=tcp://127.0.0.1:7419"),
        ({}, {}, "[::1]:7419", "export FAKTORY_URL=tcp://[::1]:7419"),
        ({}, {"FAKTORY_PASSWORD": "canary"}, "127.0.0.1:1", "tcp://:$FAKTORY_PASSWORD@127.0.0.1:1"),
        ({"tls.certificate": "c", "tls.key": "k"}, {}, "h.example:1", "tcp+tls://h.example:1"),
    ],
)
def test_a_line_to_copy_for_each_listener(
    flags: dict[str, object], env: dict[str, str], address: str, expected: str
) -> None:
    text = banner(load(flags, {"HOME": "/home/anna"} | env), [("faktory", address)])
    assert expected in text
    assert "canary" not in text


def test_the_first_job_is_pushed_to_where_the_data_is() -> None:
    home = {"HOME": "/home/anna"}
    assert "push default hello world" in banner(load({}, home), [])
    elsewhere = banner(load({"data": "/my jobs"}, home), [])
    assert "push --data '/my jobs' default hello world" in elsewhere


def test_a_socket_has_no_url_and_an_open_door_a_warning() -> None:
    flags: dict[str, object] = {"faktory.listen": (":1", "/s"), "insecure_bind": True}
    text = banner(load(flags, {"HOME": "/"}), [("faktory", "unix:/s")])
    assert "FAKTORY_URL" not in text
    assert "WARNING  open to other machines without a password: faktory :1" in text


# -- doctor -----------------------------------------------------------------------------------


def alone(*words: str) -> list[str]:
    """The words, and every listener off that they do not name: its port may be anybody's."""
    return [*words, *(f"{flag}=off" for flag in map(flag_of, LISTENERS) if flag not in words)]


def findings(shell: Shell, *words: str, code: int = 0) -> dict[str, tuple[str, str]]:
    found = shell.json("doctor", *alone(*words), code=code)
    assert found["ok"] is (code == 0)
    # Of several findings of one name, one that is not good.
    ordered = sorted(found["findings"], key=lambda one: bool(one["verdict"] != "ok"))
    return {one["name"]: (one["verdict"], one["text"]) for one in ordered}


def test_a_healthy_place_without_a_server(shell: Shell) -> None:
    found = findings(shell, "--faktory", "127.0.0.1:0")
    assert {verdict for verdict, _text in found.values()} <= {"ok", "warn"}
    assert found["server"] == ("ok", "not running")
    assert found["store"] == ("ok", "none yet")
    assert found["port"][0] == "ok"
    assert os.listdir(shell.data) == []


def test_a_data_directory_that_is_not_there_is_not_made(shell: Shell) -> None:
    data = shell.data / "later"
    assert findings(shell, "--data", str(data))["data"][0] == "ok"
    assert not data.exists()


def test_a_running_server_is_asked_and_not_disturbed(shell: Shell, node: FakeNode) -> None:
    found = findings(shell)
    assert found["server"] == ("ok", "version test, pid 1, loop lag None ms")
    assert "port" not in found
    assert "store" not in found


def test_the_text_form_says_the_same(shell: Shell) -> None:
    lines = shell("doctor", *alone()).stdout.splitlines()
    assert any(line.startswith("ok    clock") for line in lines)


def make_store(data: Path) -> Path:
    store = SqliteStore(str(data / "franca.db"))
    store.open()
    store.close()
    return data / "franca.db"


def test_a_whole_store_is_found_whole_and_left_as_it_is(shell: Shell) -> None:
    make_store(shell.data)
    before = sorted(os.listdir(shell.data))
    assert findings(shell)["store"][0] == "ok"
    assert sorted(os.listdir(shell.data)) == before


def test_a_damaged_store_is_found(shell: Shell) -> None:
    path = make_store(shell.data)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    assert findings(shell, code=1)["store"][0] == "fail"
    path.write_bytes(b"")
    assert findings(shell, code=1)["store"][0] == "fail"


def test_a_store_with_a_log_is_read_with_it(shell: Shell) -> None:
    path = make_store(shell.data)
    database = sqlite3.connect(path)
    database.execute("UPDATE totals SET held_rows = 5")
    database.commit()
    assert "5 jobs" in findings(shell)["store"][1]
    database.close()


def test_a_taken_port_is_found(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "in use" in findings(shell, "--faktory", address, code=1)["port"][1]


def test_a_lock_held_by_a_silent_server_is_found(shell: Shell) -> None:
    data = DataDir(shell.data)
    assert findings(shell, code=1)["lock"][0] == "fail"
    data.close()
    assert findings(shell)["lock"] == ("ok", "free")


def test_what_is_open_to_others_is_warned_of(shell: Shell) -> None:
    shell.data.chmod(0o755)
    assert findings(shell)["data"][0] == "warn"
    assert findings(shell, "--faktory", "0.0.0.0:0", code=1)["settings"][0] == "fail"


def test_certificates_that_cannot_be_read_are_found(shell: Shell) -> None:
    words = ["--faktory", "tls://127.0.0.1:0", "--tls-cert", "/no.pem", "--tls-key", "/no.key"]
    assert findings(shell, *words, code=1)["tls"][0] == "fail"
