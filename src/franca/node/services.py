"""Which protocols there are, and how each is built from the settings. One entry per protocol."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from franca.core.broker import Broker
from franca.core.model import Millis
from franca.node import log
from franca.node.config import Settings
from franca.protocols.conversation import Service
from franca.protocols.eventmq.service import EventmqService, EventmqSettings
from franca.protocols.faktory import info
from franca.protocols.faktory.service import FaktoryService, FaktorySettings


class ServerFacts(Protocol):
    """What only the running server knows of itself."""

    def uptime_s(self) -> int:
        """Whole seconds since the start."""

    def connections(self) -> int:
        """Peers that are connected now."""

    def memory_mb(self) -> int:
        """Resident memory."""

    def request_stop(self) -> None:
        """Begin to stop, as on SIGTERM."""


Builder = Callable[[Broker, Settings, Random, ServerFacts], Service]


def _faktory(broker: Broker, settings: Settings, rng: Random, server: ServerFacts) -> Service:
    options = settings.faktory

    def facts(now: Millis) -> info.ServerFacts:
        commands = service.commands
        return info.ServerFacts(
            server.uptime_s(), server.connections(), commands, server.memory_mb()
        )

    faktory = FaktorySettings(options.password.reveal(), options.allow_v1_passwords)
    service = FaktoryService(broker, faktory, rng, facts)
    return service


def _eventmq(broker: Broker, settings: Settings, rng: Random, server: ServerFacts) -> Service:
    # The original reads cron lines in UTC, so the machine's own zone must be asked for by name.
    timezone = "UTC" if settings.timezone == "local" else settings.timezone
    eventmq = EventmqSettings(settings.remote_shutdown, timezone)

    def complain(reason: str) -> None:
        log.event("warning", "message-refused", f"eventmq: {reason}", protocol="eventmq")

    return EventmqService(broker, eventmq, rng, server.request_stop, complain)


BUILDERS: dict[str, Builder] = {"faktory": _faktory, "eventmq": _eventmq}


DOORS = {"eventmq": ("eventmq_publish", "eventmq_subscribe")}
"""Protocols with further listeners that are of another kind."""


def build_services(
    broker: Broker, settings: Settings, rng: Random, server: ServerFacts
) -> dict[str, Service]:
    """A service for every protocol that listens anywhere."""
    services: dict[str, Service] = {}
    for name, build in BUILDERS.items():
        if any(settings.listeners.get(door) for door in (name, *DOORS.get(name, ()))):
            services[name] = build(broker, settings, rng, server)
            services.update(services[name].doors())
    return services
