"""One server from start to stop: builds the layers, listens, waits for a signal, leaves tidily."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom
from traceback import walk_tb

from msgspec.structs import replace

from franca import __version__
from franca.control.path import written
from franca.control.server import ControlServer
from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.limits import Limits
from franca.core.model import Job, JobQuery, Millis
from franca.engine.engine import Engine
from franca.node import log
from franca.node.clock import SystemClock
from franca.node.datadir import DataDir
from franca.node.files import FileWatches
from franca.node.gauges import memory_mb
from franca.node.listeners import Listeners
from franca.node.node import Node
from franca.node.operators import Operators, T
from franca.node.process import keep_large_buffers, raise_file_limit, within_file_limit
from franca.node.room import RoomWatch
from franca.node.services import build_services
from franca.node.settings import ConfigError, Settings, check_binds, open_binds
from franca.store.memory import MemoryStore
from franca.store.port import Store, StoreBusy, StoreDamaged, StoreError, StoreFull
from franca.store.sqlite import SqliteStore

EXIT_STOPPED = 0
EXIT_FAILED = 1
EXIT_INTERNAL = 70
"""Something happened that nobody expected; the log has the way it came."""
EXIT_DISK = 74
EXIT_BUSY = 75
EXIT_CONFIG = 78
ROOM_EVERY_S = 1.0
NO_LIMIT = 1 << 60
OF_SOCKETS = ("franca.node.connection", "franca.node.lobby", "franca.control.server")
"""Modules whose errors of the system are about one peer."""

Announce = Callable[[list[tuple[str, str]]], None]
StoreMaker = Callable[[Settings, DataDir, Callable[[], bool]], Store]


def run(settings: Settings, announce: Announce | None = None) -> int:
    """Serve until told to stop; returns the exit code.

    `announce` is called once everything listens, with (protocol, address) of each listener.
    """
    # Until it is known what to do about it; left alone, it would end a server that only starts.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o077)
    keep_large_buffers()
    secret = settings.faktory.password.reveal()
    logs = log.start(settings.log_format, settings.log_level, secrets=[secret] if secret else [])
    try:
        return _run_on(_loop_maker(), Server(settings, announce))
    except StoreBusy as error:
        log.event("error", "data-locked", str(error))
        return EXIT_BUSY
    except StoreDamaged as error:
        log.event("error", "store-damaged", str(error))
        return EXIT_DISK
    except (StoreError, OSError) as error:
        log.event("error", "cannot-start", str(error))
        return EXIT_DISK if isinstance(error, StoreError) else EXIT_FAILED
    except ConfigError as error:
        log.event("error", "bad-config", str(error))
        return EXIT_CONFIG
    finally:
        logs.close()


def _loop_maker() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # on platforms that have it; asyncio's own loop serves elsewhere
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def _run_on(make_loop: Callable[[], asyncio.AbstractEventLoop], server: Server) -> int:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(server.serve())


def make_store(settings: Settings, data: DataDir, make_room: Callable[[], bool]) -> Store:
    """The store that the settings name."""
    if settings.store == "memory:":
        return MemoryStore(settings.limits.ended_jobs)
    return SqliteStore(data.store_path, ended_jobs=settings.limits.ended_jobs, make_room=make_room)


class Server:
    """Everything between two exit codes. `NodePort` of the operations."""

    node: Node
    operators: Operators
    engine: Engine
    listeners: Listeners

    def __init__(
        self,
        settings: Settings,
        announce: Announce | None = None,
        make_store: StoreMaker = make_store,
    ) -> None:
        self.settings = settings
        self._announce = announce
        self._make_store = make_store
        self._clock = SystemClock()
        self._started_at = self._clock.now()
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
            if how := data.heal():
                log.event("warning", "store-healed", f"the store after a failed write: {how}")
            return await self._serve_in(data)
        finally:
            data.close()

    async def _serve_in(self, data: DataDir) -> int:
        limits = within_file_limit(self.settings.limits)
        if self.settings.store == "memory:":
            limits = without_tails(limits)
        broker = Broker(limits, Random(secrets.randbits(64)))
        room = RoomWatch(data, broker, limits)
        store = self._make_store(self.settings, data, room.make_room)
        broker.restore_at(store.open(), self._clock.now())
        services = build_services(broker, self.settings, SystemRandom(), self)
        self.engine = Engine(broker, services, limits)
        self.store = store
        boot = secrets.token_hex(4)
        self.node = Node(self.engine, store, self._clock, boot=boot, on_failure=self._failed)
        self.operators = Operators(self.node)
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        self.listeners = Listeners(self.node, self.settings)
        # What is alive now stays alive: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        control = ControlServer(self, str(data.path), on_error=_operation_failed)
        watch = asyncio.create_task(self._watch_room(room))
        watch.add_done_callback(self._on_task_done)
        reading = FileWatches(service for service in services.values() if service.file)
        try:
            reading.start()
            await self.listeners.open(services)
            await control.open()
            self._catch_signals()
            self._announce_ready()
            await self._wait()
            if self._failure is None:
                await self._leave()
        finally:
            watch.cancel()
            reading.stop()
            await control.close()
            self.listeners.close()
            self.node.close()
            # Other threads must be done before the directory is anybody else's.
            store.end_reading()
            if self._failure is None:
                store.close()
        if self._failure is not None:
            return _report(self._failure, data)
        log.event("info", "stopped", "stopped")
        return EXIT_STOPPED

    # -- from ready to the end -----------------------------------------------------------------

    def _announce_ready(self) -> None:
        log.event("info", "ready", f"franca {__version__} is ready", pid=os.getpid())
        if self._announce is not None:
            self._announce(self.listeners.addresses)

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop_signal)
        loop.add_signal_handler(signal.SIGHUP, self.listeners.reload)
        faulthandler.register(signal.SIGTTIN, file=sys.stderr, all_threads=True)

    def _on_stop_signal(self) -> None:
        if self._stop_asked.is_set():
            self._stop_now.set()
        self._stop_asked.set()

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

    async def _wait(self) -> None:
        await self._stop_asked.wait()

    async def _leave(self) -> None:
        """Accept no more, ask workers to leave, wait for them within the grace."""
        log.event("info", "stopping", "stopping: no new connections, workers asked to leave")
        self.listeners.close()
        self.engine.stop(self._clock.now())
        self.node.soon()
        deadline = self._clock.now() + self.settings.stop_grace_ms
        while self.engine.consumers() and self._clock.now() < deadline:
            try:
                await asyncio.wait_for(self._stop_now.wait(), 0.05)
                break
            except TimeoutError:
                continue
        await self._settle()
        for link in list(self.engine.links):
            link.close()
        self.node.soon()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self._settle()

    async def _settle(self) -> None:
        """Wait until everything said so far is durable, but not after a second signal."""
        if self._failure is not None or self._stop_now.is_set():
            return
        settled = asyncio.create_task(self.operators.settle())
        now = asyncio.create_task(self._stop_now.wait())
        await asyncio.wait((settled, now), return_when=asyncio.FIRST_COMPLETED)
        for task in (settled, now):
            task.cancel()
        await asyncio.gather(settled, now, return_exceptions=True)

    async def _watch_room(self, room: RoomWatch) -> None:
        while True:
            if room.look():
                full = self.engine.broker.refusing_new
                text = "no room: new jobs are refused" if full else "room again: new jobs are taken"
                log.event("warning", "disk-full" if full else "disk-room", text)
            await asyncio.sleep(ROOM_EVERY_S)

    # -- what operations and INFO ask -----------------------------------------------------------

    async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
        """Run something inside a turn; see `Operators.ask`."""
        return await self.operators.ask(act)

    async def recall(self, query: JobQuery, act: Callable[[list[Job], Millis], T]) -> T:
        """Act on jobs from wherever they lie; see `Operators.recall`."""
        return await self.operators.recall(query, act)

    async def find(self, query: JobQuery) -> list[Job]:
        """Search what is committed."""
        return await self.operators.find(query)

    async def backup(self, path: str) -> dict[str, object]:
        """Copy the store into a new file while it runs. Refused if the disk has no room for it."""
        reserve = self.settings.limits.disk_reserve_bytes
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self.store.backup, path, reserve)
        except StoreFull as error:
            raise Refused(str(error)) from None
        return {"path": path, "bytes": os.path.getsize(path)}

    def uptime_s(self) -> int:
        """Whole seconds since the start."""
        return (self._clock.now() - self._started_at) // 1000

    def connections(self) -> int:
        """Peers that are connected now."""
        return len(self.engine.links)

    def memory_mb(self) -> int:
        """Resident memory."""
        return memory_mb()

    def status(self) -> dict[str, object]:
        """What a running server says of itself."""
        return {
            "version": __version__,
            "pid": os.getpid(),
            "uptime_s": self.uptime_s(),
            "data": written(self.settings.data),
            "store": self.settings.store,
            "listeners": [
                {"protocol": name, "address": written(address)}
                for name, address in self.listeners.addresses
            ],
            "connections": self.connections(),
            "rss_mb": memory_mb(),
            "commits": self.node.gauges.commits,
            "loop_lag_p99_ms": self.node.gauges.lag_p99_ms(),
            "refusing_new": self.engine.broker.refusing_new,
            "unhandled": self.engine.unhandled,
            "peers_refused": self.node.notices.count,
        }


def is_of_a_socket(error: BaseException) -> bool:
    """Whether an error of the system came up in what handles a connection, or in the loop itself.

    Any other is one of a file. To go on as if nothing had happened would leave everybody waiting
    for a store that has failed.
    """
    if not isinstance(error, OSError):
        return False
    frames = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    ours = [name for name in frames if name.startswith("franca.")]
    return not ours or ours[-1] in OF_SOCKETS


def _operation_failed(error: Exception) -> None:
    log.failure("operation-failed", "an operation failed", error)


def _report(failure: BaseException, data: DataDir) -> int:
    """Say why the server stops, and leave a mark if the store is not to be trusted."""
    if isinstance(failure, StoreError):
        # A full disk wrote nothing: there is nothing to distrust, and no room for a copy.
        if not isinstance(failure, StoreFull):
            data.mark_suspect(str(failure))
        log.event("error", "store-failed", f"the store failed, stopping: {failure}")
        return EXIT_DISK
    text = f"an error that nobody expected, stopping: {type(failure).__name__}: {failure}"
    log.failure("internal-error", text, failure)
    return EXIT_INTERNAL


def without_tails(limits: Limits) -> Limits:
    """A store in memory has nowhere to put a tail that would not be memory too."""
    return replace(
        limits,
        window_jobs=NO_LIMIT,
        window_bytes=NO_LIMIT,
        held_jobs=NO_LIMIT,
        waiting_bytes=NO_LIMIT,
        large_bytes=NO_LIMIT,
    )
