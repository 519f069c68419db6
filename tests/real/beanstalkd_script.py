"""What is said to Debian's beanstalkd and to this server alike, and how two answers are compared.

Each line of the script is a connection and a command. `\\n` stands for CRLF, so that a body may follow.
A command that is not answered at once begins with `~`; a line `a <` reads that answer later. `x300`
stands for 300 bytes.
"""

from __future__ import annotations

import re
import socket
from random import Random

SCRIPT = r"""
a list-tube-used
a list-tubes
a list-tubes-watched
a stats-tube default
a peek-ready
a peek-delayed
a peek-buried
a peek 1
a kick 10
a reserve-with-timeout 0
a put 10 0 60 5\nhello
a put 5 0 60 5\nworld
a put 5 0 60 0\n
a put 4294967295 0 0 3\nlow
a put 1024 0 60 3\nmid
a put 7 100 60 5\nlater
a stats-tube default
a stats-job 1
a stats-job 4
a stats-job 6
a peek 1
a peek-ready
a peek-delayed
a peek 999
a stats-job 999
b reserve
b reserve-with-timeout 5
b reserve
b stats-job 2
b stats-tube default
a peek 2
a delete 2
a touch 2
a release 2 1 0
a bury 2 1
b touch 2
b release 2 3 0
b stats-job 2
b release 3 9 100
b stats-job 3
b bury 1 77
b stats-job 1
b bury 1 77
b peek-buried
b kick-job 1
b stats-job 1
b kick-job 1
b reserve-job 6
b reserve-job 6
b stats-job 6
b release 6 8 0
b reserve-job 999
b reserve-job 1
a reserve-job 1
b bury 1 5
b reserve-job 1
b bury 1 6
b reserve
b bury 2 0
b reserve
b bury 6 0
a peek-buried
a kick 2
a peek-ready
a kick 10
a kick 10
a stats-tube default
a delete 1
a delete 1
a delete 6
a delete 3
b reserve
b delete 2
b delete 2
b reserve
b delete 5
b reserve-with-timeout 0
b delete 4
a use jobs
a list-tube-used
a put 1 0 60 1\na
a put 1 0 60 1\nb
a list-tubes
b watch jobs
b watch jobs
b ignore default
b ignore default
b ignore jobs
b ignore other
b list-tubes-watched
b reserve
b release 7 1 0
b reserve
b delete 7
b stats-tube jobs
a pause-tube jobs 100
b reserve-with-timeout 0
a peek-ready
a pause-tube nosuch 1
a pause-tube jobs 0
~b reserve-with-timeout 5
b <
b delete 8
~b reserve
a stats-tube jobs
a put 1 0 60 4\nwake
b <
b release 9 2 0
b delete 9
a use default
b watch default
a list-tubes
b ignore jobs
a list-tubes
a stats-tube jobs
a put 3 0 1 3\nttr
b reserve
b reserve-with-timeout 0
b reserve
~b reserve-with-timeout 5
b <
b stats-job 10
b bury 10 0
a kick-job 10
a delete 10
a nonsense
a
a put
a put 1
a put 1 2 3
a put a 0 1 1
a put -1 0 1 1
a put 1 0 1 1 x
a put 4294967296 0 1 1
a put 1 4294967296 1 1
a put 1 0 4294967296 1
a put 1 0 1 4294967296
a put 1 0 1 99999999999999999999
a put  1  0 1 1\nz
a delete 11
a put 1 0 1 65536\nx65536
a put 1 0 1 65535\nx65535
a delete 12
a use
a use \t
a use a b
a use -a
a use a,b
a use a_b-c+d/e;f.g$h(i)
a use x200
a use x201
a use  default
a use default
a watch
a watch -
a ignore -bad
a stats-job
a stats-job x
a stats-job 1x
a stats-job 1 2
a stats-job -1
a stats-job 18446744073709551615
a stats-job 18446744073709551616
a stats x
a stats-tube
a stats-tube -
a stats-tube nosuch
a list-tubes x
a list-tube-used x
a list-tubes-watched x
a peek
a peek x
a peek 1 x
a peek-ready x
a peek-delayedx
a reservex
a reserve x
a reserve-job
a reserve-job x
a reserve-with-timeout
a reserve-with-timeout x
a reserve-with-timeout 99999999999999999999
a release 1
a release 1 1
a release 1 x 0
a release 1 4294967296 0
a bury 1
a bury 1 x
a touch
a touch x
a kick
a kick x
a kick 10 x
a kick -1
a kick-job
a kick-job x
a delete
a delete x
a delete  99
a pause-tube
a pause-tube default
a pause-tube default x
a pause-tube -a 1
a x222
a x300
a RESERVE
a put 1 0 1 1\nz
a delete 13
a stats
~a quit
a <
"""

_UNEQUAL = re.compile(
    rb"(?m)^(pid|uptime|version|id|hostname|rusage-utime|rusage-stime|age|time-left|pause-time-left"
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
