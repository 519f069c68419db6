"""The services of every protocol that listens anywhere, built from the settings."""

from __future__ import annotations

import os
from datetime import UTC, datetime, tzinfo
from random import Random
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from franca.core.broker import Broker
from franca.node.settings import Secret, Settings
from franca.protocols.declaration import ServerFacts, Surroundings
from franca.protocols.registry import PROTOCOLS, build_service
from franca.protocols.service import Service

LOCALTIME = "/etc/localtime"


def build_services(
    broker: Broker, settings: Settings, rng: Random, server: ServerFacts
) -> dict[str, Service]:
    """A service for every protocol that listens anywhere."""
    services: dict[str, Service] = {}
    zone = zone_of(settings.timezone)
    system = os.uname()
    for name, declared in PROTOCOLS.items():
        if any(settings.listeners.get(listener) for listener in declared.listeners):
            around = Surroundings(
                broker=broker,
                rng=rng,
                server=server,
                addresses=settings.listeners.get(name, ()),
                remote_shutdown=settings.remote_shutdown,
                timezone=settings.timezone,
                zone=zone,
                host=system.nodename,
                pid=os.getpid(),
                os=system.version,
                machine=system.machine,
            )
            chosen = dict(settings.protocols[name])
            chosen |= {key: v.reveal() for key, v in chosen.items() if isinstance(v, Secret)}
            services[name] = build_service(name, chosen, around)
            services.update(services[name].extra_listeners())
    return services


def zone_of(name: str) -> tzinfo:
    """The zone of that name. The machine's own knows when its clocks go forward and back."""
    if name != "local":
        return ZoneInfo(name)
    named = os.environ.get("TZ", "").lstrip(":")
    try:
        if named:
            return ZoneInfo(named)
        with open(LOCALTIME, "rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        # A machine without a table of its zone: what its clock is ahead now must do.
        return datetime.now().astimezone().tzinfo or UTC
