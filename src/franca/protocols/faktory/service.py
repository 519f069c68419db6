"""Faktory on this server: its settings, its workers, and the conversations it opens."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Link, Service, WorkerView
from franca.protocols.faktory.conversation import FaktoryConversation
from franca.protocols.faktory.desk import Desk
from franca.protocols.faktory.gate import Gate
from franca.protocols.faktory.info import FactsSource, info
from franca.protocols.faktory.job import Intake
from franca.protocols.faktory.messages import Hello
from franca.protocols.faktory.mutation import Mutations
from franca.protocols.faktory.render import Renderer
from franca.protocols.faktory.text import Steps, finished
from franca.protocols.faktory.times import Stamps
from franca.protocols.faktory.verbs import LARGE_VERBS, VERBS
from franca.protocols.faktory.wire import error
from franca.protocols.faktory.wishes import Wishes
from franca.protocols.faktory.workers import ASKED, Worker, Workers, WorkerState
from franca.protocols.overview import LONG, Overview

REAP_MS: Final = 1_000


class FaktorySettings(Struct, frozen=True):
    """What an operator may choose. Without a password everybody is let in."""

    password: str = ""
    allow_v1_passwords: bool = True
    """Let clients that speak no protocol version hash the password once, as they always did."""
    version: str = "1.10.0"
    """The version of the original that INFO names; clients compare it."""


class FaktoryService(Service):
    """What all Faktory connections share. `rng` must be unguessable where there is a password.

    `facts` is asked what only the node knows, for INFO. `commands` counts the lines acted on.
    """

    name = "faktory"
    refusal = error("too many connections")

    def __init__(
        self, broker: Broker, settings: FaktorySettings, rng: Random, facts: FactsSource
    ) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.rng = rng
        self.verbs = VERBS
        self.large_verbs = LARGE_VERBS
        self.intake = Intake(broker)
        self.renderer = Renderer(broker)
        self.mutations = Mutations(broker, self.renderer)
        self.gate = Gate()
        self.desk = Desk(self.limits.input_bytes // 4)
        self.wishes = Wishes(broker)
        self.registry = Workers()
        self.commands = 0
        self.stopping = False
        self._facts = facts
        self._reap_at: Millis = NEVER
        self.overview = Overview(self._info)

    def open(self, link: Link, now: Millis) -> FaktoryConversation:
        """Begin the dialogue on a new link; the greeting is written at once."""
        return FaktoryConversation(self, link)

    def welcome(
        self, wid: str, hello: Hello, conversation: FaktoryConversation, now: Millis
    ) -> Worker:
        """A connection says that it is a worker's; one that comes at the end is sent away."""
        worker = self.registry.join(wid, hello, conversation, now)
        if self.stopping:
            self.registry.move(worker, WorkerState.TERMINATE)
        return worker

    def tick(self, now: Millis) -> None:
        """Hang up on workers that fell silent; keep nobody waiting, and no old answer, in vain."""
        self.desk.look()
        self.overview.forget(now)
        if now >= self._reap_at:
            self._reap_at = now + REAP_MS
            self.registry.reap(now)

    def workers(self) -> list[WorkerView]:
        """The workers that said HELLO and still beat."""
        return self.registry.views(self.name)

    def ask_worker(self, name: str, what: str) -> bool:
        """Ask a worker to be `quiet` or to `stop`; it is told when it beats next."""
        worker = self.registry.by_wid.get(name)
        if worker is None or what not in ASKED:
            return False
        self.registry.move(worker, ASKED[what])
        return True

    def stop(self, now: Millis) -> None:
        """The server is about to stop: every BEAT is answered `terminate`, every FETCH null."""
        self.stopping = True
        self.registry.move_all(WorkerState.TERMINATE)

    def consumers(self) -> int:
        """How many links of workers are still there."""
        return self.registry.consumers()

    def info(self, now: Millis) -> Sequence[bytes] | None:
        """The reply to INFO, the server in one JSON object as the original's `/stats` shows it.

        None if there are very many queues: then it is for `overview` to make, a little at a time.
        """
        if len(self.broker.queues) <= LONG:
            return finished(self._info(now))
        return self.overview.kept(now)

    def _info(self, now: Millis) -> Steps[Sequence[bytes]]:
        stamp = Stamps().text(self.broker.wall(now))
        facts = self._facts(now)
        return info(self.broker, self.registry, facts, self.settings.version, stamp)
