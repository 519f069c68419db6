"""T17: whatever is sent to a listener, the server lives, stays small, and nobody else notices.

Of each protocol hundreds of malformed frames, some that never end, and some that are dear to take apart
(`hostile/`) go to a server that a good client works with all the while (`witness.py`). A web page's request is
hung up on at its first line, half a message and then silence after a while.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.prove import hostile
from tests.prove.hostile import FRAME_BYTES, PROTOCOLS, SILENT_S, Heavy
from tests.prove.looking import Memory
from tests.prove.options import Options
from tests.prove.witness import Witness
from tests.support.faktory import Faktory
from tests.support.server import Server

NAME = "hostile-frames"
MUTANTS: tuple[str, ...] = ("no-line-limit",)

_CASES_MIN = 400
_RSS_MAX_MIB = 8.0
_HEAVY_MAX_MIB = 20 * FRAME_BYTES / (1 << 20)
_WORST_MAX_MS = 1_000.0
_WARM = 300
_CASES_SHORT = 300  # of each protocol but one; each run draws others
_STRANGERS = 4
_LIMITS = {
    "FRANCA_LIMITS__FRAME_BYTES_MAX": str(FRAME_BYTES),
    "FRANCA_LIMITS__BODY_BYTES_MAX": str(FRAME_BYTES // 2),
    "FRANCA_LIMITS__HANDSHAKE_MS": str(int(SILENT_S * 1_000)),
    "FRANCA_LIMITS__FRAME_MS": str(int(SILENT_S * 1_000)),
}


@dataclass
class Tally:
    """What was seen to go wrong."""

    cases: int = 0
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    other_conn_errors: int = 0
    rss_growth_mib: float = 0.0
    heavy_peak_mib: float = 0.0
    worst_ms: float = 0.0
    crashes: int = 0

    @property
    def ok(self) -> bool:
        return (
            not (self.wrong or self.slow or self.other_conn_errors or self.crashes)
            and self.cases >= _CASES_MIN
            and self.rss_growth_mib <= _RSS_MAX_MIB
            and self.heavy_peak_mib <= _HEAVY_MAX_MIB
        )


# -- the proof ---------------------------------------------------------------------------------


def _small_frames(
    protocol: str, server: Server, witness: Witness, options: Options, tally: Tally
) -> None:
    module, port = hostile.of(protocol), server.ports[protocol]
    short = options.short and protocol != PROTOCOLS[0]
    table = module.cases(options.seed)[: _CASES_SHORT if short else None]
    for case in table[:_WARM]:
        module.play(port, case)
    silences = module.silences(port)
    with Memory(server) as memory, ExitStack() as open_still:
        for case in table:
            tally.cases += 1
            wrong = module.play(port, case)
            if wrong:
                tally.wrong.append(f"{protocol}, {case.name}: {wrong}")
        for _ in range(_STRANGERS):
            tally.cases += 1
            open_still.enter_context(module.endless(port, known=False))
        growth_mib = max(memory.peak_mib, memory.growth_mib())
        tally.rss_growth_mib = max(tally.rss_growth_mib, growth_mib)
    for silence in silences:
        if wrong := silence.wrong():
            tally.wrong.append(f"{protocol}, silence after {silence.name}: {wrong}")
    with Faktory(server.port) as client:
        queues = client.hello().info()["faktory"]["queues"]
        if "smuggled" in queues:
            tally.wrong.append("a web page was heard")
        client.queue("REMOVE", ["hostile"])
    worst_ms = _listen(witness, f"{protocol}, small frames", tally)
    tally.worst_ms = max(tally.worst_ms, worst_ms)
    if worst_ms > _WORST_MAX_MS:
        tally.slow.append(f"{protocol}, small frames: the good client waited {worst_ms:.0f} ms")


def _large_frames(
    protocol: str, server: Server, witness: Witness, short: bool, tally: Tally
) -> None:
    module, port = hostile.of(protocol), server.ports[protocol]
    for heavy in module.heavies(short=short):
        tally.cases += 1
        name = f"{protocol}, {heavy.name}"
        worst_ms, peak_mib, wrong = _one_large(protocol, server, witness, heavy, tally)
        if worst_ms > _WORST_MAX_MS:
            # A pause may be the machine's; then it does not come twice.
            worst_ms = min(worst_ms, _one_large(protocol, server, witness, heavy, tally)[0])
        if wrong:
            tally.wrong.append(f"{name}: {wrong}")
        if peak_mib > _HEAVY_MAX_MIB:
            tally.slow.append(f"{name}: {peak_mib:.0f} MiB")
        if worst_ms > _WORST_MAX_MS:
            tally.slow.append(f"{name}: the good client waited {worst_ms:.0f} ms")
        tally.heavy_peak_mib = max(tally.heavy_peak_mib, peak_mib)
        tally.worst_ms = max(tally.worst_ms, worst_ms)
    tally.cases += 1
    with Memory(server) as memory, module.endless(port, known=True):
        tally.heavy_peak_mib = max(tally.heavy_peak_mib, memory.peak_mib)


def _one_large(
    protocol: str, server: Server, witness: Witness, heavy: Heavy, tally: Tally
) -> tuple[float, float, str]:
    """How long the good client waited, how much memory it took, and what was wrong."""
    with Memory(server) as memory:
        wrong = hostile.of(protocol).play_heavy(server.ports[protocol], heavy)
    with Faktory(server.port, timeout=60.0) as client:
        client.hello().queue("REMOVE", ["hostile"])
    return _listen(witness, f"{protocol}, {heavy.name}", tally), memory.peak_mib, wrong


def _listen(witness: Witness, name: str, tally: Tally) -> float:
    """The longest that the good client has waited since it was asked last; it must see no fault."""
    seen = witness.figures()
    tally.other_conn_errors += seen.faults
    if seen.faults:
        tally.wrong.append(f"{name}: the good client saw {seen.examples[0]}")
    return max(seen.worst_ms, seen.beat_worst_ms)


def run(options: Options) -> bool:
    began = time.monotonic()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="franca-hostile-") as scratch:
        data = Path(scratch) / "data"
        prefix = options.argv_prefix
        with Server(data, env=_LIMITS, argv_prefix=prefix, speaks=PROTOCOLS) as server:
            with Witness(server.port) as witness:
                witness.figures()
                for protocol in PROTOCOLS:
                    _small_frames(protocol, server, witness, options, tally)
                # In this order: Gearman's functions are still listed when Faktory is asked for INFO.
                for protocol in reversed(PROTOCOLS):
                    _large_frames(protocol, server, witness, options.short, tally)
            tally.crashes += not server.running
            tally.crashes += sum(
                '"error"' in line or "Traceback" in line for line in server.log_lines()
            )
    print(
        f"T17 {NAME}: cases={tally.cases} rss_growth_mib={tally.rss_growth_mib:.1f}"
        f" other_conn_errors={tally.other_conn_errors} crashes={tally.crashes} wrong={len(tally.wrong)}"
        f" slow={len(tally.slow)} good_worst_ms={tally.worst_ms:.0f}"
        f" heavy_peak_mib={tally.heavy_peak_mib:.0f} protocols={','.join(PROTOCOLS)}"
        f" seconds={time.monotonic() - began:.0f}"
    )
    for complaint in [*tally.wrong[:12], *tally.slow[:12]]:
        print(f"  {complaint}")
    return tally.ok
