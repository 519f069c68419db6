"""Who imports whom, read from the syntax trees, and who may. Nothing is imported to find out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.tidy.trees import tree_of

# What a layer of ours may import of ours: the layer itself, and these. Longest match decides.
MAY: dict[str, tuple[str, ...]] = {
    "core": (),
    "engine": ("core", "protocols.conversation"),
    "store": ("core",),
    "protocols": ("core",),
    "control": ("core", "engine", "protocols.conversation"),
    "node": ("core", "engine", "store", "protocols", "control"),
    "cli": ("core", "control", "node"),
}
# What every protocol may share with the others; beside this, each knows its own folder only.
COMMON = (
    "protocols.conversation",
    "protocols.buffer",
    "protocols.gathering",
    "protocols.bodies",
    "protocols.overview",
)

# The pure layers may compute, and nothing else: every module of others' that they may import.
PURE = ("core", "engine", "protocols")
COMPUTATIONS = {
    "__future__", "abc", "ast", "base64", "binascii", "bisect", "calendar", "codecs", "collections", "contextlib", "dataclasses",
    "datetime",
    "enum", "functools", "hashlib", "heapq", "hmac", "io", "itertools", "json", "math", "operator", "random",
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


class Import(NamedTuple):
    """`layer` is where it stands, relative to the package: `core.broker`."""

    layer: str
    target: str
    line: int


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
        if module.split(".")[0] in PURE:
            for what, line in _impure_corners(tree):
                found.append(f"{path.relative_to(package)}:{line}: {what} in a pure layer")
    return found


def _fault(module: str, target: str) -> str:
    """Why this import is wrong, or nothing."""
    layer = module.split(".")[0]
    if target == "franca" or target.startswith("franca."):
        ours = target.removeprefix("franca").removeprefix(".")
        return "" if _may(module, ours) else f"{layer} may not import {target}"
    if layer in PURE:
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
        own = ".".join(module.split(".")[:2])
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
