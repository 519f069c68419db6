"""Publish and subscribe: by the beginning of the topic, to whoever is there and reads."""

from __future__ import annotations

import pytest

from franca.core.limits import Limits
from franca.protocols.eventmq import publish, zmtp
from tests.protocols.eventmq.puppet import World


@pytest.mark.parametrize("door", ["eventmq", "eventmq_publish"])
def test_a_message_reaches_every_subscriber_whose_prefix_matches(door: str) -> None:
    world = World()
    exact, prefix, everything = (world.subscriber(t) for t in (b"news.de", b"news", b""))
    other = world.subscriber(b"newsy")
    publisher = world.peer(door=door)
    publisher.say("PUBLISH", "news.de", '"hello"')
    for subscriber in (exact, prefix, everything):
        assert subscriber.heard() == [[b"news.de", b'"hello"']]
    assert other.heard() == []
    assert publisher.heard() == []


def test_the_documents_form_has_headers_in_between() -> None:
    world = World()
    subscriber = world.subscriber(b"t")
    world.peer().say("PUBLISH", "topic", "header", "message")
    assert subscriber.heard() == [[b"topic", b"message"]]


def test_several_topics_of_one_subscriber_bring_a_message_once() -> None:
    world = World()
    subscriber = world.subscriber(b"a", b"ab", b"b")
    publisher = world.peer()
    for topic in ("abc", "b", "c"):
        publisher.say("PUBLISH", topic, "x")
    assert [m[0] for m in subscriber.heard()] == [b"abc", b"b"]


def test_a_subscription_that_is_cancelled_is_over_when_all_its_twins_are() -> None:
    world = World()
    subscriber, publisher = world.subscriber(b"a", b"a"), world.peer()
    subscriber.send(zmtp.message([b"\x00a"]))
    publisher.say("PUBLISH", "a", "1")
    subscriber.send(zmtp.message([b"\x00a"]) + zmtp.message([b"\x00never"]))
    publisher.say("PUBLISH", "a", "2")
    assert subscriber.heard() == [[b"a", b"1"]]


def test_newer_peers_subscribe_by_commands() -> None:
    world = World()
    subscriber, publisher = world.subscriber(), world.peer()
    subscriber.send(zmtp.command(b"SUBSCRIBE", b"a"))
    publisher.say("PUBLISH", "a", "1")
    subscriber.send(zmtp.command(b"CANCEL", b"a"))
    publisher.say("PUBLISH", "a", "2")
    assert subscriber.heard() == [[b"a", b"1"]]


def test_who_does_not_read_loses_messages_and_holds_up_nobody() -> None:
    world = World()
    slow, other, publisher = world.subscriber(b""), world.subscriber(b""), world.peer()
    slow.link.full = True
    publisher.say("PUBLISH", "a", "1")
    slow.link.full = False
    publisher.say("PUBLISH", "a", "2")
    assert slow.heard() == [[b"a", b"2"]]
    assert len(other.heard()) == 2
    assert world.service.topics.dropped == 1


def test_who_hung_up_is_forgotten() -> None:
    world = World()
    subscriber = world.subscriber(b"")
    subscriber.hang_up()
    world.peer().say("PUBLISH", "a", "1")
    assert world.service.topics.bytes == 0
    assert world.service.topics._subscribers == {}


def test_a_large_message_is_whole() -> None:
    world = World()
    subscriber = world.subscriber(b"big")
    world.peer().say("PUBLISH", "big" * 100, b"x" * 3_000_000)
    assert subscriber.heard() == [[b"big" * 100, b"x" * 3_000_000]]


def test_too_many_or_too_long_topics_are_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "TOPICS_MAX", 3)
    world = World()
    assert not world.subscriber(b"1", b"2", b"3").is_hung_up
    assert world.subscriber(b"1", b"2", b"3", b"4").is_hung_up
    assert world.subscriber(b"x" * 1_025).is_hung_up


def test_a_subscribers_other_messages_mean_nothing() -> None:
    world = World()
    subscriber = world.subscriber(b"a")
    subscriber.send(zmtp.message([b"\x02what", b"else"]) + zmtp.message([b""]))
    assert not subscriber.is_hung_up


def test_all_who_hear_a_large_message_share_it() -> None:
    world = World()
    subscribers = [world.subscriber(b"a", b"") for _ in range(3)]
    body = b"x" * 100_000
    world.service.topics.publish(b"a", body)
    assert [link.link.out[-1] is body for link in subscribers] == [True] * 3
    assert [len(link.link.out) for link in subscribers] == [2] * 3  # once, though asked for twice


def test_all_subscriptions_together_are_bounded_and_freed() -> None:
    world = World(limits=Limits(subscribed_bytes=1_000))
    one = world.subscriber(b"a", b"b", b"c")
    assert world.service.topics.bytes <= 1_000
    two = world.subscriber(b"d")
    assert two.is_hung_up
    assert not one.is_hung_up
    one.send(zmtp.message([b"\x00a"]))
    assert not world.subscriber(b"d").is_hung_up
