"""Whatever a peer sends, the server stands and others are served."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from franca.core.limits import Limits
from franca.core.names import raw_of, text_of
from franca.protocols.eventmq import zmtp
from franca.protocols.eventmq.texts import Unfit, read_queues, terms_of
from franca.protocols.eventmq.zmtp import SKIPPED_BYTES_MAX
from tests.protocols.eventmq.puppet import Puppet, World, written
from tests.support.eventmq import VERSION, message

COMMANDS = [
    b"REQUEST", b"READY", b"REPLY", b"HEARTBEAT", b"INFORM", b"SCHEDULE", b"UNSCHEDULE", b"PUBLISH",
    b"KBYE", b"KBAI", b"DISCONNECT", b"HELLO", b"ACK", b"STATUS", b"ROUTER_SHOW_WORKERS",
    b"ROUTER_SHOW_SCHEDULERS", b"", b"\xff",
]  # fmt: skip
PARTS = [
    b"", b"worker", b"scheduler", b"default", b"\xff\xfe", b"[[10,\"default\"]]", b"reply-requested",
    b"retry-count:1,guarantee", b"{'timeout': 1}", b"-1", b"5", b"* * * * *", b"x" * 300, b"\0",
    b'["run", {"path": "a", "callable": "b", "args": []}]', b'{"error": "x"}', b"id",
    b"{'a':0x" + b"f" * 3_800 + b"}", b'{"timeout":' + b"9" * 4_000 + b"}", b"timeout:" + b"9" * 4_000,
    b"timeout:1e999,retry-count:\xd9\xa3,guarantee", b"{'a':" * 700, b"reply-requested," * 200,
    b"reply-requested,run_count:1e300,interval:1e-9", b"[[1" + b"0" * 6_000 + b',"q"]]', b"[" * 9_000,
    b'[[1e400, "q"], [nan, "r"]]', b'["\\ud800"]', b"[10, '\xff\xfe']", b'{"\\ud83d": "\\udc00"}',
    b'["run", {"path": "\\ud800", "callable": "b"}]', b'["run", {"path": "a", "callable": 1}]',
    b'["run", ' + b"[" * 2_000, b'{"error": ' + b"1" * 5_000 + b"}", b'{"error": ' + b"[" * 3_000,
    b'{"value": "\xff"}', b"hex:zz", b"job:99999999999999999999", b"1e308", b"cron:* * * * *",
    b"timezone:America,cron:1 1 1 1 1", b"timezone:" + b"x" * 3_000 + b",cron:@hourly", b"\x80" * 40,
]  # fmt: skip

messages = st.tuples(
    st.sampled_from([b"", b"x"]),
    st.sampled_from([VERSION, b"eMQP/2", b"?"]),
    st.sampled_from(COMMANDS),
    st.sampled_from([b"id", b"", b"\xff", b"admin:x", b"hex:00", b"job:1", b"i" * 2_000]),
).flatmap(
    lambda head: st.lists(st.sampled_from(PARTS), max_size=6).map(lambda rest: [*head, *rest])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(messages, max_size=12), st.integers(0, 20_000))
def test_no_sequence_of_messages_breaks_it(said: list[list[bytes]], wait: int) -> None:
    world = World()
    peer, other = world.peer(), world.worker(slots=3)
    for frames in said:
        peer.send(written(frames))
    world.pass_time(wait, other, step=1_000)
    peer.hang_up()
    assert world.peer().ask("STATUS")
    assert world.peer().ask("ROUTER_SHOW_WORKERS")


@settings(max_examples=300, deadline=None)
@given(st.text("{}[]()'\"\\,: \n0123456789.eExXabftnTFuN_-+\ud7ff\U0001f600\x00", max_size=60))
def test_no_text_breaks_a_reader(text: str) -> None:
    raw = text.encode()
    terms_of(raw)
    for read in (raw, raw + b"\xff", b"[" + raw, b"{" + raw + b"}"):
        terms_of(read)
        try:
            queues = read_queues(read, 1_024)
        except Unfit:
            continue
        assert all(type(name) is str and text_of(raw_of(name)) == name for _, name in queues)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_break_it(data: bytes, greeted: bool) -> None:
    world = World()
    peer = world.peer() if greeted else world.stranger()
    peer.send(data)
    assert world.peer().ask("STATUS")


@pytest.mark.parametrize("door", ["eventmq", "eventmq_subscribe"])
def test_no_damaged_dialogue_breaks_it(door: str) -> None:
    rng = Random(5)
    whole = zmtp.GREETING + zmtp.ready(b"DEALER" if door == "eventmq" else b"SUB", b"me")
    for part in ([b"", VERSION, b"INFORM", b"i", b"", b"worker"], [b"", VERSION, b"READY", b"i"]):
        whole += written(part)
    world = World()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        peer = world.stranger(door)
        peer.send(bytes(damaged))
        peer.hang_up()
    assert world.peer().ask("STATUS")["inflight_messages_by_queue"] == {}


def test_a_flood_takes_its_share_of_a_turn_and_no_more() -> None:
    world = World(limits=Limits(turn_messages=8))
    flooder, other = world.peer(), world.peer()
    flood = message(b"HEARTBEAT", b"i", b"1") * 100
    world.turn((flooder, flood), (other, message(b"STATUS", b"i")))
    assert other.link.out
    assert flooder.conversation.unread() > 0
    world.run()
    assert flooder.conversation.unread() == 0


def test_a_list_takes_a_turn_of_its_own(world: World) -> None:
    asker = world.peer()
    status = message(b"STATUS", b"i")
    world.turn((asker, status * 20))
    assert b"".join(asker.link.out).count(b"REPLY") == 1
    world.run()
    assert len(asker.heard()) == 20


USUAL = [b"REQUEST", b"", b"default", b"timeout:5", b"x"]


@pytest.mark.parametrize(
    "frames",
    [
        USUAL,
        [b"INFORM", b"i", b"[" + b"a," * 32_600, b"worker"],
        [b"INFORM", b"i", b"", b"dancer"],
        [b"REQUEST", b"", b"default", (b"{" + b"a:a," * 1_100)[:4_096], b"x"],
        [b"REQUEST", b"", b"default", b"a" * 257, b"x"],
        [b"REQUEST", b"", b"default", b"h" * 4_097, b"x"],
        [b"SCHEDULE", b"i", b"default", b"nohaste", b"-1", b"x", b"* * * * *"],
        [b"SCHEDULE", b"i", b"default", b"nohaste", b"60", b"[" + b"1," * 30_000, b""],
        [b"UNSCHEDULE", b"i", b"default", b"", b"60", b"[" + b"1," * 30_000, b""],
    ],
)
def test_what_is_much_work_to_read_takes_a_turn_of_its_own(
    world: World, peer: Puppet, frames: list[bytes]
) -> None:
    said = message(*frames)
    world.turn((peer, said * 20))
    left = round(peer.conversation.unread() / len(said))
    assert 20 - left == (20 if frames is USUAL else 1)
    world.run()
    assert peer.conversation.unread() == 0


@pytest.mark.parametrize("door", ["eventmq", "eventmq_subscribe"])
def test_commands_have_their_share_of_a_turn_too(world: World, door: str) -> None:
    peer = world.peer("DEALER" if door == "eventmq" else "SUB", door=door)
    begun = zmtp.more(b"") + zmtp.more(VERSION) + zmtp.more(b"HEARTBEAT")
    end = zmtp.last(b"i")
    ping = zmtp.command(b"PING", b"\0\0x")
    for data, pings in ((ping * 1_000, 1_000), ((begun + ping * 50 + end) * 20, 1_000)):
        world.engine.inputs.append((peer.link, data))
        said = [len(peer.link.out) for _ in world.turns()]
        assert max(said) <= 64
        assert len(said) >= 16
        peer.heard()
        assert len(peer.commands) == pings
        peer.commands.clear()


def test_ready_said_very_often_is_no_more_than_so_many_slots(world: World) -> None:
    worker = world.worker(identity=b"w")
    ready = message(b"READY", b"i")
    worker.send(ready * 12_000)
    shown = world.peer().ask("ROUTER_SHOW_WORKERS")
    assert shown["connected_workers"]["w"]["available_slots"] == 10_000


def test_a_frame_of_absurd_size_ends_the_dialogue_at_its_head(peer: Puppet, world: World) -> None:
    peer.send(b"\x02" + (SKIPPED_BYTES_MAX + 1).to_bytes(8, "big"))
    assert peer.is_hung_up
    assert "1073741825" in world.engine.notices[-1].reason


def test_who_never_finishes_a_message_is_hung_up_on(world: World, peer: Puppet) -> None:
    peer.send(zmtp.more(b"") + zmtp.more(VERSION))
    world.pass_time(40_000, step=500)
    assert peer.is_hung_up
