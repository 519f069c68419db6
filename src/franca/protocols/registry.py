"""Every protocol there is. A new one is a folder, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from franca.protocols.beanstalkd import settings as beanstalkd
from franca.protocols.declaration import Declaration, Surroundings
from franca.protocols.eventmq import settings as eventmq
from franca.protocols.faktory import settings as faktory
from franca.protocols.gearman import settings as gearman
from franca.protocols.memodb import settings as memodb
from franca.protocols.periodic import settings as periodic

if TYPE_CHECKING:
    from franca.protocols.service import Service

PROTOCOLS: Final[Mapping[str, Declaration]] = {
    module.DECLARATION.name: module.DECLARATION
    for module in (faktory, gearman, periodic, memodb, eventmq, beanstalkd)
}


def build_service(name: str, chosen: Mapping[str, object], around: Surroundings) -> Service:
    """The service of a protocol with what was chosen for it. Its code is loaded only now."""
    service: Service = import_module(f"franca.protocols.{name}.service").build(chosen, around)
    return service
