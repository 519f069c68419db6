"""The services of every protocol that listens anywhere, built from the settings."""

from __future__ import annotations

import os
from random import Random

from franca.core.broker import Broker
from franca.node.settings import Secret, Settings
from franca.node.zone import zone_of
from franca.protocols.declaration import ServerFacts, Surroundings
from franca.protocols.registry import PROTOCOLS, build_service
from franca.protocols.service import Service


def build_services(
    broker: Broker, settings: Settings, rng: Random, server: ServerFacts
) -> dict[str, Service]:
    """A service for every protocol that listens anywhere."""
    services: dict[str, Service] = {}
    for name, declared in PROTOCOLS.items():
        if any(settings.listeners.get(listener) for listener in declared.listeners):
            system = os.uname()
            around = Surroundings(
                broker,
                rng,
                server,
                settings.listeners.get(name, ()),
                settings.remote_shutdown,
                settings.timezone,
                zone_of(settings.timezone),
                system.nodename,
                os.getpid(),
                system.version,
                system.machine,
            )
            chosen = {
                key: value.reveal() if isinstance(value, Secret) else value
                for key, value in settings.protocols[name].items()
            }
            services[name] = build_service(name, chosen, around)
            services.update(services[name].extra_listeners())
    return services
