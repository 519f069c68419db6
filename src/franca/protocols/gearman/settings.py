"""What an operator may choose about Gearman."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Final

from msgspec import Struct

from franca.protocols.declaration import Declaration, Setting, on_port
from franca.values import one_of, read_switch, whole_number

LISTENERS: Final = {"gearman": ("127.0.0.1:4730",)}
_WAKEUP: Final = "How many sleeping workers are woken for each job; 0 is all of them."
_JOB_RETRIES: Final = "How often a job is run again whose worker was lost; -1: no limit."
_EXCEPTIONS: Final = "Send WORK_EXCEPTION to every client, not only to those who ask for it."


class GearmanSettings(Struct, frozen=True):
    """What an operator may choose. `wakeup` workers are woken for each job, 0 is all of them."""

    wakeup: int = 1
    job_retries: int = -1
    """How often a job is run again whose worker was lost; -1 is without limit."""
    on_timeout: str = "requeue"
    admin: str = "loopback"
    remote_shutdown: str = "loopback"
    exceptions: bool = False
    """Whether WORK_EXCEPTION is sent to every client, not only to those who ask for it."""
    zone: tzinfo = UTC
    """Whose clocks SUBMIT_JOB_SCHED means."""
    host: str = "localhost"
    pid: int = 0
    version: str = "2.0.0"
    """The version of the original that `version` names."""
    verbose: str = "INFO"


def _originals(env: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    port = env.get("GEARMAND_PORT", "")
    return {"listen": (on_port(LISTENERS, "gearman", port), "GEARMAND_PORT")} if port else {}


DECLARATION: Final = Declaration(
    name="gearman",
    listeners=LISTENERS,
    settings=(
        Setting("wakeup", whole_number(0, 255), 1, "--gearman-wakeup", _WAKEUP),
        Setting("job_retries", whole_number(-1, 255), -1, "--gearman-job-retries", _JOB_RETRIES),
        Setting("exceptions", read_switch, False, "--gearman-exceptions", _EXCEPTIONS, switch=True),
        Setting("on_timeout", one_of("requeue", "fail"), "requeue"),
        Setting("admin", one_of("loopback", "all", "off"), "loopback"),
    ),
    originals=_originals,
    client_line="export GEARMAN_SERVERS={host}:{port}",
)
