"""Planted bugs about peers, time and settings, and the tweaks that their proofs need.

The contract is that of `mutants.py`, whose tables take these in.
"""

from __future__ import annotations

import importlib
import resource
from collections.abc import Callable
from functools import wraps
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.prove import hands
from tests.prove.swap import Patch, swap

_FILES = 128
_CONVERSATION = "franca.protocols.faktory.conversation"
_SETTLING = "franca.protocols.faktory.settling"
_BROKER = "franca.core.broker:Broker"

Function = Callable[..., Any]


def _doing_nothing(*_: Any, **__: Any) -> None:
    return


# -- bugs --------------------------------------------------------------------------------------


def no_fence() -> None:
    """Whoever names a job settles it, whoever holds it and whenever the lease ended."""

    def leased(broker: Any, holder: str, jid: str) -> Any:
        return next((job for job in broker.named(jid) if job.state.name == "LEASED"), None)

    def not_leased(broker: Any, holder: str, jid: str) -> Any:
        return next((job for job in broker.named(jid) if job.state.name != "LEASED"), None)

    swap(_SETTLING, "held_by", lambda _: leased)
    swap(_SETTLING, "expired_of", lambda _: not_leased)


def _sharing(path: str, name: str) -> None:
    """What one connection was given, every connection may speak of."""
    everybodys: dict[bytes, Any] = {}

    def sharing(init: Function) -> Function:
        @wraps(init)
        def begin(self: Any, *arguments: Any, **options: Any) -> None:
            init(self, *arguments, **options)
            setattr(self, name, everybodys)

        return begin

    swap(path, "__init__", sharing)


def no_fence_gearman() -> None:
    """Whoever knows a handle speaks for the job."""
    _sharing("franca.protocols.gearman.conversation:GearmanConversation", "held")


def no_fence_periodic() -> None:
    """Whoever knows a function and a name speaks for the job."""
    _sharing("franca.protocols.periodic.working:Working", "_held")


def no_fence_eventmq() -> None:
    """Whoever names a message speaks for the job."""

    def anybodys(self: Any, msgid: bytes) -> Any:
        jobs = self._broker.named(msgid.decode("utf-8", "replace"))
        return next((job for job in jobs if job.state.name == "LEASED"), None)

    swap("franca.protocols.eventmq.hands:Hands", "held_as", lambda _: anybodys)


def no_fence_memodb() -> None:
    """A worker's job is its own whoever has it now."""

    def forcing(finish: Function) -> Function:
        def force(self: Any, worker: Any, *result: Any) -> Any:
            if worker.job is not None:
                worker.job.holder = worker.session.holder
            return finish(self, worker, *result)

        return force

    swap("franca.protocols.memodb.crew:Crew", "on_lease_lost", lambda _: _doing_nothing)
    swap("franca.protocols.memodb.crew:Crew", "_take_result", forcing)


def no_requeue() -> None:
    """A worker that is gone keeps what it had."""

    def keeping(close_session: Function) -> Function:
        def close(self: Any, session: Any, now: int) -> None:
            session.leases.clear()
            close_session(self, session, now)

        return close

    swap(_BROKER, "close_session", keeping)


def wall_clock_lease() -> None:
    """Spans are measured by the clock on the wall."""
    clock = importlib.import_module("franca.node.clock")
    swap(
        "franca.node.clock:SystemClock",
        "now",
        lambda _: lambda self: clock.time.time_ns() // 1_000_000,
    )


def no_line_limit() -> None:
    """A line may be as long as a peer likes."""

    def without_limit(take_line: Function) -> Function:
        return lambda buffer, limit: take_line(buffer, 1 << 60)

    swap("franca.protocols.buffer:ByteBuffer", "take_line", without_limit)


def fixed_salt() -> None:
    """Every greeting asks for the same hash."""

    def guessable(init: Function) -> Function:
        def begin(self: Any, password: str, rng: Random, **options: Any) -> None:
            init(self, password, Random(7), **options)

        return begin

    swap("franca.protocols.faktory.handshake:Challenge", "__init__", guessable)


def open_bind() -> None:
    """Nobody looks at which addresses are listened on."""
    swap("franca.cli.serve", "check_binds", lambda _: _doing_nothing)
    swap("franca.node.run", "check_binds", lambda _: _doing_nothing)


def unredacted() -> None:
    """The log says what it is told."""
    swap("franca.node.log:Redaction", "text", lambda _: lambda self, text: text)
    swap("franca.node.log:Redaction", "field", lambda _: lambda self, name, value: str(value))


def no_drain() -> None:
    """Nobody minds a peer that does not read."""
    swap("franca.node.connection:Connection", "pause_writing", lambda _: _doing_nothing)


def own_names() -> None:
    """Gearman has a rule of its own for names that are no UTF-8."""

    def own(names: Any) -> Any:
        class Own(names):  # type: ignore[misc]
            def text(self, raw: bytes) -> str:
                return raw.decode("latin-1")

            def raw(self, text: str) -> bytes:
                return text.encode("latin-1")

        return Own

    swap("franca.protocols.gearman.service", "Names", own)


def with_limits(**changed: int) -> None:
    """Brokers are built with these limits instead of those of the settings."""

    def changing(init: Function) -> Function:
        @wraps(init)
        def begin(self: Any, limits: Any, *arguments: Any, **options: Any) -> None:
            init(self, replace(limits, **changed), *arguments, **options)

        return begin

    swap(_BROKER, "__init__", changing)


def no_limit() -> None:
    """A job that takes its worker with it is given to the next one, for ever."""
    with_limits(losses_max=1 << 60)


def no_slicing() -> None:
    """Everything that is due is made ready in one turn."""
    with_limits(due_jobs=1 << 60, supply_jobs=20_000)


MUTANTS: dict[str, Patch] = {
    "no-fence": no_fence,
    "no-fence-gearman": no_fence_gearman,
    "no-fence-periodic": no_fence_periodic,
    "no-fence-eventmq": no_fence_eventmq,
    "no-fence-memodb": no_fence_memodb,
    "no-requeue": no_requeue,
    "wall-clock-lease": wall_clock_lease,
    "no-line-limit": no_line_limit,
    "fixed-salt": fixed_salt,
    "open-bind": open_bind,
    "unredacted": unredacted,
    "no-drain": no_drain,
    "no-limit": no_limit,
    "no-slicing": no_slicing,
    "own-names": own_names,
}


# -- tweaks ------------------------------------------------------------------------------------


def few_files() -> None:
    """The process may open few files, and cannot change that."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))


def chatty() -> None:
    """What peers say and what jobs hold is put into the log, as a careless hand would."""
    event = importlib.import_module("franca.node.log").event

    def telling(receive: Function) -> Function:
        def hearing(self: Any, data: bytes, now: int) -> Any:
            if data:
                event("debug", "heard", f"heard {data!r}", line=data)
                event("debug", "heard", data.decode("utf-8", "replace"))
            return receive(self, data, now)

        return hearing

    def showing(submit: Function) -> Function:
        def taking(self: Any, new: Any, *arguments: Any, **options: Any) -> Any:
            event("debug", "taken", f"job {new.name}", body=new.body, args=new.body.decode())
            return submit(self, new, *arguments, **options)

        return taking

    swap(f"{_CONVERSATION}:FaktoryConversation", "receive", telling)
    swap(_BROKER, "submit", showing)


TWEAKS: dict[str, Patch] = {
    hands.TWEAK: hands.follow_hands,
    "few-files": few_files,
    "chatty": chatty,
}
