"""The lines that an empty server shows push a job, as they stand."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.browser import Browser
from tests.support.server import Server

PUSHING = ("faktory", "beanstalkd", "gearman")
# What netcat does, which is not on every machine: send what comes in, until the server hangs up.
NETCAT = """
import socket, sys
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
link.sendall(sys.stdin.buffer.read())
while link.recv(65536): pass
"""


def listed(server: Server) -> list[dict[str, object]]:
    argv = [sys.executable, "-m", "franca", "jobs", "ls", "--data", str(server.data), "--json"]
    done = subprocess.run(argv, capture_output=True, check=True)
    jobs: list[dict[str, object]] = json.loads(done.stdout)["jobs"]
    return jobs


def push(browser: Browser, server: Server, protocol: str) -> None:
    listener = {"protocol": protocol, "address": f"127.0.0.1:{server.ports[protocol]}"}
    told = browser.js(
        f"import('./js/listeners.js').then((it) => it.firstLine({json.dumps(listener)}))"
    )
    assert told["pushes"]
    if protocol == "gearman" and not shutil.which("gearman"):
        pytest.skip("gearman is not on the PATH: its line is NOT tested here")
    netcat = shlex.join([sys.executable, "-c", NETCAT])
    line = re.sub(r"\| nc ", lambda _: f"| {netcat} ", told["line"])
    subprocess.run(["sh", "-c", line], check=True, capture_output=True, timeout=30)


def test_every_line_that_pushes_a_job_does(
    browser: Browser, dashboard: str, tmp_path: Path
) -> None:
    browser.open(f"{dashboard}#/")
    with Server(tmp_path / "data", speaks=PUSHING) as server:
        for n, protocol in enumerate(PUSHING, 1):
            push(browser, server, protocol)
            assert len(listed(server)) == n


def test_a_line_for_a_server_that_wants_a_password_says_where_it_goes(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}#/")
    over_http = "import('./js/listeners.js').then((it) => [true, false].map((password) => it.overHttp({ password })))"
    asked, free = browser.js(over_http)
    assert asked.startswith("curl -u :PASSWORD http")
    assert free.startswith("curl http")
    told = browser.js(
        "import('./js/listeners.js').then((it) => it.firstLine({ protocol: 'faktory', address: '127.0.0.1:7419', client: 'x', password: true }))"
    )
    assert told == {"line": "x", "pushes": False}
