"""beanstalkd peers in a world in which time is a number; Gearman is served too, for jobs that cross over."""

from __future__ import annotations

from random import Random
from typing import Any

from franca.protocols.conversation import Peer
from tests.protocols.gearman.puppet import Puppet as GearmanPuppet
from tests.protocols.world import AnyPuppet, AnyWorld
from tests.support.beanstalkd import put, take_reply
from tests.support.protocols import listeners

PEER = Peer("127.0.0.1:50001", local=True)


class World(AnyWorld):
    """The server, and everybody who speaks to it."""

    def __init__(self, chosen: dict[str, Any] | None = None, **world: Any) -> None:
        super().__init__(**world)
        services = listeners("beanstalkd", self.broker, Random(1), **chosen or {})
        self.service: Any = services["beanstalkd"]
        self.serve(services | listeners("gearman", self.broker, Random(1)))

    def peer(self) -> Puppet:
        """A peer that has said nothing yet."""
        return self.add(Puppet(self, self.open_link("beanstalkd", PEER)))

    def gearman(self) -> GearmanPuppet:
        """A peer of another protocol."""
        return self.add(GearmanPuppet(self, self.open_link("gearman", PEER)))

    def restart(self) -> World:
        """The server is killed; another begins with what its store was told."""
        return World(limits=self.limits, store=self.store, now=self.now)


class Puppet(AnyPuppet):
    """One peer on its link."""

    def say(self, command: str | bytes) -> None:
        """Say a command, with its CRLF if it is text."""
        self.send(command.encode() + b"\r\n" if isinstance(command, str) else command)

    def ask(self, *commands: str | bytes) -> str:
        """Say these one after the other; the reply to the last."""
        for command in commands:
            self.say(command)
            reply = self.reply()
        return reply

    def reply(self) -> str:
        """The next reply, in which the data follows the line; empty if there is none."""
        words, data = take_reply(self.unread) or ((), b"")
        return (b" ".join(words) + b"\n" * bool(data) + data).decode()

    def put(self, body: bytes = b"work", pri: int = 10, delay: int = 0, ttr: int = 60) -> int:
        """Put a job; its id."""
        word, number = self.ask(put(body, pri, delay, ttr)).split()
        assert word == "INSERTED"
        return int(number)

    def stats(self, command: str) -> dict[str, str]:
        """What a `stats` command shows."""
        lines = self.ask(command).splitlines()
        assert lines[1] == "---", lines
        return dict(line.split(": ", 1) for line in lines[2:])
