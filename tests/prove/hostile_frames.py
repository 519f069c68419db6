"""T17: whatever is sent to a listener, the server lives, stays small, and nobody else notices.

More than a thousand malformed frames (`hostile_cases.py`), lines that never end, and frames that are dear to
take apart (`hostile_heavy.py`) go to a server that a good client works with all the while (`witness.py`).
A web page's request is hung up on at its first line, half a line and then silence after a while.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.prove.hostile_cases import ANSWERED, CLOSED, REFUSED, Case, cases
from tests.prove.hostile_heavy import FRAME_BYTES, Heavy, endless, heavies, play
from tests.prove.looking import Memory
from tests.prove.options import Options
from tests.prove.witness import Witness
from tests.support.faktory import Faktory, FaktoryError, Reply
from tests.support.server import Server

NAME = "hostile-frames"
MUTANTS: tuple[str, ...] = ("no-line-limit",)

_CASES_MIN = 400
_RSS_MAX_MIB = 8.0
_HEAVY_MAX_MIB = 20 * FRAME_BYTES / (1 << 20)
_WORST_MAX_MS = 1_000.0
_AT_ONCE_S = 1.0
_WARM = 300
_SILENT_S = 2.0
_STRANGERS = 4
_PROBE = "QUEUE LATENCY"
_LIMITS = {
    "FRANCA_LIMITS__FRAME_BYTES_MAX": str(FRAME_BYTES),
    "FRANCA_LIMITS__BODY_BYTES_MAX": str(FRAME_BYTES // 2),
    "FRANCA_LIMITS__HANDSHAKE_MS": str(int(_SILENT_S * 1_000)),
    "FRANCA_LIMITS__FRAME_MS": str(int(_SILENT_S * 1_000)),
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


# -- one case ----------------------------------------------------------------------------------


def _play(port: int, case: Case) -> str:
    """Send a case on a connection of its own; what was wrong with the answer, or nothing."""
    with Faktory(port, timeout=10.0) as client:
        try:
            return _told(client, case) if case.known else _turned_away(client, case)
        except TimeoutError:
            return "no answer"
        except (ValueError, FaktoryError) as error:
            return f"{error!r}"


def _told(client: Faktory, case: Case) -> str:
    """A client that said HELLO gets one reply, and one to its next command unless that was an error."""
    client.hello()
    try:
        client.send_bytes(case.data)
        client.send(_PROBE)
        reply = client.read_reply()
    except ConnectionError:
        return "closed without a word"
    if case.outcome == REFUSED and not reply.is_error:
        return f"answered {_shown(reply)}"
    try:
        probe = client.read_reply()
    except ConnectionError:
        return "" if reply.is_error else f"closed after {_shown(reply)}"
    if case.outcome in (REFUSED, ANSWERED) and (probe.kind, probe.body) != ("$", b"{}"):
        return f"answered {_shown(reply)} and then {_shown(probe)}"
    return ""


def _turned_away(client: Faktory, case: Case) -> str:
    """A stranger hears the greeting, and +OK or an error if it may, and the line is closed at once."""
    client.read_reply()
    began = time.monotonic()
    try:
        client.send_bytes(case.data)
        reply = client.read_reply()
        if case.outcome == CLOSED or (reply.kind, reply.body) == ("$", None):
            return f"answered {_shown(reply)}"
        if (reply.kind, reply.body) == ("+", b"OK"):
            return ""
        client.read_reply()
    except ConnectionError:
        late = time.monotonic() - began > _AT_ONCE_S
        return "not closed at once" if late else ""
    return "said more after an error"


def _shown(reply: Reply) -> str:
    return f"{reply.kind}{(reply.body or b'')[:60]!r}"


# -- silence -----------------------------------------------------------------------------------


class Silent:
    """Half a line, and then nothing: to be hung up on after a while, and not before."""

    def __init__(self, port: int) -> None:
        self._clients: list[tuple[str, Faktory]] = []
        for name, known, begun in (
            ("nothing", False, b""), ("half a greeting", False, b'HELLO {"v"'), ("half a word", True, b"PU"),
            ("half a job", True, b'PUSH {"jid":"hostile'), ("a line and a half", True, b"INFO\r\nINF"),
        ):  # fmt: skip
            client = Faktory(port, timeout=_SILENT_S + 4.0)
            if known:
                client.hello()
            else:
                client.read_reply()
            client.send_bytes(begun)
            if name == "a line and a half":
                client.read_reply()
            self._clients.append((name, client))

    def wrong(self) -> list[str]:
        """Which of them were never hung up on."""
        found: list[str] = []
        for name, client in self._clients:
            with client:
                try:
                    reply = client.read_reply()
                    found.append(f"silence after {name}: heard {_shown(reply)}")
                except TimeoutError:
                    found.append(f"silence after {name}: not hung up on")
                except ConnectionError:
                    pass
        return found


# -- the proof ---------------------------------------------------------------------------------


def _small_frames(server: Server, witness: Witness, seed: int, tally: Tally) -> None:
    table = cases(seed)
    for case in table[:_WARM]:
        _play(server.port, case)
    silent = Silent(server.port)
    with Memory(server) as memory, ExitStack() as open_still:
        for case in table:
            tally.cases += 1
            wrong = _play(server.port, case)
            if wrong:
                tally.wrong.append(f"{case.name}: {wrong}")
        for _ in range(_STRANGERS):
            tally.cases += 1
            open_still.enter_context(endless(server.port, known=False))
        tally.rss_growth_mib = max(memory.peak_mib, memory.growth_mib())
    tally.wrong += silent.wrong()
    with Faktory(server.port) as client:
        queues = client.hello().info()["faktory"]["queues"]
        if "smuggled" in queues:
            tally.wrong.append("a web page was heard")
        client.queue("REMOVE", ["hostile"])
    tally.worst_ms = _listen(witness, "small frames", tally)
    if tally.worst_ms > _WORST_MAX_MS:
        tally.slow.append(f"small frames: the good client waited {tally.worst_ms:.0f} ms")


def _large_frames(server: Server, witness: Witness, short: bool, tally: Tally) -> None:
    for heavy in heavies(short=short):
        tally.cases += 1
        worst_ms, peak_mib, wrong = _one_large(server, witness, heavy, tally)
        if worst_ms > _WORST_MAX_MS:
            # A pause may be the machine's; then it does not come twice.
            worst_ms = min(worst_ms, _one_large(server, witness, heavy, tally)[0])
        if wrong:
            tally.wrong.append(f"{heavy.name}: {wrong}")
        if peak_mib > _HEAVY_MAX_MIB:
            tally.slow.append(f"{heavy.name}: {peak_mib:.0f} MiB")
        if worst_ms > _WORST_MAX_MS:
            tally.slow.append(f"{heavy.name}: the good client waited {worst_ms:.0f} ms")
        tally.heavy_peak_mib = max(tally.heavy_peak_mib, peak_mib)
        tally.worst_ms = max(tally.worst_ms, worst_ms)
    tally.cases += 1
    with Memory(server) as memory, endless(server.port, known=True):
        tally.heavy_peak_mib = max(tally.heavy_peak_mib, memory.peak_mib)


def _one_large(
    server: Server, witness: Witness, heavy: Heavy, tally: Tally
) -> tuple[float, float, str]:
    """How long the good client waited, how much memory it took, and what was wrong."""
    with Memory(server) as memory:
        wrong = play(server.port, heavy)
    with Faktory(server.port, timeout=60.0) as client:
        client.hello().queue("REMOVE", ["hostile"])
    return _listen(witness, heavy.name, tally), memory.peak_mib, wrong


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
        with Server(data, env=_LIMITS, argv_prefix=options.argv_prefix) as server:
            with Witness(server.port) as witness:
                witness.figures()
                _small_frames(server, witness, options.seed, tally)
                _large_frames(server, witness, options.short, tally)
            tally.crashes += not server.running
            tally.crashes += sum(
                '"error"' in line or "Traceback" in line for line in server.log_lines()
            )
    print(
        f"T17 {NAME}: cases={tally.cases} rss_growth_mib={tally.rss_growth_mib:.1f}"
        f" other_conn_errors={tally.other_conn_errors} crashes={tally.crashes} wrong={len(tally.wrong)}"
        f" slow={len(tally.slow)} good_worst_ms={tally.worst_ms:.0f}"
        f" heavy_peak_mib={tally.heavy_peak_mib:.0f} seconds={time.monotonic() - began:.0f}"
    )
    for complaint in [*tally.wrong[:12], *tally.slow[:12]]:
        print(f"  {complaint}")
    return tally.ok
