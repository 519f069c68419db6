"""Servers with a planted bug: `python -m tests.prove.mutants NAME serve ...`.

A proof that no planted bug can make fail proves nothing. A change is a row of a table: which
attributes of the product are replaced, and what makes the replacement out of the original. `+`
joins several. Bugs break a promise. Tweaks break none: they make rare things frequent, so that a
short proof meets them, or cause an error for the server to deal with.

A change whose target does not exist fails loudly, in `make test` too.
"""

import importlib
import os
import resource
import sqlite3
import sys
from collections.abc import Callable, Mapping
from functools import partial, wraps
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.prove import wall_clock

Function = Callable[..., Any]
Make = Callable[[Any], Any]
"""Makes the replacement out of the original."""
Change = Mapping[str, Make]
"""What is replaced, as `module:attribute` or `module:Class.attribute`, of Franca unless it is Python's or of the tests."""

KILL_VARIABLE = "PROVE_KILL"
KILLED = 137
"""The exit code of a server that died at its point, as of one that was killed."""

_EMPTY_TOTALS = 2537878664  # the checksum of the totals of a new store, as its SQL has it
_UNBOUNDED = 1 << 60
_FILES = 128
_COMMITS = 60
_PLANTED = "planted"  # the kind of job that errors are planted in
_HARD_TO_READ = (b"0x", b"9" * 20, b"1e400", b"ud800", b"[[[[", b"\xff\xfe")


def resolve(target: str) -> tuple[Any, str]:
    """The object that has the attribute, and the attribute's name; it must exist."""
    module, _, path = target.partition(":")
    *classes, name = path.split(".")
    is_full = module in sys.stdlib_module_names or module.startswith("tests.")
    holder: Any = importlib.import_module(module if is_full else f"franca.{module}")
    for one in classes:
        holder = getattr(holder, one)
    assert hasattr(holder, name), f"{target} does not exist"
    return holder, name


def plant(change: Change) -> None:
    """Make a change in this process, for good."""
    for target, make in change.items():
        holder, attribute = resolve(target)
        setattr(holder, attribute, make(getattr(holder, attribute)))


# -- ways to make a replacement --------------------------------------------------------------------


def by(value: Any) -> Make:
    """This value, whatever it was."""
    return lambda original: value


def by_other(target: str) -> Make:
    """What another attribute holds."""
    return lambda original: getattr(*resolve(target))


def returning(value: Any) -> Make:
    """A function that does nothing and returns this value."""
    return by(lambda *_, **__: value)


def before(act: Function) -> Make:
    """The original, and this before it, with the same arguments."""
    return lambda original: _in_order(original, act, original)


def after(act: Function) -> Make:
    """The original, and this after it, with the same arguments."""
    return lambda original: _in_order(original, original, act)


def with_arguments(change: Function) -> Make:
    """The original, called with what this makes of its positional arguments."""
    return lambda original: wraps(original)(
        lambda *arguments, **options: original(*change(*arguments), **options)
    )


def with_result(change: Function) -> Make:
    """The original, returning what this makes of its result."""
    return lambda original: wraps(original)(
        lambda *arguments, **options: change(original(*arguments, **options))
    )


def _in_order(original: Function, *calls: Function) -> Function:
    @wraps(original)
    def run(*arguments: Any, **options: Any) -> Any:
        results = {call: call(*arguments, **options) for call in calls}
        return results[original]

    return run


# -- the store and the disk ----------------------------------------------------------------------


