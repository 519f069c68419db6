"""Publish and subscribe: by the beginning of the topic, to whoever is there and reads."""

import pytest

from franca.core.limits import Limits
from franca.protocols.eventmq import topics, zmtp
from tests.protocols.eventmq.puppet import World, written
from tests.support.eventmq import message


@pytest.mark.parametrize("door", ["eventmq", "eventmq_publish"])
def test_a_message_reaches_every_subscriber_whose_prefix_matches(world: World, door: str) -> None:
    exact, prefix, everything = (world.subscriber(t) for t in (b"news.de", b"news", b""))
    other, publisher = world.subscriber(b"newsy"), world.peer(door=door)
    publisher.say("PUBLISH", "news.de", '"hello"')
    for subscriber in (exact, prefix, everything):
        assert subscriber.heard() == [[b"news.de", b'"hello"']]
    assert (other.heard(), publisher.heard()) == ([], [])


def test_the_documents_form_has_headers_in_between(world: World) -> None:
    subscriber = world.subscriber(b"t")
    world.peer().say("PUBLISH", "topic", "header", "message")
    assert subscriber.heard() == [[b"topic", b"message"]]


def test_several_topics_of_one_subscriber_bring_a_message_once(world: World) -> None:
    subscriber, publisher = world.subscriber(b"a", b"ab", b"b"), world.peer()
    for topic in ("abc", "b", "c"):
        publisher.say("PUBLISH", topic, "x")
    assert [m[0] for m in subscriber.heard()] == [b"abc", b"b"]


def test_a_subscription_that_is_cancelled_is_over_when_all_its_twins_are(world: World) -> None:
    subscriber, publisher = world.subscriber(b"a", b"a"), world.peer()
    subscriber.send(written([b"\x00a"]))
    publisher.say("PUBLISH", "a", "1")
    subscriber.send(written([b"\x00a"]) + written([b"\x00never"]))
    publisher.say("PUBLISH", "a", "2")
    assert subscriber.heard() == [[b"a", b"1"]]


def test_newer_peers_subscribe_by_commands(world: World) -> None:
    subscriber, publisher = world.subscriber(), world.peer()
    subscriber.send(zmtp.command(b"SUBSCRIBE", b"a"))
    publisher.say("PUBLISH", "a", "1")
    subscriber.send(zmtp.command(b"CANCEL", b"a"))
    publisher.say("PUBLISH", "a", "2")
    assert subscriber.heard() == [[b"a", b"1"]]


def test_who_does_not_read_loses_messages_and_holds_up_nobody(world: World) -> None:
    slow, other, publisher = world.subscriber(b""), world.subscriber(b""), world.peer()
    slow.link.full = True
    publisher.say("PUBLISH", "a", "1")
    slow.link.full = False
    publisher.say("PUBLISH", "a", "2")
    assert slow.heard() == [[b"a", b"2"]]
    assert (len(other.heard()), world.service.topics.dropped) == (2, 1)


def test_who_hung_up_is_forgotten(world: World) -> None:
    subscriber = world.subscriber(b"")
    subscriber.hang_up()
    world.peer().say("PUBLISH", "a", "1")
    assert (world.service.topics.bytes, world.service.topics._subscribers) == (0, {})


def test_a_large_message_is_whole(world: World) -> None:
    subscriber = world.subscriber(b"big")
    world.peer().say("PUBLISH", "big" * 100, b"x" * 3_000_000)
    assert subscriber.heard() == [[b"big" * 100, b"x" * 3_000_000]]


def test_too_many_or_too_long_topics_are_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TOPICS_MAX", 3)
    world = World()
    assert not world.subscriber(b"1", b"2", b"3").is_hung_up
    assert world.subscriber(b"1", b"2", b"3", b"4").is_hung_up
    assert world.subscriber(b"x" * 1_025).is_hung_up


def test_a_subscribers_other_messages_mean_nothing(world: World) -> None:
    subscriber = world.subscriber(b"a")
    subscriber.send(written([b"\x02what", b"else"]) + written([b""]))
    assert not subscriber.is_hung_up


def test_all_who_hear_a_large_message_share_it(world: World) -> None:
    subscribers = [world.subscriber(b"a", b"") for _ in range(3)]
    body = b"x" * 100_000
    world.service.topics.publish(b"a", body, world.now)
    assert [link.link.out[-1] is body for link in subscribers] == [True] * 3
    assert [len(link.link.out) for link in subscribers] == [2] * 3  # once, though asked for twice


