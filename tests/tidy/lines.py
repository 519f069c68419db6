"""How many lines of code there are: `python -m tests.tidy.lines [COMMIT]`.

A line of code is neither blank nor comment nor docstring. With a commit, its lines stand beside those of this tree, and the
ratio of the two.
"""

import ast
import io
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePath

from tests.tidy.trees import ROOT, extracted, tree_of

_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """How many lines of a module are code."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                code.difference_update(range(first, last + 1))
    return sum(bool(line.strip()) for n, line in enumerate(text.splitlines(), 1) if n in code)


def totals(files: Iterable[tuple[str, str]]) -> Counter[str]:
    """The lines of code of modules, each a path and a text, by what they are."""
    found: Counter[str] = Counter()
    protocols: Counter[str] = Counter()
    for name, text in files:
        path, size = PurePath(name), code_lines(text)
        found[path.parts[0]] += size
        if path.match("src/franca/protocols/*/*"):
            protocols[path.parts[3]] += size
        if path.parts[0] == "tests" and not path.name.startswith("test_"):
            found["tests not named test_*"] += size
    found |= {f"src without {name}": found["src"] - size for name, size in protocols.items()}
    return found


def of_tree(root: Path) -> Counter[str]:
    """The totals of a working tree."""
    paths = (path for folder in ("src", "tests") for path in (root / folder).rglob("*.py"))
    return totals((str(path.relative_to(root)), path.read_text()) for path in paths)


def of_commit(commit: str) -> Counter[str]:
    """The totals of a commit of this repository."""
    with tempfile.TemporaryDirectory() as place:
        return of_tree(extracted(commit, Path(place), "src", "tests"))


def main() -> None:
    now = of_tree(ROOT)
    before = of_commit(sys.argv[1]) if sys.argv[1:] else None
    for name in sorted(now | before if before else now):
        line = f"{name:36}{now[name]:8,}"
        if before:
            line += f"{before[name]:8,}"
            line += f"{now[name] / before[name]:8.3f}" if before[name] else ""
        print(line)


if __name__ == "__main__":
    main()
