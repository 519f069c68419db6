"""Every proof there is, in the order in which `all` runs them. A new one is a module and a line."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from tests.prove.options import Options

MODULES: dict[str, str] = {
    "history-selftest": "tests.prove.history_selftest",
    "model": "tests.core.proof",
    "sim": "tests.sim.proof",
    "fuzz": "tests.prove.fuzz",
    "powerloss": "tests.prove.powerloss",
    "powerloss-heal": "tests.prove.powerloss_heal",
    "fsync-eio": "tests.prove.fsync_eio",
    "slow-disk": "tests.prove.slow_disk",
    "kill9": "tests.prove.kill9",
    "killpoints": "tests.prove.killpoints",
    "worker-chaos": "tests.prove.worker_chaos",
    "diskfull": "tests.prove.diskfull",
    "bitflip": "tests.prove.bitflip",
    "filemodes": "tests.prove.file_modes",
    "fence": "tests.prove.fence",
    "clock": "tests.prove.clock",
    "poison": "tests.prove.poison",
    "faktory-auth": "tests.prove.faktory_auth",
    "bind-policy": "tests.prove.bind_policy",
    "log-canary": "tests.prove.log_canary",
    "slow": "tests.prove.slow",
    "hostile-frames": "tests.prove.hostile_frames",
    "herd": "tests.prove.herd",
    "cases": "tests.prove.cases",
    "neighbours": "tests.prove.neighbours",
}


TIMED = frozenset(
    {"slow-disk", "slow", "hostile-frames", "herd", "worker-chaos", "cases", "neighbours"}
)
"""Those that measure how long others wait. On a machine that is busy with something else they may be
wrong once; a server that is slow is slow twice."""


TESTED = frozenset({"model", "sim"})
"""Those whose planted bugs `make test` plants too: the short form leaves them to it."""


class Proof(Protocol):
    """What a proof's module offers; see the package's docstring."""

    NAME: str
    MUTANTS: tuple[str, ...]

    def run(self, options: Options) -> bool: ...


def load(name: str) -> Proof:
    """The module of this proof; `KeyError` if there is none."""
    proof = cast(Proof, importlib.import_module(MODULES[name]))
    assert name == proof.NAME, f"{MODULES[name]} calls itself {proof.NAME}"
    return proof
