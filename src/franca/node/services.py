"""Which protocols there are, and how each is built from the settings. One entry per protocol."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Protocol

from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.model import Millis
from franca.node.settings import Settings
from franca.node.zone import zone_of
from franca.protocols.conversation import Service
from franca.protocols.eventmq.service import EventmqService, EventmqSettings
from franca.protocols.faktory import info
from franca.protocols.faktory.service import FaktoryService, FaktorySettings
from franca.protocols.gearman.service import GearmanService, GearmanSettings
from franca.protocols.memodb.service import MemoDBService
from franca.protocols.periodic.dialect import Listening
from franca.protocols.periodic.service import PeriodicService, PeriodicSettings


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


def _gearman(broker: Broker, settings: Settings, rng: Random, server: ServerFacts) -> Service:
    options = settings.gearman
    gearman = GearmanSettings(
        wakeup=options.wakeup,
        job_retries=options.job_retries,
        exceptions=options.exceptions,
        on_timeout=options.on_timeout,
        admin=options.admin,
        remote_shutdown=settings.remote_shutdown,
        host=os.uname().nodename,
        pid=os.getpid(),
        zone=zone_of(settings.timezone),
    )
    return GearmanService(broker, gearman, rng, server.request_stop)


def _eventmq(broker: Broker, settings: Settings, rng: Random, server: ServerFacts) -> Service:
    # The original reads cron lines in UTC, so the machine's own zone must be asked for by name.
    timezone = "UTC" if settings.timezone == "local" else settings.timezone
    eventmq = EventmqSettings(settings.remote_shutdown, timezone)
    return EventmqService(broker, eventmq, rng, server.request_stop)


def _periodic(broker: Broker, settings: Settings, rng: Random, server: ServerFacts) -> Service:
    options = settings.periodic
    usual = Listening(options.dialect, options.confirm)
    apart = {
        str(address): replace(usual, **dict(address.options))
        for address in settings.listeners["periodic"]
        if address.options
    }
    periodic = PeriodicSettings(
        listening=usual,
        listeners=apart,
        submit_while_running=options.submit_while_running,
        remote_shutdown=settings.remote_shutdown,
        auth_file=options.auth_file,
    )
    return PeriodicService(broker, periodic, rng, server.request_stop)


def _memodb(broker: Broker, settings: Settings, rng: Random, server: ServerFacts) -> Service:
    return MemoDBService(broker, settings.memodb, rng)


BUILDERS: dict[str, Builder] = {
    "faktory": _faktory,
    "gearman": _gearman,
    "periodic": _periodic,
    "memodb": _memodb,
    "eventmq": _eventmq,
}


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
