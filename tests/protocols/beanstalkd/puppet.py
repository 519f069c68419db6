"""A world with one broker, its engine and beanstalkd peers, in which time is a number."""

from __future__ import annotations

from random import Random
from typing import Any

from franca.core.limits import Limits
from franca.protocols.beanstalkd.service import BeanstalkdService
from franca.protocols.conversation import Peer
from franca.store.memory import MemoryStore
from tests.protocols.world import START, AnyPuppet, AnyWorld
from tests.support import protocols
from tests.support.beanstalkd import Reply, put, take_reply


class World(AnyWorld["Puppet"]):
    """The server, and everybody who speaks to it. Gearman is served too, for jobs that cross over."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        store: MemoryStore | None = None,
        now: int = START,
        **chosen: Any,
    ) -> None:
        super().__init__(limits, store=store, now=now)
        services = protocols.listeners("beanstalkd", self.broker, Random(1), **chosen)
        services |= protocols.listeners("gearman", self.broker, Random(1))
        self.serve(services)

    @property
    def service(self) -> BeanstalkdService:
        service = self.engine.services["beanstalkd"]
        assert isinstance(service, BeanstalkdService)
        return service

    def connect(self, protocol: str = "beanstalkd") -> Puppet:
        """A peer that has said nothing yet."""
        return self.add(Puppet(self, self.open_link(protocol, Peer("127.0.0.1:50001", local=True))))

    def restart(self) -> World:
        """The server is killed; another begins with what its store was told."""
        return World(limits=self.limits, store=self.store, now=self.now)


class Puppet(AnyPuppet):
    """One peer on its link."""

    world: World

    def say(self, command: str | bytes) -> None:
        """Say a command, with its CRLF if it is text."""
        self.send(command.encode() + b"\r\n" if isinstance(command, str) else command)

    def ask(self, command: str | bytes) -> str:
        """Say a command; its reply, in which the data follows the line."""
        self.say(command)
        return self.reply()

    def reply(self) -> str:
        """The next reply; empty if there is none."""
        reply = take_reply(self.unread)
        return _shown(reply) if reply is not None else ""

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

    def end_input(self) -> None:
        """Send no more, but read on."""
        self.send(b"")


def _shown(reply: Reply) -> str:
    line = b" ".join(reply.words)
    return (line + b"\n" + reply.data if reply.data else line).decode()
