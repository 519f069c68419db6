"""T29: what the server is made of is what its index published, calls nothing that runs data, and has no known hole.

Every distribution that the server needs to run is compared with the hashes of its own record, and asked for at the
index that names vulnerabilities (`--index URL`, PyPI's by default). An index that knows nothing of an old release
whose hole is known is not believed. Where advisories cannot be had this says `not audited`, and has held in part only.
"""

import ast
import base64
import hashlib
import http.client
import json
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from franca.cli.checks import SQLITE_MIN
from tests.prove.harness import Options, Result, Tally
from tests.prove.mutants import BUGS, plant
from tests.support.server import ROOT

_INDEX = "https://pypi.org"
_KNOWN_BAD = ("h11", "0.14.0")
"""CVE-2025-43859."""
_PATIENCE_S = 20.0
_MODULES = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"})
_CALLS = frozenset({"eval", "exec", "yaml.load", "yaml.unsafe_load", "os.system", "os.popen"})


class NoAdvisories(Exception):
    """Nobody can be asked what is known of a release, or who can is not to be believed."""


def sources() -> list[tuple[str, str]]:
    """Every module of the product, with its text."""
    folder = ROOT / "src" / "franca"
    return [
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    ]


def forbidden_calls(text: str) -> Iterator[str]:
    """What a module imports or calls that runs data as code, or hands it to a shell."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found = [name.name for name in names if name.name.partition(".")[0] in _MODULES]
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in _MODULES:
                found = [module]
            case ast.Call(func=func, keywords=keywords):
                called = ast.unparse(func)
                shell = any(
                    k.arg == "shell" and getattr(k.value, "value", True) is not False
                    for k in keywords
                )
                found = [f"{called}(shell=...)"] if shell else [called] * (called in _CALLS)
            case _:
                continue
        yield from (f"line {node.lineno}: {name}" for name in found)


def needed(name: str = "franca") -> dict[str, metadata.Distribution]:
    """Every distribution that this one needs to run, and those that they need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        for line in metadata.distribution(waiting.pop()).requires or ():
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is not None and not marker.evaluate({"extra": ""}):
                continue
            if requirement.name.lower() not in found:
                found[requirement.name.lower()] = metadata.distribution(requirement.name)
                waiting.append(requirement.name)
    return found


def unhashed(distribution: metadata.Distribution) -> Iterator[str]:
    """Files of a distribution that have no hash in its record, or another one."""
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        if file.suffix == ".pyc" or file.name in (
            "RECORD",
            "INSTALLER",
            "REQUESTED",
            "direct_url.json",
        ):
            continue
        if file.hash is None or not path.is_file():
            yield f"{file}: no hash, or no file"
        elif _hash_of(path, file.hash.mode) != file.hash.value:
            yield f"{file}: not what was published"
    if not distribution.files:
        yield f"{distribution.name}: no record"


def _hash_of(path: Path, mode: str) -> str:
    digest = hashlib.new(mode, path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def advisories(index: str, name: str, version: str) -> list[str] | None:
    """What is known against a release; None if the index does not know the release."""
    try:
        with urllib.request.urlopen(
            f"{index}/pypi/{name}/{version}/json", timeout=_PATIENCE_S
        ) as answer:
            found: Any = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise NoAdvisories(f"{index}: {error}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NoAdvisories(f"{index}: {error}") from None
    return [one["id"] for one in found["vulnerabilities"] if not one.get("withdrawn")]


def _audit(index: str, releases: Iterable[tuple[str, str]], tally: Tally) -> None:
    if not advisories(index, *_KNOWN_BAD):
        raise NoAdvisories(f"{index} knows nothing against {'-'.join(_KNOWN_BAD)}")
    for name, version in releases:
        known = advisories(index, name, version)
        if known is None:
            tally.note("skipped", f"{index} does not know {name} {version}")
            continue
        tally["audited"] += 1
        for one in known:
            tally.note("known_vulns", f"{name} {version}: {one}")


def run(options: Options) -> Result:
    if options.mutant is not None:
        plant(BUGS[options.mutant])
    tally = Tally("forbidden_calls", "unhashed", "sqlite_ok")
    for path, text in sources():
        for what in forbidden_calls(text):
            tally.note("forbidden_calls", f"{path}: {what}")
    distributions = needed()
    for distribution in distributions.values():
        for what in unhashed(distribution):
            tally.note("unhashed", what)
    tally["sqlite_ok"] = int(sqlite3.sqlite_version_info >= SQLITE_MIN)
    audit, missing = Tally("audited", "skipped", "known_vulns"), ""
    try:
        releases = [(name, one.version) for name, one in distributions.items()]
        _audit(options.extra.get("index", _INDEX), releases, audit)
    except NoAdvisories as error:
        missing = f"not audited: {error}"
    wrong = tally["forbidden_calls"] + tally["unhashed"] + audit["known_vulns"] + audit["skipped"]
    figures = f"{'not audited' if missing else audit} {tally} distributions={len(distributions)}"
    examples = [*tally.examples, *audit.examples]
    return Result(not wrong and bool(tally["sqlite_ok"]), figures, examples[:20], missing)
