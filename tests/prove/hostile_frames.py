"""T17: whatever is sent to a listener, the server lives, stays small, and nobody else notices.

Of each protocol hundreds of malformed frames, some that never end, and some that are dear to take apart
(`hostile/`) go to a server that a good client works with all the while (`witness.py`). A web page's request is
hung up on at its first line, half a message and then silence after a while.
"""

from __future__ import annotations

from contextlib import ExitStack

from tests.prove import hostile
from tests.prove.harness import Options, Result, Tally, limits
from tests.prove.hostile import FRAME_BYTES, SILENT_S, Heavy
from tests.prove.observe import Memory, errors_logged
from tests.prove.witness import Witness
from tests.support.faktory import Faktory
from tests.support.protocols import PROTOCOLS
from tests.support.server import Server

_CASES_MIN = 400
_RSS_MAX_MIB = 8.0
_HEAVY_MAX_MIB = 20 * FRAME_BYTES / (1 << 20)
_WORST_MAX_MS = 1_000.0
_WARM = 300
_CASES_SHORT = 300  # of each protocol but one; each run draws others
_STRANGERS = 4
_SILENT_MS = int(SILENT_S * 1_000)
_LIMITS = limits(frame_bytes_max=FRAME_BYTES, body_bytes_max=FRAME_BYTES // 2)
_LIMITS |= limits(handshake_ms=_SILENT_MS, frame_ms=_SILENT_MS)


class Trial:
    """One server, a good client beside it, and what was seen to go wrong."""

    def __init__(self, server: Server, witness: Witness, options: Options) -> None:
        self.server = server
        self.witness = witness
        self.options = options
        self.tally = Tally("cases", "other_conn_errors", "crashes", "wrong", "slow")
        self.rss_growth_mib = self.heavy_peak_mib = self.worst_ms = 0.0

    def small_frames(self, protocol: str) -> None:
        port = self.server.ports[protocol]
        short = self.options.short and protocol != PROTOCOLS[0]
        table = hostile.cases(protocol, self.options.seed)[: _CASES_SHORT if short else None]
        for case in table[:_WARM]:
            hostile.play(protocol, port, case)
        silences = hostile.silences(protocol, port)
        with Memory(self.server) as memory, ExitStack() as open_still:
            for case in table:
                self._note(f"{protocol}, {case}", hostile.play(protocol, port, case))
            for _ in range(_STRANGERS):
                open_still.enter_context(hostile.endless(protocol, port, known=False))
            growth_mib = max(memory.peak_mib, memory.growth_mib())
            self.rss_growth_mib = max(self.rss_growth_mib, growth_mib)
        self.tally["cases"] += len(table) + _STRANGERS
        for name, silent in silences.items():
            wrong = "not hung up on" if hostile.stays(silent) else ""
            self._note(f"{protocol}, silence after {name}", wrong)
        with Faktory(self.server.port) as client:
            heard = "smuggled" in client.hello().info()["faktory"]["queues"]
            self._note(protocol, "a web page was heard" if heard else "")
            client.queue("REMOVE", ["hostile"])
        self._note_wait(f"{protocol}, small frames", self._waited(protocol))

    def large_frames(self, protocol: str) -> None:
        port = self.server.ports[protocol]
        for heavy in hostile.of(protocol).heavies(short=self.options.short):
            name = f"{protocol}, {heavy.name}"
            worst_ms, peak_mib, wrong = self._one_large(protocol, heavy)
            if worst_ms > _WORST_MAX_MS:
                # A pause may be the machine's; then it does not come twice.
                worst_ms = min(worst_ms, self._one_large(protocol, heavy)[0])
            self.tally["cases"] += 1
            self._note(name, wrong)
            if peak_mib > _HEAVY_MAX_MIB:
                self.tally.note("slow", f"{name}: {peak_mib:.0f} MiB")
            self.heavy_peak_mib = max(self.heavy_peak_mib, peak_mib)
            self._note_wait(name, worst_ms)
        self.tally["cases"] += 1
        with Memory(self.server) as memory, hostile.endless(protocol, port, known=True):
            self.heavy_peak_mib = max(self.heavy_peak_mib, memory.peak_mib)

    def _one_large(self, protocol: str, heavy: Heavy) -> tuple[float, float, str]:
        """How long the good client waited, how much memory it took, and what was wrong."""
        with Memory(self.server) as memory:
            wrong = hostile.play_heavy(protocol, self.server.ports[protocol], heavy)
        with Faktory(self.server.port, timeout=60.0) as client:
            client.hello().queue("REMOVE", ["hostile"])
        return self._waited(f"{protocol}, {heavy.name}"), memory.peak_mib, wrong

    def _waited(self, name: str) -> float:
        """The longest that the good client has waited since this was asked last; it must see no fault."""
        seen = self.witness.figures()
        self.tally["other_conn_errors"] += seen.faults
        self._note(name, f"the good client saw {seen.examples[0]}" if seen.faults else "")
        return max(seen.worst_ms, seen.beat_worst_ms)

    def _note(self, name: str, wrong: str) -> None:
        if wrong:
            self.tally.note("wrong", f"{name}: {wrong}")

    def _note_wait(self, name: str, worst_ms: float) -> None:
        self.worst_ms = max(self.worst_ms, worst_ms)
        if worst_ms > _WORST_MAX_MS:
            self.tally.note("slow", f"{name}: the good client waited {worst_ms:.0f} ms")


def run(options: Options) -> Result:
    with options.server(env=_LIMITS, speaks=PROTOCOLS) as server:
        with Witness(server.port) as witness:
            trial = Trial(server, witness, options)
            for protocol in PROTOCOLS:
                trial.small_frames(protocol)
            # In this order: Gearman's functions are still listed when Faktory is asked for INFO.
            for protocol in reversed(PROTOCOLS):
                trial.large_frames(protocol)
        tally = trial.tally
        tally["crashes"] = errors_logged(server) + (not server.running)
    small = trial.rss_growth_mib <= _RSS_MAX_MIB and trial.heavy_peak_mib <= _HEAVY_MAX_MIB
    return Result(
        tally.total() == tally["cases"] >= _CASES_MIN and small,
        f"{tally} rss_growth_mib={trial.rss_growth_mib:.1f} good_worst_ms={trial.worst_ms:.0f}"
        f" heavy_peak_mib={trial.heavy_peak_mib:.0f} protocols={','.join(PROTOCOLS)}",
        tally.examples[:24],
    )