def test_all_subscriptions_together_are_bounded_and_freed() -> None:
    world = World(limits=Limits(subscribed_bytes=1_000))
    one = world.subscriber(b"a", b"b", b"c")
    assert world.service.topics.bytes <= 1_000
    two = world.subscriber(b"d")
    assert (two.is_hung_up, one.is_hung_up) == (True, False)
    one.send(written([b"\x00a"]))
    assert not world.subscriber(b"d").is_hung_up


# -- many subscribers, many messages -------------------------------------------------------------------


def published(*topics_and_bodies: tuple[bytes, bytes]) -> bytes:
    return b"".join(message(b"PUBLISH", b"i", topic, body) for topic, body in topics_and_bodies)


def unsent(world: World) -> int:
    """Bytes that were written to all links in this turn."""
    return sum(sum(map(len, link.out)) for link in world.engine.links)


def test_all_who_hear_a_message_share_it_unless_it_is_very_short(world: World) -> None:
    one, two = world.subscriber(b""), world.subscriber(b"")
    world.service.topics.publish(b"a", b"x" * 600, world.now)
    world.service.topics.publish(b"a", b"y" * 600, world.now)
    assert all(a is b for a, b in zip(one.link.out, two.link.out, strict=True))
    assert one.link.in_pieces  # so that it is not joined to a copy of its own
    world.run()
    assert [m[1][:1] for m in two.heard()] == [b"x", b"y"]


def test_a_turn_tells_so_much_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TURN_WORK", 40_000)
    world = World()
    subscribers = [world.subscriber(b"") for _ in range(30)]
    publishers = [world.peer() for _ in range(3)]
    for number, publisher in enumerate(publishers):
        data = published(*((b"%d" % number, b"%d" % message) for message in range(20)))
        world.engine.inputs.append((publisher.link, data))
    told = [sum(bool(s.link.out) for s in subscribers) for _ in world.turns()]
    assert (max(told), world.engine.unhandled) == (10, 0)
    assert len(told) >= 3 * 20 * 30 // 10
    for subscriber in subscribers:
        heard = subscriber.heard()
        assert len(heard) == 60
        for number in range(3):
            said = [m[1] for m in heard if m[0] == b"%d" % number]
            assert said == [b"%d" % message for message in range(20)]
    assert world.service.topics.dropped == 0


def test_what_one_subscriber_is_told_in_one_turn_is_bounded_and_nothing_is_lost() -> None:
    world = World(limits=Limits(output_soft_bytes=100_000))
    subscriber = world.subscriber(b"")
    publishers = [world.peer() for _ in range(20)]
    for publisher in publishers:
        world.engine.inputs.append((publisher.link, published(*[(b"t", b"x" * 20_000)] * 5)))
    while world.engine.has_input():
        world.engine.turn(world.now)
        assert unsent(world) <= 100_000
        world.listen()
    assert (len(subscriber.heard()), world.service.topics.dropped) == (100, 0)


def test_one_publisher_with_much_to_say_lets_others_speak(world: World) -> None:
    for _ in range(70):
        world.subscriber(b"")
    publisher = world.peer()
    world.turn((publisher, published(*[(b"t", b"x")] * 10)))
    assert publisher.conversation.unread() > 0
    world.run()
    assert publisher.conversation.unread() == 0


def test_what_a_publisher_said_before_it_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TURN_WORK", 10_000)
    world = World()
    subscribers = [world.subscriber(b"") for _ in range(9)]
    publisher = world.peer()
    world.engine.inputs.append((publisher.link, published(*((b"t", b"%d" % n) for n in range(15)))))
    publisher.hang_up()
    assert publisher.is_hung_up
    assert [len(s.heard()) for s in subscribers] == [15] * 9


def test_a_message_that_waits_counts_as_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TURN_WORK", 1)
    world = World()
    for _ in range(2):
        world.subscriber(b"")
    publisher = world.peer()
    world.turn((publisher, published((b"t", b"x" * 1_000))))
    assert publisher.conversation.unread() == 1_001
    publisher.link.close()  # nothing more of it is acted on
    world.run()
    world.pass_time(200)
    assert not world.service.topics._waiting
