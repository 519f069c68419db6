"""Which addresses a server listens on, with which certificate."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from franca.control.path import listen_on, remove_socket
from franca.node import log
from franca.node.accept import Acceptor, Listener
from franca.node.files import content_of
from franca.node.node import Node
from franca.node.settings import ConfigError, Settings, flag_of
from franca.values import Address
from franca.web import settings as web

if TYPE_CHECKING:
    from franca.web.listener import HttpListener
    from franca.web.server import WebServer

BACKLOG = 1_024


class Listeners:
    """All sockets on which a node listens. `addresses` are those that were really taken."""

    def __init__(self, node: Node, settings: Settings, web: WebServer | None = None) -> None:
        self.addresses: list[tuple[str, str]] = []
        self._settings = settings
        self._acceptor = Acceptor(node)
        self._web = web
        self._listeners: list[Listener] = []
        self._http: list[HttpListener] = []
        self._paths: dict[str, int] = {}
        self._tls: ssl.SSLContext | None = None

    async def open(self, names: Iterable[str]) -> None:
        """Listen at every address that was asked for, and at those of the defaults that are free.

        Some of the originals' ports are also given to outgoing connections, or to other programs:
        a newcomer must not fail because of a protocol that he does not use. Where nothing is left
        but sockets in the data directory that nobody asked for, another server runs here already.
        """
        left_out: list[OSError] = []
        can_be_reached = False
        for name in names:
            is_default = self._settings.is_default(f"{name}.listen")
            for address in self._settings.listeners.get(name, ()):
                try:
                    await self._open_one(name, address)
                except OSError as error:
                    if not is_default:
                        raise
                    left_out.append(error)
                    log.event("warning", "not-listening", str(error), protocol=name)
                else:
                    is_extra = bool(address.path) or name == web.NAME
                    can_be_reached = can_be_reached or not (is_default and is_extra)
        if left_out and not can_be_reached:
            raise left_out[0]

    async def _open_one(self, name: str, address: Address) -> None:
        tls = None
        # Where a certificate is given, every TCP listener speaks TLS, as the original does.
        if not address.path and self._settings.tls.certificate:
            tls = self._tls = self._tls or self._fresh_context()
        sockets: list[socket.socket] = []
        try:
            if address.path:
                sockets.append(listen_on(*os.path.split(address.path)))
            else:
                await _bind(address, sockets)
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
            if self._web is not None and name == web.NAME:
                self._http.append(self._web.listen(listening, tls))
            else:
                one = Listener(self._acceptor, listening, name, str(address), tls)
                self._listeners.append(one)
        shown = _shown(address, sockets[0])
        self.addresses.append((name, shown))
        if not log.is_console(self._settings.log_format):  # whose readers the banner tells
            log.event("info", "listening", f"{name} on {shown}", protocol=name, address=shown)

    def _fresh_context(self) -> ssl.SSLContext:
        """What the files say now."""
        tls = self._settings.tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Nobody needs a second handshake, and each costs as much as the first.
        context.options |= ssl.OP_NO_RENEGOTIATION
        for name, path in asdict(tls).items():
            if path:
                _check_file(f"tls.{name}", path)
        if tls.client_ca:
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
        for listener in self._all():
            if listener.tls is not None:
                listener.tls = self._tls
        log.event("info", "tls-reloaded", "certificates read again")

    def _all(self) -> list[Listener | HttpListener]:
        return [*self._listeners, *self._http]

    def close(self) -> None:
        """Accept no more connections; those that are there stay."""
        for listener in self._all():
            listener.close()
        for path, inode in self._paths.items():
            remove_socket(path, inode)
        self._paths.clear()


def _no_passphrase() -> str:
    """Nobody is there to be asked, and everybody would wait for the answer."""
    raise ValueError("the key has a passphrase; give one without")


def _check_file(setting: str, path: str) -> None:
    """Refuse what cannot be opened, or would make the server wait for whoever writes it."""
    try:
        content_of(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{setting}: {path}: {reason}") from None


def _shown(address: Address, listening: socket.socket) -> str:
    """The address with the port that was really taken."""
    if address.path:
        return str(address)
    port = listening.getsockname()[1]
    return str(replace(address, host=address.host or "0.0.0.0", port=port, tls=False))


async def _bind(address: Address, sockets: list[socket.socket]) -> None:
    """Add a socket for each address that a name has, of those families that this machine has."""
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
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
    if not sockets:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
