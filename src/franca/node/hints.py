"""What a client of the original needs to be told, so that it connects here."""

from __future__ import annotations

from franca.node.settings import Settings, asks_for_password, is_secured
from franca.protocols.registry import PROTOCOLS
from franca.values import Address

WEB = "web"
"""What the listener of the dashboard is called."""
_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def client_line(listener: str, address: Address, settings: Settings) -> str:
    """A line to copy that points a client at this listener, if its protocol has words for it.

    Of the dashboard's it is the address for a browser.
    """
    if listener == WEB and not address.path:
        scheme = "https" if settings.tls.certificate else "http"
        return f"{scheme}://{_reached_at(address)}:{address.port}/"
    declared = PROTOCOLS.get(listener)
    if declared is None or not declared.client_line or address.path:
        return ""
    if settings.tls.certificate and "{tls}" not in declared.client_line:
        return ""
    tls = "+tls" if settings.tls.certificate else ""
    # Never the password itself: a terminal's scroll-back is no place for it.
    secret = declared.client_secret if is_secured(settings, listener) else ""
    host, port = _reached_at(address), address.port
    return declared.client_line.format(tls=tls, secret=secret, host=host, port=port)


def needs(listener: str, address: Address, settings: Settings) -> dict[str, bool]:
    """Whether a client of this listener must speak TLS, and whether it must know a secret."""
    is_web = listener == WEB
    asks = asks_for_password(settings) if is_web else is_secured(settings, listener)
    return {"tls": bool(settings.tls.certificate) and not address.path, "password": asks}


def _reached_at(address: Address) -> str:
    """The host by which this machine reaches an address, as it stands in a URL."""
    host = _WILDCARDS.get(address.host, address.host)
    return f"[{host}]" if ":" in host else host
