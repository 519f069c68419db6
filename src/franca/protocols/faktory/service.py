"""Faktory on this server: its settings, its workers, and the conversations it opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Link
from franca.protocols.declaration import ServerFacts, Surroundings
from franca.protocols.faktory.admin_commands import health, info
from franca.protocols.faktory.conversation import FaktoryConversation
from franca.protocols.faktory.fetching import QueueLists
from franca.protocols.faktory.go_json import LARGE_BYTES, Steps, run_steps
from franca.protocols.faktory.jobs import Intake
from franca.protocols.faktory.mutations import Mutations
from franca.protocols.faktory.render import Renderer
from franca.protocols.faktory.settings import FaktorySettings
from franca.protocols.faktory.times import Stamps
from franca.protocols.faktory.wire import error
from franca.protocols.faktory.workers import ASKED, Workers
from franca.protocols.overview import LONG, Overview
from franca.protocols.service import Service, WorkerView

REAP_MS: Final = 1_000


class LargeCommands:
    """Large commands of all connections that are worked on, and connections that wait with another.

    A command is kept until it is answered, and working on a large one takes longer than sending it.
    So a client that has sent a part of one waits with the rest while more than `most` bytes are
    worked on. (The node bounds all input; here, commands that have begun are finished first.)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._sending: dict[FaktoryConversation, None] = {}
        self._taken: dict[FaktoryConversation, int] = {}
        self._waiting: dict[FaktoryConversation, None] = {}

    def take(self, sender: FaktoryConversation, size: int) -> None:
        """A command of so many bytes is worked on from now on."""
        self._sending.pop(sender, None)
        self._taken[sender] = size
        if self._sending and self._is_full():
            # At once: each would send some more before its next check.
            sending, self._sending = self._sending, {}
            for other in sending:
                if not other.holding and len(other.reader) > LARGE_BYTES:
                    other.holding = True
                    self._waiting[other] = None

    def must_wait(self, sender: FaktoryConversation) -> bool:
        """Whether the sender waits with the rest of its command; if so, it is resumed later."""
        is_full = self._is_full()
        (self._waiting if is_full else self._sending)[sender] = None
        return is_full

    def leave(self, sender: FaktoryConversation) -> None:
        """The command is answered, or its client is gone."""
        for kept in (self._sending, self._waiting, self._taken):
            kept.pop(sender, None)
        self.resume_waiting()

    def resume_waiting(self) -> None:
        """Resume those that wait, if there is room now."""
        if self._waiting and not self._is_full():
            waiting, self._waiting = self._waiting, {}
            for sender in waiting:
                sender.resume()

    def _is_full(self) -> bool:
        # Commands of clients that do not read their answers do not count: they may never end.
        return sum(size for who, size in self._taken.items() if not who.link.full) > self._most


class FaktoryService(Service):
    """What all Faktory connections share. `rng` must be unguessable where there is a password.

    `server` is asked what only the node knows, for INFO. `commands` counts the lines acted on.
    """

    name = "faktory"
    refusal = error("too many connections")

    def __init__(
        self, broker: Broker, settings: FaktorySettings, rng: Random, server: ServerFacts
    ) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.rng = rng
        self.intake = Intake(broker)
        self.renderer = Renderer(broker)
        self.mutations = Mutations(broker, self.renderer)
        self.large = LargeCommands(self.limits.input_bytes // 4)
        self.queue_lists = QueueLists(broker)
        self.registry = Workers()
        self.commands = 0
        self.server = server
        self._reap_at: Millis = NEVER
        self.overview = Overview(self._info)

    def open(self, link: Link, now: Millis) -> FaktoryConversation:
        """Begin the dialogue on a new link; the greeting is written at once."""
        return FaktoryConversation(self, link)

    def tick(self, now: Millis) -> None:
        """Drop workers without heartbeats and old answers; resume what waits."""
        self.large.resume_waiting()
        self.overview.forget(now)
        if now >= self._reap_at:
            self._reap_at = now + REAP_MS
            self.registry.reap(now)

    def workers(self, now: Millis = NEVER) -> Iterator[WorkerView]:
        """The workers that have sent HELLO and still send BEAT."""
        return self.registry.views(self.name, self.broker.leases.by_holder(), now)

    def ask_worker(self, name: str, what: str) -> bool:
        """Ask a worker to be `quiet` or to `stop`; it is told when it beats next."""
        worker = self.registry.by_wid.get(name)
        if worker is None or what not in ASKED:
            return False
        self.registry.move(worker, ASKED[what])
        return True

    def stop(self, now: Millis) -> None:
        """The server is about to stop: every BEAT is answered `terminate`, every FETCH null."""
        self.registry.stop()

    def consumers(self) -> int:
        """How many links of workers are still there."""
        return self.registry.consumers()

    def info(self, now: Millis) -> Sequence[bytes] | None:
        """The reply to INFO, the server in one JSON object as the original's `/stats` shows it.

        None if there are very many queues: then it is for `overview` to make, a little at a time.
        """
        if len(self.broker.queues) <= LONG:
            return run_steps(self._info(now))
        return self.overview.kept(now)

    def over_http(self, path: str, now: Millis) -> Sequence[bytes] | None:
        """`/stats`, which is INFO, and `/health`, for monitors of the original server."""
        if path == "/health":
            return (health(self, Stamps().text(self.broker.wall(now))),)
        if path != "/stats":
            return None
        pieces = self.info(now) or self.overview.step(now)
        if pieces is None:
            return ()
        whole = b"".join(pieces)
        return (whole[whole.index(b"\r\n") + 2 : -2],)

    def _info(self, now: Millis) -> Steps[Sequence[bytes]]:
        return info(self, Stamps().text(self.broker.wall(now)))


def build(chosen: Mapping[str, object], around: Surroundings) -> FaktoryService:
    """The service with what was chosen for it."""
    settings = FaktorySettings(str(chosen["password"]), bool(chosen["allow_v1_passwords"]))
    return FaktoryService(around.broker, settings, around.rng, around.server)
