"""An engine without sockets or disks, and a protocol of lines that is just enough to move it."""

from __future__ import annotations

from franca.core.broker import Broker
from franca.core.events import Event, Granted, Unmet
from franca.core.limits import Limits
from franca.core.model import Demand, Millis, NewJob, OnHangUp, Policy, Session
from franca.protocols.buffer import LineReader
from franca.protocols.conversation import Conversation, Link, Peer
from franca.protocols.service import Service
from tests.protocols.world import AnyWorld

T: Millis = 1_000_000_000
PEER = Peer("127.0.0.1", local=True)


class Echo(Conversation):
    """Lines in, lines out. `take` asks for a job and holds; `push` makes one; `bye` hangs up."""

    def __init__(self, service: EchoService, link: Link) -> None:
        super().__init__(link)
        self.broker = service.broker
        self.session = self.broker.open_session(link.id, OnHangUp.RETURN, self)
        self.reader: LineReader = LineReader(1 << 30)
        self.heard: list[str] = []
        self.hung_up: list[bool] = []

    def on_message(self, message: tuple[bytes, ...], now: Millis) -> None:
        line = b" ".join(filter(None, message[::2])).decode()
        self.heard.append(line)
        if line == "push":
            self.broker.submit(NewJob("q", "k", b"", Policy()), now)
            self.link.write_after_commit(b"taken\n")
        elif line == "take":
            answer = self.broker.demand(Demand(self.session, ("q",), now + 1_000), now)
            self.holding = answer is None
            if isinstance(answer, Granted):
                self.link.write_after_commit(b"given\n")
        elif line == "bye":
            self.link.close()
        else:
            self.link.write(line.encode() + b"\n")

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        self.resume()
        if isinstance(event, Granted):
            self.link.write_after_commit(b"given\n")
        elif isinstance(event, Unmet):
            self.link.write(b"none\n")

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        self.hung_up.append(undelivered)
        self.broker.close_session(self.session, now)

    def forget_unread(self) -> None:
        self.reader.clear()
        self.task_bytes = 0


class EchoService(Service):
    """Opens echoes, and counts what it is told."""

    name = "echo"

    def __init__(self, broker: Broker, limits: Limits) -> None:
        self.broker = broker
        self.limits = limits
        self.ticks: list[Millis] = []
        self.stopped = False

    def open(self, link: Link, now: Millis) -> Conversation:
        link.write(b"hello\n")
        return Echo(self, link)

    def tick(self, now: Millis) -> None:
        self.ticks.append(now)

    def stop(self, now: Millis) -> None:
        self.stopped = True

    def consumers(self) -> int:
        return 3


class World(AnyWorld):
    """An engine, and what its links have said."""

    def __init__(self, **limits: int) -> None:
        super().__init__(Limits(**limits), now=T)
        self.service = EchoService(self.broker, self.limits)
        self.serve({"echo": self.service})

    def open(self, now: Millis = T) -> Link:
        self.now = now
        link = self.open_link("echo", PEER)
        self.said(link)
        return link

    def say(self, link: Link, text: str) -> None:
        self.engine.inputs.append((link, text.encode()))

    def said(self, link: Link) -> str:
        """What a link has to say; it is sent by this."""
        text = b"".join(link.out).decode()
        link.forget_said()
        self.engine.with_output[:] = [
            other for other in self.engine.with_output if other is not link
        ]
        return text


def echo(link: Link) -> Echo:
    assert isinstance(link.conversation, Echo)
    return link.conversation
