"""Servers with a planted bug: `python -m tests.prove.mutants NAME serve ...`.

A proof that no planted bug can make fail proves nothing. A change says which attributes of the
product are replaced, and what makes the replacement out of the original. `+` joins several. Bugs
break a promise. Tweaks break none: they make rare things frequent, so that a short proof meets them,
or cause an error for the server to deal with.

A change whose target does not exist fails loudly, in `make test` too.
"""

import importlib
import os
import resource
import sqlite3
import sys
from collections.abc import Callable
from functools import partial, wraps
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.prove import wall_clock

Function = Callable[..., Any]
Make = Callable[[Any], Any]
"""Makes the replacement out of the original."""
Change = dict[str, Make]
"""What is replaced, as `module:attribute` or `module:Class.attribute`, of Franca unless it is Python's or of the tests."""
Changes = dict[str, Change]

KILL_VARIABLE = "PROVE_KILL"
KILLED = 137
"""The exit code of a server that died at its point, as of one that was killed."""

_EMPTY_TOTALS = 2537878664  # the checksum of the totals of a new store, as its SQL has it
_UNBOUNDED = 1 << 60
_FILES = 128
_COMMITS = 60
_PLANTED = "planted"  # the kind of job that errors are planted in
_HARD_TO_READ = (b"0x", b"9" * 20, b"1e400", b"ud800", b"[[[[", b"\xff\xfe")


BUGS: Changes = {}
TWEAKS: Changes = {}


def bug(
    name: str, target: str, how: Callable[[Any], Make] | None = None, of: Changes = BUGS
) -> Callable[[Any], None]:
    """What it is applied to makes the replacement of the target, or `how` makes it of that."""
    return lambda act: of.setdefault(name, {}).update({target: how(act) if how else act})


tweak = partial(bug, of=TWEAKS)


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


def around(act: Function) -> Make:
    """This instead of the original, which is its first argument."""
    return lambda original: wraps(original)(lambda *a, **o: act(original, *a, **o))


def before(act: Function) -> Make:
    """The original, and this before it, with the same arguments."""
    return around(lambda original, *a, **o: (act(*a, **o), original(*a, **o))[1])


def after(act: Function) -> Make:
    """The original, and this after it, with the same arguments."""
    return around(lambda original, *a, **o: (original(*a, **o), act(*a, **o))[0])


def with_arguments(change: Function) -> Make:
    """The original, called with what this makes of its positional arguments."""
    return around(lambda original, *a, **o: original(*change(*a), **o))


def with_result(change: Function) -> Make:
    """The original, returning what this makes of its result."""
    return around(lambda original, *a, **o: change(original(*a, **o)))


# -- the store and the disk ----------------------------------------------------------------------

_LINK = "protocols.conversation:Link"
_STORE = "store.sqlite:SqliteStore"

# Replies leave before the commit; all wait for it.
bug("ack-before-commit", f"{_LINK}.write_after_commit", by_other)(f"{_LINK}.write")
bug("all-wait", f"{_LINK}.write", by_other)(f"{_LINK}.write_after_commit")
bug("no-crc", "store.rows:crc32", returning)(_EMPTY_TOTALS)
bug("no-log-check", "store.sqlite:check_log", returning)(None)
bug("no-ballast", "node.datadir:DataDir.take_ballast", returning)(None)
bug("loose-modes", "os:chmod", returning)(None)


