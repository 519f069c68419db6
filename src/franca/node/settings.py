"""Everything that may be chosen about a server, as one frozen value; and what of it does not fit.

What may be chosen about a protocol it declares itself. Where values come from is told in
`config.py`.
"""

from __future__ import annotations

from msgspec import Struct

from franca.core.limits import Limits
from franca.protocols.registry import PROTOCOLS
from franca.store.rows import BODY_APART_BYTES
from franca.values import Address
from franca.web import settings as web

LISTENERS: dict[str, tuple[str, ...]] = {
    listener: addresses
    for declared in PROTOCOLS.values()
    for listener, addresses in declared.listeners.items()
} | {web.NAME: web.ADDRESSES}
"""Every listener, and where it listens unless told otherwise. {data} is the data directory."""


class ConfigError(Exception):
    """The settings cannot be used; the text says which one, where it stands and what helps."""


class Secret:
    """A text that shows itself only when asked by name."""

    __slots__ = ("_text",)
    HIDDEN = "***"

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Secret({self.HIDDEN if self._text else ''})"


class Tls(Struct, frozen=True):
    """Paths of PEM files. With a certificate, every TCP listener speaks TLS and nothing else.

    With `client_ca`, clients must show a certificate of that authority.
    """

    certificate: str = ""
    key: str = ""
    client_ca: str = ""


class Shown(Struct, frozen=True):
    """One setting as `franca config show` prints it, secrets hidden."""

    key: str
    value: object
    source: str


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that may be chosen about a server."""

    data: str
    store: str = "sqlite:"
    listeners: dict[str, tuple[Address, ...]] = {}
    insecure_bind: bool = False
    tls: Tls = Tls()
    protocols: dict[str, dict[str, object]] = {}
    limits: Limits = Limits()
    stop_grace_ms: int = 10_000
    remote_shutdown: str = "loopback"
    timezone: str = "local"
    log_format: str = "auto"
    log_level: str = "info"
    sync: str = "full"
    shown: tuple[Shown, ...] = ()

    def is_default(self, key: str) -> bool:
        """Whether no source says anything of this key."""
        return any(row.key == key and row.source == "default" for row in self.shown)


def flag_of(listener: str) -> str:
    """The flag that says where a protocol listens."""
    return "--" + listener.replace("_", "-")


def check(settings: Settings) -> None:
    """Refuse what each key allows by itself and the whole does not."""
    tls = settings.tls
    if bool(tls.certificate) != bool(tls.key):
        raise ConfigError("tls.certificate and tls.key are needed together")
    if tls.client_ca and not tls.certificate:
        raise ConfigError("tls.client_ca needs tls.certificate and tls.key")
    secured = [a for addresses in settings.listeners.values() for a in addresses if a.tls]
    if secured and not tls.certificate:
        raise ConfigError(f"{secured[0]} needs a certificate: --tls-cert and --tls-key")
    for protocol, addresses in settings.listeners.items():
        for address in addresses:
            _check_options(protocol, address)
    if settings.limits.frame_bytes_max < settings.limits.body_bytes_max:
        raise ConfigError("limits.frame_bytes_max must not be below limits.body_bytes_max")
    if settings.limits.large_body_bytes < BODY_APART_BYTES:
        # The store keeps smaller ones with their job, and could not bring them back.
        raise ConfigError(f"limits.large_body_bytes must not be below {BODY_APART_BYTES}")
    if settings.limits.output_hard_bytes < settings.limits.output_soft_bytes:
        raise ConfigError("limits.output_hard_bytes must not be below limits.output_soft_bytes")


def _check_options(protocol: str, address: Address) -> None:
    known = PROTOCOLS[protocol].address_options if protocol in PROTOCOLS else {}
    for name, value in address.options:
        if name not in known:
            hint = f"; it knows {', '.join(known)}" if known else ""
            raise ConfigError(f"--{protocol} {address} has no option {name!r}{hint}")
        try:
            known[name](value)
        except ValueError as error:
            raise ConfigError(f"--{protocol} {address}: {name}: {error}") from None


def open_binds(settings: Settings) -> list[tuple[str, Address]]:
    """The listeners that other machines can reach and that ask nobody for a proof of who he is."""
    return [
        (listener, address)
        for listener, addresses in settings.listeners.items()
        for address in addresses
        if not address.local and not is_secured(settings, listener) and not settings.tls.client_ca
    ]


def is_secured(settings: Settings, listener: str) -> bool:
    """Whether the protocol of a listener asks its peers for a secret.

    That of the web side is sent as it is, so it is no proof without TLS.
    """
    if listener == web.NAME:
        return asks_for_password(settings) and bool(settings.tls.certificate)
    declared = PROTOCOLS.get(listener)
    if declared is None or not declared.secured_by:
        return False
    return bool(settings.protocols[listener][declared.secured_by])


def asks_for_password(settings: Settings) -> bool:
    """Whether whoever calls the web side must have a password or a token."""
    chosen = settings.protocols.get(web.NAME, {})
    return bool(chosen.get("password") or chosen.get("tokens") or faktory_password(settings))


def faktory_password(settings: Settings) -> str:
    """The password of Faktory, by which its web pages may be called, if it has one."""
    password = settings.protocols.get("faktory", {}).get("password")
    return password.reveal() if isinstance(password, Secret) else ""


def secrets_of(settings: Settings) -> list[str]:
    """Every secret text among the settings."""
    chosen = [value for part in settings.protocols.values() for value in part.values()]
    return [value.reveal() for value in chosen if isinstance(value, Secret) and value]


def check_binds(settings: Settings) -> None:
    """Refuse to be open to the network without a password, unless told so in so many words."""
    if settings.insecure_bind:
        return
    for listener, address in open_binds(settings):
        remedy = PROTOCOLS[listener].remedy if listener in PROTOCOLS else ""
        remedy = web.REMEDY if listener == web.NAME else remedy
        password = f"{remedy}; " if remedy else ""
        raise ConfigError(
            f"{flag_of(listener)} {address} can be reached from other machines and asks for no "
            f"password. Remedies: listen on 127.0.0.1; {password}ask for client certificates "
            "(--tls-cert, --tls-key, --tls-client-ca); or give --insecure-bind if the network is "
            "trusted."
        )
