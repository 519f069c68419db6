"""beanstalkd: whatever a line says, it has one answer, and what follows is read from its beginning."""

from tests.prove.hostile import Hostility, Message, tables
from tests.support.beanstalkd import put, said


def _message(*words: bytes) -> Message:
    """A line of words; `job` is a `put` with this body."""
    return (put(words[1])[:-2],) if words[0] == b"job" else words


_ERRORS = b"BAD_FORMAT UNKNOWN_COMMAND EXPECTED_CRLF JOB_TOO_BIG NOT_FOUND OUT_OF_MEMORY"
HOSTILITY = Hostility(
    tables(__file__),
    _message,
    lambda words: b" ".join(words) + b"\r\n",
    said,
    answer=b"USING the-last-word\r\n",
    errors=tuple(_ERRORS.split()),
    halves_wait=True,
    greetings=1,
    harm=b"delete|reserve-job|kick-job",
)
