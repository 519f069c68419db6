"""The registry of protocols that the simulation, the proofs and the fuzzer read.

A new protocol is a client in this folder (`peer.py` says what is in it), its inputs for the fuzzer and the hostile
proof, and a word here.
"""

from collections.abc import Mapping
from datetime import UTC
from random import Random
from typing import Any

from franca.core.broker import Broker
from franca.protocols.declaration import Surroundings
from franca.protocols.registry import PROTOCOLS as DECLARED
from franca.protocols.registry import build_service
from franca.protocols.service import Service
from tests.support import beanstalkd, eventmq, faktory, gearman, memodb, periodic
from tests.support.peer import Peer

PEERS: Mapping[str, type[Peer]] = {
    client.Peer.protocol: client.Peer
    for client in (faktory, gearman, periodic, memodb, eventmq, beanstalkd)
}
PROTOCOLS: tuple[str, ...] = tuple(PEERS)


class NoServer:
    """What a service is told of a server that has no sockets."""

    def uptime_s(self) -> int:
        return 0

    connections = memory_mb = uptime_s

    def cpu_s(self) -> tuple[float, float]:
        return 0.0, 0.0

    def request_stop(self) -> None:
        pass


def services(broker: Broker, rng: Random) -> dict[str, Service]:
    """The server's side of all protocols, with their listeners."""
    found: dict[str, Service] = {}
    for name in PROTOCOLS:
        found |= listeners(name, broker, rng)
    return found


def listeners(name: str, broker: Broker, rng: Random, **chosen: Any) -> dict[str, Service]:
    """The server's side of one protocol."""
    settings = {setting.name: setting.default for setting in DECLARED[name].settings}
    around = Surroundings(broker, rng, NoServer(), (), "loopback", "UTC", UTC, "host", 1, "", "")
    service = build_service(name, settings | chosen, around)
    return {name: service, **service.extra_listeners()}
