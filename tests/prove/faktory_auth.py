"""T18: the password lets in who knows it, and nobody who overheard it, guesses or sends rubbish.

Against a server as it is by default, one that refuses the old single-round hash, and one whose password is not
ASCII: hashes overheard on one connection are said on others, hashes of the wrong kind and odd values are
sent, and the two client libraries of PyPI log in, unchanged, with the right password and with a wrong one.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from itertools import product

import faktory
import pyfaktory

from tests.prove.harness import Options, Result
from tests.prove.observe import errors_logged
from tests.prove.tables import Tables
from tests.support.faktory import Faktory, compact, password_hash
from tests.support.server import HOST, Server

_PASSWORD = "correct-horse-battery"
_NOT_ASCII = "pässwörd-€-密码"
_OK, _REFUSED = b"+OK\r\n", b"-ERR Invalid password\r\n"
_SALT_BITS_MIN = 128
_ABSENT = "absent"
_OLD: tuple[object, ...] = (None, 0, 1, _ABSENT)


class Greeted(Faktory):
    """A connection, and what the server asks for on it."""

    def __init__(self, port: int) -> None:
        super().__init__(port, timeout=5.0)
        asked = json.loads(self.read().text.removeprefix("HI "))
        self.salt, self.rounds = asked["s"], asked["i"]

    def hash_of(self, password: str, rounds: int | None = None) -> str:
        return password_hash(password, self.salt, self.rounds if rounds is None else rounds)

    def answer(self, line: bytes) -> bytes:
        """Everything the server says to this line, up to its hanging up; +OK does not wait for that."""
        self.say(line)
        heard = b""
        with suppress(ConnectionResetError):
            while heard != _OK:
                reply = self.read()
                heard += reply.kind.encode() + (reply.body or b"") + b"\r\n"
        return heard


def _hello(pwdhash: object, v: object = 2) -> bytes:
    said = {"pwdhash": pwdhash} if v == _ABSENT else {"pwdhash": pwdhash, "v": v}
    return f"HELLO {compact(said)}".encode()


# -- the attempts ------------------------------------------------------------------------------


def _replays(port: int, count: int) -> int:
    """Overhear some logins and say the same on new connections: how many were let in."""
    overheard: list[bytes] = []
    for v, rounds in ((2, None), (_ABSENT, 1)):
        with Greeted(port) as greeting:
            line = _hello(greeting.hash_of(_PASSWORD, rounds), v)
            assert greeting.answer(line) == _OK, "the right password was refused"
            overheard.append(line)
    accepted = 0
    for number in range(count):
        with Greeted(port) as greeting:
            accepted += greeting.answer(overheard[number % len(overheard)]) != _REFUSED
    return accepted


def _reused_salts(port: int, count: int) -> int:
    """How many greetings had a salt that was short, or that had been used before."""
    salts: list[str] = []
    for _ in range(count):
        with Greeted(port) as greeting:
            salts.append(greeting.salt)
    short = sum(len(salt) * 4 < _SALT_BITS_MIN for salt in salts)
    return len(salts) - len(set(salts)) + short


def _downgrades(port: int, *, strict: bool) -> int:
    """Hashes of one round where more are due (`strict`: anywhere): how many were let in."""
    accepted = 0
    # No rounds stand for as many as were asked for: right for a new client, wrong for an old one.
    for v, rounds in product((*_OLD, 2, 3, 255), (1, 2, None)):
        allowed = (rounds == 1 and not strict) if v in _OLD else rounds is None
        if not allowed:
            with Greeted(port) as greeting:
                line = _hello(greeting.hash_of(_PASSWORD, rounds), v)
                accepted += greeting.answer(line) != _REFUSED
    return accepted


def _odd(port: int) -> int:
    """Odd values for a hash: how many were answered otherwise than by a refusal or a closed door."""
    wrong = 0
    for odd, (v, rounds) in product(Tables(__file__)["hashes"], ((2, None), (1, 1))):
        with Greeted(port) as greeting:
            right = greeting.hash_of(_PASSWORD, rounds).upper().encode()
            line = b'HELLO {"v":%d,"pwdhash":%b}' % (v, odd.replace(b"H", right))
            wrong += greeting.answer(line) not in (_REFUSED, b"")
    return wrong


def _wrong_password(port: int) -> int:
    """A wrong password is told so, in the words that clients look for, and hung up on."""
    wrong = 0
    for password in ("", "wrong", _PASSWORD + " ", _PASSWORD.upper(), "\0", None):
        with Greeted(port) as greeting:
            line = _hello(greeting.hash_of(password or ""))
            line = b'HELLO {"v":2}' if password is None else line
            wrong += greeting.answer(line) != _REFUSED
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


def run(options: Options) -> Result:
    def serve(name: str, password: str = _PASSWORD, **env: str) -> Server:
        return options.server(name, env={"FAKTORY_PASSWORD": password, **env})

    count = options.number("replays", 200, short=60)
    with (
        serve("usual") as usual,
        serve("strict", FRANCA_FAKTORY__ALLOW_V1_PASSWORDS="false") as strict,
        serve("odd", _NOT_ASCII) as odd,
    ):
        intruders = sum(_gets_in(login, usual.port, "wrong") for login in _OFFICIAL)
        intruders += _gets_in(_faktory, strict.port, _PASSWORD)  # it hashes only once
        official = sum(_gets_in(login, usual.port, _PASSWORD) for login in _OFFICIAL)
        replays = _replays(usual.port, count)
        old = _downgrades(strict.port, strict=True)
        wrong = _odd(usual.port) + _odd(strict.port)
        salts = _reused_salts(usual.port, count)
        downgrades = _downgrades(usual.port, strict=False)
        untold = _wrong_password(usual.port)
        Faktory(odd.port).hello(password=_NOT_ASCII).close()
        for server in (usual, strict, odd):
            wrong += errors_logged(server) + (not server.running)
    bad = replays + old + wrong + salts + downgrades + untold + intruders
    return Result(
        not bad and official == len(_OFFICIAL),
        f"replay_accepted={replays} v1_accepted={old} nonascii_500={wrong}"
        f" official_clients_ok={official}/{len(_OFFICIAL)} reused_salts={salts}"
        f" downgraded={downgrades} wrong_untold={untold} intruders={intruders}",
    )
