"""Bytes as the originals send and expect them."""

import re
from random import Random

from franca.protocols.eventmq.wire import Encoder
from tests.protocols.eventmq.puppet import World


def frame(text: bytes, flag: int = 1) -> bytes:
    return bytes((flag, len(text))) + text


HEAD = frame(b"") + frame(b"eMQP/1.0")
ID = b"4d8a5c0e-22e4-4a3c-9d2e-0f3b8a1c7e55"
BODY = (
    b'["run", {"callable": "basename", "path": "os.path", "args": ["/a/b"], "kwargs": {}, '
    b'"class_args": [], "class_kwargs": {}}]'
)


def test_a_job_from_client_to_worker_and_back_byte_by_byte(world: World) -> None:
    stem = world.service.encoder.name[:24]

    def own(count: int) -> bytes:
        return frame(stem + b"%012x" % count)

    worker, client = world.peer(identity=b"w"), world.peer(identity=b"c")
    worker.send(
        HEAD + frame(b"INFORM") + frame(ID) + frame(b'[[10, "default"]]') + frame(b"worker", 0)
    )
    heartbeat = HEAD + frame(b"HEARTBEAT") + own(1) + frame(b"1790000000.000", 0)
    ack = HEAD + frame(b"ACK") + own(2) + frame(ID, 0)
    heard = worker.bytes_heard()
    acked, beaten = heard[: len(ack)], heard[len(ack) :]
    assert {acked[:14], beaten[:14]} == {ack[:14], heartbeat[:14]}
    assert acked.endswith(frame(ID, 0))
    assert beaten.endswith(frame(b"1790000000.000", 0))

    worker.send(HEAD + frame(b"READY") + frame(ID, 0))
    request = frame(ID) + frame(b"default") + frame(b"reply-requested") + frame(BODY, 0)
    client.send(HEAD + frame(b"REQUEST") + request)
    assert worker.unread == HEAD + frame(b"REQUEST") + request
    count = int(next(world.service.encoder._ids)[-12:], 16) - 1  # which nobody is told now
    assert client.unread == HEAD + frame(b"REPLY") + own(count) + frame(ID, 0)
    client.unread.clear()

    reply = frame(b'{"value": "b"}') + frame(ID, 0)
    worker.send(HEAD + frame(b"REPLY") + frame(b"other id") + reply)
    assert client.unread == HEAD + frame(b"REPLY") + own(count + 2) + reply


def test_the_servers_ids_look_like_those_of_the_original(world: World) -> None:

    worker = world.worker()
    world.pass_time(7_000, worker)
    ids = [m[3].decode() for m in worker.heard()]
    assert len(set(ids)) == len(ids) > 1
    for one in ids:
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", one)


def test_the_servers_ids_count_on_where_more_than_their_last_digits_change() -> None:
    encoder = Encoder(Random(1))

    stem = encoder.name[:-12]
    said = [encoder.handed_over(b"")[-38:-2] for _ in range(3 * 16**3)]
    assert said == [b"%b%012x" % (stem, number) for number in range(1, len(said) + 1)]
