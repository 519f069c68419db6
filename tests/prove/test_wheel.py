"""The wheel, in an empty environment, is the whole product: pages, SQL and completion are inside."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.server import ROOT, Server
from tests.support.web import api, ask

pytestmark = pytest.mark.long


def pip(python: Path | str, *words: str) -> None:
    """Carried out, or a failure that says what pip said."""
    argv = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    [found] = folder.glob("franca-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel and what it needs, and nothing else."""
    home = tmp_path_factory.mktemp("empty") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, cwd=wheel.parent)
    pip(home / "bin" / "python", "install", str(wheel))
    return home / "bin"


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    package = ROOT / "src"
    files = {
        path.relative_to(package).as_posix()
        for path in (package / "franca").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
    assert names == files
    assert {Path(name).suffix for name in names} >= {".py", ".sql", ".js", ".css", ".html", ".svg"}


def test_a_server_from_the_wheel_serves_its_pages_and_keeps_jobs(
    installed: Path, tmp_path: Path
) -> None:
    server = Server(tmp_path / "data", speaks=("web",), env={"PYTHONPATH": ""})
    server.python = str(installed / "python")
    with server:
        port = server.ports["web"]
        page = ask(port, "GET", "/")
        assert (page.status, b"<title>Franca" in page.body) == (200, True)
        script = ask(port, "GET", "/js/main.js")
        assert (script.status, script.headers["content-type"].split(";")[0]) == (
            200,
            "text/javascript",
        )
        api(port, "POST", "jobs", {"queue": "q", "type": "t", "name": "first"})
        server.restart()
        assert api(port, "GET", "jobs/first")["state"] == "ready"


def test_nothing_of_this_tree_is_in_its_way(installed: Path) -> None:
    argv = [str(installed / "python"), "-c", "import franca; print(franca.__file__)"]
    done = subprocess.run(argv, cwd=ROOT, env={}, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(installed.parent)


def test_completion_is_inside(installed: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    argv = [str(installed / "franca"), "completion", "bash"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert "complete " in done.stdout
    assert "_franca" in done.stdout
