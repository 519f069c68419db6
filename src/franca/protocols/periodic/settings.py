"""What an operator may choose about Periodic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from franca.protocols.declaration import Declaration, Setting, on_port
from franca.values import one_of, read_text

LISTENERS: Final = {"periodic": ("127.0.0.1:5000", "unix:{data}/periodic.sock")}
_read_dialect: Final = one_of("auto", "doc", "text", "bin", "crc")
_read_confirm: Final = one_of("modern", "old")
_AUTH_FILE: Final = "Who may use which functions over Periodic, a line each."


class Listening(Struct, frozen=True):
    """What may be chosen for each listener.

    `dialect` says how connections without CRCs are read: `auto` finds out, `doc` follows the
    document to the letter, `text` and `bin` are what came between it and today's; with `crc` there
    are none. `confirm` is `old` where workers must not be answered when they register or settle.
    """

    dialect: str = "auto"
    confirm: str = "modern"


class PeriodicSettings(Struct, frozen=True):
    """What an operator may choose. `listeners` are those that differ from the rest, by address.

    With an `auth_file` nobody may do anything until it has been read to the service.
    """

    listening: Listening = Listening()
    listeners: Mapping[str, Listening] = {}
    submit_while_running: str = "keep"
    remote_shutdown: str = "loopback"
    auth_file: str = ""


def _originals(env: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    address = env.get("PERIODIC_PORT", "")
    if not address:
        return {}
    # A number is a port; the original's tools also take an address here.
    text = on_port(LISTENERS, "periodic", address) if address.isdigit() else address
    return {"listen": (text, "PERIODIC_PORT")}


DECLARATION: Final = Declaration(
    name="periodic",
    listeners=LISTENERS,
    settings=(
        Setting("dialect", _read_dialect, "auto"),
        Setting("confirm", _read_confirm, "modern"),
        Setting("submit_while_running", one_of("keep", "drop"), "keep"),
        Setting("auth_file", read_text, "", "--periodic-auth-file", _AUTH_FILE, path=True),
    ),
    address_options={"dialect": _read_dialect, "confirm": _read_confirm},
    originals=_originals,
    secured_by="auth_file",
    remedy="say who may do what (periodic.auth_file, --periodic-auth-file)",
    client_line="export PERIODIC_PORT=tcp://{host}:{port}",
)
