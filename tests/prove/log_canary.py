"""T23: no password and nothing that a job carries ends up in the log.

Words that occur nowhere else are planted wherever a secret may stand: in the password and every form it is
configured in, in greetings, arguments, custom fields, error reports, rubbish and operators' requests. Then
everything the server wrote is searched for them, at the debug level, as JSON and for people.

The product logs little of what peers say, so each run is repeated with a careless server (the tweak `chatty`)
that logs every line it hears and every job it takes: there the log's own redaction must hold.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random

from franca.control.client import Declined
from tests.prove.harness import Options, Result
from tests.prove.observe import ask
from tests.support import faktory
from tests.support.server import PRODUCT, ROOT, Server

_FORMS = ("json", "console")
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


class Canaries:
    """A word that occurs nowhere else for each place in which a secret may stand."""

    def __init__(self, rng: Random) -> None:
        places = (*KEPT_OUT, *NOT_LOGGED)
        self.words = {place: f"canary{rng.getrandbits(64):016x}" for place in places}

    def word(self, place: str) -> str:
        return self.words[place]

    def found(self, text: str, *, kept_out_only: bool) -> list[str]:
        """The places whose words are in the text, as they are or in a thin disguise."""
        places = KEPT_OUT if kept_out_only else (*KEPT_OUT, *NOT_LOGGED)
        return [p for p in places if any(form in text for form in _disguises(self.words[p]))]


def _disguises(word: str) -> tuple[str, ...]:
    raw = word.encode()
    return word, raw.hex(), base64.b64encode(raw).decode().rstrip("="), word[::-1], word.upper()


# -- planting ----------------------------------------------------------------------------------


def _say_everything(server: Server, canaries: Canaries) -> None:
    """Say everything once, well and badly."""
    word = canaries.word
    with faktory.Faktory(server.port) as worker:
        greeting = worker.read_reply().text.removeprefix("HI ")
        worker.call(f"HELLO {faktory.compact(_answer_to(greeting, canaries))}").checked()
        worker.push(faktory.job("canary-job-1", word("args"), custom={"note": word("custom")}))
        worker.push_many([faktory.job(f"canary-job-{n}", word("args in a batch")) for n in (2, 3)])
        piped = {"custom": {"note": word("custom behind another command")}}
        piped |= faktory.job("canary-job-4", word("args behind another command"))
        worker.send(
            "QUEUE LATENCY default", faktory.push_line(piped), faktory.push_many_line([piped])
        )
        for _ in range(3):
            worker.read_reply()
        spaced = f'PUSH {{ "jid" : "canary-job-5", "jobtype":"x" , "args" : [ "{word("args with spaces")}" ] }}'
        worker.call(spaced).checked()
        got = worker.fetch("default")
        assert got is not None
        report = {"jid": got["jid"], "message": word("message"), "errtype": word("errtype")}
        worker.call(
            f"FAIL {faktory.compact(report | {'backtrace': [word('backtrace')]})}"
        ).checked()
        worker.call(faktory.fail_line("no-such-job", word("message"), word("errtype")))
        for line in _rubbish(canaries):
            worker.call(line)
    with faktory.Faktory(server.port) as stranger:
        stranger.read_reply()
        stranger.call(f"HELLO {faktory.compact({'v': 2, 'pwdhash': word('wrong hash')})}")
    secret = word("args from an operator")
    ask(server, "jobs.push", queue="ops", type="t", args=[secret])
    for op, params in (
        ("jobs.push", {"queue": "ops", "type": "t", "args": secret}),
        ("jobs.find", {"states": [secret]}),
        (secret, {}),
    ):
        with suppress(Declined):
            ask(server, op, **params)


def _answer_to(greeting: str, canaries: Canaries) -> dict[str, object]:
    salt = greeting.split('"s":"')[1].split('"')[0]
    rounds = int(greeting.split('"i":')[1].split(",")[0])
    word = canaries.word
    canaries.words["right hash"] = faktory.password_hash(word("password"), salt, rounds)
    return {
        "v": 2, "wid": word("wid"), "hostname": word("hostname"), "pid": 1, "labels": [word("label")],
        "username": word("username"), "pwdhash": word("right hash"),
    }  # fmt: skip


def _rubbish(canaries: Canaries) -> tuple[str, ...]:
    word = canaries.word
    return (
        f'PUSH {{"jid":"canary-job-6","args":["{word("malformed push")}"',
        f'PUSHB [{{"args":["{word("malformed push")}"]}}, 7]',
        f'ACK {{"jid":["{word("malformed ack")}"]}}',
        f"{word('unknown command')} {{}}",
        f'MUTATE {{"cmd":"{word("pattern")}","target":"dead","filter":{{"regexp":"*{word("pattern")}*"}}}}',
        f'MUTATE {{"cmd":"kill","target":"dead","filter":{{"regexp":"*{word("pattern")}*"}}}}',
        f"QUEUE {word('unknown command')} x",
        f'BEAT {{"wid":"{word("unknown command")}"}}',
    )


# -- runs --------------------------------------------------------------------------------------


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
    secret, second = canaries.word("refused password"), canaries.word("second password")
    home.mkdir()
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
    said = ""
    for name, text in files.items():
        path = home / f"{name}.toml"
        path.write_text(text)
        more = {"FRANCA_FAKTORY__PASSWORD": second} if name == "right" else {}
        # A data directory that is a file: the server reads all its settings, then cannot start.
        flags = ["--config", str(path), "--data", str(path), "--faktory", "127.0.0.1:0"]
        for command in (["config", "show"], ["serve", "--log-format", form]):
            argv = [sys.executable, *PRODUCT, *command, *flags]
            said += subprocess.run(
                argv, cwd=ROOT, env=env | more, text=True, check=False, timeout=20,
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
                env={"FAKTORY_PASSWORD": canaries.word("password")},
            )  # fmt: skip
            text = _serve(server, canaries)
            assert kind == "serve" or "canary-job" in text, "nobody was chatty"
        lines += text.count("\n")
        places = canaries.found(text, kept_out_only=kind == "chatty")
        found += [f"{kind}, {form}: {place}" for place in places]
    planted = len(KEPT_OUT) + len(NOT_LOGGED)
    return Result(
        not found and planted >= 20,
        f"canaries={planted} found_in_logs={len(found)} runs={len(_FORMS) * len(kinds)} lines={lines}",
        found[:12],
    )
