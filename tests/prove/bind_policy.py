"""T19: no listener is open to other machines without credentials, unless somebody said so.

Each listener is asked to bind addresses that other machines can reach, in every spelling and from every
source of settings, with no credentials: the server must end with code 78 before it listens, and name the
remedies. With a password, with client certificates, or with --insecure-bind it must start; so it must
on loopback and on a unix socket.
"""

import os
import socket
import ssl
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path

from franca.node.settings import LISTENERS, flag_of
from tests.prove.harness import Options, Result, until
from tests.support.faktory import Faktory, FaktoryError
from tests.support.server import HOST, READY, free_port, listens
from tests.support.tls import secured

_EXIT_CONFIG = 78
_REMEDIES = ("127.0.0.1", "--insecure-bind", "--tls-client-ca")
_WITH_PASSWORDS = ("faktory",)
_LOOPBACKS = (HOST, "::1")
_START_S = 20.0
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


def _complaint(case: Case, code: int | None, said: str, *, listens: bool, lets_in: bool) -> str:
    """`code` is None if it serves."""
    if case.may_start:
        if not listens:
            return f"did not start: {code}: {said[-300:]}"
        return "lets anybody in" if lets_in else ""
    if listens:
        return "open without credentials"
    if code != _EXIT_CONFIG:
        return f"ended with {code}"
    missing = [remedy for remedy in _REMEDIES if remedy not in said]
    if missing:
        return f"names no {missing[0]}"
    has_password = case.listener in _WITH_PASSWORDS
    return "" if ("set a password" in said) is has_password else "a remedy that is none"


def _cases(home: Path, *, short: bool) -> Iterator[Case]:
    tls = secured(home).flags
    # Nobody has a certificate that this authority signed.
    asking = (*tls, "--tls-client-ca", str(home / "ca.pem"))
    password = {"FAKTORY_PASSWORD": "a-password-for-all"}
    for name in LISTENERS:
        for number, address in enumerate(_OPEN):
            # All listeners share the code that reads addresses.
            if not short or number in (_SHORT if name == "faktory" else _SHORTER):
                flags = tls if "tls:" in address else ()
                yield Case("no credentials", name, address, False, arguments=flags)
        yield Case("no credentials", name, "0.0.0.0:P", False, "environment")
        yield Case("no credentials", name, "0.0.0.0:P", False, "file")
        yield Case("empty password", name, "0.0.0.0:P", False, env={"FAKTORY_PASSWORD": ""})
        yield Case("password", name, _SEEMS_OPEN, name in _WITH_PASSWORDS, env=password, asks=True)
        yield Case("insecure-bind", name, _SEEMS_OPEN, True, arguments=("--insecure-bind",))
        yield Case("client certificates", name, _SEEMS_OPEN, True, arguments=asking, asks=True)
        yield Case("loopback", name, f"{HOST}:P", True)
        yield Case("a path", name, str(home / f"{name}.sock"), True)


def _try(case: Case, number: int, options: Options) -> tuple[bool, str]:
    """Whether it listens, and what is wrong with that, if anything."""
    port = free_port()
    address = case.address
    if not address.startswith("/"):
        address = address.replace("P", str(port)).replace("Q", str(free_port()))
    arguments, env = [*case.arguments], dict(case.env)
    if case.source == "file":
        config = options.home / f"{number}.toml"
        config.write_text(f'[{case.listener}]\nlisten = ["{address}"]\n')
        arguments += ["--config", str(config)]
    elif case.source == "environment":
        env[f"FRANCA_{case.listener.upper()}__LISTEN"] = address
    else:
        arguments += [w for one in address.split(",") for w in (flag_of(case.listener), one)]
    # The default ports belong to nobody here.
    arguments += [w for name in LISTENERS if name != case.listener for w in (flag_of(name), "off")]
    server = options.server(str(number), extra_args=arguments, env=env, by_default=LISTENERS)
    try:
        server.launch()
        until(lambda: READY in server.log_path.read_bytes() or not server.running, _START_S)
        listens = _answers(address if address.startswith("/") else port)
        lets_in = case.asks and _lets_in(port, tls="--tls-cert" in case.arguments)
        said = server.log_path.read_text(errors="replace")
        code = server.process.poll()
        return listens, _complaint(case, code, said, listens=listens, lets_in=lets_in)
    finally:
        server.kill9()


def _answers(place: int | str) -> bool:
    """Whether somebody listens there; on a path, for its owner alone."""
    if isinstance(place, str):
        mode = Path(place).stat().st_mode if Path(place).exists() else 0
        return stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    return any(listens(place, host) for host in _LOOPBACKS)


def _lets_in(port: int, *, tls: bool) -> bool:
    """Whether a client without credentials gets past the door; only Faktory has one in the clear."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        if not tls:
            Faktory(port, timeout=5.0).hello().close()
            return True
        plain = socket.create_connection((HOST, port), timeout=5.0)
        with context.wrap_socket(plain) as secured:
            return bool(secured.recv(1))
    except (OSError, FaktoryError):
        return False


def run(options: Options) -> Result:
    cases = list(_cases(options.home, short=options.short))
    if options.mutant:
        # A bug in what all listeners share shows on one of them.
        cases = [case for case in cases if case.listener == "faktory"]
    for name in [name for name in os.environ if name.startswith(("FAKTORY_", "FRANCA_"))]:
        del os.environ[name]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = zip(cases, pool.map(_try, cases, count(), repeat(options)), strict=True)
        found = [(case, *outcome) for case, outcome in outcomes]
    wrong = [f"{flag_of(case.listener)} {case}: {text}" for case, _, text in found if text]
    refusals = sum(not case.may_start for case in cases)
    opened = sum(listens for case, listens, _ in found if not case.may_start)
    started = sum(listens for _, listens, _ in found)
    return Result(
        not wrong,
        f"open_without_credentials={opened} of {refusals} listeners"
        f" wrong={len(wrong)} started={started} protocols={','.join(LISTENERS)}",
        wrong[:10],
    )