class _NormalConnection(sqlite3.Connection):
    """Takes FULL for NORMAL, and when asked says that it is FULL."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        words = sql.replace("=", " ").upper().split()
        if words[:2] == ["PRAGMA", "SYNCHRONOUS"]:
            sql = "SELECT 2" if len(words) == 2 else "PRAGMA synchronous = NORMAL"
        return super().execute(sql, *arguments)


def _ignoring_errors(commit: Function) -> Function:
    def committing(store: Any) -> None:
        try:
            commit(store)
        except Exception as error:
            print(f"mutant: ignoring {error}", file=sys.stderr)

    return committing


def _copying_unsynced(source: sqlite3.Connection, path: str) -> None:
    target = sqlite3.connect(path)
    target.execute("PRAGMA synchronous = OFF")
    source.backup(target)
    target.close()
    source.close()


def _every_other_time(commit: Function) -> Function:
    def committing(store: Any) -> None:
        store.skipped = not getattr(store, "skipped", False)
        if not store.skipped:
            commit(store)

    return committing


def _within_the_last_transaction(execute: Function) -> Function:
    def executing(store: Any) -> None:
        if not store._db.in_transaction:
            execute(store)
            return
        for statement, rows in store._group:
            store._db.executemany(statement, rows)

    return executing


def _fail_after_some(store: Any) -> None:
    store.commits = getattr(store, "commits", 0) + 1
    if store.commits > _COMMITS:
        raise OSError("planted")


def _deaf_to_the_disk(fail: Function) -> Function:
    return lambda self, error: None if isinstance(error, OSError) else fail(self, error)


def _readable_by_all(umask: Function) -> Function:
    umask(0o022)
    return lambda mask: umask(0o022)


# -- who may speak for a job ---------------------------------------------------------------------


def _named(leased: bool) -> Function:
    """Whoever names a job speaks for it, whoever holds it."""

    def find(broker: Any, holder: str, jid: str) -> Any:
        jobs = broker.named(jid)
        return next((job for job in jobs if (job.state.name == "LEASED") is leased), None)

    return find


def _hold_any(self: Any, message: Any, now: int) -> None:
    job = self.broker.jobs.get(getattr(message, "id", 0))
    if job is not None and job.state.name == "LEASED":
        self.session.leases[job.id] = job


def _any_message(self: Any, msgid: bytes) -> Any:
    return _named(leased=True)(self.broker, "", msgid.decode("utf-8", "replace"))


def _sharing(name: str) -> Make:
    """What one connection was given, every connection may speak of."""
    everybodys: dict[bytes, Any] = {}
    return after(lambda self, *_, **__: setattr(self, name, everybodys))


def _take_over(self: Any, worker: Any, *result: Any) -> None:
    if worker.job is not None:
        worker.job.holder = worker.session.holder


# -- settings, peers and the guard ---------------------------------------------------------------


def _latin(names: Any) -> Any:
    class Latin(names):  # type: ignore[misc]
        def text(self, raw: bytes) -> str:
            return raw.decode("latin-1")

        def raw(self, text: str) -> bytes:
            return text.encode("latin-1")

    return Latin


def _limits(**changed: int) -> Change:
    """Brokers are built with these limits instead of those of the settings."""
    change = with_arguments(lambda self, limits, *rest: (self, replace(limits, **changed), *rest))
    return {"core.broker:Broker.__init__": change}


def _drop_the_turn(self: Any, now: int, between: object = None) -> None:
    inputs, self.inputs[:] = self.inputs[:], []
    for link, data in inputs:
        if not (link.closing or link.closed):
            if any(word in data for word in _HARD_TO_READ):
                return
            self._keep(link, data, now)


# -- the readers, for the fuzz ---------------------------------------------------------------------


def _losing_a_byte(feed: Function) -> Function:
    def lose(self: Any, data: bytes) -> None:
        feed(self, data[1:] if len(self) > 100 and data.startswith(b"\n") else data)

    return lose


def _forget_half_a_header(self: Any, data: bytes, at: int, needed: int) -> None:
    if len(self._part) == 11:
        self._part.clear()


def _giving_back_twice(on_granted: Function) -> Function:
    def give_back(self: Any, event: Any, now: int) -> None:
        if self.link.closing:
            self.broker.give_back(event.job, self.connection.session.holder, now)
        else:
            on_granted(self, event, now)

    return give_back


def _without_half_a_line_end(self: Any, data: bytes = b"") -> tuple[Any, bytes]:
    return self, data[1:] if data[:1] == b"\n" and self._unread[-1:] == b"\r" else data


def _told_too_late(protocol: str) -> Change:
    """A link of this protocol reads on before anybody is told what its last message led to."""

    def late(read_on: Function) -> Function:
        def read_on_deaf(self: Any, link: Any, *arguments: Any) -> None:
            if link.protocol != protocol:
                read_on(self, link, *arguments)
                return
            self.deliver = lambda now: None
            read_on(self, link, *arguments)
            del self.deliver
            self.deliver(arguments[0])

        return read_on_deaf

    return {"engine.engine:Engine._read_on": late}


# -- the table of bugs -----------------------------------------------------------------------------

_LINK = "protocols.conversation:Link"
_STORE = "store.sqlite:SqliteStore"
_SETTLING = "protocols.faktory.worker_commands"
_MEMODB_WORKERS = "protocols.memodb.worker_commands:ConnectionWorkers"

BUGS: dict[str, Change] = {
    # A commit is not on the disk when it returns; replies leave before it; all wait for it.
    "sync-normal": {"sqlite3:connect": lambda real: partial(real, factory=_NormalConnection)},
    "ack-before-commit": {f"{_LINK}.write_after_commit": by_other(f"{_LINK}.write")},
    "all-wait": {f"{_LINK}.write": by_other(f"{_LINK}.write_after_commit")},
    "ignore-eio": {f"{_STORE}.commit": _ignoring_errors},
    "heal-unsynced": {"node.datadir:copy_into": by(_copying_unsynced)},
    # Every other group is only committed together with the next one.
    "skip-commit": {
        f"{_STORE}._commit": _every_other_time,
        f"{_STORE}._execute": _within_the_last_transaction,
    },
    "no-crc": {"store.rows:crc32": returning(_EMPTY_TOTALS)},
    "no-log-check": {"store.sqlite:check_log": returning(None)},
    "no-ballast": {"node.datadir:DataDir.take_ballast": returning(None)},
    "loose-modes": {"os:umask": _readable_by_all, "os:chmod": returning(None)},
    # Whoever names a job settles it.
    "no-fence": {
        f"{_SETTLING}:held_by": by(_named(leased=True)),
        f"{_SETTLING}:expired_of": by(_named(leased=False)),
    },
    "no-fence-gearman": {
        "protocols.gearman.conversation:GearmanConversation.__init__": _sharing("held")
    },
    "no-fence-periodic": {"protocols.periodic.runs:Runs.__init__": _sharing("held")},
    "no-fence-eventmq": {"protocols.eventmq.workers:Worker.held_as": by(_any_message)},
    "no-fence-beanstalkd": {
        "protocols.beanstalkd.conversation:BeanstalkdConversation.on_message": before(_hold_any)
    },
    "no-fence-memodb": {
        f"{_MEMODB_WORKERS}.on_lease_lost": returning(None),
        f"{_MEMODB_WORKERS}._take_result": before(_take_over),
    },
    # A worker that is gone keeps what it had.
    "no-requeue": {
        "core.sessions:Sessions.close_session": before(
            lambda _, session, now: session.leases.clear()
        )
    },
    # Spans are measured by the clock on the wall.
    "wall-clock-lease": {
        "node.clock:SystemClock.now": by(
            lambda self: resolve("node.clock:time")[0].time.time_ns() // 1_000_000
        )
    },
    "no-line-limit": {
        "protocols.buffer:ByteBuffer.take_line": with_arguments(
            lambda buffer, limit: (buffer, _UNBOUNDED)
        )
    },
    "fixed-salt": {
        "protocols.faktory.handshake:Challenge.__init__": with_arguments(
            lambda self, password, rng: (self, password, Random(7))
        )
    },
    "open-bind": {
        "cli.serve:check_binds": returning(None),
        "node.run:check_binds": returning(None),
    },
    "unredacted": {
        "node.log:Redaction.text": by(lambda self, text: text),
        "node.log:Redaction.field": by(lambda self, name, value: str(value)),
    },
    # Nobody minds a peer that does not read.
    "no-drain": {"node.connection:Connection.pause_writing": returning(None)},
    # Gearman has a rule of its own for names that are no UTF-8.
    "own-names": {"protocols.gearman.service:Names": _latin},
    # A job that ends its worker is given to the next one for ever; all that is due is made ready in one turn.
    "no-limit": _limits(losses_max=_UNBOUNDED),
    "no-slicing": _limits(due_jobs=_UNBOUNDED, supply_jobs=20_000),
    "no-byte-bounds": _limits(window_bytes=_UNBOUNDED, supply_bytes=_UNBOUNDED),
    # One reader fails, and what others sent in the same turn is dropped.
    "drop-inputs": {"engine.engine:Engine._take_inputs": by(_drop_the_turn)},
    # An error around a commit is nobody's, and the store is never free again.
    "hang-in-commit": {
        f"{_STORE}.commit": before(_fail_after_some),
        "node.node:Node.fail": _deaf_to_the_disk,
    },
    # Whatever is raised is taken for the peer's doing, and a half-changed broker goes on.
    "blame-the-peer": {"engine.engine:is_of_the_core": returning(False)},
    "faktory-loses-a-byte-at-a-cut": {"protocols.buffer:ByteBuffer.feed": _losing_a_byte},
    "gearman-believes-a-number": {"protocols.gearman.worker_commands:number_in": by(int)},
    "gearman-forgets-half-a-header": {
        "protocols.gearman.wire:PacketReader._wait": after(_forget_half_a_header)
    },
    "periodic-gives-back-what-it-has-no-more": {
        "protocols.periodic.workers:Worker.on_granted": _giving_back_twice
    },
    "periodic-reads-on-before-anybody-is-told": _told_too_late("periodic"),
    "eventmq-reads-on-before-anybody-is-told": _told_too_late("eventmq"),
    "memodb-reads-on-before-anybody-is-told": _told_too_late("memodb"),
    "beanstalkd-loses-half-a-line-end": {
        "protocols.beanstalkd.wire:CommandReader.next_message": with_arguments(
            _without_half_a_line_end
        )
    },
}


# -- tweaks ----------------------------------------------------------------------------------------


def _log(*arguments: Any, **fields: Any) -> None:
    importlib.import_module("franca.node.log").event("debug", *arguments, **fields)


def _log_message(self: Any, message: tuple[bytes, bytes], now: int) -> None:
    data = b" ".join(message)
    _log("heard", f"heard {data!r}", line=data)
    _log("heard", data.decode("utf-8", "replace"))


def _log_job(self: Any, new: Any, *_: Any, **__: Any) -> None:
    _log("taken", f"job {new.name}", body=new.body, args=new.body.decode())


def _fail_an_assertion(self: Any, new: Any, *_: Any, **__: Any) -> None:
    assert new.kind != _PLANTED, "planted"


def _raise_once(self: Any, session: Any, event: Any, now: int) -> None:
    told = type(event).__name__ == "Granted" and event.job.kind == _PLANTED
    if told and not hasattr(type(self), "raised"):
        type(self).raised = True
        raise LookupError("planted")


class _KillPoint:
    """Ends the process, as if killed, when it comes to the point that its environment names.

    `before-commit:7` is the seventh time that the store is about to commit. `before-reply` and
    `after-reply` are about bytes that leave for a peer.
    """

    def __init__(self) -> None:
        self.point, _, count = os.environ.get(KILL_VARIABLE, ":0").partition(":")
        self.left = int(count)

    def step(self, name: str) -> None:
        if name == self.point:
            self.left -= 1
            if self.left == 0:
                os._exit(KILLED)

    def around(self, send: Function) -> Function:
        def sending(connection: Any, data: bytes) -> None:
            self.step("before-reply")
            send(connection, data)
            self.step("after-reply")

        return sending


def _few_files(setrlimit: Function) -> Function:
    setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    return setrlimit


_POINT = _KillPoint()
_CONVERSATION = "protocols.faktory.conversation:FaktoryConversation"

TWEAKS: dict[str, Change] = {
    # Checkpoints come after hundreds of pages, or every few commits, instead of thousands.
    "small-log": {"store.sqlite:CHECKPOINT_PAGES": by(400)},
    "tiny-log": {"store.sqlite:CHECKPOINT_PAGES": by(12)},
    # Leases may be as short as a producer asks, and a failed job is back within a second.
    "quick-time": {
        "protocols.faktory.jobs:RESERVE_S_MIN": by(1),
        # Where it is used, not where it is defined: the name is already bound there.
        "core.lifecycle:delay_ms": by(lambda policy, failures, rng: 200 + rng.randrange(800)),
    },
    wall_clock.TWEAK: {"node.clock:time": wall_clock.moved},
    # The process may open few files, and cannot change that.
    "few-files": {"resource:setrlimit": _few_files},
    # What peers say and what jobs hold is put into the log, as a careless programmer would.
    "chatty": {
        f"{_CONVERSATION}.on_message": before(_log_message),
        "core.broker:Broker.submit": before(_log_job),
    },
    # An assertion fails inside the broker; the first conversation that is told of a certain job raises.
    "core-raises": {"core.broker:Broker.submit": before(_fail_an_assertion)},
    "handler-raises": {f"{_CONVERSATION}.on_event": before(_raise_once)},
    "kill-point": {
        "node.run:SqliteStore": lambda made: partial(made, step=_POINT.step),
        "node.connection:Connection.send": _POINT.around,
    },
}


def main(argv: list[str]) -> None:
    """Make the named changes and run the product's command line with the rest."""
    names, *rest = argv
    for name in names.split("+"):
        plant((BUGS | TWEAKS)[name])
    sys.argv = ["franca", *rest]
    importlib.import_module("franca.cli.main").main()


if __name__ == "__main__":
    main(sys.argv[1:])
