"""Planted bugs of what keeps one peer's trouble from others, and errors planted for it to deal with.

The contract is that of `mutants.py`, whose tables take these in.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from tests.prove.bugs import with_limits
from tests.prove.swap import Patch, swap

_ENGINE = "franca.engine.engine"
_PLANTED = "planted"
_UNBOUNDED = 1 << 60
_COMMITS = 60
_HARD_TO_READ = (b"0x", b"9" * 20, b"1e400", b"ud800", b"[[[[", b"\xff\xfe")

Function = Callable[..., Any]


# -- bugs --------------------------------------------------------------------------------------


def drop_inputs() -> None:
    """One reader raises for what a peer sent, and what others sent in the same turn is dropped."""

    def careless(take_inputs: Function) -> Function:
        def take(self: Any, now: int, between: object = None) -> None:
            inputs, self.inputs[:] = self.inputs[:], []
            try:
                for link, data in inputs:
                    if not (link.closing or link.closed):
                        if any(word in data for word in _HARD_TO_READ):
                            raise ValueError("planted")
                        self._receive(link, data, now)
            except ValueError:
                return

        return take

    swap(f"{_ENGINE}:Engine", "_take_inputs", careless)


def hang_in_commit() -> None:
    """An error around a commit is nobody's, and the store is never free again."""

    def failing(commit: Function) -> Function:
        commits = 0

        def count(self: Any) -> None:
            nonlocal commits
            commits += 1
            if commits > _COMMITS:
                raise OSError("planted")
            commit(self)

        return count

    def deaf(fail: Function) -> Function:
        def hear(self: Any, error: BaseException) -> None:
            if not isinstance(error, OSError):
                fail(self, error)

        return hear

    swap("franca.store.sqlite:SqliteStore", "commit", failing)
    swap("franca.node.node:Node", "fail", deaf)


def no_byte_bounds() -> None:
    """Windows and supplies go by the number of jobs alone."""
    with_limits(window_bytes=_UNBOUNDED, supply_bytes=_UNBOUNDED)


def blame_the_peer() -> None:
    """Whatever is raised is taken for the peer's doing, and a half-changed broker goes on."""
    swap(_ENGINE, "is_of_the_core", lambda _: lambda error, broker: False)


MUTANTS: dict[str, Patch] = {
    "drop-inputs": drop_inputs,
    "hang-in-commit": hang_in_commit,
    "no-byte-bounds": no_byte_bounds,
    "blame-the-peer": blame_the_peer,
}


# -- errors to be dealt with -------------------------------------------------------------------------


def core_raises() -> None:
    """An assertion fails inside the broker."""

    def raising(submit: Function) -> Function:
        @wraps(submit)
        def check(self: Any, new: Any, *arguments: Any, **options: Any) -> Any:
            assert new.kind != _PLANTED, "planted"
            return submit(self, new, *arguments, **options)

        return check

    swap("franca.core.broker:Broker", "submit", raising)


def handler_raises() -> None:
    """The first conversation that is told of a certain job raises."""
    granted = importlib.import_module("franca.core.events").Granted

    def raising(tell: Function) -> Function:
        raised = False

        def hear(self: Any, session: Any, event: Any, now: int) -> None:
            nonlocal raised
            if not raised and isinstance(event, granted) and event.job.kind == _PLANTED:
                raised = True
                raise LookupError("planted")
            tell(self, session, event, now)

        return hear

    swap("franca.protocols.faktory.conversation:FaktoryConversation", "tell", raising)


TWEAKS: dict[str, Patch] = {
    "core-raises": core_raises,
    "handler-raises": handler_raises,
}
