"""What a connection says in one piece means what it means said message by message."""

import pytest

from franca.core.events import Event, Granted
from franca.core.model import Demand, Millis, OnHangUp, Session
from tests.protocols.periodic.puppet import Puppet, World
from tests.support import periodic as p
from tests.support.periodic import CRC, DOC, Message, packed, str8

Said = tuple[int, bytes, bytes]
"""A command, its arguments, its id."""

HANDLE = str8("f") + str8("n")
N, M = packed("f", "n"), packed("f", "m")
DOC_N = b'{"func":"f","name":"n"}'
TALKS: list[tuple[str, str, tuple[Said, ...]]] = [
    ("a grab behind the job", CRC, ((p.GRAB_JOB, b"", b"aaaa"), (p.SUBMIT_JOB, N, b"subn"), (p.GRAB_JOB, b"", b"bbbb"))),
    ("an id that is free again", CRC, ((p.GRAB_JOB, b"", b"aaaa"), (p.SUBMIT_JOB, N, b"subn"), (p.GRAB_JOB, b"", b"aaaa"), (p.SUBMIT_JOB, M, b"subm"))),
    ("a function taken back", CRC, ((p.GRAB_JOB, b"", b"aaaa"), (p.SUBMIT_JOB, N, b"subn"), (p.CANT_DO, str8("f"), b"cant"))),
    ("a result in advance", CRC, ((p.GRAB_JOB, b"", b"aaaa"), (p.SUBMIT_JOB, N, b"subn"), (p.WORK_DONE, HANDLE, b"done"))),
    ("a job sent back", CRC, ((p.GRAB_JOB, b"", b"aaaa"), (p.SUBMIT_JOB, N, b"subn"), (p.JOB_UNASSIGNED, b"", b"aaaa"), (p.SUBMIT_JOB, M, b"subm"))),
    ("a list", CRC, ((p.GRAB_JOB, b"", b"aaaa"), (p.GRAB_JOB, b"", b"bbbb"), (p.SUBMIT_JOB, N, b"subn"), (p.SUBMIT_JOB, M, b"subm"), (p.STATUS, b"", b"stat"))),
    ("a job removed and run again", CRC, ((p.RUN_JOB, N, b"runa"), (p.REMOVE_JOB, N, b"remo"), (p.RUN_JOB, N, b"runb"))),
    ("a stream joined late", CRC, ((p.GRAB_JOB, b"", b"aaaa"), (p.RECV_DATA, N, b"reca"), (p.RUN_JOB, N, b"runa"), (p.WORK_DATA, HANDLE + b"one", b"data"),
                                    (p.RECV_DATA, N, b"recb"), (p.WORK_DATA, HANDLE + b"two", b"data"), (p.WORK_DONE, HANDLE + b"end", b"done"), (p.RECV_DATA, N, b"recc"))),
    ("a load", CRC, ((p.GRAB_JOB, b"", b"aaaa"), (p.LOAD, b"\0\0\0\0\0\0\0\1" + N, b"load"), (p.GRAB_JOB, b"", b"bbbb"))),
    ("the document's grabs", DOC, ((p.GRAB_JOB, b"", b"1"), (p.SUBMIT_JOB, DOC_N, b"2"), (p.GRAB_JOB, b"", b"3"))),
]  # fmt: skip


def heard_by(worker: Puppet, pieces: list[bytes]) -> tuple[list[Message], object]:
    """Everything that was answered, and what a client then sees of the function."""
    for piece in pieces:
        worker.send(piece)
    heard = sorted(worker.heard())
    assert not worker.is_hung_up
    return heard, worker.world.peer().status()


@pytest.mark.parametrize(("dialect", "talk"), [t[1:] for t in TALKS], ids=[t[0] for t in TALKS])
def test_messages_in_one_piece_act_as_one_by_one(dialect: str, talk: tuple[Said, ...]) -> None:
    apart, together, halved = (World().worker("f", dialect=dialect) for _ in range(3))
    pieces = [apart.message(*said) for said in talk]
    expected = heard_by(apart, pieces)
    assert heard_by(together, [b"".join(pieces)]) == expected
    # Nor does it matter that messages are cut in the middle.
    data = b"".join(pieces)
    assert heard_by(halved, [data[:20], data[20:-5], data[-5:]]) == expected


@pytest.mark.parametrize("confirm", ["modern", "old"])
def test_a_job_goes_to_a_grab_that_was_there_before_it(confirm: str) -> None:
    world = World(confirm=confirm)
    worker = world.worker("f")
    said = (
        (p.GRAB_JOB, b"", b"old1"),
        (p.GRAB_JOB, b"", b"old2"),
        (p.SUBMIT_JOB, N, b"subn"),
        (p.GRAB_JOB, b"", b"new1"),
        (p.SUBMIT_JOB, M, b"subm"),
    )
    worker.send(b"".join(worker.message(*words) for words in said))
    given = {m.msgid: worker.job_in(m).name for m in worker.heard() if m.command == p.JOB_ASSIGN}
    assert given == {b"old2": "n", b"new1": "m"}


def test_a_worker_asks_again_before_the_clients_next_message_is_read() -> None:
    said = (
        (p.SUBMIT_JOB, N, b"subn"),
        (p.SUBMIT_JOB, M, b"subm"),
        (p.STATUS, b"", b"stat"),
        (p.REMOVE_JOB, M, b"remo"),
        (p.GRAB_JOB, b"", b"grab"),
    )
    found = []
    for is_cut in (True, False):
        world = World()
        worker, client = world.worker("f"), world.peer()
        for msgid in (b"one1", b"two2"):
            worker.say(p.GRAB_JOB, msgid=msgid)
        pieces = [client.message(*words) for words in said]
        for piece in pieces if is_cut else [b"".join(pieces)]:
            client.send(piece)
        found.append((sorted(worker.heard()), sorted(client.heard())))
    assert found[0] == found[1]
    assert b"f,1,2,2,0" in next(m.data for m in found[0][1] if m.msgid == b"stat")


class Stranger:
    """A connection of some other protocol."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        assert isinstance(event, Granted)
        self.told.append((session.holder, event.job.id))


def test_other_protocols_are_told_by_the_engine_in_order(world: World) -> None:
    stranger = Stranger()
    worker, client = world.worker("f"), world.peer()
    sessions = [world.broker.open_session(name, OnHangUp.RETURN, stranger) for name in "ab"]
    world.broker.demand(Demand(sessions[0], ("f",)), world.now)
    worker.say(p.GRAB_JOB, msgid=b"grab")
    world.broker.demand(Demand(sessions[1], ("f",)), world.now)
    submits = [client.message(p.SUBMIT_JOB, packed("f", name), b"subm") for name in "klm"]
    client.send(b"".join(submits) + client.message(p.PING, b"", b"ping"))
    assert stranger.told == [("a", 1), ("b", 3)]
    assert [job.name for job in worker.assigned()] == ["l"]


def test_sleepers_by_the_document_are_all_woken() -> None:
    world = World(dialect="doc")
    worker = world.worker("f", dialect=DOC)
    said = ((p.SLEEP, b"", b"1"), (p.SUBMIT_JOB, DOC_N, b"2"), (p.SLEEP, b"", b"3"))
    worker.send(b"".join(worker.message(*words) for words in said))
    assert [m.msgid for m in worker.heard() if m.command == p.NOOP] == [b"1", b"3"]
