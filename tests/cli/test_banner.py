"""What people are told at the start: once, and where to look first."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from franca.cli.serve import banner
from franca.node.config import load, variable_of
from franca.node.hints import client_line, needs
from franca.node.settings import LISTENERS, Settings, Tls
from franca.values import read_address
from tests.support.server import free_port

TAKEN = [
    ("faktory", "127.0.0.1:7419"),
    ("eventmq", "127.0.0.1:47290"),
    ("eventmq", "127.0.0.1:47291"),
    ("eventmq_publish", "127.0.0.1:47298"),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    loaded = load({"data": str(tmp_path)}, {})
    return replace(loaded, listeners={**loaded.listeners, "web": (read_address("127.0.0.1:7420"),)})


def lines(settings: Settings, addresses: list[tuple[str, str]]) -> list[str]:
    return [" ".join(line.split()) for line in banner(settings, addresses).splitlines()]


def test_it_says_where_the_dashboard_is_and_how_to_push(settings: Settings) -> None:
    told = lines(settings, [*TAKEN, ("web", "127.0.0.1:7420")])
    assert told[0].endswith(f"data in {settings.data}")
    assert told[2] == "dashboard http://127.0.0.1:7420/"
    assert told[3] == "faktory 127.0.0.1:7419 export FAKTORY_URL=tcp://127.0.0.1:7419"
    assert told[4].startswith("eventmq 127.0.0.1:47290, 127.0.0.1:47291, 127.0.0.1:47298 export")
    assert told[-1].startswith("push a first job: ")
    assert told[-1].endswith(f"push --data {settings.data} default hello world")
    assert len(told) <= 10


@pytest.mark.parametrize(
    ("wanted", "taken", "said"),
    [
        ("127.0.0.1:7420", "", "none: 127.0.0.1:7420 is taken (--web ADDR listens elsewhere)"),
        ("", "", "off"),
        ("0.0.0.0:80", "0.0.0.0:80", "http://127.0.0.1:80/"),
        ("[::1]:7420", "[::1]:7420", "http://[::1]:7420/"),
        ("unix:/run/web.sock", "unix:/run/web.sock", "unix:/run/web.sock"),
    ],
)
def test_whatever_became_of_it(settings: Settings, wanted: str, taken: str, said: str) -> None:
    web = (read_address(wanted),) if wanted else ()
    settings = replace(settings, listeners={**settings.listeners, "web": web})
    told = lines(settings, [*TAKEN, *([("web", taken)] if taken else [])])
    assert told[2] == f"dashboard {said}"


def test_a_server_that_has_no_dashboard_does_not_speak_of_it(settings: Settings) -> None:
    without = {name: a for name, a in settings.listeners.items() if name != "web"}
    assert not any(
        "dashboard" in line for line in lines(replace(settings, listeners=without), TAKEN)
    )


def test_what_is_in_memory_and_what_is_open_is_told(settings: Settings) -> None:
    told = banner(replace(settings, store="memory:"), TAKEN)
    assert "nothing survives a restart" in told
    listeners = {**settings.listeners, "gearman": (read_address("0.0.0.0:4730"),)}
    told = banner(replace(settings, insecure_bind=True, listeners=listeners), TAKEN)
    assert "WARNING  open to other machines without a password: gearman 0.0.0.0:4730" in told


@pytest.mark.parametrize(
    ("listener", "address", "tls", "line"),
    [
        ("faktory", "127.0.0.1:7419", False, "export FAKTORY_URL=tcp://127.0.0.1:7419"),
        ("faktory", "127.0.0.1:7419", True, "export FAKTORY_URL=tcp+tls://127.0.0.1:7419"),
        ("gearman", "0.0.0.0:4730", False, "export GEARMAN_SERVERS=127.0.0.1:4730"),
        ("gearman", "0.0.0.0:4730", True, ""),
        ("periodic", "127.0.0.1:5000", False, "export PERIODIC_PORT=tcp://127.0.0.1:5000"),
        ("periodic", "unix:/run/p.sock", False, ""),
        ("web", "127.0.0.1:7420", True, "https://127.0.0.1:7420/"),
        ("memodb", "127.0.0.1:12703", False, ""),
    ],
)
def test_a_client_is_pointed_at_a_listener(
    settings: Settings, listener: str, address: str, tls: bool, line: str
) -> None:
    settings = replace(settings, tls=Tls("cert", "key")) if tls else settings
    assert client_line(listener, read_address(address), settings) == line


def test_it_is_told_which_listeners_ask_for_tls_or_a_password(tmp_path: Path) -> None:
    settings = load({"data": str(tmp_path)}, {"FAKTORY_PASSWORD": "sesame"})
    settings = replace(settings, tls=Tls("cert", "key"))
    told = {
        name: tuple(needs(name, read_address(address), settings).values())
        for name, address in [
            ("faktory", "127.0.0.1:7419"),
            ("web", "127.0.0.1:7420"),
            ("gearman", "127.0.0.1:4730"),
            ("periodic", "unix:/run/p.sock"),
        ]
    }
    assert told == {
        "faktory": (True, True),
        "web": (True, True),
        "gearman": (True, False),
        "periodic": (False, False),
    }
    open_to_all = load({"data": str(tmp_path)}, {})
    assert needs("web", read_address("127.0.0.1:7420"), open_to_all) == {
        "tls": False, "password": False,
    }  # fmt: skip


@pytest.mark.parametrize("form", ["console", "json"])
def test_each_listener_is_told_once(tmp_path: Path, form: str) -> None:
    port = free_port()
    words = ["serve", "--data", str(tmp_path / "d"), "--faktory", f"127.0.0.1:{port}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("FRANCA_")}
    env |= {variable_of(f"{name}.listen"): "off" for name in LISTENERS if name != "faktory"}
    with subprocess.Popen(
        [sys.executable, "-m", "franca", *words, "--log-format", form],
        stderr=subprocess.PIPE, text=True, env=env,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        told = ""
        while (" is ready" if form == "json" else "push a first job") not in told:
            line = process.stderr.readline()
            assert line, told
            told += line
        process.terminate()
        told += process.stderr.read()
        assert process.wait(20) == 0
    shown = re.findall(rf"127\.0\.0\.1:{port}(?!\d)", told)
    if form == "console":
        assert len(shown) == 2, "the address, and the line for its clients"
        return
    events = [json.loads(line) for line in told.splitlines()]
    assert [e["event"] for e in events if e.get("address")] == ["listening"]
