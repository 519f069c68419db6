"""Every proof there is, in the order in which `all` runs them. A new one is a module and a row."""

from __future__ import annotations

import importlib
from typing import NamedTuple, Protocol, cast

from tests.prove.harness import Options, Result


class Module(Protocol):
    """What a proof's module offers; see the package's docstring."""

    def run(self, options: Options) -> Result: ...


class Proof(NamedTuple):
    """One row of the table.

    `timed`: it measures how long others wait. On a machine that is busy with something else it may
    be wrong once; a server that is slow is slow twice.
    """

    label: str
    module: str
    mutants: tuple[str, ...] = ()
    searches: str = ""  # the module whose `MUTANTS` are planted beside those, one by one
    timed: bool = False

    @property
    def all_mutants(self) -> tuple[str, ...]:
        if not self.searches:
            return self.mutants
        names: tuple[str, ...] = importlib.import_module(self.searches).MUTANTS.names
        return names

    def load(self) -> Module:
        return cast(Module, importlib.import_module(self.module))


PROOFS: dict[str, Proof] = {
    "history-selftest": Proof("T4", "tests.prove.history_selftest"),
    "model": Proof("T7", "tests.core.proof", searches="tests.core.mutants"),
    "sim": Proof("T3", "tests.sim.proof", searches="tests.sim.mutants"),
    "fuzz": Proof(
        "T16",
        "tests.prove.fuzz",
        (
            "faktory-loses-a-byte-at-a-cut",
            "gearman-believes-a-number",
            "gearman-forgets-half-a-header",
            "periodic-gives-back-what-it-has-no-more",
            "periodic-reads-on-before-anybody-is-told",
            "eventmq-reads-on-before-anybody-is-told",
            "memodb-reads-on-before-anybody-is-told",
        ),
    ),
    "powerloss": Proof("T2", "tests.prove.powerloss", ("sync-normal",)),
    "powerloss-heal": Proof("T2", "tests.prove.powerloss_heal", ("heal-unsynced",)),
    "fsync-eio": Proof("T5", "tests.prove.fsync_eio", ("ignore-eio",)),
    "slow-disk": Proof("T25", "tests.prove.slow_disk", ("all-wait",), timed=True),
    "kill9": Proof("T1", "tests.prove.kill9", ("ack-before-commit",)),
    "killpoints": Proof("T8", "tests.prove.killpoints", ("skip-commit",)),
    "worker-chaos": Proof("T11", "tests.prove.worker_chaos", ("no-requeue",), timed=True),
    "diskfull": Proof("T9", "tests.prove.diskfull", ("no-ballast",)),
    "bitflip": Proof("T15", "tests.prove.bitflip", ("no-crc", "no-log-check")),
    "filemodes": Proof("T22", "tests.prove.file_modes", ("loose-modes",)),
    "fence": Proof(
        "T6",
        "tests.prove.fence",
        (
            "no-fence",
            "no-fence-gearman",
            "no-fence-periodic",
            "no-fence-memodb",
            "no-fence-eventmq",
        ),
    ),
    "clock": Proof("T14", "tests.prove.clock", ("wall-clock-lease",)),
    "poison": Proof("T26", "tests.prove.poison", ("no-limit",)),
    "faktory-auth": Proof("T18", "tests.prove.faktory_auth", ("fixed-salt",)),
    "bind-policy": Proof("T19", "tests.prove.bind_policy", ("open-bind",)),
    "log-canary": Proof("T23", "tests.prove.log_canary", ("unredacted",)),
    "slow": Proof("T25", "tests.prove.slow", ("no-drain",), timed=True),
    "hostile-frames": Proof("T17", "tests.prove.hostile_frames", ("no-line-limit",), timed=True),
    "herd": Proof("T30", "tests.prove.herd", ("no-slicing",), timed=True),
    "cases": Proof("", "tests.prove.cases", ("own-names",), timed=True),
    "neighbours": Proof(
        "",
        "tests.prove.neighbours",
        ("drop-inputs", "hang-in-commit", "no-byte-bounds", "blame-the-peer"),
        timed=True,
    ),
}
