"""What no good client sends, and good exchanges for a fuzzer to spoil: a module and a text for each protocol.

The module says how messages are written and answers are read. All else are tables of the text (`tests/prove/tables.py`),
whose rows are messages; behind `raw` stand bytes that are sent as they are.

| table | what is in it |
|---|---|
| probe | four rows: what a known client says first, and last; a small message; one that makes a job with a `{body}` |
| closed, refused, answered, either | cases, by what must come of them; with `stranger` before it, of a client that said no hello; behind a `+`, what follows each of them |
| silences | half a message, and then nothing: to be hung up on after a while, and not before |
| endless | what a stranger and a known client begin to say, without an end until the server has had enough |
| heavy | `name = 1000 * message`: cheap to send and dear to take apart; with `closed` behind it, the server hangs up; with `long` before it, not in a short run |
| exchange 1, ... | a good exchange; a row is a step: its link, perhaps the milliseconds that pass before it, and messages |
| values | parts of messages that no good client says, for the fuzzer |

Closed: the server hangs up at once and says no more than its greeting, or why. Refused: one error. Answered: one
well-formed answer, whichever, or none where a message has none; what follows on the same connection is then answered
too. Either: answered, or closed. The last word is answered as nothing else is. Few messages of exchanges may wait for
a job: they are also said one by one, and what stands behind them is not heard. Jobs of cases are in the queue `hostile`, those of exchanges in `q`; nothing that a web
page would like to be heard may ever make one in `smuggled`.
"""

import importlib
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from franca.protocols.service import Service
from tests.prove.hostile.raw import Raw
from tests.prove.tables import Tables, Words, is_numbered, numbered, split

CLOSED, REFUSED, ANSWERED, EITHER = OUTCOMES = ("closed", "refused", "answered", "either")
HEAVY = ("heavy", "heavy closed", "long heavy", "long heavy closed")
FRAME_BYTES = 8 << 20
"""As large as a frame may be while this lasts; the texts rely on it."""
RAW = b"raw"
"""The first part of a message whose other parts are sent as they are."""

Message = tuple[bytes, ...]


class Step(NamedTuple):
    """Messages that are said in one go. Links are opened when they first speak."""

    link: str
    messages: tuple[Message, ...]
    pass_ms: int = 0
    """Time that passes before it."""

    @property
    def protocol(self) -> str:
        """Of a link of one of several protocols, which is called `protocol/name`."""
        return self.link.partition("/")[0]


Exchange = tuple[Step, ...]


class Case(NamedTuple):
    """Bytes to send, by a stranger or by a client that is known, and what may come of it."""

    data: bytes
    outcome: str
    known: bool

    def __str__(self) -> str:
        return repr(self.data[:60])


class Heavy(NamedTuple):
    """Messages, and how often each is sent. `closes`: the server hangs up on it."""

    name: str
    messages: list[tuple[bytes, int]]
    closes: bool


