"""T23: no password and nothing that a job carries ends up in the log.

Words that occur nowhere else are planted wherever a secret may stand: in the password and every form it is
configured in, in greetings, arguments, custom fields, error reports, rubbish and operators' requests. Then
everything the server wrote is searched for them, at the debug level, as JSON and for people.

The product logs little of what peers say, so each run is repeated with a careless server (the tweak `chatty`)
that logs every line it hears and every job it takes: there the log's own redaction must hold.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random

from franca.control.client import Declined
from tests.prove.harness import Options, Result
from tests.prove.observe import ask
from tests.prove.tables import Tables
from tests.support.faktory import Faktory, password_hash
from tests.support.server import PRODUCT, ROOT, Server

_FORMS = ("json", "console")
_KEPT_OUT, _NOT_LOGGED = (
    [place.decode() for place in Tables(__file__)[name]] for name in ("kept out", "not logged")
)


class Canaries:
    """A word that occurs nowhere else for each place in which a secret may stand."""

    def __init__(self, rng: Random) -> None:
        self.words = {p: f"canary{rng.getrandbits(64):016x}" for p in (*_KEPT_OUT, *_NOT_LOGGED)}

    def found(self, text: str, *, kept_out_only: bool) -> list[str]:
        """The places whose words are in the text, as they are or in a thin disguise."""
        places = _KEPT_OUT if kept_out_only else self.words
        return [p for p in places if any(form in text for form in _disguises(self.words[p]))]

    def rows(self, table: str) -> Iterator[list[bytes]]:
        """What is said together, with the words in their places."""
        words = {place: [word.encode()] for place, word in self.words.items()}
        for messages in Tables(__file__, words).rows(table, Random(0)):
            yield [b"  ".join(message) for message in messages]


def _disguises(word: str) -> tuple[str, ...]:
    raw = word.encode()
    return word, raw.hex(), base64.b64encode(raw).decode().rstrip("="), word[::-1], word.upper()


def _say_everything(server: Server, canaries: Canaries) -> None:
    """Say everything once, well and badly."""
    words = canaries.words
    with Faktory(server.port) as worker:
        asked = json.loads(worker.read().text.removeprefix("HI "))
        words["right hash"] = password_hash(words["password"], asked["s"], asked["i"])
        for table in ("worker", "rubbish"):
            for lines in canaries.rows(table):
                worker.say(*lines)
                for line in lines:
                    is_error = worker.read().is_error
                    assert table == "rubbish" or not is_error, line
    with Faktory(server.port) as stranger:
        stranger.read()
        stranger.call(f'HELLO {{"v":2,"pwdhash":"{words["wrong hash"]}"}}')
    secret = words["args from an operator"]
    ask(server, "jobs.push", queue="ops", type="t", args=[secret])
    for op, params in (
        ("jobs.push", {"queue": "ops", "type": "t", "args": secret}),
        ("jobs.find", {"states": [secret]}),
        (secret, {}),
    ):
        with suppress(Declined):
            ask(server, op, **params)


def _serve(server: Server, canaries: Canaries) -> str:
    """Everything that a server wrote from its start to its end."""
    with server:
        _say_everything(server, canaries)
        server.process.send_signal(signal.SIGTTIN)  # it shows where its threads are
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        assert server.terminate() == 0, server.log_tail()
    return server.log_path.read_text(errors="replace")


def _misconfigure(home: Path, canaries: Canaries, form: str) -> str:
    """What the program says about settings with a password in them, none of which it can serve."""
    home.mkdir()
    (home / "secret").write_text(canaries.words["refused password"])
    settings = [text for (text,) in canaries.rows("settings")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("FAKTORY_")}
    said = ""
    for number, text in enumerate(settings, 1):
        path = home / f"{number}.toml"
        path.write_bytes(text.replace(b'"secret"', f'"{home / "secret"}"'.encode()))
        if number == len(settings):
            env["FRANCA_FAKTORY__PASSWORD"] = canaries.words["second password"]
        # A data directory that is a file: the server reads all its settings, then cannot start.
        flags = ["--config", str(path), "--data", str(path), "--faktory", "127.0.0.1:0"]
        for command in (["config", "show"], ["serve", "--log-format", form]):
            argv = [sys.executable, *PRODUCT, *command, *flags]
            said += subprocess.run(
                argv, cwd=ROOT, env=env, text=True, check=False, timeout=20,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            ).stdout  # fmt: skip
    return said


def run(options: Options) -> Result:
    lines, found = 0, list[str]()
    # What is said of settings is said before any server runs: there a planted bug has no part.
    kinds = ("serve", "chatty") if options.mutant else ("serve", "chatty", "config")
    for form, kind in product(_FORMS, kinds):
        canaries = Canaries(Random(options.seed + lines))
        if kind == "config":
            text = _misconfigure(options.home / form, canaries, form)
        else:
            server = options.server(
                f"{kind}-{form}", *(["chatty"] if kind == "chatty" else []),
                extra_args=["--log-format", form, "--log-level", "debug"],
                env={"FAKTORY_PASSWORD": canaries.words["password"]},
            )  # fmt: skip
            text = _serve(server, canaries)
            assert kind == "serve" or "canary-job" in text, "nobody was chatty"
        lines += text.count("\n")
        places = canaries.found(text, kept_out_only=kind == "chatty")
        found += [f"{kind}, {form}: {place}" for place in places]
    planted = len(_KEPT_OUT) + len(_NOT_LOGGED)
    return Result(
        not found and planted >= 20,
        f"canaries={planted} found_in_logs={len(found)} runs={len(_FORMS) * len(kinds)} lines={lines}",
        found[:12],
    )
