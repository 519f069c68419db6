"""How people write values: durations, sizes, switches, addresses. Pure.

One way for the configuration file, the environment, flags and operations. Each reader takes what
a source said and returns the value, or raises `ValueError` with a text that shows the right form.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

Reader = Callable[[object], object]

NUMBER_MAX = 2**53
"""The largest number that is exact in every form in which it may be written."""
DIGITS_MAX = 20
"""More than it has, zeros in front and all."""
LABEL_CHARS_MAX = 63
HOST_CHARS_MAX = 253
"""Of the name of a host, and of each part of it between dots."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", re.IGNORECASE)
_SIZE_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SWITCHES = {"true": True, "yes": True, "on": True, "1": True}
_SWITCHES |= {"false": False, "no": False, "off": False, "0": False}


class Address(Struct, frozen=True):
    """Where to listen: a host and a port, or the path of a unix socket. No host means all."""

    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False
    options: tuple[tuple[str, str], ...] = ()
    """What was written behind a question mark, for protocols that know such words."""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls://' if self.tls else ''}{host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            ip = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        mapped = getattr(ip, "ipv4_mapped", None)
        return bool((mapped or ip).is_loopback)


def read_text(raw: object) -> str:
    """A text as it is."""
    if not isinstance(raw, str):
        raise ValueError(f"expected a text, not {raw!r}")
    return raw


def read_switch(raw: object) -> bool:
    """true or false; where only text can be written also 1/0, yes/no, on/off."""
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in _SWITCHES:
        return _SWITCHES[raw.lower()]
    raise ValueError(f"expected true or false, not {raw!r}")


def read_number(raw: object) -> int:
    """A whole number above zero."""
    value = _bare(raw)
    if value is None or value < 1:
        raise ValueError(f"expected a whole number above zero, not {raw!r}")
    return value


def _bare(raw: object) -> int | None:
    """The number that this is, or that is written here and nothing else; None if it is none."""
    if isinstance(raw, str) and raw.isascii() and raw.isdigit():
        if len(raw) > DIGITS_MAX:
            raise ValueError("the number is too large")
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool):
        return None
    if raw > NUMBER_MAX:
        raise ValueError("the number is too large")
    return raw


def read_duration(raw: object) -> int:
    """A span such as "30s", "5m" or "1h30m", in milliseconds."""
    if isinstance(raw, str):
        text = raw.strip()
        parts = _DURATION.findall(text)
        if parts and not _DURATION.sub("", text):
            return _whole(sum(float(count) * _DURATION_MS[unit] for count, unit in parts), raw)
    raise ValueError(f'expected a duration such as "30s", "5m" or "1h30m", not {raw!r}')


def read_size(raw: object) -> int:
    """A size such as "64MiB" or "10MB", in bytes."""
    match = _SIZE.fullmatch(raw.strip()) if isinstance(raw, str) else None
    if match is None:
        raise ValueError(f'expected a size such as "64MiB", not {raw!r}')
    unit = match[2].lower()
    base = 1024 if unit.endswith("i") else 1000
    return _whole(float(match[1]) * math.pow(base, _SIZE_POWERS[unit.removesuffix("i")]), raw)


def _whole(value: float, raw: object) -> int:
    """A number that every part of the server can hold."""
    if value > NUMBER_MAX:
        raise ValueError(f"{raw!r} is too large")
    return round(value)


def or_number(read: Callable[[object], int], least: int = 1) -> Reader:
    """A reader for names that tell their unit: a bare number will do, a text with a unit too."""

    def read_either(raw: object) -> int:
        bare = _bare(raw)
        value = read(raw) if bare is None else bare
        if value < least:
            raise ValueError(f"expected at least {least}, not {raw!r}")
        return value

    return read_either


def reader_of(name: str, least: int = 1) -> Reader:
    """The reader of a setting whose name tells its unit: a span, a size, or a number."""
    if name.endswith("_ms"):
        return or_number(read_duration)
    return or_number(read_size, least) if "bytes" in name else read_number


def whole_number(least: int, most: int) -> Reader:
    """A reader of a whole number from `least` to `most`."""

    def read(raw: object) -> int:
        text = raw.removeprefix("-") if isinstance(raw, str) else ""
        if isinstance(raw, str) and text.isascii() and text.isdigit():
            raw = int(raw)
        if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= most:
            raise ValueError(f"expected a whole number from {least} to {most}, not {raw!r}")
        return raw

    return read


def one_of(*words: str) -> Reader:
    """A reader of one of these words, in any case."""

    def read(raw: object) -> str:
        if not isinstance(raw, str) or raw.lower() not in words:
            raise ValueError(f"expected one of {', '.join(words)}, not {raw!r}")
        return raw.lower()

    return read


def read_address(text: str) -> Address:
    """`host:port`, `[v6]:port`, `:port` (all), a path or `unix:PATH`; with a scheme or without.

    Behind it there may be options: `?name=value&name=value`.
    """
    text, _, query = text.partition("?")
    if query:
        words = [word.partition("=") for word in query.split("&")]
        options = tuple((name, value.lower()) for name, _, value in words)
        return replace(read_address(text), options=options)
    scheme, separator, rest = text.partition("://")
    if text.startswith("unix:"):
        return _at_path(text.removeprefix("unix:").removeprefix("//"), text)
    if not separator:
        if "/" in text:
            return _at_path(text, text)
        scheme, rest = "tcp", text
    if scheme == "ipc":
        return _at_path(rest, text)
    if scheme not in ("tcp", "tls"):
        raise ValueError(f"{text!r}: the schemes are tcp://, tls:// and ipc://")
    host, _, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = str(ipaddress.IPv6Address(host[1:-1]))
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address as [address]:port")
    known = ":" in rest and port.isascii() and port.isdigit() and int(port) <= 65535
    if not known or "/" in host or " " in host:
        raise ValueError(f"{text!r} is not host:port, [v6]:port, a path, unix:PATH or off")
    _check_host(host, text)
    return Address(host="" if host == "*" else host, port=int(port), tls=scheme == "tls")


def _check_host(host: str, text: str) -> None:
    """Refuse what cannot be the name of a host, before anybody looks for it."""
    if host.isascii():
        labels = host.removesuffix(".").split(".")
        is_name = all(0 < len(label) <= LABEL_CHARS_MAX for label in labels)
    else:
        try:
            is_name = bool(host.encode("idna"))
        except UnicodeError:
            is_name = False
    if host and (not is_name or len(host) > HOST_CHARS_MAX):
        shown = text if len(text) <= HOST_CHARS_MAX else f"{text[:HOST_CHARS_MAX]}..."
        raise ValueError(f"{shown!r} has no name of a host before its port")


def _at_path(path: str, text: str) -> Address:
    if not path or "\0" in path:
        raise ValueError(f"{text!r} names no path")
    return Address(path=path)


def read_addresses(raw: object) -> tuple[Address, ...]:
    """One address or several, or `off`. In one text they are parted by commas."""
    texts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"expected an address or a list of them, not {raw!r}")
    words = [text.strip() for text in texts if text.strip()]
    if "off" in words:
        if len(words) > 1:
            raise ValueError("off stands alone: it cannot be given together with an address")
        return ()
    return tuple(dict.fromkeys(read_address(word) for word in words))
