"""Source as a tree."""

import ast
import gc


def tree_of(text: str) -> ast.Module:
    """The tree of a module.

    CPython 3.11 may lose count of its recursion, and say so, if the collector runs meanwhile.
    """
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()
