"""Publishers and subscribers of the real `eventmq` package."""

import ast
import json
import threading

from tests.real.emq import Broker, Client, EmqPeers

PREFIXES = ("", "news", "news.sport", "weather")
SUBSCRIBERS = 100
"""As many sockets as the package's own subscriber opens, one for each number."""


def test_what_is_published_reaches_every_subscriber_whose_prefix_matches(client: Client) -> None:
    for prefix in PREFIXES:
        client.subscribe(prefix)
    for prefix in PREFIXES:
        client.do("heard", prefix=prefix, count=1_000, within_ms=200)

    published = {"news.sport": {"score": [1, 2]}, "news": "zwölf", "newspaper": None, "other": 1}
    for topic, message in published.items():
        client.do("publish", topic=topic, message=message)
    expected = [[topic, json.dumps(message)] for topic, message in published.items()]
    assert client.do("heard", prefix="", count=4) == expected
    assert client.do("heard", prefix="news", count=3) == expected[:3]
    assert client.do("heard", prefix="news.sport", count=1) == expected[:1]
    for prefix in PREFIXES:
        assert client.do("heard", prefix=prefix, count=1, within_ms=50) == []


def test_the_subscriber_of_the_package_hears_each_of_its_hundred_topics(
    emq: EmqPeers, broker: Broker, client: Client
) -> None:
    subscriber = emq.program("eventmq_subscriber", broker.addresses["subscribe"])
    over = threading.Event()

    def publish() -> None:
        # Again and again: a subscription takes effect some time after it was made.
        while not over.wait(0.1):
            for number in range(SUBSCRIBERS):
                client.do("publish", topic=str(number), message=number)

    publishing = threading.Thread(target=publish)
    publishing.start()
    try:
        heard = [ast.literal_eval(subscriber.said("heard")["line"]) for _ in range(SUBSCRIBERS)]
    finally:
        over.set()
        publishing.join()
    for number, (topic, message) in enumerate(heard):
        assert topic.startswith(str(number).encode())
        assert message == topic
