"""T23: no password and nothing that a job carries ends up in the log.

Words that occur nowhere else are planted wherever a secret may stand: in the password and every form it is
configured in, in greetings, arguments, custom fields, error reports, rubbish and operators' requests. Then
everything the server wrote is searched for them, at the debug level, as JSON and for people.

The product logs little of what peers say, so each run is repeated with a careless hand in it (the tweak `chatty`)
that logs every line it hears and every job it takes: there the log's own redaction must hold.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from franca.control.client import Declined
from tests.prove.looking import ask
from tests.prove.options import Options
from tests.support.faktory import (
    Faktory,
    compact,
    fail_line,
    job,
    password_hash,
    push_line,
    push_many_line,
)
from tests.support.server import PRODUCT, ROOT, Server

NAME = "log-canary"
MUTANTS: tuple[str, ...] = ("unredacted",)

_FORMS = ("json", "console")


@dataclass(frozen=True)
class Canary:
    """A word to look for. What is `kept_out` no line of log may hold, whoever wrote it."""

    place: str
    word: str
    kept_out: bool = False


class Cage:
    """All canaries of one run, by the place where they are planted."""

    # Kept out by the redaction, whatever is logged.
    KEPT_OUT = (
        "password", "right hash", "wrong hash", "wid", "hostname", "label", "username", "args",
        "custom", "args in a batch", "args behind another command", "args with spaces",
        "custom behind another command",
    )  # fmt: skip
    # Not there, because the product does not log them.
    NOT_LOGGED = (
        "message", "errtype", "backtrace", "malformed push", "malformed ack", "unknown command",
        "pattern", "args from an operator", "refused password", "second password",
    )  # fmt: skip

    def __init__(self, rng: Random) -> None:
        self.canaries = {
            place: Canary(place, f"canary{rng.getrandbits(64):016x}", place in self.KEPT_OUT)
            for place in (*self.KEPT_OUT, *self.NOT_LOGGED)
        }

    def word(self, place: str) -> str:
        return self.canaries[place].word

    def replace(self, place: str, word: str) -> None:
        """A place where the word is not ours to choose."""
        self.canaries[place] = Canary(place, word, place in self.KEPT_OUT)

    def found(self, text: str, *, kept_out_only: bool) -> list[str]:
        """The places whose words are in the text, as they are or in a thin disguise."""
        return [
            canary.place
            for canary in self.canaries.values()
            if (canary.kept_out or not kept_out_only)
            and any(form in text for form in _disguises(canary.word))
        ]


def _disguises(word: str) -> tuple[str, ...]:
    raw = word.encode()
    return word, raw.hex(), base64.b64encode(raw).decode().rstrip("="), word[::-1], word.upper()


# -- planting ----------------------------------------------------------------------------------


def _talk(server: Server, cage: Cage) -> None:
    """Say everything once, well and badly."""
    word = cage.word
    with Faktory(server.port) as worker:
        greeting = worker.read_reply().text.removeprefix("HI ")
        said = _answer_to(greeting, cage)
        worker.call(f"HELLO {compact(said)}").checked()
        worker.push(job("canary-job-1", word("args"), custom={"note": word("custom")}))
        worker.push_many([job(f"canary-job-{n}", word("args in a batch")) for n in (2, 3)])
        piped = {"custom": {"note": word("custom behind another command")}}
        piped |= job("canary-job-4", word("args behind another command"))
        worker.send("QUEUE LATENCY default", push_line(piped), push_many_line([piped]))
        for _ in range(3):
            worker.read_reply()
        spaced = f'PUSH {{ "jid" : "canary-job-5", "jobtype":"x" , "args" : [ "{word("args with spaces")}" ] }}'
        worker.call(spaced).checked()
        got = worker.fetch("default")
        assert got is not None
        report = {"jid": got["jid"], "message": word("message"), "errtype": word("errtype")}
        worker.call(f"FAIL {compact(report | {'backtrace': [word('backtrace')]})}").checked()
        worker.call(fail_line("no-such-job", word("message"), word("errtype")))
        _rubbish(worker, cage)
    with Faktory(server.port) as stranger:
        stranger.read_reply()
        stranger.call(f"HELLO {compact({'v': 2, 'pwdhash': word('wrong hash')})}")
    _operate(server, cage)


def _answer_to(greeting: str, cage: Cage) -> dict[str, object]:
    salt = greeting.split('"s":"')[1].split('"')[0]
    rounds = int(greeting.split('"i":')[1].split(",")[0])
    cage.replace("right hash", password_hash(cage.word("password"), salt, rounds))
    return {
        "v": 2, "wid": cage.word("wid"), "hostname": cage.word("hostname"), "pid": 1,
        "labels": [cage.word("label")], "username": cage.word("username"),
        "pwdhash": cage.word("right hash"),
    }  # fmt: skip


def _rubbish(worker: Faktory, cage: Cage) -> None:
    word = cage.word
    for line in (
        f'PUSH {{"jid":"canary-job-6","args":["{word("malformed push")}"',
        f'PUSHB [{{"args":["{word("malformed push")}"]}}, 7]',
        f'ACK {{"jid":["{word("malformed ack")}"]}}',
        f"{word('unknown command')} {{}}",
        f'MUTATE {{"cmd":"{word("pattern")}","target":"dead","filter":{{"regexp":"*{word("pattern")}*"}}}}',
        f'MUTATE {{"cmd":"kill","target":"dead","filter":{{"regexp":"*{word("pattern")}*"}}}}',
        f"QUEUE {word('unknown command')} x",
        f'BEAT {{"wid":"{word("unknown command")}"}}',
    ):
        worker.call(line)


def _operate(server: Server, cage: Cage) -> None:
    """Operators' requests, right and wrong."""
    secret = cage.word("args from an operator")
    ask(server, "jobs.push", queue="ops", type="t", args=[secret])
    for op, params in (
        ("jobs.push", {"queue": "ops", "type": "t", "args": secret}),
        ("jobs.find", {"states": [secret]}),
        (secret, {}),
    ):
        with suppress(Declined):
            ask(server, op, **params)


