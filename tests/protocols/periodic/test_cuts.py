"""What a worker is told does not depend on how its bytes were cut."""

from random import Random

from tests.prove.fuzz import World
from tests.prove.hostile import Step

SUBMIT = (b"0001", b"\r", b"\x01q\x01m" + bytes(13))
CAN_DO = (b"0001", b"\x07", b"\x01q")
NO_MESSAGE = (b"\x02",)


def test_who_asked_for_a_job_before_it_broke_the_rules_is_given_it_first() -> None:
    exchange = (
        Step("periodic/client", ((b"\x01",), SUBMIT)),
        Step("periodic/worker", ((b"\x01",), (b"grab", b"\x01"), CAN_DO, NO_MESSAGE)),
    )
    whole = World(exchange).play()
    assert b"grab\x05\x01q\x01m" in whole.heard["periodic/worker"]
    for seed in range(20):
        assert World(exchange).play(Random(seed)).heard == whole.heard
