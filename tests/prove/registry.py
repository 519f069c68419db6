"""Every proof there is, in the order in which `all` runs them. A new one is a module and a row."""

import importlib
from typing import NamedTuple

from tests.prove.harness import Options, Result


class Proof(NamedTuple):
    """One row of the table: its number, and the planted bugs that it must catch.

    `timed`: it measures how long others wait. On a machine that is busy with something else it may
    be wrong once; a server that is slow is slow twice. `folder`: a proof that lies outside this
    package, with its planted bugs beside it.
    """

    name: str
    label: str = ""
    bugs: str = ""
    timed: bool = False
    folder: str = ""

    @property
    def mutants(self) -> tuple[str, ...]:
        if not self.folder:
            return tuple(self.bugs.split())
        return tuple(importlib.import_module(f"{self.folder}.mutants").MUTANTS)

    @property
    def module(self) -> str:
        here = f"tests.prove.{self.name.replace('-', '_')}"
        return f"{self.folder}.proof" if self.folder else here

    def run(self, options: Options) -> Result:
        result: Result = importlib.import_module(self.module).run(options)
        return result


_ROWS = (
    Proof("history-selftest", "T4"),
    Proof("model", "T7", folder="tests.core"),
    Proof("sim", "T3", folder="tests.sim"),
    Proof(
        "fuzz",
        "T16",
        "faktory-loses-a-byte-at-a-cut gearman-believes-a-number gearman-forgets-half-a-header"
        " periodic-gives-back-what-it-has-no-more periodic-reads-on-before-anybody-is-told"
        " eventmq-reads-on-before-anybody-is-told memodb-reads-on-before-anybody-is-told"
        " beanstalkd-loses-half-a-line-end",
    ),
    Proof("powerloss", "T2", "sync-normal"),
    Proof("powerloss-heal", "T2", "heal-unsynced"),
    Proof("fsync-eio", "T5", "ignore-eio"),
    Proof("slow-disk", "T25", "all-wait", timed=True),
    Proof("kill9", "T1", "ack-before-commit"),
    Proof("killpoints", "T8", "skip-commit"),
    Proof("worker-chaos", "T11", "no-requeue", timed=True),
    Proof("diskfull", "T9", "no-ballast"),
    Proof("bitflip", "T15", "no-crc no-log-check"),
    Proof("filemodes", "T22", "loose-modes"),
    Proof(
        "fence",
        "T6",
        "no-fence no-fence-gearman no-fence-periodic no-fence-memodb no-fence-eventmq"
        " no-fence-beanstalkd",
    ),
    Proof("clock", "T14", "wall-clock-lease"),
    Proof("poison", "T26", "no-limit"),
    Proof("faktory-auth", "T18", "fixed-salt"),
    Proof("bind-policy", "T19", "open-bind"),
    Proof("log-canary", "T23", "unredacted"),
    Proof("slow", "T25", "no-drain", timed=True),
    Proof("hostile-frames", "T17", "no-line-limit", timed=True),
    Proof("herd", "T30", "no-slicing", timed=True),
    Proof("cases", "", "own-names", timed=True),
    Proof("neighbours", "", "drop-inputs hang-in-commit no-byte-bounds blame-the-peer", timed=True),
)
PROOFS: dict[str, Proof] = {proof.name: proof for proof in _ROWS}
