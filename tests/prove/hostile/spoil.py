"""Ways to spoil a good exchange: bits, bytes, lengths, parts, messages, their order and their time."""

import struct
from collections.abc import Sequence
from random import Random

from tests.prove.hostile import RAW, Exchange, Message, Step, of
from tests.prove.tables import Tables

_WORDS = Tables(__file__)["words"]

_LENGTHS = (0, 1, 7, 8, 255, 256, 65_535, 65_536, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
_REPEATS = (2, 3, 70, 200)


def spoiled(exchange: Exchange, others: Sequence[Exchange], rng: Random) -> Exchange:
    """The exchange with one to four things wrong with it."""
    steps = list(exchange)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        place = rng.randrange(len(steps))
        choice = rng.random()
        if choice < 0.75:
            steps[place] = _spoil_step(steps[place], rng)
        elif choice < 0.85:
            steps.insert(place, rng.choice(rng.choice(others)))
        elif choice < 0.9 and len(steps) > 1:
            del steps[place]
        elif choice < 0.95:
            steps[place] = steps[place]._replace(pass_ms=rng.choice((0, 100, 5_000, 120_000)))
        else:
            rng.shuffle(steps)
    if rng.random() < 0.3:
        # One that is all at once has nobody to wait for.
        steps = [step._replace(link=steps[0].link) for step in steps]
    return tuple(steps[:12])


def visited(exchange: Exchange, visitors: Exchange, rng: Random) -> Exchange:
    """Both at once, each in its own order."""
    steps = list(exchange)
    places = sorted(rng.randrange(len(steps) + 1) for _ in visitors)
    for place, step in reversed(list(zip(places, visitors, strict=True))):
        steps.insert(place, step)
    return tuple(steps)


def _spoil_step(step: Step, rng: Random) -> Step:
    messages = list(step.messages)
    if not messages:
        return step
    place = rng.randrange(len(messages))
    choice = rng.random()
    if choice < 0.8:
        messages[place] = spoiled_message(messages[place], of(step.protocol).values, rng)
    elif choice < 0.88:
        messages[place:place] = [messages[place]] * rng.choice(_REPEATS)
    elif choice < 0.94:
        del messages[place]
    else:
        rng.shuffle(messages)
    return step._replace(messages=tuple(messages))


def spoiled_message(message: Message, values: Sequence[bytes], rng: Random) -> Message:
    """The message with one thing wrong with it; `values` may stand for any of its parts."""
    parts = list(message)
    place = rng.randrange(len(parts)) if parts else 0
    choice = rng.random()
    if not parts or choice < 0.08:
        parts.insert(place, rng.choice(_WORDS))
    elif choice < 0.14:
        del parts[place]
    elif choice < 0.18:
        parts.insert(place, parts[rng.randrange(len(parts))])
    elif choice < 0.22:
        return (RAW, spoiled_bytes(b"".join(parts), rng))
    elif choice < 0.45:
        parts[place] = rng.choice(values)
    else:
        parts[place] = spoiled_bytes(parts[place], rng)
    return tuple(parts)


def spoiled_bytes(data: bytes, rng: Random) -> bytes:
    """One thing wrong with these bytes."""
    at = rng.randrange(len(data) + 1)
    to = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 30)))
    word, repeats = rng.choice(_WORDS), rng.choice(_REPEATS)
    length = struct.pack(rng.choice((">I", "<I", ">Q")), rng.choice(_LENGTHS))
    flipped = bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1])
    instead, end = rng.choice((
        (word, to), (word, at), (b"", to), (b"", len(data)), (data[at:to] * repeats, to), (flipped, at + 1),
        (length, at + len(length)), (rng.randbytes(rng.choice((1, 4, 20))), to),
    ))  # fmt: skip
    return data[:at] + instead + data[end:]
