"""One server from start to stop: builds the layers, listens, waits for a signal, leaves tidily."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any

from franca import __version__
from franca.control.audit import AuditLog
from franca.control.caller import OPERATOR, Caller
from franca.control.measured import Measured
from franca.control.observer import Observer
from franca.control.path import written
from franca.control.port import NotCopied
from franca.control.server import ControlServer
from franca.control.submit import KeysInUse
from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.engine.engine import Engine
from franca.node import exits, log
from franca.node.clock import SystemClock
from franca.node.datadir import DataDir, RoomWatch, make_store
from franca.node.files import FileWatches
from franca.node.gauges import memory_mb
from franca.node.hints import client_line, needs
from franca.node.listeners import Listeners
from franca.node.measure import measure
from franca.node.node import Node
from franca.node.operators import Operators
from franca.node.process import (
    keep_large_buffers,
    prefer_the_loop,
    raise_file_limit,
    within_file_limit,
    without_backlogs,
)
from franca.node.services import build_services
from franca.node.settings import (
    ConfigError,
    Secret,
    Settings,
    check_binds,
    faktory_password,
    open_binds,
    secrets_of,
)
from franca.node.sockets import is_of_a_socket
from franca.protocols.conversation import Notice
from franca.store.port import StoreBusy, StoreDamaged, StoreError, StoreFull
from franca.values import read_address
from franca.web.settings import NAME as WEB

if TYPE_CHECKING:
    from franca.web.server import WebServer

WATCH_EVERY_S = 1.0
GC_THRESHOLDS = 20_000, 20, 50
WHY_NOT_STARTED: dict[type[Exception], tuple[str, int]] = {
    StoreBusy: ("data-locked", exits.DATA_IN_USE),
    StoreDamaged: ("store-damaged", exits.DISK_FAILED),
    StoreError: ("cannot-start", exits.DISK_FAILED),
    OSError: ("cannot-start", exits.FAILURE),
    ConfigError: ("bad-config", exits.BAD_CONFIG),
}
"""What is logged about each kind of error that ends the start, and the exit code."""

Announce = Callable[[list[tuple[str, str]]], None]


def run(settings: Settings, announce: Announce | None = None) -> int:
    """Serve until told to stop; returns the exit code.

    `announce` is called once everything listens, with (protocol, address) of each listener.
    """
    # Until it is known what to do about them; left alone, they would end a server that only starts.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.umask(0o077)
    keep_large_buffers()
    prefer_the_loop()
    logs = log.start(settings.log_format, settings.log_level, secrets=secrets_of(settings))
    server = Server(settings, announce)
    try:
        with asyncio.Runner(loop_factory=_loop_maker()) as runner:
            return runner.run(server.serve())
    except tuple(WHY_NOT_STARTED) as error:
        name, code = next(why for kind, why in WHY_NOT_STARTED.items() if isinstance(error, kind))
        log.event("error", name, str(error))
        return code
    finally:
        logs.close()


def _loop_maker() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # on platforms that have it; asyncio's own loop serves elsewhere
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


class Server(Operators):
    """Everything between two exit codes. `NodePort` of the operations."""

    engine: Engine
    listeners: Listeners
    audit: AuditLog

    def __init__(self, settings: Settings, announce: Announce | None = None) -> None:
        self.settings = settings
        self._announce = announce
        self._clock = SystemClock()
        self._started_at = self._clock.now()
        self.observer = Observer(self._started_at)
        self.keys_in_use = KeysInUse()
        self._stop_asked = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._failure: BaseException | None = None

    async def serve(self) -> int:
        """Start, wait for the end, stop."""
        settings = self.settings
        check_binds(settings)
        for protocol, address in open_binds(settings):
            text = f"{protocol} on {address} is open to other machines and asks for no password"
            log.event("warning", "insecure-bind", text, protocol=protocol, address=str(address))
        raise_file_limit()
        data = DataDir(Path(settings.data))
        try:
            if done := data.heal():
                log.event("warning", "store-healed", f"the store after a failed write: {done}")
            return await self._serve_in(data)
        finally:
            data.close()

    async def _serve_in(self, data: DataDir) -> int:
        limits = within_file_limit(self.settings.limits)
        if self.settings.store == "memory:":
            limits = without_backlogs(limits)
        broker = Broker(limits, Random(secrets.randbits(64)))
        room = RoomWatch(data, broker, limits)
        store = make_store(self.settings, data, room.make_room)
        broker.restore_at(store.open(), self._clock.now())
        services = build_services(broker, self.settings, SystemRandom(), self)
        self.engine = Engine(broker, services, limits)
        self.store = store
        boot = secrets.token_hex(4)
        self.node = Node(self.engine, store, self._clock, boot=boot, on_failure=self._failed)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_error)
        run_apart = partial(loop.run_in_executor, None)
        self.audit = AuditLog(lambda: broker.wall(self._clock.now()), str(data.path), run_apart)
        self.node.notices.record = self._record
        web = self._web()
        self.listeners = Listeners(self.node, self.settings, web)
        # What is alive now stays alive: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        # What jobs and messages are made of is in no cycles: by itself it would look ten times as
        # often, at things that are about to go anyway.
        gc.set_threshold(*GC_THRESHOLDS)
        await self._run(data, room, web)
        if self._failure is not None:
            return _report(self._failure, data)
        log.event("info", "stopped", "stopped")
        return exits.OK

    async def _run(self, data: DataDir, room: RoomWatch, web: WebServer | None) -> None:
        """Listen, wait for the end, and let go of everything."""
        services = self.engine.services
        on_error = partial(log.failure, "operation-failed", "an operation failed")
        control = ControlServer(self, str(data.path), on_error=on_error)
        files = FileWatches(service for service in services.values() if service.file)
        tasks = self._begin(self._watch(room, files), self.observer.watch(self))
        try:
            files.read()
            await self.listeners.open([*services, WEB] if web else services)
            await control.open()
            self._catch_signals()
            log.event("info", "ready", f"franca {__version__} is ready", pid=os.getpid())
            if self._announce is not None:
                self._announce(self.listeners.addresses)
            await self._stop_asked.wait()
            if web is not None:
                web.drain()
            if self._failure is None:
                await self._leave()
        finally:
            for task in tasks:
                task.cancel()
            await control.close()
            self.listeners.close()
            if web is not None:
                await web.close()
            self.node.close()
            # Other threads must be done before the directory is anybody else's.
            self.store.end_reading()
            self.audit.write()
            if self._failure is None:
                self.store.close()

    def _record(self, notice: Notice) -> None:
        """A peer of a protocol did what operators do."""
        link = notice.link
        # Whoever may send a command of a protocol may do all that it has commands for.
        peer = Caller(link.peer.address, OPERATOR, link.protocol)
        self.audit.note(peer, notice.action, notice.reason)

    def _web(self) -> WebServer | None:
        """The web side, if it listens anywhere. Its code is loaded only then."""
        if not (addresses := self.settings.listeners.get(WEB, ())):
            return None
        from franca.web.server import WebServer
        from franca.web.settings import build

        chosen = dict(self.settings.protocols[WEB])
        chosen |= {key: v.reveal() for key, v in chosen.items() if isinstance(v, Secret)}
        return WebServer(
            self,
            build(chosen),
            clock=self._clock.now,
            on_error=partial(log.failure, "request-failed", "a request failed"),
            other_passwords=[faktory_password(self.settings)],
            names=[address.host for address in addresses],
        )

    def _begin(self, *watches: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
        """Go on with these until they are cancelled."""
        tasks = [asyncio.create_task(watch) for watch in watches]
        for task in tasks:
            task.add_done_callback(self._on_task_done)
        return tasks

    # -- from ready to the end -----------------------------------------------------------------

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop_signal)
        loop.add_signal_handler(signal.SIGHUP, self.listeners.reload)
        loop.add_signal_handler(signal.SIGUSR1, self._drain)
        faulthandler.register(signal.SIGTTIN, file=sys.stderr, all_threads=True)

    def _on_stop_signal(self) -> None:
        if self._stop_asked.is_set():
            self._stop_now.set()
        self._stop_asked.set()

    def _drain(self) -> None:
        for service in self.engine.services.values():
            service.drain()

    def request_stop(self) -> None:
        """Begin to stop, as on SIGTERM."""
        self._stop_asked.set()

    def _failed(self, error: BaseException) -> None:
        self._failure = error
        self._stop_asked.set()
        self._stop_now.set()

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """An exception that nothing handled: of a socket, which concerns one peer, or our own."""
        error = context.get("exception")
        text = str(context.get("message", "an error in the event loop"))
        if isinstance(error, Exception) and not is_of_a_socket(error):
            self.node.fail(error)
        else:
            log.event("warning", "socket-error", f"{text}: {error}")

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.node.fail(error)

    async def _leave(self) -> None:
        """Accept no more, ask workers to leave, wait for them within the grace."""
        log.event("info", "stopping", "stopping: no new connections, workers asked to leave")
        self.listeners.close()
        self.engine.stop(self._clock.now())
        self.node.soon()
        deadline = self._clock.now() + self.settings.stop_grace_ms
        while self.engine.consumers() and self._clock.now() < deadline:
            if self._stop_now.is_set():
                break
            await asyncio.sleep(0.05)
        await self._wait_until_durable()
        for link in list(self.engine.links):
            link.close()
        self.node.soon()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self._wait_until_durable()

    async def _wait_until_durable(self) -> None:
        """Wait until everything said so far is durable, but not after a second signal."""
        if self._failure is not None or self._stop_now.is_set():
            return
        settled = asyncio.create_task(self.settle())
        now = asyncio.create_task(self._stop_now.wait())
        await asyncio.wait((settled, now), return_when=asyncio.FIRST_COMPLETED)
        for task in (settled, now):
            task.cancel()
        await asyncio.gather(settled, now, return_exceptions=True)

    async def _watch(self, room: RoomWatch, files: FileWatches) -> None:
        while True:
            if room.look():
                full = self.engine.broker.refusing_new
                text = "no room: new jobs are refused" if full else "room again: new jobs are taken"
                log.event("warning", "disk-full" if full else "disk-room", text)
            await asyncio.sleep(WATCH_EVERY_S)
            files.look()

    # -- what operations and INFO ask -----------------------------------------------------------

    async def backup(self, path: str) -> dict[str, object]:
        """Copy the store into a new file while it runs. Refused if the disk has no room for it."""
        reserve = self.settings.limits.disk_reserve_bytes
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self.store.backup, path, reserve)
        except StoreFull as error:
            raise Refused(str(error)) from None
        except (StoreError, OSError) as error:
            raise NotCopied(str(error)) from None
        return {"path": path, "bytes": os.path.getsize(path)}

    def uptime_s(self) -> int:
        """Whole seconds since the start."""
        return (self._clock.now() - self._started_at) // 1000

    def connections(self) -> int:
        """Peers that are connected now."""
        return len(self.engine.links)

    memory_mb = staticmethod(memory_mb)

    def cpu_s(self) -> tuple[float, float]:
        """Processor time that the server took so far, its own and the system's for it."""
        times = os.times()
        return times.user, times.system

    def measured(self) -> Measured:
        """What a running server measures of itself."""
        settings = self.settings
        return measure(self.node, settings.store, Path(settings.data), self.uptime_s())

    def status(self) -> dict[str, object]:
        """What a running server says of itself."""
        gauges, now_s = self.node.gauges, time.monotonic()
        return {
            "version": __version__,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "uptime_s": self.uptime_s(),
            "data": written(self.settings.data),
            "store": self.settings.store,
            "listeners": [self._listener(*taken) for taken in self.listeners.addresses],
            "connections": self.connections(),
            "rss_mb": memory_mb(),
            "commits": gauges.commits,
            "commit_p50_ms": gauges.commit_ms(0.5, now_s),
            "commit_p99_ms": gauges.commit_ms(0.99, now_s),
            "loop_lag_p99_ms": gauges.lag_p99_ms(),
            "refusing_new": self.engine.broker.refusing_new,
            "unhandled": self.engine.unhandled,
            "peers_refused": self.node.notices.count,
        }

    def _listener(self, name: str, address: str) -> dict[str, object]:
        where = read_address(address)
        hint = client_line(name, where, self.settings)
        told: dict[str, object] = {"protocol": name, "address": written(address)}
        return told | {"client": written(hint)} | needs(name, where, self.settings)


def _report(failure: BaseException, data: DataDir) -> int:
    """Say why the server stops, and leave a mark if the store is not to be trusted."""
    if isinstance(failure, StoreError):
        # A full disk wrote nothing: there is nothing to distrust, and no room for a copy.
        if not isinstance(failure, StoreFull):
            data.mark_suspect(str(failure))
        log.event("error", "store-failed", f"the store failed, stopping: {failure}")
        return exits.DISK_FAILED
    text = f"an error that nobody expected, stopping: {type(failure).__name__}: {failure}"
    log.failure("internal-error", text, failure)
    return exits.INTERNAL
