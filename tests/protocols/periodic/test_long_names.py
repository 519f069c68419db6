"""Names, handles and lists of millions of bytes: refused by their length, before they are read."""

import json
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from franca.core.errors import Refused
from franca.core.limits import Limits
from franca.core.names import text_of
from franca.protocols.periodic import text
from franca.protocols.periodic.binary import BinaryDialect, CrcDialect
from franca.protocols.periodic.text import JSON_BYTES_MAX, DocDialect, TextDialect
from tests.protocols.periodic.puppet import World
from tests.support import periodic as p
from tests.support.periodic import DOC, SEPARATOR, str8

LONG = b"\xff" * 1_000_000
MANY = 32 * 1024 * 1024
QUICK_S = 0.04


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of every name that is made text."""
    sizes: list[int] = []

    def noted(raw: bytes) -> str:
        sizes.append(len(raw))
        return text_of(raw)

    monkeypatch.setattr(text, "text_of", noted)
    return sizes


def in_json(func: str, name: str) -> bytes:
    return json.dumps({"func": func, "name": name}, ensure_ascii=False).encode()


@pytest.mark.parametrize("dialect", ["doc", "text"])
@pytest.mark.parametrize(
    ("command", "args"),
    [
        (p.CAN_DO, LONG),
        (p.CANT_DO, LONG),
        (p.DROP_FUNC, LONG),
        (p.SUBMIT_JOB, LONG + SEPARATOR + b"n"),
        (p.SUBMIT_JOB, b"f" + SEPARATOR + LONG),
        (p.SUBMIT_JOB, b"f" + SEPARATOR + LONG[:1_025] + SEPARATOR + b"0" + SEPARATOR + b"0"),
        (p.SUBMIT_JOB, in_json("\xe9" * 1_000_000, "n")),
        (p.SUBMIT_JOB, in_json("f", "\xe9" * 600)),
        (p.REMOVE_JOB, LONG + SEPARATOR + b"n"),
        (p.REMOVE_JOB, in_json("f", "\xe9" * 1_000_000)),
    ],
)
def test_a_name_that_is_too_long_is_refused_unread(
    dialect: str, command: int, args: bytes, read: list[int]
) -> None:
    world = World(dialect=dialect)
    peer = world.connect(DOC).register(p.WORKER)
    peer.bytes_heard()
    assert peer.word(command, args) == p.UNKNOWN
    assert max(read, default=0) <= 1_024
    assert (world.jobs(), world.broker.queues) == ([], {})


def test_how_long_a_name_may_be_is_the_servers_to_say() -> None:
    client = World(limits=Limits(name_bytes_max=8), dialect="text").connect(DOC)
    client.register(p.CLIENT).bytes_heard()
    assert client.word(p.REMOVE_JOB, b"f" * 8 + SEPARATOR + b"n" * 8) == p.SUCCESS
    assert client.word(p.REMOVE_JOB, b"f" * 9 + SEPARATOR + b"n") == p.UNKNOWN


@pytest.mark.parametrize(
    ("speech", "verb", "made"),
    [
        (DocDialect(), "read_handle", lambda: b"1" * MANY + b"x"),
        (DocDialect(), "read_later", lambda: bytes(MANY)),
        (TextDialect(), "read_handle", lambda: bytes(MANY)),
        (TextDialect(), "read_later", lambda: b"f::n" + SEPARATOR + bytes(MANY)),
        (TextDialect(), "read_job", lambda: bytes(MANY)),
        (TextDialect(), "read_func", lambda: b"\xff" * MANY),
        (TextDialect(), "read_jobs", lambda: b" " * MANY),
        (TextDialect(), "read_jobs", lambda: b'{"jobs":[ {' + (b'"%b"' % (b"x" * 3_000_000)) * 10),
        (TextDialect(), "read_jobs", lambda: b'{"jobs":[ {}' + b" " * MANY),
        (CrcDialect(), "read_lock", lambda: str8("l") + bytes(MANY)),
        (CrcDialect(), "read_unlock", lambda: str8("l") + bytes(MANY)),
        (BinaryDialect(), "read_handle", lambda: str8("f::n") + bytes(MANY)),
    ],
)
def test_what_is_far_too_long_takes_no_longer_than_to_see_that_it_is(
    speech: TextDialect | CrcDialect, verb: str, made: Callable[[], bytes]
) -> None:
    args = made()
    spans = []
    for _ in range(3):  # a busy machine may be slow itself, but not each time
        began = time.thread_time()
        with suppress(Refused):
            found = getattr(speech, verb)(args)
            if verb == "read_jobs":
                list(found)
        spans.append(time.thread_time() - began)
    assert min(spans) < QUICK_S


def test_fields_are_read_to_their_last_byte_and_a_workload_may_be_anything() -> None:
    speech = TextDialect()
    names = [b"f" * 1_024, b"n" * 1_024]
    workload = SEPARATOR.join([b"", b"w" * 5_000, b""])
    fields = [*names, b"  123456789012345678", b"-7", workload]
    task = speech.read_job(SEPARATOR.join(fields))
    assert (task.func.encode(), task.name.encode()) == tuple(names)
    assert (task.sched_at, task.count, task.workload) == (123456789012345678, -7, workload)
    handle = b"::".join(names)
    assert speech.read_handle(handle + SEPARATOR + workload) == (handle, workload)
    assert speech.read_handle(handle) == (handle, b"")
    assert speech.read_later(SEPARATOR.join([handle, b"5", b"-1"])) == (handle, 5, -1)
    assert speech.read_later(handle) == (handle, 0, 0)


def test_a_job_in_json_may_have_as_much_as_one_may_and_so_may_the_next() -> None:
    front, back = b'{"func":"f","name":"n","workload":"', b'"}'
    job = front + b"w" * (JSON_BYTES_MAX - len(front + back)) + back
    tasks = DocDialect().read_jobs(b'{"jobs":[%b,%b]}' % (job, job))
    assert [task.size for task in tasks] == [JSON_BYTES_MAX] * 2