@dataclass
class Hostility:
    """What a protocol's module offers.

    `said` cuts all that the server said into messages, or raises `ValueError`; `answer` is what a known client's last
    word is answered with. A message that begins with one of `errors` is an error; where there are any, whoever is hung
    up on hears nothing else. `halves_wait`: what may be answered or closed may also be half a message, which waits for
    its other half. `counts`: every message has one answer, of which so many `greetings` are not counted, and an error
    may be the last word. What fits the pattern `harm` hurts neighbours by what it means.
    """

    tables: Tables
    write: Callable[..., Message]
    """A message of its words: a tuple of parts, so that one of them can be spoiled and all the rest stays sound."""
    frame: Callable[[Message], bytes]
    """The bytes of a message, sound or not, that is not sent as it is."""
    said: Callable[[bytes], Iterator[bytes]]
    answer: bytes
    errors: tuple[bytes, ...] = ()
    halves_wait: bool = False
    counts: bool = False
    greetings: int = 0
    harm: bytes = b"$^"
    compared: Callable[[bytes], Iterator[bytes]] | None = None
    """What was said, but for what may depend on how the input was cut."""
    links: Mapping[str, str] = field(default_factory=dict)
    """On which listener a link is opened, where it is not called as its protocol."""
    fill: Callable[[Service, bytes], bytes] = lambda service, data: data
    """The same with what only the running server can know; mostly clients choose all names themselves."""

    def __post_init__(self) -> None:
        probe = list(map(split, self.tables["probe"]))
        self.hello, self.last, self.small = map(self.written, probe[:3])
        (self._large,) = probe[3]
        self.values = self.tables["values"]
        names = [name for name in self.tables.names if name.startswith("exchange ")]
        self.exchanges = [tuple(map(self._step, self.tables[name])) for name in names]

    def message(self, words: Words) -> Message:
        return tuple(words) if words[0] == RAW else self.write(*words)

    def encode(self, message: Message) -> bytes:
        return b"".join(message[1:]) if message[:1] == (RAW,) else self.frame(message)

    def written(self, messages: list[Words]) -> bytes:
        return b"".join(self.encode(self.message(words)) for words in messages)

    def come(self, port: int, timeout: float) -> None:
        """Be a client that says its first words and its last, and hears the answer; `OSError` if there is none."""
        with Raw(port, timeout=timeout) as peer:
            peer.send_bytes(self.hello + self.last)
            peer.read_until(self.answer)

    def rows(self, table: str) -> list[bytes]:
        """The bytes of each row of a table without places."""
        return [self.written(split(row)) for row in self.tables.each(table)]

    def large(self, body: bytes) -> bytes:
        return self.written([[word.replace(b"{body}", body) for word in self._large]])

    def _step(self, row: bytes) -> Step:
        head, _, said = row.partition(b": ")
        link, _, pass_ms = head.partition(b" +")
        return Step(link.decode(), tuple(map(self.message, split(said))), int(pass_ms or 0))

    def shuffled_cases(self, seed: int) -> list[Case]:
        """All small ones, in an order of chance."""
        rng, found = Random(seed), list[Case]()
        for name in self.tables.names:
            kind, _, tail = name.partition(" + ")
            outcome = kind.removeprefix("stranger ")
            if outcome in OUTCOMES:
                behind = b"".join(self.rows(tail))
                for messages in self.tables.rows(name, rng):
                    found.append(Case(self.written(messages) + behind, outcome, kind == outcome))
        rng.shuffle(found)
        return found

    def heavies(self, *, short: bool) -> Iterator[Heavy]:
        """Large or many ones; in a short run the most telling."""
        for table in HEAVY[: 2 if short else None]:
            for row in self.tables.each(table):
                name, _, said = row.partition(b" = ")
                messages = [self._times(words) for words in split(said)]
                yield Heavy(name.decode(), messages, table.endswith("closed"))

    def _times(self, words: Words) -> tuple[bytes, int]:
        """A message, and how often; those that have a number in them make one piece."""
        head, _, rest = words[0].partition(b" * ")
        times, words = (int(head), [rest, *words[1:]]) if head.isdigit() else (1, words)
        if not any(map(is_numbered, words)):
            return self.written([words]), times
        each = [[numbered(word, number) for word in words] for number in range(times)]
        return self.written(each), 1


def tls_hello() -> bytes:
    """The first words of a client that wants to be secret."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


_STRANGERS = Tables(str(Path(__file__).with_name("strangers")))
FIRST_WORDS = _STRANGERS["first words"]
"""With what clients of other services begin."""
_WEB_PAGES = [page for ((page,),) in _STRANGERS.rows("web pages", Random(0))]
_FOR_ALL = {"tls": [tls_hello()], "first words": FIRST_WORDS, "web pages": _WEB_PAGES}
_FOR_ALL["bytes"] = [bytes([number]) for number in range(256)]


def tables(module: str) -> Tables:
    """Those of a protocol, in whose places may stand what arrives by mistake or by malice at any listener."""
    return Tables(module, _FOR_ALL)


def of(protocol: str) -> Hostility:
    found: Hostility = importlib.import_module(f"tests.prove.hostile.{protocol}").HOSTILITY
    return found
