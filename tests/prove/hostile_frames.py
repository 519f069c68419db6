"""T17: whatever is sent to a listener, the server lives, stays small, and nobody else notices.

Of each protocol hundreds of malformed frames, some that never end, and some that are dear to take apart
(`hostile/`) go to a server that a good client works with all the while (`witness.py`). A web page's request is
hung up on at its first line, half a message and then silence after a while.
"""

import threading
import time
from contextlib import ExitStack, suppress

from tests.prove import hostile
from tests.prove.harness import Options, Result, Tally, limits, running
from tests.prove.hostile import CLOSED, EITHER, FRAME_BYTES, REFUSED, Case, Heavy, Hostility
from tests.prove.hostile.raw import PATIENCE_S, Raw
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
_SILENT_S = 2
"""As long as half a message may wait for its other half."""
_AT_ONCE_S = 1.0
"""By then whoever is hung up on at once has noticed."""
_CHUNK, _ENDLESS_CHUNKS = 1 << 20, 32
_NEVER = b"what no server says"
_LIMITS = limits(frame_bytes_max=FRAME_BYTES, body_bytes_max=FRAME_BYTES // 2)
_LIMITS |= limits(handshake_ms=1_000 * _SILENT_S, frame_ms=1_000 * _SILENT_S)


def _play(hostility: Hostility, port: int, case: Case) -> str:
    """Send a case on a connection of its own; what was wrong with the answer, or nothing."""
    may_wait = hostility.halves_wait and case.outcome == EITHER
    with Raw(port, timeout=0.5 if may_wait else 10.0) as peer:
        began = time.monotonic()
        closed = False
        try:
            if case.known:
                peer.send_bytes(hostility.hello)
            peer.send_bytes(case.data)
            if case.known or case.outcome == EITHER:
                peer.send_bytes(hostility.last)
            peer.read_until(hostility.answer)
        except TimeoutError:
            return "" if may_wait else f"no answer, only {bytes(peer.unread[:124])!r}"
        except ConnectionError:
            closed = True
        is_late = time.monotonic() - began > _AT_ONCE_S
    try:
        answers = list(hostility.said(bytes(peer.unread).removesuffix(hostility.answer)))
    except ValueError as error:
        return str(error)
    if case.outcome == CLOSED and (is_late or not closed):
        return "not closed at once"
    return _judged(hostility, case, answers[hostility.greetings :], closed=closed)


def _judged(hostility: Hostility, case: Case, answers: list[bytes], *, closed: bool) -> str:
    errors = [answer for answer in answers if answer.startswith(hostility.errors)]
    shown = [answer[:60] for answer in answers[:3]]
    if case.outcome == CLOSED:
        told = answers if hostility.counts else [a for a in answers if a not in errors]
        return f"answered {shown}" if hostility.errors and told else ""
    if closed:
        is_right = case.outcome == EITHER or (hostility.counts and errors)
        return "" if is_right else f"closed after {shown}"
    if case.outcome == REFUSED and len(errors) != 1:
        return f"not refused: {shown}"
    if hostility.counts and case.known and len(answers) != 1:
        return f"{len(answers)} answers: {shown}"
    return ""


def _play_heavy(hostility: Hostility, port: int, heavy: Heavy) -> str:
    """Send it as a known client, read all answers meanwhile; what was wrong with them, or nothing."""
    answered = threading.Event()
    pieces = [m * min(1_000, n - at) for m, n in heavy.messages for at in range(0, n, 1_000)]
    with Raw(port, timeout=PATIENCE_S) as peer:

        def read_on(stop: threading.Event) -> None:
            with suppress(OSError):
                peer.read_until(hostility.answer)
                answered.set()

        with running(read_on):
            peer.pour([hostility.hello, *pieces, hostility.last])
    if heavy.closes:
        return "not hung up on" if answered.is_set() else ""
    if not answered.is_set():
        return f"no answer to the last, only {bytes(peer.unread[-60:])!r}"
    if hostility.counts:
        # Counted one by one: together they may be gigabytes.
        answers = sum(1 for _ in hostility.said(bytes(peer.unread))) - hostility.greetings - 1
        wanted = sum(times for _, times in heavy.messages)
        return "" if answers == wanted else f"{answers} answers to {wanted} messages"
    return ""


def _endless(hostility: Hostility, port: int, *, known: bool) -> Raw:
    """Say more and more until the server has had enough; left open."""
    peer = Raw(port, timeout=PATIENCE_S)
    peer.pour([hostility.rows("endless")[known], *[b"x" * _CHUNK] * _ENDLESS_CHUNKS])
    return peer


class Trial:
    """One server, a good client beside it, and what was seen to go wrong."""

    def __init__(self, server: Server, witness: Witness, options: Options) -> None:
        self.server = server
        self.witness = witness
        self.options = options
        self.tally = Tally("cases", "other_conn_errors", "crashes", "wrong", "slow")
        self.rss_growth_mib = self.heavy_peak_mib = self.worst_ms = 0.0

    def small_frames(self, protocol: str) -> None:
        port, hostility = self.server.ports[protocol], hostile.of(protocol)
        short = self.options.short and protocol != PROTOCOLS[0]
        cases = hostility.shuffled_cases(self.options.seed)[: _CASES_SHORT if short else None]
        for case in cases[:_WARM]:
            _play(hostility, port, case)
        silent = {half: Raw(port, timeout=_SILENT_S + 4) for half in hostility.rows("silences")}
        for half, peer in silent.items():
            peer.send_bytes(half)
        with Memory(self.server) as memory, ExitStack() as open_still:
            for case in cases:
                self._note(f"{protocol}, {case}", _play(hostility, port, case))
            for _ in range(_STRANGERS):
                open_still.enter_context(_endless(hostility, port, known=False))
            growth_mib = max(memory.peak_mib, memory.growth_mib())
            self.rss_growth_mib = max(self.rss_growth_mib, growth_mib)
        self.tally["cases"] += len(cases) + _STRANGERS
        for half, peer in silent.items():
            with peer, suppress(ConnectionError):
                try:
                    peer.read_until(_NEVER)
                except TimeoutError:
                    self._note(f"{protocol}, silence after {half!r}", "not hung up on")
        with Faktory(self.server.port) as client:
            heard = "smuggled" in client.hello().info()["faktory"]["queues"]
            self._note(protocol, "a web page was heard" if heard else "")
            client.queue("REMOVE", ["hostile"])
        self._note_wait(f"{protocol}, small frames", self._waited(protocol))

    def large_frames(self, protocol: str) -> None:
        port, hostility = self.server.ports[protocol], hostile.of(protocol)
        for heavy in hostility.heavies(short=self.options.short):
            name = f"{protocol}, {heavy.name}"
            worst_ms, peak_mib, wrong = self._one_large(name, port, hostility, heavy)
            if worst_ms > _WORST_MAX_MS:
                # A pause may be the machine's; then it does not come twice.
                worst_ms = min(worst_ms, self._one_large(name, port, hostility, heavy)[0])
            self.tally["cases"] += 1
            self._note(name, wrong)
            if peak_mib > _HEAVY_MAX_MIB:
                self.tally.note("slow", f"{name}: {peak_mib:.0f} MiB")
            self.heavy_peak_mib = max(self.heavy_peak_mib, peak_mib)
            self._note_wait(name, worst_ms)
        self.tally["cases"] += 1
        with Memory(self.server) as memory, _endless(hostility, port, known=True):
            self.heavy_peak_mib = max(self.heavy_peak_mib, memory.peak_mib)

    def _one_large(
        self, name: str, port: int, hostility: Hostility, heavy: Heavy
    ) -> tuple[float, float, str]:
        """How long the good client waited, how much memory it took, and what was wrong."""
        with Memory(self.server) as memory:
            wrong = _play_heavy(hostility, port, heavy)
        with Faktory(self.server.port, timeout=60.0) as client:
            client.hello().queue("REMOVE", ["hostile"])
        return self._waited(name), memory.peak_mib, wrong

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
