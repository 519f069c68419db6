"""Who calls: a password, a token, or a session that began with one of them.

A password is compared by its scrypt hash, on another thread and one at a time; tokens have enough
chance in them that a plain hash will do. Whoever is wrong too often waits, by address.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from franca.control.caller import ADMIN, OPERATOR, Caller
from franca.core.model import Millis
from franca.web.problems import Declined
from franca.web.settings import WebSettings

SESSIONS_MAX: Final = 1_000
"""Sessions at a time; one more ends the one that was used longest ago."""
FAILURES_MAX: Final = 5
FAILURES_MS: Final = 60_000
"""So many wrong passwords or tokens may come from one address in this time."""
ADDRESSES_MAX: Final = 10_000
"""Addresses with wrong ones that are remembered; the oldest are forgotten."""
WAITING_MAX: Final = 16
"""Passwords that wait to be compared; further ones are put off."""
REMEMBERED_MAX: Final = 64
"""Right passwords that need not be hashed slowly again."""
SECRET_BYTES_MAX: Final = 1_024
SESSION_BYTES: Final = 32
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 14, 8, 1

ANYBODY: Final = Caller("local", ADMIN, "rest")
"""Whoever reaches a server that asks for no password."""


class Session(Struct):
    """One sign-in."""

    caller: Caller
    began_at: Millis
    used_at: Millis


class Authentication:
    """The passwords, tokens and sessions of a server.

    It asks for one if it has any. `clock` is in milliseconds.
    """

    def __init__(
        self, settings: WebSettings, other_passwords: Iterable[str], clock: Callable[[], Millis]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._salt = os.urandom(16)
        self._passwords = [p.encode() for p in (settings.password, *other_passwords) if p]
        self._hashes: list[bytes] = []
        self._tokens = {
            bytes.fromhex(one.sha256): Caller(one.name, one.role, "rest") for one in settings.tokens
        }
        self.asks = bool(self._passwords or self._tokens)
        self._remembered: OrderedDict[bytes, None] = OrderedDict()
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._failures: OrderedDict[str, list[Millis]] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0

    # -- what comes with a request ----------------------------------------------------------

    async def caller_of(self, authorization: str, cookie: str, address: str) -> Caller | None:
        """Who sent a request with these headers; None if it says nothing that holds.

        `Declined` if what it says is wrong, or if too much that was wrong came from its address.
        """
        if not self.asks:
            return ANYBODY
        if authorization:
            return await self.caller_by(_secret_in(authorization), address)
        return self._of_session(cookie) if cookie else None

    async def caller_by(self, secret: str, address: str) -> Caller:
        """Whoever knows this password or token; `Declined` if nobody does."""
        place = place_of(address)
        self._check_failures(place)
        known = secret.encode("utf-8", "surrogateescape")
        digest = hashlib.sha256(known).digest()
        if len(known) <= SECRET_BYTES_MAX:
            for token, caller in self._tokens.items():
                if hmac.compare_digest(token, digest):
                    return caller
            if await self._is_password(known, digest, place):
                return Caller("password", OPERATOR, "rest")
        self._note_failure(place)
        raise Declined(401, "wrong-password", "this is not the password, nor a token")

    async def _is_password(self, known: bytes, digest: bytes, place: str) -> bool:
        if not self._passwords:
            return False
        keyed = hmac.digest(self._salt, digest, "sha256")
        if keyed in self._remembered:
            self._remembered.move_to_end(keyed)
            return True
        if self._waiting >= WAITING_MAX:
            raise Declined(429, "busy", "too many passwords to compare", {"retry-after": "1"})
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                self._check_failures(place)  # of others that were asked at the same time
                loop = asyncio.get_running_loop()
                is_right = await loop.run_in_executor(None, self._compare, known)
        finally:
            self._waiting -= 1
        if is_right:
            self._remembered[keyed] = None
            if len(self._remembered) > REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        return is_right

    def _compare(self, known: bytes) -> bool:
        """On another thread: it takes long on purpose."""
        if not self._hashes:
            self._hashes = [self._slow_hash(password) for password in self._passwords]
        hashed = self._slow_hash(known)
        # All are compared: how long it takes says nothing of which one it is.
        return sum(hmac.compare_digest(hashed, one) for one in self._hashes) > 0

    def _slow_hash(self, password: bytes) -> bytes:
        return hashlib.scrypt(
            password, salt=self._salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, dklen=32
        )

    # -- who was wrong ------------------------------------------------------------------------

    def _check_failures(self, place: str) -> None:
        failures = self._failures.get(place)
        if failures is None or len(failures) < FAILURES_MAX:
            return
        left = failures[-FAILURES_MAX] + FAILURES_MS - self._clock()
        if left > 0:
            headers = {"retry-after": str(left // 1000 + 1)}
            raise Declined(429, "too-many-failures", "too many wrong passwords", headers)

    def _note_failure(self, place: str) -> None:
        failures = self._failures.setdefault(place, [])
        failures.append(self._clock())
        del failures[:-FAILURES_MAX]
        self._failures.move_to_end(place)
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)

    # -- sessions -------------------------------------------------------------------------------

    def begin_session(self, caller: Caller) -> str:
        """A new session; the text is for its cookie."""
        text = secrets.token_urlsafe(SESSION_BYTES)
        now = self._clock()
        self._sessions[_digest(text)] = Session(caller, now, now)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return text

    def end_session(self, text: str) -> None:
        """Forget a session, if there is one."""
        self._sessions.pop(_digest(text), None)

    def is_alive(self, text: str) -> bool:
        """Whether a session goes on, without using it."""
        session = self._sessions.get(_digest(text))
        return session is not None and not self._is_over(session)

    def _of_session(self, text: str) -> Caller | None:
        digest = _digest(text)
        session = self._sessions.get(digest)
        if session is None:
            return None
        if self._is_over(session):
            del self._sessions[digest]
            return None
        session.used_at = self._clock()
        self._sessions.move_to_end(digest)
        return session.caller

    def _is_over(self, session: Session) -> bool:
        now = self._clock()
        settings = self._settings
        is_idle = now - session.used_at >= settings.session_idle_ms
        return is_idle or now - session.began_at >= settings.session_ms


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _secret_in(authorization: str) -> str:
    """What a header says: a token, or the password of basic authentication, whoever the user is."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            pass
    raise Declined(401, "wrong-password", "authorization is by Bearer or Basic")


def place_of(address: str) -> str:
    """What is counted as one place: an address, or a network of IPv6 that one customer has."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(getattr(ip, "ipv4_mapped", None) or ip)
