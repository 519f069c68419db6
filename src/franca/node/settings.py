"""Everything that may be chosen about a server, as one frozen value; and what of it does not fit.

A new listener is one line in `LISTENERS`. Where values come from is told in `config.py`.
"""

from __future__ import annotations

from msgspec import Struct, field

from franca.control.values import Address, Reader, one_of, read_addresses
from franca.core.limits import Limits
from franca.protocols.memodb.settings import MemoDBSettings
from franca.store.rows import BODY_APART_BYTES

LISTENERS: dict[str, tuple[str, ...]] = {
    "faktory": ("127.0.0.1:7419",),
    "gearman": ("127.0.0.1:4730",),
    "periodic": ("127.0.0.1:5000", "unix:{data}/periodic.sock"),
    "memodb": ("127.0.0.1:12703",),
    "eventmq": ("127.0.0.1:47290", "127.0.0.1:47291", "127.0.0.1:47293"),
    "eventmq_publish": ("127.0.0.1:47298",),
    "eventmq_subscribe": ("127.0.0.1:47299",),
}
"""Every protocol, and where it listens unless told otherwise. {data} is the data directory."""

ADDRESS_OPTIONS: dict[str, dict[str, Reader]] = {
    "periodic": {
        "dialect": one_of("auto", "doc", "text", "bin", "crc"),
        "confirm": one_of("modern", "old"),
    },
}
"""What may be said behind the address of a listener, as in `127.0.0.1:5001?dialect=doc`."""

HIDDEN = "***"


class ConfigError(Exception):
    """The settings cannot be used; the text says which one, where it stands and what helps."""


class Secret:
    """A text that shows itself only when asked by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Secret({HIDDEN if self._text else ''})"


class Tls(Struct, frozen=True):
    """Paths of PEM files. With a certificate, every TCP listener speaks TLS and nothing else.

    With `client_ca`, clients must show a certificate of that authority.
    """

    certificate: str = ""
    key: str = ""
    client_ca: str = ""


class FaktoryOptions(Struct, frozen=True):
    """What only the Faktory listeners need to know."""

    password: Secret = Secret()
    allow_v1_passwords: bool = True


class GearmanOptions(Struct, frozen=True):
    """What only the Gearman listeners need to know."""

    wakeup: int = 1
    job_retries: int = -1
    on_timeout: str = "requeue"
    admin: str = "loopback"
    exceptions: bool = False


class PeriodicOptions(Struct, frozen=True):
    """What only the Periodic listeners need to know; an address may say the first two itself."""

    dialect: str = "auto"
    confirm: str = "modern"
    submit_while_running: str = "keep"
    auth_file: str = ""


class Shown(Struct, frozen=True):
    """One setting as `franca config show` prints it, secrets hidden."""

    key: str
    value: object
    source: str


def default_listeners(data: str = "") -> dict[str, tuple[Address, ...]]:
    """Where each protocol listens unless told otherwise; in no data directory unless it is told."""
    return {
        name: read_addresses([t.replace("{data}", data) for t in texts if data or "{" not in t])
        for name, texts in LISTENERS.items()
    }


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that may be chosen about a server."""

    data: str
    store: str = "sqlite:"
    listeners: dict[str, tuple[Address, ...]] = field(default_factory=default_listeners)
    insecure_bind: bool = False
    tls: Tls = Tls()
    faktory: FaktoryOptions = FaktoryOptions()
    gearman: GearmanOptions = GearmanOptions()
    memodb: MemoDBSettings = MemoDBSettings()
    periodic: PeriodicOptions = PeriodicOptions()
    limits: Limits = Limits()
    stop_grace_ms: int = 10_000
    remote_shutdown: str = "loopback"
    timezone: str = "local"
    log_format: str = "auto"
    log_level: str = "info"
    sync: str = "full"
    shown: tuple[Shown, ...] = ()


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
    known = ADDRESS_OPTIONS.get(protocol, {})
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
    secrets: dict[str, object] = {
        "faktory": settings.faktory.password,
        "periodic": settings.periodic.auth_file,
    }
    return [
        (protocol, address)
        for protocol, addresses in settings.listeners.items()
        for address in addresses
        if not address.local and not secrets.get(protocol) and not settings.tls.client_ca
    ]


_SECRETS = {
    "faktory": "set a password (faktory.password_file, --password-file, FAKTORY_PASSWORD); ",
    "periodic": "say who may do what (periodic.auth_file, --periodic-auth-file); ",
}


def check_binds(settings: Settings) -> None:
    """Refuse to be open to the network without a password, unless told so in so many words."""
    if settings.insecure_bind:
        return
    for protocol, address in open_binds(settings):
        password = _SECRETS.get(protocol, "")
        raise ConfigError(
            f"{flag_of(protocol)} {address} can be reached from other machines and asks for no "
            f"password. Remedies: listen on 127.0.0.1; {password}ask for client certificates "
            "(--tls-cert, --tls-key, --tls-client-ca); or give --insecure-bind if the network is "
            "trusted."
        )
