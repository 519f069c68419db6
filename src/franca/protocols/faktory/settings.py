"""What an operator may choose about Faktory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from franca.protocols.declaration import Declaration, Setting
from franca.values import read_switch, read_text

_FLAG: Final = ("--password-file", "A file with the password that clients must know.")


class FaktorySettings(Struct, frozen=True):
    """What an operator may choose. Without a password everybody is let in."""

    password: str = ""
    allow_v1_passwords: bool = True
    """Let clients that name no protocol version hash the password once, as they always did."""
    version: str = "1.10.0"
    """The version of the original that INFO names; clients compare it."""


def _originals(env: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    password = env.get("FAKTORY_PASSWORD", "")
    if not password:
        return {}
    # As the original: a value that begins with a slash is the path of a file.
    name = "password_file" if password.startswith("/") else "password"
    return {name: (password, "FAKTORY_PASSWORD")}


DECLARATION: Final = Declaration(
    name="faktory",
    listeners={"faktory": ("127.0.0.1:7419",)},
    settings=(
        Setting("password", read_text, "", secret=True),
        Setting("password_file", read_text, "", *_FLAG, path=True, holds="password"),
        Setting("allow_v1_passwords", read_switch, True),
    ),
    originals=_originals,
    secured_by="password",
    remedy="set a password (faktory.password_file, --password-file, FAKTORY_PASSWORD)",
    client_line="export FAKTORY_URL=tcp{tls}://{secret}{host}:{port}",
    client_secret=":$FAKTORY_PASSWORD@",
)
