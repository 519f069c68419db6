"""What a protocol says of itself: where it listens, what may be chosen about it, how it starts.

The command line, the configuration file, the environment and the documentation are made from it.
Nothing of a protocol's service is imported here, so that commands start quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from franca.values import Address, Reader

if TYPE_CHECKING:
    from datetime import tzinfo
    from random import Random

    from franca.core.broker import Broker


class Setting(Struct, frozen=True):
    """One setting: its name, how it is read, what it is by default, its flag and what that does.

    Without a flag it is set in the configuration file or by a variable only. A `switch` is given
    without a value. A `path` is made absolute. What is `secret` is never shown. A file that
    `holds` another setting is read, and that setting is what stands in it.
    """

    name: str
    read: Reader
    default: object
    flag: str = ""
    help: str = ""
    switch: bool = False
    path: bool = False
    secret: bool = False
    holds: str = ""


class ServerFacts(Protocol):
    """What only the running server knows of itself."""

    def uptime_s(self) -> int:
        """Whole seconds since the start."""

    def connections(self) -> int:
        """Peers that are connected now."""

    def memory_mb(self) -> int:
        """Resident memory."""

    def cpu_s(self) -> tuple[float, float]:
        """Processor time that the server took so far, its own and the system's for it."""

    def request_stop(self) -> None:
        """Begin to stop, as on SIGTERM."""


class Surroundings(Struct, frozen=True):
    """What a service is given of the server around it, and of the settings that are not its own."""

    broker: Broker
    rng: Random
    server: ServerFacts
    addresses: tuple[Address, ...]
    remote_shutdown: str
    timezone: str
    zone: tzinfo
    host: str
    pid: int
    os: str
    """The system's version, as `uname -v` has it."""
    machine: str


Stop = Callable[[], None]
"""Begins to stop the server."""
Environment = Mapping[str, str]


class Declaration(Struct, frozen=True):
    """One protocol. Its service is made by `build` of its `service.py`.

    `listeners` are its own and further ones, with their default addresses; {data} is the data
    directory. `address_options` may be said behind an address, as in `127.0.0.1:5001?dialect=doc`.
    `originals` reads what users of the original server already export: a value and the variable
    for each setting. An open listener is `secured_by` that setting, if it has a value;
    `remedy` tells an operator so. `client_line` points a client at a listener.
    """

    name: str
    listeners: Mapping[str, tuple[str, ...]]
    settings: tuple[Setting, ...] = ()
    address_options: Mapping[str, Reader] = {}
    originals: Callable[[Environment], dict[str, tuple[str, str]]] = lambda _: {}
    secured_by: str = ""
    remedy: str = ""
    client_line: str = ""
    client_secret: str = ""


def on_port(declared: Mapping[str, tuple[str, ...]], listener: str, port: str) -> str:
    """The default address of a listener, on another port."""
    return f"{declared[listener][0].rpartition(':')[0]}:{port}"
