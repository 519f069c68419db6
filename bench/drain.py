"""Takes every job out of a queue as fast as Python can, and counts what came how often."""

import re
import selectors
import sys
import time

from bench.client import Client, Unexpected

QUEUE = "bulk"
JID_PREFIX = "backlog"
PREFIX = JID_PREFIX.encode()
JID = re.compile(PREFIX + rb"(\d{9})")
FETCH = b"FETCH %s\r\n" % QUEUE.encode()

FETCHES_PER_CONSUMER = 50
PATIENCE_S = 15.0
BEAT_EVERY_S = 10.0
TELL_EVERY_S = 15.0
READ_SIZE = 1 << 18


class Drain:
    """Drains jobs 0 to `jobs` - 1 through several consumers, each with many FETCHes in flight.

    Replies come in order, so an ACK waits behind the FETCHes that were sent before it. Hence there
    are never more FETCHes in flight than jobs unseen: at the end none of them is left to wait.
    """

    def __init__(self, jobs: int, consumers: list[Client], worker_id: str) -> None:
        self.drained = 0
        self.duplicates = 0
        self.missing = jobs
        self.last_job_at = time.monotonic()
        self._consumers = consumers
        self._beat = b'BEAT {"wid":"%s"}\r\n' % worker_id.encode()
        self._seen = bytearray(jobs)
        self._fetches = 0  # in flight
        self._oks_due = 0  # the answers to ACK and BEAT
        self._rest = dict.fromkeys(consumers, b"")  # half a line, till it is whole

    def take(self, consumer: Client, job: bytes) -> None:
        """Count and acknowledge a job that was fetched before the drain began."""
        self._fetches += 1
        consumer.sock.sendall(self._on_replies(job))

    def run(self) -> None:
        """Drain until every job was seen and every ACK answered, or nothing comes any more."""
        selector = selectors.DefaultSelector()
        for consumer in self._consumers:
            selector.register(consumer.sock, selectors.EVENT_READ, consumer)
            consumer.sock.sendall(self._fetch_commands(FETCHES_PER_CONSUMER))
        beat_at = tell_at = time.monotonic()
        while self._fetches or self._oks_due:
            for key, _ in selector.select(timeout=1.0):
                self._read(key.data)
            now = time.monotonic()
            if now - self.last_job_at > PATIENCE_S:
                break
            if now - beat_at > BEAT_EVERY_S:
                beat_at = now
                self._oks_due += 1
                self._consumers[0].sock.sendall(self._beat)
            if now - tell_at > TELL_EVERY_S:
                tell_at = now
                print(f"... {self.drained} drained", file=sys.stderr, flush=True)
        if not self.missing:
            self._count_leftovers()

    def _read(self, consumer: Client) -> None:
        received = consumer.sock.recv(READ_SIZE)
        if not received:
            raise Unexpected("the server closed a consumer's connection")
        data = self._rest[consumer] + received
        end = data.rfind(b"\r\n") + 2 if b"\r\n" in data else 0
        self._rest[consumer] = data[end:]
        if commands := self._on_replies(data[:end]):
            consumer.sock.sendall(commands)

    def _on_replies(self, lines: bytes) -> bytes:
        """Count what is in whole lines of replies; the commands to send in return.

        Jobs are found by their ids alone: taking each reply apart would cost more than the server
        needs to make it, and would measure us.
        """
        if lines.startswith(b"-") or b"\r\n-" in lines:
            raise Unexpected(f"an error among {lines[:500]!r}")
        numbers: list[bytes] = JID.findall(lines)
        self._count(numbers)
        empty = lines.count(b"$-1\r\n")
        self._fetches -= len(numbers) + empty
        self._oks_due += len(numbers) - lines.count(b"+OK\r\n")
        acks = b"".join([b'ACK {"jid":"%s%s"}\r\n' % (PREFIX, number) for number in numbers])
        return acks + self._fetch_commands(len(numbers) + empty)

    def _count(self, numbers: list[bytes]) -> None:
        if not numbers:
            return
        self.last_job_at = time.monotonic()
        self.drained += len(numbers)
        seen = self._seen
        for number in map(int, numbers):
            if seen[number]:
                self.duplicates += 1
            else:
                seen[number] = 1
                self.missing -= 1

    def _fetch_commands(self, most: int) -> bytes:
        count = max(0, min(most, self.missing - self._fetches))
        self._fetches += count
        return FETCH * count

    def _count_leftovers(self) -> None:
        """With every job seen the queue must be empty: what still comes is a duplicate."""
        last = self._consumers[0]
        while (job := last.fetch(QUEUE.encode())) is not None:
            self._count(JID.findall(job))
