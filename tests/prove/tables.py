"""Tables of bytes in text files.

A file holds tables with blank lines between them: a name and a colon, and below it a value per line. In a value stand
the escapes of Python's literals, `<x*3>` for `xxx`, `<x%d*3>` for `x0x1x2`, and `<>` for nothing. Lines that begin with
`#` are comments.

Some values are rows of messages, with ` | ` between them and two spaces between the words of a message. Such a row may
have places, and then stands for one row for each way to fill them: `{name}` is each value of that table, `{a|b}` either
of these, `{0-9}` each number, `{40 times}` nothing, as often. Drawn anew each time are `{any name}`, a value of
that table, and `{random 1 30}`, so many bytes of chance (`without x`: with another byte in its place).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random

Words = list[bytes]
_NUMBER = re.compile(rb"%0?[0-9]*d")
_REPEATED = re.compile(rb"<>|<(.+?)\*([0-9]+)>", re.DOTALL)
_PLACE = re.compile(rb"\{([^{}\"']+)\}")
_DRAWN = (b"any ", b"random ")


class Tables:
    """Those of the text file beside this module's file, and more that places may name."""

    def __init__(self, module: str, more: Mapping[str, Sequence[bytes]] | None = None) -> None:
        found = records(Path(module).with_suffix(".txt"))
        self._lines = {name.removesuffix(":"): words for name, *words in found}
        self._more = more or {}
        self.names = list(self._lines)

    def __getitem__(self, name: str) -> Sequence[bytes]:
        return self._more[name] if name in self._more else tuple(self.each(name))

    def each(self, name: str) -> Iterator[bytes]:
        """One value after the other, if there is such a table: all together may be large."""
        return map(_value, self._lines.get(name, ()))

    def rows(self, name: str, rng: Random) -> Iterator[list[Words]]:
        """The messages of each row of a table, with all its places filled in every way."""
        for row in self.each(name):
            messages = split(row)
            places = [p for words in messages for word in words for p in _PLACE.findall(word)]
            choices = [self._choices(place) for place in places if not place.startswith(_DRAWN)]
            for chosen in product(*choices):
                yield self._filled(messages, iter(chosen), rng)

    def _choices(self, place: bytes) -> Sequence[bytes]:
        first, dash, last = place.partition(b"-")
        if dash and last.isdigit():
            return [b"%d" % number for number in range(int(first), int(last) + 1)]
        if place.endswith(b" times"):
            return [b""] * int(place.split()[0])
        return place.split(b"|") if b"|" in place else self[place.decode()]

    def _filled(self, messages: list[Words], chosen: Iterator[bytes], rng: Random) -> list[Words]:
        def fill(place: re.Match[bytes]) -> bytes:
            word, _, rest = place[1].partition(b" ")
            if not place[1].startswith(_DRAWN):
                return next(chosen)
            if word == b"any":
                return rng.choice(self[rest.decode()])
            sizes, _, unwanted = rest.partition(b" without ")
            data = rng.randbytes(int(rng.choice(sizes.split())))
            return data.replace(unwanted, b"x") if unwanted else data

        return [[_PLACE.sub(fill, word) for word in words] for words in messages]


def records(path: Path) -> list[list[str]]:
    """What stands between blank lines of a text, each in lines, without comments."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [record.splitlines() for record in "\n".join(lines).strip().split("\n\n")]


def split(row: bytes) -> list[Words]:
    """The messages of a row, each in words."""
    return [message.split(b"  ") for message in row.split(b" | ")]


def is_numbered(word: bytes) -> bool:
    """Whether there is a `%d` in it."""
    return _NUMBER.search(word) is not None


def numbered(word: bytes, number: int) -> bytes:
    return _NUMBER.sub(lambda place: place[0] % number, word)


def _value(word: str) -> bytes:
    raw = word.encode().decode("unicode_escape").encode("latin-1")
    return _REPEATED.sub(lambda run: _repeated(run[1] or b"", int(run[2] or 0)), raw)


def _repeated(piece: bytes, times: int) -> bytes:
    if is_numbered(piece):
        return b"".join(piece % number for number in range(times))
    return piece * times
