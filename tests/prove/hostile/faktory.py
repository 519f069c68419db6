"""Faktory: a stranger hears the greeting and no more, one that said HELLO one reply for each line."""

from tests.prove.hostile import Hostility, tables
from tests.support.faktory import said

HOSTILITY = Hostility(
    tables(__file__),
    lambda *words: words,
    lambda parts: b" ".join(parts) + b"\r\n",
    said,
    answer=b'$19\r\n{"hostile-probe":0}\r\n',
    errors=(b"-",),
    counts=True,
    greetings=2,
    harm=rb"(?i)FLUSH|QUEUE.*\*",
)
