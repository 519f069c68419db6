"""The arrows between the layers, read from the syntax trees, and that this test sees a forbidden one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.trees import tree_of

PACKAGE = Path(__file__).parents[2] / "src" / "franca"

# What a layer of ours may import of ours: the layer itself, and these. Longest match decides.
MAY: dict[str, tuple[str, ...]] = {
    "core": (),
    "engine": ("core", "protocols.conversation", "protocols.service"),
    "store": ("core",),
    "protocols": ("core", "values"),
    "control": (
        "core",
        "engine",
        "protocols.bodies",
        "protocols.numbers",
        "protocols.service",
        "protocols.tokens",
        "values",
    ),
    "web": (
        "core",
        "engine",
        "control",
        "protocols.bodies",
        "protocols.declaration",
        "protocols.numbers",
        "values",
    ),
    "node": ("core", "engine", "store", "protocols", "control", "web", "values"),
    "cli": ("core", "control", "node", "protocols.registry", "protocols.declaration", "values"),
}
# The one module that knows every protocol.
REGISTRY = "protocols.registry"
# What every protocol may share with the others; beside this, each knows its own folder only.
COMMON = (
    "protocols.conversation",
    "protocols.service",
    "protocols.declaration",
    "protocols.buffer",
    "protocols.bodies",
    "protocols.budget",
    "protocols.numbers",
    "protocols.overview",
    "protocols.undelivered",
)

# The pure layers may compute, and nothing else: every module of others' that they may import.
PURE = ("core", "engine", "protocols", "values")
COMPUTATIONS = {
    "__future__", "abc", "ast", "base64", "binascii", "bisect", "calendar", "codecs", "collections", "contextlib", "dataclasses",
    "datetime",
    "enum", "functools", "hashlib", "heapq", "hmac", "io", "ipaddress", "itertools", "json", "math", "operator", "random",
    "re", "string", "struct", "typing", "zlib", "zoneinfo", "msgspec", "cronsim",
}  # fmt: skip
CORE_COMPUTATIONS = {
    "__future__", "abc", "bisect", "collections", "dataclasses", "datetime", "enum", "heapq",
    "itertools", "math", "operator", "random", "typing", "zoneinfo", "msgspec", "cronsim",
}  # fmt: skip
# Of modules that do more, only what computes.
ONLY = {"codecs": {"getincrementaldecoder"}, "random": {"Random"}, "io": {"BytesIO", "StringIO"}}
# Pure modules have impure corners: a clock, files, and the chance that nobody handed in.
IMPURE = {
    ("datetime", "now"), ("datetime", "today"), ("datetime", "utcnow"), ("date", "today"),
    ("random", "random"), ("random", "randrange"), ("random", "randint"), ("random", "choice"),
    ("random", "shuffle"), ("random", "sample"), ("random", "seed"), ("random", "uniform"),
    ("random", "getrandbits"), ("random", "randbytes"), ("random", "choices"),
    ("io", "open"), ("io", "FileIO"),
}  # fmt: skip
CLOCKLESS_NAMES = {"open", "input", "print", "exec", "eval"}


def violations(package: Path) -> list[str]:
    """Every forbidden arrow and every impure corner, as `file:line: what`."""
    found: list[str] = []
    for path in sorted(package.rglob("*.py")):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        tree = tree_of(path.read_text())
        for target, line in _imports(tree, module):
            fault = _fault(module, target)
            if fault:
                found.append(f"{path.relative_to(package)}:{line}: {fault}")
        if module.split(".")[0] in PURE and module != REGISTRY:
            for what, line in _impure_corners(tree):
                found.append(f"{path.relative_to(package)}:{line}: {what} in a pure layer")
    return found


def _fault(module: str, target: str) -> str:
    """Why this import is wrong, or nothing."""
    layer = module.split(".")[0]
    if target == "franca" or target.startswith("franca."):
        ours = target.removeprefix("franca").removeprefix(".")
        return "" if _may(module, ours) else f"{layer} may not import {target}"
    if layer in PURE and module != REGISTRY:
        allowed = CORE_COMPUTATIONS if layer == "core" else COMPUTATIONS
        if target.split(".")[0] not in allowed:
            return f"{layer} may not import {target}"
    return ""


def _may(module: str, ours: str) -> bool:
    layer = module.split(".")[0]
    if "." not in module:
        return True  # the package itself: its entry point
    if ours == "__version__":
        return layer not in PURE
    if layer not in MAY:
        return False  # a new folder needs a line in the table
    if _within(ours, layer) and layer != "protocols":
        return True
    if layer == "protocols":
        own = "protocols" if module == REGISTRY else ".".join(module.split(".")[:2])
        if _within(ours, own) or any(_within(ours, name) for name in COMMON):
            return True
    return any(_within(ours, allowed) for allowed in MAY[layer])


def _within(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}.")


def _imports(tree: ast.AST, module: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = ["franca", *module.split(".")][: -node.level]
                base = ".".join([*parts, *([base] if base else [])])
            # `from franca.node import config` names a module, `from x import f` a thing in one.
            if base.startswith("franca"):
                yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield base, node.lineno


def _impure_corners(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in IMPURE:
                yield f"{node.value.id}.{node.attr}", node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module in ONLY:
            for alias in node.names:
                if alias.name not in ONLY[node.module]:
                    yield f"{node.module}.{alias.name}", node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in CLOCKLESS_NAMES:
                yield f"{node.func.id}()", node.lineno
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield "async", node.lineno


# -- the tests ----------------------------------------------------------------------------


def test_nobody_imports_what_it_may_not() -> None:
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("core/broker.py", "import time"),
        ("core/broker.py", "import os"),
        ("core/broker.py", "from asyncio import sleep"),
        ("core/broker.py", "from franca.protocols.conversation import Link"),
        ("core/broker.py", "from franca.store.port import Store"),
        ("core/broker.py", "import franca.node.node"),
        ("core/broker.py", "from random import randrange"),
        ("core/broker.py", "import random; random.random()"),
        ("core/broker.py", "from datetime import datetime; datetime.now()"),
        ("core/broker.py", "open('/etc/passwd')"),
        ("core/broker.py", "async def wait(): ..."),
        ("core/broker.py", "import requests"),
        ("core/broker.py", "def late():\n    import socket"),
        ("core/broker.py", "from ..node import config"),
        ("engine/engine.py", "from franca.store.port import Store"),
        ("engine/engine.py", "from franca.protocols.faktory.wire import OK"),
        ("engine/engine.py", "import threading"),
        ("store/sqlite.py", "from franca.engine.engine import Engine"),
        ("store/sqlite.py", "from franca.node import config"),
        ("protocols/faktory/wire.py", "from franca.engine.engine import Engine"),
        ("protocols/faktory/wire.py", "from franca.protocols.gearman.wire import Packet"),
        ("protocols/bodies.py", "from franca.protocols.faktory.wire import OK"),
        ("protocols/faktory/wire.py", "import socket"),
        ("protocols/faktory/wire.py", "from io import FileIO"),
        ("protocols/faktory/wire.py", "import io; io.open('/etc/passwd')"),
        ("control/server.py", "from franca.node.settings import Settings"),
        ("control/server.py", "from franca.store.port import Store"),
        ("node/node.py", "from franca.cli.main import main"),
        ("control/server.py", "from franca import cli"),
        ("web/app.py", "from franca.node.settings import Settings"),
        ("control/server.py", "from franca.web.app import App"),
        ("core/broker.py", "from franca import __version__"),
        ("unheard_of/new.py", "from franca.core.model import Job"),
    ],
)
def test_a_planted_import_is_seen(tmp_path: Path, file: str, line: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(f"{line}\n")
    assert len(violations(tmp_path)) >= 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("core/broker.py", "from random import Random"),
        ("core/broker.py", "from franca.core.model import Job"),
        ("core/cron.py", "from datetime import UTC, datetime; datetime.fromtimestamp(0, UTC)"),
        ("engine/engine.py", "from franca.protocols.conversation import Link"),
        ("protocols/faktory/wire.py", "from franca.protocols.buffer import ByteBuffer"),
        ("protocols/faktory/wire.py", "from franca.protocols.faktory.messages import Push"),
        ("control/server.py", "from franca.engine.engine import Engine; import asyncio"),
        ("protocols/faktory/wire.py", "from io import BytesIO"),
        ("node/node.py", "from franca.protocols.faktory.service import Service; import time"),
        ("cli/main.py", "from franca import __version__"),
    ],
)
def test_what_is_allowed_is_not_seen(tmp_path: Path, file: str, line: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(f"{line}\n")
    assert violations(tmp_path) == []
