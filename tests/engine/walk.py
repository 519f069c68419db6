"""Follows a message through the engine: which functions of ours lie between bytes in and bytes out.

A walk is a list of functions that are called one after the other. Between two of them, on the way
from one to the next through the calls, no other function of ours may decide anything: whoever reads
the walk has seen every branch on it. What a function calls and is done with before the next one
begins is its own affair.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "src" / "franca"
STEPS_MAX = 9
_ROW = re.compile(r"\|[^|`]*`([\w/]+\.py)` `([\w.]+)`")
_BRANCHES = (
    ast.If, ast.For, ast.While, ast.Try, ast.TryStar, ast.Match, ast.BoolOp, ast.IfExp,
)  # fmt: skip
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Function(NamedTuple):
    """A function of ours: its file below the package, and its name in it."""

    file: str
    name: str


class Call(NamedTuple):
    """A call: every function of ours that is running then, the called one last, each with a number."""

    stack: tuple[tuple[int, Function], ...]

    @property
    def called(self) -> Function:
        return self.stack[-1][1]


def walks_in(page: str) -> dict[str, list[Function]]:
    """The walks of a page by their headings: tables whose rows begin with a file and a function."""
    walks: dict[str, list[Function]] = {}
    for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        steps = [Function(*row) for row in _ROW.findall(re.split(r"^#", section, flags=re.M)[0])]
        if steps:
            walks[section.splitlines()[0]] = steps
    return walks


def calls_of(act: Callable[[], object]) -> list[Call]:
    """Every call of a function of ours while something is done."""
    calls: list[Call] = []
    numbers: dict[FrameType, int] = {}

    def stack_of(frame: FrameType | None) -> Iterator[tuple[int, Function]]:
        while frame is not None:
            function = _function_of(frame.f_code)
            if function is not None and frame in numbers:
                yield numbers[frame], function
            frame = frame.f_back

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and _function_of(frame.f_code) is not None:
            numbers[frame] = len(calls)
            calls.append(Call(tuple(stack_of(frame))[::-1]))

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


@cache
def _function_of(code: CodeType) -> Function | None:
    """The function that a code object is; comprehensions belong to the function around them."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or code.co_qualname.endswith(">"):
        return None
    return Function(str(path.relative_to(PACKAGE)), code.co_qualname)


def fault_in(walk: list[Function], calls: list[Call]) -> str:
    """What is wrong with a walk; nothing if it is as it happened."""
    if len(walk) > STEPS_MAX:
        return f"{len(walk)} functions are too many"
    at = 0
    passed: set[int] = set()
    for step in walk:
        while at < len(calls) and calls[at].called != step:
            at += 1
        if at == len(calls):
            return f"{step.name} of {step.file} is not called there"
        for number, function in calls[at].stack[:-1]:
            if number not in passed and function not in walk and has_branch(function):
                return f"{function.name} of {function.file} decides something before {step.name}"
        passed = {number for number, _ in calls[at].stack}
        at += 1
    return ""


@cache
def has_branch(function: Function) -> bool:
    """Whether a function's own code, without those defined in it, decides anything."""
    tree = ast.parse((PACKAGE / function.file).read_text())
    node = dict(_functions_in(tree, ""))[function.name]
    return any(
        isinstance(one, _BRANCHES) or (isinstance(one, ast.comprehension) and bool(one.ifs))
        for one in _own_nodes(node)
    )


def _functions_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
            yield from _functions_in(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions_in(child, f"{prefix}{child.name}.")
        else:
            yield from _functions_in(child, prefix)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _own_nodes(child)
