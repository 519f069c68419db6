"""T19: no listener is open to other machines without credentials, unless somebody said so.

Each listener is asked to bind addresses that other machines can reach, in every spelling and from every
source of settings, with no credentials: the server must end with code 78 before it listens, and name the
remedies. With a password, with client certificates, or with --insecure-bind it must start; so it must
on loopback and on a unix socket.
"""

from __future__ import annotations

import os
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from franca.node.settings import LISTENERS, flag_of
from tests.prove.options import Options
from tests.support.faktory import Faktory, FaktoryError
from tests.support.server import HOST, ROOT, free_port

NAME = "bind-policy"
MUTANTS: tuple[str, ...] = ("open-bind",)

_EXIT_CONFIG = 78
_REMEDIES = ("127.0.0.1", "--insecure-bind", "--tls-client-ca")
_WITH_PASSWORDS = ("faktory",)
_LOOPBACKS = (HOST, "::1")
_START_S = 20.0
_POLL_S = 0.02
_AT_ONCE = 2

# In which words one may ask for an address that others can reach; `P` is a port.
_OPEN = (
    "0.0.0.0:P", "[::]:P", ":P", "*:P", "0:P", "tcp://0.0.0.0:P", "[::ffff:0.0.0.0]:P", "tls://0.0.0.0:P",
    "127.0.0.1:Q,0.0.0.0:P", f"{socket.gethostname()}:P",
)  # fmt: skip
_SHORT = (0, 1, 2, 7, 8, 9)
_SHORTER = (1, 8)
# Taken for a host name by whoever reads addresses, and for loopback by whoever binds them: a listener
# that the policy must treat as open, without being open to anybody while this proof runs.
_SEEMS_OPEN = "127.1:P"


@dataclass
class Case:
    """One start: what is asked for, and what must come of it."""

    name: str
    listener: str
    address: str
    may_start: bool
    source: str = "flag"
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    asks: bool = False  # once started, it must let nobody in without credentials


@dataclass
class Outcome:
    """What became of it."""

    case: Case
    code: int | None  # None: it serves
    listens: bool
    lets_in: bool
    said: str

    @property
    def open(self) -> bool:
        return not self.case.may_start and self.listens

    @property
    def complaint(self) -> str:
        """What is wrong, or nothing."""
        if self.open:
            return "open without credentials"
        if self.case.may_start:
            if not self.listens:
                return f"did not start: {self.code}"
            return "lets anybody in" if self.case.asks and self.lets_in else ""
        if self.code != _EXIT_CONFIG:
            return f"ended with {self.code}"
        missing = [remedy for remedy in _REMEDIES if remedy not in self.said]
        if missing:
            return f"names no {missing[0]}"
        has_password = self.case.listener in _WITH_PASSWORDS
        return "" if ("set a password" in self.said) is has_password else "a remedy that is none"


class Certificates:
    """A server's certificate, and an authority for clients that nobody has a certificate of."""

    def __init__(self, home: Path) -> None:
        authority = trustme.CA()
        server = authority.issue_cert("localhost")
        self.certificate, self.key, self.authority = (
            home / name for name in ("cert.pem", "key.pem", "ca.pem")
        )
        for blob in server.cert_chain_pems:
            blob.write_to_path(self.certificate, append=True)
        server.private_key_pem.write_to_path(self.key)
        authority.cert_pem.write_to_path(self.authority)

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--tls-cert", str(self.certificate), "--tls-key", str(self.key))

    @property
    def asking(self) -> tuple[str, ...]:
        return (*self.flags, "--tls-client-ca", str(self.authority))


def _cases(home: Path, *, short: bool) -> list[Case]:
    tls = Certificates(home)
    password = {"FAKTORY_PASSWORD": "a-password-for-all"}
    found: list[Case] = []
    for listener in LISTENERS:
        for number, address in enumerate(_OPEN):
            if short and number not in (_SHORT if listener == "faktory" else _SHORTER):
                continue  # all listeners share the code that reads addresses
            flags = tls.flags if "tls:" in address else ()
            found.append(Case("no credentials", listener, address, False, arguments=flags))
        found += [
            Case("no credentials", listener, "0.0.0.0:P", False, "environment"),
            Case("no credentials", listener, "0.0.0.0:P", False, "file"),
            Case("empty password", listener, "0.0.0.0:P", False, env={"FAKTORY_PASSWORD": ""}),
            Case(
                "password",
                listener,
                _SEEMS_OPEN,
                listener in _WITH_PASSWORDS,
                env=password,
                asks=True,
            ),
            Case("insecure-bind", listener, _SEEMS_OPEN, True, arguments=("--insecure-bind",)),
            Case(
                "client certificates", listener, _SEEMS_OPEN, True, arguments=tls.asking, asks=True
            ),
            Case("loopback", listener, f"{HOST}:P", True),
            Case("a path", listener, str(home / f"{listener}.sock"), True),
        ]
    return found


