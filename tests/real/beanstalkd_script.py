"""What is said to Debian's beanstalkd and to this server alike, and how two answers are compared.

The script is in `beanstalkd_script.txt`. Each of its lines is a connection and a command. `\\n`
stands for CRLF, so that a body may follow. A command that is not answered at once begins with `~`; a line `a <` reads that answer later. `x300`
stands for 300 bytes.
"""

import re
import socket
from pathlib import Path
from random import Random

SCRIPT = Path(__file__).with_suffix(".txt").read_text()

_UNEQUAL = re.compile(
    rb"(?m)^(pid|uptime|version|id|hostname|total-connections|rusage-utime|rusage-stime|age|time-left|pause-time-left"
    rb"): .*(?=\n)"
)
_COUNTED = (b"OK ", b"FOUND ", b"RESERVED ")
_LONG = re.compile(r"x([0-9]+)$")


class Peer:
    """One connection that reads whole replies."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._unread = self._socket.makefile("rb")

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reply(self) -> bytes:
        """The next reply, without what two servers may say differently; empty at the end."""
        line = self._unread.readline()
        if not line.startswith(_COUNTED):
            return line
        data = self._unread.read(int(line.split()[-1]) + 2)
        if line.startswith(b"OK "):
            is_job = b"\ntube: " in data
            pattern = _UNEQUAL_OF_JOB if is_job else _UNEQUAL
            return b"OK\r\n" + pattern.sub(rb"\1: *", data)
        return line + data

    def close(self) -> None:
        self._unread.close()
        self._socket.close()


_UNEQUAL_OF_JOB = re.compile(rb"(?m)^(age|time-left): .*(?=\n)")


def play(port: int) -> list[tuple[str, bytes]]:
    """Every command of the script with its reply."""
    peers: dict[str, Peer] = {}
    heard = []
    for line in SCRIPT.strip().splitlines():
        who, _, text = line.lstrip("~").partition(" ")
        peer = peers.setdefault(who, Peer(port)) if who not in peers else peers[who]
        if text != "<":
            text = _LONG.sub(lambda match: "x" * int(match[1]), text)
            peer.say(text.replace(r"\n", "\r\n").replace(r"\t", "\t").encode() + b"\r\n")
        if not line.startswith("~"):
            heard.append((line, peer.reply()))
    for peer in peers.values():
        peer.close()
    return heard


_RANDOM = {
    "put {pri} {delay} 100 4\r\nwork": 8, "reserve-with-timeout 0": 8, "delete {job}": 5, "release {job} {pri} {delay}": 4,
    "bury {job} {pri}": 4, "touch {job}": 1, "watch {tube}": 2, "ignore {tube}": 2, "use {tube}": 2, "kick {few}": 2,
    "kick-job {job}": 2, "peek {job}": 2, "peek-ready": 2, "peek-buried": 2, "stats-job {job}": 3, "stats-tube {tube}": 2,
    "list-tubes-watched": 1, "pause-tube {tube} {pause}": 0.3, "reserve-job {job}": 3, "stats": 0.5,
}  # fmt: skip


def play_both(ports: tuple[int, int], rng: Random, count: int) -> list[tuple[str, bytes, bytes]]:
    """Say the same random commands to two servers; those that are answered differently."""
    peers = {who: tuple(map(Peer, ports)) for who in "abc"}
    unlike = []
    last = 0
    for number in range(count):
        who = rng.choice("abc")
        command = rng.choices(list(_RANDOM), list(_RANDOM.values()))[0].format(
            pri=rng.choice((0, 1, 5, 1023, 1024, 70_000, 4_294_967_295)),
            delay=rng.choice((0, 0, 0, 100 + number)),
            job=rng.randint(max(1, last - 12), last + 1),
            tube=rng.choice(("default", "t1", "t2", "t3")),
            few=rng.randint(0, 4),
            pause=rng.choice((0, 0, 500)),
        )
        last += command.startswith("put")
        for peer in peers[who]:
            peer.say(command.encode() + b"\r\n")
        one, other = (peer.reply() for peer in peers[who])
        if one != other:
            unlike.append((f"{number}: {who} {command}", one, other))
    for both in peers.values():
        for peer in both:
            peer.close()
    return unlike