# -- runs --------------------------------------------------------------------------------------


def _serve(home: Path, cage: Cage, form: str, prefix: tuple[str, ...]) -> str:
    """Everything that a server wrote from its start to its end."""
    server = Server(
        home / "data",
        extra_args=["--log-format", form, "--log-level", "debug"],
        env={"FAKTORY_PASSWORD": cage.word("password")},
        argv_prefix=prefix,
    )
    with server:
        _talk(server, cage)
        server.process.send_signal(signal.SIGTTIN)  # it shows where its threads are
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        assert server.terminate() == 0, server.log_tail()
    return server.log_path.read_text(errors="replace")


def _misconfigure(home: Path, cage: Cage, form: str, prefix: tuple[str, ...]) -> str:
    """What the program says about settings with a password in them, none of which it can serve."""
    secret, second = cage.word("refused password"), cage.word("second password")
    (home / "secret").write_text(secret)
    files = {
        "list": f'[faktory]\npassword = ["{secret}"]\n',
        "both": f'[faktory]\npassword = "{secret}"\npassword_file = "{home / "secret"}"\n',
        "typo": f'[faktory]\npasword = "{secret}"\n',
        "table": f'[faktory.password]\nx = "{secret}"\n',
        "torn": f'[faktory]\npassword = "{secret}\n',
        "right": f'[faktory]\npassword = "{secret}"\n',
    }
    env = {name: value for name, value in os.environ.items() if not name.startswith("FAKTORY_")}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    said: list[str] = []
    for name, text in files.items():
        path = home / f"{name}.toml"
        path.write_text(text)
        # A data directory that is a file: the server reads all its settings, then cannot start.
        flags = ["--config", str(path), "--data", str(path), "--faktory", "127.0.0.1:0"]
        for command in (["config", "show"], ["serve", "--log-format", form]):
            done = subprocess.run(
                [sys.executable, *prefix, *command, *flags],
                cwd=ROOT, env=env | {"FRANCA_FAKTORY__PASSWORD": second} if name == "right" else env,
                capture_output=True, text=True, check=False, timeout=20,
            )  # fmt: skip
            said += [done.stdout, done.stderr]
    return "\n".join(said)


def run(options: Options) -> bool:
    began = time.monotonic()
    runs: list[tuple[str, Callable[[Path, Cage, str, tuple[str, ...]], str], tuple[str, ...], bool]]
    runs = [
        ("serve", _serve, options.argv_prefix, False),
        ("chatty", _serve, options.variant("chatty"), True),
        ("config", _misconfigure, PRODUCT, False),
    ]
    planted = lines = 0
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="franca-canary-") as scratch:
        for form in _FORMS:
            for name, act, prefix, kept_out_only in runs:
                cage = Cage(Random(options.seed + lines))
                home = Path(scratch) / f"{name}-{form}"
                home.mkdir()
                text = act(home, cage, form, prefix)
                planted = len(cage.canaries)
                lines += text.count("\n")
                places = cage.found(text, kept_out_only=kept_out_only)
                found += [f"{name}, {form}: {place}" for place in places]
                if kept_out_only:
                    assert "canary-job" in text, "nobody was chatty"
    print(
        f"T23 {NAME}: canaries={planted} found_in_logs={len(found)} runs={len(runs) * len(_FORMS)}"
        f" lines={lines} seconds={time.monotonic() - began:.0f}"
    )
    for place in found[:12]:
        print(f"  {place}")
    return not found and planted >= 20
