"""What every request must pass, whatever it is for, and what every answer carries.

A web page that somebody has open must not be able to act on a server that the browser can reach: it
may only be called by its own names, and what changes something only comes from its own pages or
from programs that are no browsers. No state changes by GET.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers

from franca.web.problems import Declined

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""On every answer."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST: Final = re.compile(r"(?:\[([0-9A-Za-z:.]+)\]|([0-9A-Za-z_.-]+))(?::[0-9]{0,5})?")
_LOCAL_NAMES: Final = ("localhost",)


class Hosts:
    """The names by which the server may be called.

    An address is always one of them: a page can make its own name lead here, but not an address.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {*_LOCAL_NAMES, *(name.lower().rstrip(".") for name in names if name)}

    def check(self, headers: Headers) -> None:
        """`Declined` if the request was sent to another name."""
        found = headers.getlist("host")
        if len(found) != 1:
            raise Declined(400, "bad-request", "a request needs one Host")
        name = host_in(found[0])
        if name not in self._names and not is_address(name):
            text = f"this server is not called {name[:100]!r}; web.hosts lists its names"
            raise Declined(421, "wrong-host", text)


def host_in(host: str) -> str:
    """The name in a header `Host`, without its port; empty if that is not what it says."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower().rstrip(".")


def is_address(name: str) -> bool:
    """Whether this is an address and no name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return "%" not in name


def check_origin(method: str, headers: Headers) -> None:
    """`Declined` if a page of another site had a browser send this."""
    site = headers.get("sec-fetch-site")
    if method in SAFE:
        is_navigation = headers.get("sec-fetch-mode") == "navigate"
        if site in (None, "same-origin", "none") or is_navigation:
            return
    elif site is not None:
        if site in ("same-origin", "none"):
            return
    else:
        origin = headers.get("origin")
        if origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower():
            return
    raise Declined(403, "cross-origin", "a page of another site may not do this")
