"""T18: the password lets in who knows it, and nobody who overheard it, guesses or sends rubbish.

Against a server as it is by default, one that refuses the old single-round hash, and one whose password is not
ASCII: hashes overheard on one connection are said on others, hashes of the wrong kind and odd values are
sent, and the two client libraries of PyPI log in, unchanged, with the right password and with a wrong one.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import faktory
import pyfaktory

from tests.prove.options import Options
from tests.support.faktory import Faktory, compact, password_hash
from tests.support.server import HOST, Server

NAME = "faktory-auth"
MUTANTS: tuple[str, ...] = ("fixed-salt",)

_PASSWORD = "correct-horse-battery"
_NOT_ASCII = "pässwörd-€-密码"
_REFUSED = b"-ERR Invalid password\r\n"
_SALT_BITS_MIN = 128
_OLD: tuple[object, ...] = (None, 0, 1, "absent")

# Values for `pwdhash` that no client sends; `H` stands for the right hash.
_ODD_HASHES: tuple[str, ...] = (
    '""', '"H "', '" H"', '"H\\n"', '"H\\u0000"', '"\\u0000"', '"é"', '"ééééééééééééééé"',
    '"' + "ｆ" * 64 + '"', '"' + "٣" * 64 + '"', '"' + "F" * 64 + '"', '"' + "0" * 64 + '"',
    '"' + "0" * 63 + '"', '"' + "0" * 65 + '"', '"' + "a" * 60_000 + '"', '"\\ud800"',
    '"\\ud83d\\ude00"', '"0x' + "0" * 62 + '"', '"HH"', "null", "true", "0", "1e999", "[]", '["H"]',
    "{}", '{"H":"H"}', "-1", '"' + "\\u0030" * 64 + '"', "H", '"H', '"\\xH"',
)  # fmt: skip
_RAW_HASHES: tuple[bytes, ...] = (
    b'"\xff\xfe"', b'"\xc3"', b'"' + b"\xe9" * 64 + b'"', b'"\x00"', b'"' + b"\xf0\x9f" * 32 + b'"',
)  # fmt: skip


class Greeting(NamedTuple):
    """What the server asks for on one connection."""

    client: Faktory
    salt: str
    rounds: int

    def answer(self, line: bytes) -> bytes:
        """Everything the server says to this line, up to its hanging up; +OK does not wait for that."""
        self.client.send(line)
        try:
            reply = self.client.read_reply()
        except ConnectionResetError:
            return b""
        heard = reply.kind.encode() + (reply.body or b"") + b"\r\n"
        if heard != b"+OK\r\n":
            heard += self._rest()
        return heard

    def _rest(self) -> bytes:
        try:
            self.client.read_reply()
        except ConnectionResetError:
            return b""
        return b"and more"


@contextmanager
def _greeted(port: int) -> Iterator[Greeting]:
    with Faktory(port, timeout=5.0) as client:
        asked = json.loads(client.read_reply().text.removeprefix("HI "))
        yield Greeting(client, asked["s"], asked["i"])


def _hello(pwdhash: object, v: object = 2) -> bytes:
    said: dict[str, object] = {"pwdhash": pwdhash}
    if v != "absent":
        said["v"] = v
    return f"HELLO {compact(said)}".encode()


# -- the attempts ------------------------------------------------------------------------------


def _replays(port: int, count: int) -> int:
    """Overhear some logins and say the same on new connections: how many were let in."""
    overheard: list[bytes] = []
    for v in (2, "absent"):
        with _greeted(port) as greeting:
            rounds = greeting.rounds if v == 2 else 1
            line = _hello(password_hash(_PASSWORD, greeting.salt, rounds), v)
            assert greeting.answer(line) == b"+OK\r\n", "the right password was refused"
            overheard.append(line)
    accepted = 0
    for number in range(count):
        with _greeted(port) as greeting:
            accepted += greeting.answer(overheard[number % len(overheard)]) != _REFUSED
    return accepted


def _reused_salts(port: int, count: int) -> int:
    """How many greetings had a salt that was short, or that had been used before."""
    salts: list[str] = []
    for _ in range(count):
        with _greeted(port) as greeting:
            salts.append(greeting.salt)
    short = sum(len(salt) * 4 < _SALT_BITS_MIN for salt in salts)
    return len(salts) - len(set(salts)) + short


def _downgrades(port: int, *, strict: bool) -> int:
    """Hashes of one round where more are due (`strict`: anywhere): how many were let in."""
    accepted = 0
    for v in (*_OLD, 2, 3, 255):
        for rounds in (1, 2, 0):
            with _greeted(port) as greeting:
                is_old = v in _OLD
                if is_old and rounds == 1 and not strict:
                    continue
                # 0 rounds stand for all of them: right for a new client, wrong for an old one.
                if not is_old and rounds == 0:
                    continue
                pwdhash = password_hash(_PASSWORD, greeting.salt, rounds or greeting.rounds)
                accepted += greeting.answer(_hello(pwdhash, v)) != _REFUSED
    return accepted


def _odd(port: int) -> int:
    """Odd values for a hash: how many were answered otherwise than by a refusal or a closed door."""
    wrong = 0
    for odd in (*(text.encode() for text in _ODD_HASHES), *_RAW_HASHES):
        for v in (b"2", b"1"):
            with _greeted(port) as greeting:
                rounds = greeting.rounds if v == b"2" else 1
                right = password_hash(_PASSWORD, greeting.salt, rounds).upper().encode()
                value = odd.replace(b"H", right)
                line = b'HELLO {"v":%b,"pwdhash":%b}' % (v, value)
                wrong += greeting.answer(line) not in (_REFUSED, b"")
    return wrong


def _wrong_password(port: int) -> int:
    """A wrong password is told so, in the words that clients look for, and hung up on."""
    wrong = 0
    for password in ("", "wrong", _PASSWORD + " ", _PASSWORD.upper(), "\0"):
        with _greeted(port) as greeting:
            pwdhash = password_hash(password, greeting.salt, greeting.rounds)
            wrong += greeting.answer(_hello(pwdhash)) != _REFUSED
    with _greeted(port) as greeting:
        wrong += greeting.answer(b'HELLO {"v":2}') != _REFUSED
    return wrong


# -- official clients --------------------------------------------------------------------------


def _pyfaktory(url: str) -> None:
    with pyfaktory.Client(faktory_url=url, role="producer", timeout=5) as client:
        pyfaktory.Producer(client).push(pyfaktory.Job(jobtype="auth", args=(1,)))


def _faktory(url: str) -> None:
    with faktory.connection(url) as client:
        if not client.queue("auth", args=[1]):
            raise ConnectionError("the job was not taken")


_OFFICIAL: tuple[Callable[[str], None], ...] = (_pyfaktory, _faktory)


def _gets_in(login: Callable[[str], None], port: int, password: str) -> bool:
    try:
        login(f"tcp://:{password}@{HOST}:{port}")
    except Exception:  # each library has its own word for a refusal
        return False
    return True


# -- the proof ---------------------------------------------------------------------------------


def run(options: Options) -> bool:
    count = options.number("replays", 200, short=60)
    began = time.monotonic()
    strict = {"FRANCA_FAKTORY__ALLOW_V1_PASSWORDS": "false"}
    with tempfile.TemporaryDirectory(prefix="franca-auth-") as scratch:
        home = Path(scratch)

        def serve(name: str, password: str = _PASSWORD, **env: str) -> Server:
            env = {"FAKTORY_PASSWORD": password, **env}
            return Server(home / name, env=env, argv_prefix=options.argv_prefix)

        with (
            serve("usual") as usual,
            serve("strict", **strict) as strictly,
            serve("odd", _NOT_ASCII) as oddly,
        ):
            replays = _replays(usual.port, count)
            salts = _reused_salts(usual.port, count)
            downgrades = _downgrades(usual.port, strict=False)
            old = _downgrades(strictly.port, strict=True)
            odd = _odd(usual.port) + _odd(strictly.port)
            told = _wrong_password(usual.port)
            official = sum(_gets_in(login, usual.port, _PASSWORD) for login in _OFFICIAL)
            intruders = sum(_gets_in(login, usual.port, "wrong") for login in _OFFICIAL)
            intruders += _gets_in(_faktory, strictly.port, _PASSWORD)  # it hashes only once
            with Faktory(oddly.port) as client:
                client.hello(password=_NOT_ASCII)
            servers = (usual, strictly, oddly)
            odd += sum(not server.running for server in servers)
            odd += sum('"error"' in line or "Traceback" in line
                       for server in servers for line in server.log_lines())  # fmt: skip
    print(
        f"T18 {NAME}: replay_accepted={replays} v1_accepted={old} nonascii_500={odd}"
        f" official_clients_ok={official}/{len(_OFFICIAL)} reused_salts={salts}"
        f" downgraded={downgrades} wrong_untold={told} intruders={intruders}"
        f" seconds={time.monotonic() - began:.0f}"
    )
    bad = replays + old + odd + salts + downgrades + told + intruders
    return not bad and official == len(_OFFICIAL)
