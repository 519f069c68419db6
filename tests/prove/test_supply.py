"""What T29 looks for it finds, and an index is believed only if it knows a hole that is known."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.prove.harness import Options
from tests.prove.supply import forbidden_calls, needed, run, unhashed

HOLE: Mapping[str, object] = {"id": "PYSEC-0"}
GONE: Mapping[str, object] = {"id": "PYSEC-1", "withdrawn": "2020-01-01"}


class Index(NamedTuple):
    """An index of one's own: what it knows against each name, and of all names that are not told."""

    url: str
    known: dict[str, list[Mapping[str, object]]]


@pytest.fixture
def index() -> Iterator[Index]:
    known: dict[str, list[Mapping[str, object]]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = known.get(self.path.split("/")[2], known.get("others"))
            self.send_response(404 if found is None else 200)
            self.end_headers()
            if found is not None:
                self.wfile.write(json.dumps({"vulnerabilities": found}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Index(f"http://127.0.0.1:{server.server_port}", known)
        server.shutdown()


def audited(index: Index, **known: list[Mapping[str, object]]) -> tuple[bool, str, str]:
    index.known.update(known)
    result = run(Options(1, extra={"index": index.url}))
    return result.held, result.figures.partition(" forbidden")[0], result.missing


def test_releases_without_holes_are_counted(index: Index) -> None:
    held, figures, missing = audited(index, h11=[HOLE], others=[GONE])
    assert (held, missing) == (False, "")  # its own h11 has the hole, too
    assert figures == f"audited={len(needed())} skipped=0 known_vulns=1"


def test_an_index_that_knows_no_hole_is_not_believed(index: Index) -> None:
    held, figures, missing = audited(index, others=[])
    assert (held, figures) == (True, "not audited")
    assert "knows nothing against h11-0.14.0" in missing


def test_a_release_that_the_index_does_not_know_is_no_good_news(index: Index) -> None:
    held, figures, _ = audited(index, h11=[HOLE])
    assert (held, figures) == (False, f"audited=1 skipped={len(needed()) - 1} known_vulns=1")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("import pickle", 1),
        ("from marshal import loads", 1),
        ("import json, shelve", 1),
        ("eval('1')", 1),
        ("exec(text)", 1),
        ("yaml.load(text)", 1),
        ("os.system('x')", 1),
        ("subprocess.run('x', shell=True)", 1),
        ("subprocess.run('x', shell=really)", 1),
        ("subprocess.run(['x'], shell=False)", 0),
        ("import json; json.loads(text)", 0),
        ("self.exec(text)", 0),
        ("re.compile('eval(')", 0),
    ],
)
def test_a_call_that_runs_data_is_found(text: str, count: int) -> None:
    assert len(list(forbidden_calls(text))) == count


def test_a_file_that_is_not_what_was_published_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "thing-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: thing\nVersion: 1\n")
    whole = "thing.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
    (folder / "RECORD").write_text(f"{whole}other.py,,\n")
    (tmp_path / "thing.py").write_text("")
    (tmp_path / "other.py").write_text("")
    [one] = metadata.distributions(path=[str(tmp_path)])
    assert list(unhashed(one)) == ["other.py: no hash, or no file"]
    (tmp_path / "thing.py").write_text("1")
    assert len(list(unhashed(one))) == 2


def test_every_distribution_that_runs_is_looked_at() -> None:
    assert {"starlette", "uvicorn", "h11", "anyio", "msgspec"} <= set(needed())
    assert "pytest" not in needed()
