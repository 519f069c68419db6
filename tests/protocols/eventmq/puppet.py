"""A world with one broker, its engine and EventMQ peers, in which time is a number."""

from collections.abc import Sequence
from random import Random
from typing import Any, Self

from franca.core.limits import Limits
from franca.core.model import Millis
from franca.protocols.conversation import Peer
from franca.protocols.eventmq import zmtp
from franca.protocols.eventmq.service import EventmqService
from franca.protocols.eventmq.settings import EventmqSettings
from franca.store.memory import MemoryStore
from tests.protocols.world import START, AnyPuppet, AnyWorld
from tests.support import eventmq as e


def written(frames: Sequence[bytes]) -> bytes:
    """A whole message, as the server writes it."""
    return b"".join(zmtp.pieces(b"", frames))


class Puppet(AnyPuppet, e.EventMQ):
    """One peer on its link."""

    def ask(self, command: str) -> Any:
        """An administrator's question and its answer; nothing else may have come."""
        answer = super().ask(command)
        assert self.words() == []
        return answer


class World(AnyWorld):
    """The server and everybody who speaks to it."""

    def __init__(
        self, limits: Limits | None = None, *, store: MemoryStore | None = None,
        now: Millis = START, **chosen: Any,
    ) -> None:  # fmt: skip
        super().__init__(limits, store=store, now=now)
        self._chosen = chosen
        settings = EventmqSettings(**chosen)
        self.service = EventmqService(self.broker, settings, Random(1), self.note_stop)
        self.serve({"eventmq": self.service, **self.service.extra_listeners()})

    # -- peers -------------------------------------------------------------------------------

    def stranger(self, door: str = "eventmq", *, local: bool = True) -> Puppet:
        """A peer that has said nothing yet."""
        # Servers on one store, one after the other, have no two links of one name.
        link = self.open_link(door, Peer("10.0.0.1:1", local), f"{self.now}-")
        return self.add(Puppet(self, link))

    def peer(
        self, socket_type: str = "DEALER", identity: bytes = b"", door: str = "eventmq", *,
        local: bool = True,
    ) -> Puppet:  # fmt: skip
        """A peer whose socket is connected."""
        return self.stranger(door, local=local).open(socket_type, identity)

    def worker(
        self, *queues: tuple[int, str], slots: int = 0, identity: bytes = b"", role: str = "worker"
    ) -> Puppet:
        """A peer that INFORMed, heard so, and said READY so many times."""
        puppet = self.peer(identity=identity).inform(*queues, role=role)
        assert [message[2] for message in puppet.heard()] == [b"HEARTBEAT"]
        for _ in range(slots):
            puppet.ready()
        return puppet

    def subscriber(self, *topics: bytes) -> Puppet:
        puppet = self.peer("SUB", door="eventmq_subscribe")
        for topic in topics:
            puppet.send(e.encoded([b"\x01" + topic]))
        return puppet

    # -- time ----------------------------------------------------------------------------------

    def pass_time(self, ms: int, *alive: Puppet, step: int = 50) -> None:
        """Let time go by, in steps that a node would make; those `alive` say so now and then."""
        every_ms = 3_000 if alive else ms
        for passed in range(0, ms, every_ms or 1):
            for puppet in alive:
                puppet.say("HEARTBEAT", "1.0")
            super().pass_time(min(every_ms, ms - passed), step=step)

    def restarted(self, now: Millis = 0) -> Self:
        """Another server on the same store; everybody's connections are gone."""
        return type(self)(self.limits, store=self.store, now=now or self.now, **self._chosen)