def _try(case: Case, home: Path, prefix: tuple[str, ...]) -> Outcome:
    port, other = free_port(), free_port()
    home.mkdir()
    address = case.address.replace("P", str(port)).replace("Q", str(other))
    if "/" in case.address and "://" not in case.address:
        address = case.address
    log = home / "stderr"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *prefix, "serve", *_arguments(case, address, home)],
            cwd=ROOT, env=_environment(case, address), stdin=subprocess.DEVNULL,
            stdout=file, stderr=file,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and process.poll() is None:
            if b'"ready"' in log.read_bytes():
                break
            time.sleep(_POLL_S)
        listens = _answers(address if address.startswith("/") else port)
        lets_in = case.asks and _lets_in(port, tls="--tls-cert" in case.arguments)
        return Outcome(case, process.poll(), listens, lets_in, log.read_text(errors="replace"))
    finally:
        process.kill()
        process.wait()


def _arguments(case: Case, address: str, home: Path) -> list[str]:
    base = ["--data", str(home / "data"), "--log-format", "json", *case.arguments]
    # The default ports belong to nobody here.
    base += [w for name in LISTENERS if name != case.listener for w in (flag_of(name), "off")]
    if case.source == "file":
        config = home / "franca.toml"
        config.write_text(f'[{case.listener}]\nlisten = ["{address}"]\n')
        return [*base, "--config", str(config)]
    if case.source == "environment":
        return base
    return [*base, *(word for one in address.split(",") for word in (flag_of(case.listener), one))]


def _environment(case: Case, address: str) -> dict[str, str]:
    secret = ("FAKTORY_", "FRANCA_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(secret)}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    if case.source == "environment":
        env[f"FRANCA_{case.listener.upper()}__LISTEN"] = address
    return env | dict(case.env)


def _answers(place: int | str) -> bool:
    """Whether somebody listens there; on a path, for its owner alone."""
    if isinstance(place, str):
        mode = Path(place).stat().st_mode if Path(place).exists() else 0
        return stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    for host in _LOOPBACKS:
        with suppress(OSError):
            socket.create_connection((host, place), timeout=2.0).close()
            return True
    return False


def _lets_in(port: int, *, tls: bool) -> bool:
    """Whether a client without credentials gets past the door; only Faktory has one in the clear."""
    if not tls:
        try:
            with Faktory(port, timeout=5.0) as client:
                client.hello()
        except (OSError, FaktoryError):
            return False
        return True
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((HOST, port), timeout=5.0) as plain,
            context.wrap_socket(plain) as secured,
        ):
            return bool(secured.recv(1))
    except OSError:
        return False


def run(options: Options) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="franca-bind-") as scratch:
        home = Path(scratch)
        cases = _cases(home, short=options.short)
        prefix = options.argv_prefix
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            outcomes = list(
                pool.map(lambda n: _try(cases[n], home / str(n), prefix), range(len(cases)))
            )
    wrong = [outcome for outcome in outcomes if outcome.complaint]
    print(
        f"T19 {NAME}: open_without_credentials={sum(outcome.open for outcome in outcomes)}"
        f" of {sum(not case.may_start for case in cases)} listeners"
        f" wrong={len(wrong)} started={sum(outcome.listens for outcome in outcomes)}"
        f" protocols={','.join(LISTENERS)} seconds={time.monotonic() - began:.0f}"
    )
    for outcome in wrong[:10]:
        case = outcome.case
        print(
            f"  {flag_of(case.listener)} {case.address} ({case.name}, {case.source}): {outcome.complaint}"
        )
        if case.may_start:
            print(f"    {outcome.said[-300:]}")
    return not wrong
