"""The doors of a server: which addresses it listens on, with which certificate."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path

from franca.control.path import reachable
from franca.control.values import Address
from franca.node import log
from franca.node.lobby import Door, Lobby
from franca.node.node import Node
from franca.node.settings import ConfigError, Settings, flag_of

BACKLOG = 1_024


class Listeners:
    """All sockets on which a node listens. `addresses` are those that were really taken."""

    def __init__(self, node: Node, settings: Settings) -> None:
        self.addresses: list[tuple[str, str]] = []
        self._node = node
        self._settings = settings
        self._lobby = Lobby(node)
        self._doors: list[Door] = []
        self._paths: dict[str, int] = {}
        self._tls: ssl.SSLContext | None = None

    async def open(self, names: Iterable[str]) -> None:
        """Open every door that was asked for, and those of the defaults that are free.

        Some of the originals' ports are also given to outgoing connections, or to other programs:
        a newcomer must not fail because of a protocol that he does not use. Where none is free,
        another server runs here already.
        """
        by_default = {row.key for row in self._settings.shown if row.source == "default"}
        taken: list[OSError] = []
        for name in names:
            for address in self._settings.listeners.get(name, ()):
                try:
                    await self._open_one(name, address)
                except OSError as error:
                    if f"{name}.listen" not in by_default:
                        raise
                    taken.append(error)
                    log.event("warning", "not-listening", str(error), protocol=name)
        if taken and not any(not shown.startswith("unix:") for _name, shown in self.addresses):
            raise taken[0]

    async def _open_one(self, name: str, address: Address) -> None:
        tls = self._tls_context() if self._wants_tls(address) else None
        sockets: list[socket.socket] = []
        try:
            sockets = [_bound(address.path)] if address.path else await _bound_to(address)
            for listening in sockets:
                listening.listen(BACKLOG)
        except OSError as error:
            for listening in sockets:
                listening.close()
            flag = flag_of(name)
            text = f"cannot listen for {name} on {address}: {error.strerror or error}"
            remedy = f"{flag} ADDR listens elsewhere, {flag} off nowhere"
            raise OSError(f"{text} ({remedy})") from error
        if address.path:
            self._paths[address.path] = os.stat(address.path).st_ino
        for listening in sockets:
            self._doors.append(
                Door(
                    self._lobby,
                    self._node,
                    listening,
                    service=name,
                    listener=str(address),
                    tls=tls,
                )
            )
        shown = _shown(address, sockets[0])
        self.addresses.append((name, shown))
        log.event("info", "listening", f"{name} on {shown}", protocol=name, address=shown)

    def _wants_tls(self, address: Address) -> bool:
        """Where a certificate is given, every TCP listener speaks TLS, as the original does."""
        return not address.path and (address.tls or bool(self._settings.tls.certificate))

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            if not self._settings.tls.certificate:
                raise ConfigError("tls:// needs tls.certificate and tls.key")
            self._tls = self._fresh_context()
        return self._tls

    def _fresh_context(self) -> ssl.SSLContext:
        """What the files say now."""
        tls = self._settings.tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Nobody needs a second handshake, and each costs as much as the first.
        context.options |= ssl.OP_NO_RENEGOTIATION
        for name, path in (("certificate", tls.certificate), ("key", tls.key)):
            _check_file(f"tls.{name}", path)
        if tls.client_ca:
            _check_file("tls.client_ca", tls.client_ca)
            try:
                context.load_verify_locations(tls.client_ca)
            except (OSError, ValueError) as error:
                raise ConfigError(f"tls.client_ca: {tls.client_ca}: {error}") from None
            context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(tls.certificate, tls.key or None, _no_passphrase)
        except (OSError, ValueError) as error:
            files = f"{tls.certificate} with {tls.key or 'its own key'}"
            raise ConfigError(f"tls.certificate: {files}: {error}") from None
        return context

    def reload(self) -> None:
        """SIGHUP: new connections get the certificates that are in the files now, if all is well.

        They are read into a new context: one that failed to load a certificate serves nobody.
        """
        if self._tls is None:
            return
        try:
            self._tls = self._fresh_context()
        except ConfigError as error:
            log.event("error", "tls-not-reloaded", f"keeping the old certificate: {error}")
            return
        for door in self._doors:
            if door.tls is not None:
                door.tls = self._tls
        log.event("info", "tls-reloaded", "certificates read again")

    def close(self) -> None:
        """Accept no more connections; those that are there stay."""
        for door in self._doors:
            door.close()
        for path, inode in self._paths.items():
            _clear_socket(path, inode)
        self._paths.clear()


def _no_passphrase() -> str:
    """Nobody is there to be asked, and everybody would wait for the answer."""
    raise ValueError("the key has a passphrase; give one without")


def _check_file(setting: str, path: str) -> None:
    """Refuse what cannot be opened, or would make the server wait for whoever writes it."""
    if not path:
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{setting}: {path}: {error.strerror or error}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{setting}: {path}: it is no regular file")
    finally:
        os.close(descriptor)


def _shown(address: Address, listening: socket.socket) -> str:
    """The address with the port that was really taken."""
    if address.path:
        return f"unix:{address.path}"
    port = listening.getsockname()[1]
    host = address.host or "0.0.0.0"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _bound_to(address: Address) -> list[socket.socket]:
    """Sockets for all addresses that a name has, of those families that this machine has."""
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, where in dict.fromkeys(found):
            try:
                listening = socket.socket(family, kind, protocol)
            except OSError:
                continue
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(where)
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    if not sockets:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    return sockets


def _bound(path: str) -> socket.socket:
    """A unix socket that nobody but the server's own user can reach, from its first moment on."""
    _clear_socket(path)
    directory, name = os.path.split(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with reachable(directory or ".", name) as short:
            listening.bind(short)
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


def _clear_socket(path: str, inode: int | None = None) -> None:
    """Remove a socket that a killed server left behind, or this one, and nothing else."""
    try:
        if Path(path).is_socket() and inode in (None, os.stat(path).st_ino):
            os.unlink(path)
    except OSError:
        pass
