"""What may be chosen about the web side. Commands that serve nothing import this too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from franca.control.caller import ROLES
from franca.protocols.declaration import Setting
from franca.values import read_duration, read_text

NAME: Final = "web"
ADDRESSES: Final = ("127.0.0.1:7420",)
HELP: Final = (
    f"Where the dashboard and REST are (default {' '.join(ADDRESSES)}), or off. May be repeated."
)
REMEDY: Final = "add a password or tokens (web.password_file, web.tokens_file) and a certificate"
REDACTED_KEYS: Final = (
    "*password*", "*passwd*", "*secret*", "*token*", "*api_key*", "*apikey*", "*authorization*",
    "*credential*", "*private_key*",
)  # fmt: skip
"""Arguments of these names are not shown to a viewer, unless other names are chosen."""
_TOKEN = re.compile(r"([A-Za-z0-9_.-]{1,64}):(\w+):([0-9a-fA-F]{64})")
_HOST = re.compile(r"[A-Za-z0-9_.:\[\]-]{1,253}")


class TokenHash(Struct, frozen=True):
    """Who has a token, what he may do, and the SHA-256 of the token in hexadecimal digits."""

    name: str
    role: str
    sha256: str


class WebSettings(Struct, frozen=True, kw_only=True):
    """What an operator may choose. Without a password and tokens nobody is asked for one."""

    password: str = ""
    tokens: tuple[TokenHash, ...] = ()
    hosts: tuple[str, ...] = ()
    redact: tuple[str, ...] = REDACTED_KEYS
    session_idle_ms: int = 12 * 3_600_000
    session_ms: int = 7 * 86_400_000


def _texts(raw: object) -> list[str]:
    """A list of texts; in one text they are parted by commas or by lines."""
    found = re.split(r"[,\n]", raw) if isinstance(raw, str) else raw
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"expected a list of texts, not {raw!r}")
    texts = [one.strip() for one in found]
    return [text for text in texts if text and not text.startswith("#")]


def read_tokens(raw: object) -> tuple[TokenHash, ...]:
    """`NAME:ROLE:SHA256` for each token."""
    tokens: list[TokenHash] = []
    for text in _texts(raw):
        found = _TOKEN.fullmatch(text)
        if found is None or found[2] not in ROLES:
            roles = ", ".join(ROLES)
            raise ValueError(f"a token is NAME:ROLE:SHA256 with one of the roles {roles}")
        tokens.append(TokenHash(found[1], found[2], found[3].lower()))
    return tuple(tokens)


def read_hosts(raw: object) -> tuple[str, ...]:
    """Names by which browsers may call the server, without ports."""
    for text in _texts(raw):
        if not _HOST.fullmatch(text):
            raise ValueError(f"{text!r} is not the name of a host")
    return tuple(text.lower() for text in _texts(raw))


def read_globs(raw: object) -> tuple[str, ...]:
    """Names of arguments, in which `*` stands for anything."""
    for text in _texts(raw):
        if len(text) > 64 or text.count("*") > 4:
            raise ValueError(f"{text!r}: a name has at most 64 characters, and at most four *")
    return tuple(text.lower() for text in _texts(raw))


SETTINGS: Final = (
    Setting("password", read_text, "", secret=True),
    Setting("password_file", read_text, "", "--web-password-file",
            "A file with the password of the dashboard and REST.", path=True, holds="password"),
    Setting("tokens", read_tokens, ()),
    Setting("tokens_file", read_text, "", "--web-tokens-file",
            "A file with a line NAME:ROLE:SHA256 for each token.", path=True, holds="tokens"),
    Setting("hosts", read_hosts, ()),
    Setting("redact", read_globs, list(REDACTED_KEYS)),
    Setting("session_idle", read_duration, "12h"),
    Setting("session", read_duration, "7d"),
)  # fmt: skip


def build(chosen: Mapping[str, object]) -> WebSettings:
    """The settings of the web side, of what was chosen for each key of the table."""
    names = {name: name for name in WebSettings.__struct_fields__}
    names |= {"session_idle_ms": "session_idle", "session_ms": "session"}
    return msgspec.convert({name: chosen[key] for name, key in names.items()}, WebSettings)