class _NormalConnection(sqlite3.Connection):
    """Takes FULL for NORMAL, and when asked says that it is FULL: a commit is not on the disk when it returns."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        words = sql.replace("=", " ").upper().split()
        if words[:2] == ["PRAGMA", "SYNCHRONOUS"]:
            sql = "SELECT 2" if len(words) == 2 else "PRAGMA synchronous = NORMAL"
        return super().execute(sql, *arguments)


bug("sync-normal", "sqlite3:connect")(lambda real: partial(real, factory=_NormalConnection))


@bug("loose-modes", "os:umask")
def _readable_by_all(umask: Function) -> Function:
    umask(0o022)
    return lambda mask: umask(0o022)


@bug("ignore-eio", f"{_STORE}.commit", around)
def _ignore_errors(commit: Function, store: Any) -> None:
    try:
        commit(store)
    except Exception as error:
        print(f"mutant: ignoring {error}", file=sys.stderr)


@bug("heal-unsynced", "node.datadir:copy_into", by)
def _copy_unsynced(source: sqlite3.Connection, path: str) -> None:
    target = sqlite3.connect(path)
    target.execute("PRAGMA synchronous = OFF")
    source.backup(target)
    target.close()
    source.close()


# Every other group is only committed together with the next one.
@bug("skip-commit", f"{_STORE}._commit", around)
def _commit_every_other_time(commit: Function, store: Any) -> None:
    store.skipped = not getattr(store, "skipped", False)
    if not store.skipped:
        commit(store)


@bug("skip-commit", f"{_STORE}._execute", around)
def _execute_within_the_last_transaction(execute: Function, store: Any) -> None:
    if not store._db.in_transaction:
        execute(store)
        return
    for statement, rows in store._group:
        store._db.executemany(statement, rows)


# An error around a commit is nobody's, and the store is never free again.
@bug("hang-in-commit", f"{_STORE}.commit", before)
def _fail_after_some(store: Any) -> None:
    store.commits = getattr(store, "commits", 0) + 1
    if store.commits > _COMMITS:
        raise OSError("planted")


@bug("hang-in-commit", "node.node:Node.fail", around)
def _ignore_the_disk(fail: Function, node: Any, error: Exception) -> None:
    if not isinstance(error, OSError):
        fail(node, error)


# -- who may speak for a job ---------------------------------------------------------------------


def _named(leased: bool) -> Function:
    """Whoever names a job speaks for it, whoever holds it."""

    def find(broker: Any, holder: str, jid: str) -> Any:
        jobs = broker.index.all_named(jid)
        return next((job for job in jobs if (job.state.name == "LEASED") is leased), None)

    return find


bug("no-fence-faktory", "protocols.faktory.worker_commands:held_by", by)(_named(leased=True))
bug("no-fence-faktory", "protocols.faktory.worker_commands:expired_of", by)(_named(leased=False))


def _sharing(name: str) -> Make:
    """What one connection was given, every connection may speak of."""
    everybodys: dict[bytes, Any] = {}
    return after(lambda self, *_, **__: setattr(self, name, everybodys))


_GEARMAN = "protocols.gearman.conversation:GearmanConversation"
bug("no-fence-gearman", f"{_GEARMAN}.__init__")(_sharing("held"))
bug("no-fence-periodic", "protocols.periodic.runs:Runs.__init__")(_sharing("held"))


@bug("no-fence-beanstalkd", "protocols.beanstalkd.conversation:BeanstalkdConversation.on_message")
@before
def _hold_any(self: Any, message: Any, now: int) -> None:
    job = self.broker.jobs.get(getattr(message, "id", 0))
    if job is not None and job.state.name == "LEASED":
        self.session.leases[job.id] = job


@bug("no-fence-eventmq", "protocols.eventmq.workers:Worker.held_as", by)
def _any_message(self: Any, msgid: bytes) -> Any:
    return _named(leased=True)(self.broker, "", msgid.decode("utf-8", "replace"))


_MEMODB_WORKERS = "protocols.memodb.worker_commands:ConnectionWorkers"
bug("no-fence-memodb", f"{_MEMODB_WORKERS}.on_lease_lost", returning)(None)


@bug("no-fence-memodb", f"{_MEMODB_WORKERS}._take_result", before)
def _take_over(self: Any, worker: Any, *result: Any) -> None:
    if worker.job is not None:
        worker.job.holder = worker.session.holder


@bug("no-requeue", "core.sessions:Sessions.close_session", before)
def _keep_what_it_had(self: Any, session: Any, now: int) -> None:
    session.leases.clear()


# -- settings, peers and the guard ---------------------------------------------------------------

bug("open-bind", "cli.serve:check_binds", returning)(None)
bug("open-bind", "node.run:check_binds", returning)(None)
bug("no-origin-check", "web.app:check_origin", returning)(None)
bug("any-host", "web.guard:Hosts.check", returning)(None)
bug("any-role", "web.app:may", returning)(True)
bug("pauses-nothing", "core.dispatch:Dispatch.pause", returning)(None)
bug("raw-html", "web.app:HEADERS", by)(())
bug("reads-pickles", "tests.prove.supply:sources", with_result)(
    lambda sources: [*sources, ("planted.py", "import pickle\npickle.loads(b'')\n")]
)
bug("unredacted", "node.log:Redaction.text", by)(lambda self, text: text)
bug("unredacted", "node.log:Redaction.field", by)(lambda self, name, value: str(value))
# Nobody minds a peer that does not read.
bug("no-drain", "node.connection:Connection.pause_writing", returning)(None)
# Whatever is raised is taken for the peer's doing, and a half-changed broker goes on.
bug("blame-the-peer", "engine.engine:is_of_the_core", returning)(False)


@bug("gone-for-missing", "web.app:answer_to", before)
def _say_gone(declined: Any) -> None:
    if declined.status == 404:
        declined.status = 410


@bug("raw-html", "web.files:_read", around)
def _texts_as_markup(read: Function, path: Any) -> Any:
    """Texts are put into the page as markup, and no policy of the page forbids what they do."""
    file = read(path)
    if path.name == "dom.js":
        old, new = b": String(kid));", b": document.createRange().createContextualFragment(kid));"
        assert old in file.content
        file.content, file.packed = file.content.replace(old, new), b""
    return file


@bug("wall-clock-lease", "node.clock:SystemClock.now", by)
def _now_by_the_wall(self: Any) -> int:
    ns: int = resolve("node.clock:time")[0].time.time_ns()
    return ns // 1_000_000


@bug("no-line-limit", "protocols.buffer:ByteBuffer.take_line", with_arguments)
def _without_a_limit(buffer: Any, limit: int) -> tuple[Any, int]:
    return buffer, _UNBOUNDED


@bug("fixed-salt", "protocols.faktory.handshake:Challenge.__init__", with_arguments)
def _always_alike(self: Any, password: object, rng: Random) -> tuple[Any, object, Random]:
    return self, password, Random(7)


@bug("own-names", "protocols.gearman.service:Names")
def _latin(names: Any) -> Any:
    """Gearman has a rule of its own for names that are no UTF-8."""

    class Latin(names):  # type: ignore[misc]
        def text(self, raw: bytes) -> str:
            return raw.decode("latin-1")

        def raw(self, text: str) -> bytes:
            return text.encode("latin-1")

    return Latin


def _limits(**changed: int) -> Make:
    """Brokers are built with these limits instead of those of the settings."""
    return with_arguments(lambda self, limits, *rest: (self, replace(limits, **changed), *rest))


# A job that ends its worker is given to the next one for ever; all that is due is made ready in one turn.
_BROKER = "core.broker:Broker.__init__"
bug("no-limit", _BROKER)(_limits(losses_max=_UNBOUNDED))
bug("no-slicing", _BROKER)(_limits(due_jobs=_UNBOUNDED, supply_jobs=20_000))
bug("no-byte-bounds", _BROKER)(_limits(window_bytes=_UNBOUNDED, supply_bytes=_UNBOUNDED))


@bug("drop-inputs", "engine.engine:Engine._take_inputs", by)
def _drop_the_turn(self: Any, now: int, between: object = None) -> None:
    """One reader fails, and what others sent in the same turn is dropped."""
    inputs, self.inputs[:] = self.inputs[:], []
    for link, data in inputs:
        if not (link.closing or link.closed):
            if any(word in data for word in _HARD_TO_READ):
                return
            self._keep(link, data, now)


# -- the readers, for the fuzz ---------------------------------------------------------------------

bug("gearman-believes-a-number", "protocols.gearman.worker_commands:number_in", by)(int)


@bug("faktory-loses-a-byte-at-a-cut", "protocols.buffer:ByteBuffer.feed", with_arguments)
def _lose_a_byte(self: Any, data: bytes) -> tuple[Any, bytes]:
    return self, data[1:] if len(self) > 100 and data.startswith(b"\n") else data


@bug("beanstalkd-loses-half-a-line-end", "protocols.beanstalkd.wire:CommandReader.next_message")
@with_arguments
def _lose_half_a_line_end(self: Any, data: bytes = b"") -> tuple[Any, bytes]:
    return self, data[1:] if data[:1] == b"\n" and self._unread[-1:] == b"\r" else data


@bug("gearman-forgets-half-a-header", "protocols.gearman.wire:PacketReader._wait", after)
def _forget_half_a_header(self: Any, data: bytes, at: int, needed: int) -> None:
    if len(self._part) == 11:
        self._part.clear()


@bug("periodic-gives-back-what-it-has-no-more", "protocols.periodic.workers:Worker.on_granted")
@around
def _give_back_twice(on_granted: Function, self: Any, event: Any, now: int) -> None:
    if self.link.closing:
        self.broker.give_back(event.job, self.connection.session.holder, now)
    else:
        on_granted(self, event, now)


def _told_too_late(protocol: str) -> None:
    """A link of this protocol reads on before anybody is told what its last message led to."""

    @bug(f"{protocol}-reads-on-before-anybody-is-told", "engine.engine:Engine._read_on", around)
    def late(read_on: Function, engine: Any, link: Any, *arguments: Any) -> None:
        if link.protocol != protocol:
            read_on(engine, link, *arguments)
            return
        engine.deliver = lambda now: None
        read_on(engine, link, *arguments)
        del engine.deliver
        engine.deliver(arguments[0])


for _protocol in ("periodic", "eventmq", "memodb"):
    _told_too_late(_protocol)


# -- tweaks ----------------------------------------------------------------------------------------

_CONVERSATION = "protocols.faktory.conversation:FaktoryConversation"

# Checkpoints come after hundreds of pages, or every few commits, instead of thousands.
tweak("small-log", "store.sqlite:CHECKPOINT_PAGES", by)(400)
tweak("tiny-log", "store.sqlite:CHECKPOINT_PAGES", by)(12)
tweak(wall_clock.TWEAK, "node.clock:time")(wall_clock.moved)
# Leases may be as short as a producer asks, and a failed job is back within a second.
tweak("quick-time", "protocols.faktory.jobs:RESERVE_S_MIN", by)(1)


# Where it is used, not where it is defined: the name is already bound there.
tweak("quick-time", "core.lifecycle:delay_ms", by)(lambda policy, n, rng: 200 + rng.randrange(800))


@tweak("few-files", "resource:setrlimit")
def _few_files(setrlimit: Function) -> Function:
    """The process may open few files, and cannot change that."""
    setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    return setrlimit


# What peers say and what jobs hold is put into the log, as a careless programmer would.
def _log(*arguments: Any, **fields: Any) -> None:
    importlib.import_module("franca.node.log").event("debug", *arguments, **fields)


@tweak("chatty", f"{_CONVERSATION}.on_message", before)
def _log_message(self: Any, message: tuple[bytes, bytes], now: int) -> None:
    data = b" ".join(message)
    _log("heard", f"heard {data!r}", line=data)
    _log("heard", data.decode("utf-8", "replace"))


@tweak("chatty", "core.broker:Broker.submit", before)
def _log_job(self: Any, new: Any, *_: Any, **__: Any) -> None:
    _log("taken", f"job {new.name}", body=new.body, args=new.body.decode())


@tweak("core-raises", "core.broker:Broker.submit", before)
def _fail_an_assertion(self: Any, new: Any, *_: Any, **__: Any) -> None:
    assert new.kind != _PLANTED, "planted"


@tweak("handler-raises", f"{_CONVERSATION}.on_event", before)
def _raise_once(self: Any, session: Any, event: Any, now: int) -> None:
    """The first conversation that is told of a certain job raises."""
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

    def send(self, send: Function, connection: Any, data: bytes) -> None:
        self.step("before-reply")
        send(connection, data)
        self.step("after-reply")


_POINT = _KillPoint()
tweak("kill-point", "node.datadir:SqliteStore")(lambda made: partial(made, step=_POINT.step))
tweak("kill-point", "node.connection:Connection.send", around)(_POINT.send)


def main(argv: list[str]) -> None:
    """Make the named changes and run the product's command line with the rest."""
    names, *rest = argv
    for name in names.split("+"):
        plant((BUGS | TWEAKS)[name])
    sys.argv = ["franca", *rest]
    importlib.import_module("franca.cli.main").main()


if __name__ == "__main__":
    main(sys.argv[1:])
