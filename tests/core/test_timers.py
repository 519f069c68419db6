"""Buckets of timers: nothing rings early, nothing later than a slice, always in the same order."""

from franca.core.timers import Buckets


def test_nothing_rings_before_its_time_and_everything_within_a_slice_after() -> None:
    timers: Buckets[str] = Buckets(50)
    for at in (100, 149, 150):
        timers.add(f"at {at}", at)
    assert timers.due(149) == []
    assert timers.next_at() == 150
    assert (timers.due(150), timers.due(199)) == (["at 100", "at 149"], [])
    assert timers.due(200) == ["at 150"]
    assert timers.next_at() is None


def test_what_was_discarded_does_not_ring() -> None:
    timers: Buckets[str] = Buckets(50)
    bucket = timers.add("gone", 100)
    timers.discard("gone", bucket)
    timers.discard("never there", 7)
    assert timers.next_at() is None
    assert timers.due(10_000) == []


def test_a_slice_rings_in_the_order_in_which_its_timers_were_set() -> None:
    # A set would ring in the order of memory addresses, and no seed could replay that.
    timers: Buckets[object] = Buckets(50)
    things = [object() for _ in range(200)]
    for thing in reversed(things):
        timers.add(thing, 10)
    assert timers.due(50) == list(reversed(things))


def test_timers_that_were_set_and_discarded_leave_nothing_behind() -> None:
    timers: Buckets[int] = Buckets(50)
    timers.add(-1, 7_000_000)
    for number in range(20_000):
        timers.discard(number, timers.add(number, 60_000 + 50 * number))
    assert len(timers._heap) <= 1_003
    timers.add(-2, 6_000_000)
    assert timers.due(6_000_100) == [-2]
    assert timers.next_at() == 7_000_050
    assert timers.due(7_000_050) == [-1]


def test_a_slice_that_was_emptied_and_filled_again_rings_once() -> None:
    timers: Buckets[int] = Buckets(50)
    for number in range(5_000):
        timers.discard(number, timers.add(number, 100))
        timers.discard(number, timers.add(number, 1_000 + 50 * number))
    timers.add(1, 100)
    assert timers.due(1_000_000) == [1]
    assert timers.next_at() is None


def test_clearing_forgets_everything() -> None:
    timers: Buckets[int] = Buckets(50)
    timers.add(1, 10)
    timers.clear()
    assert timers.due(1_000) == []
    timers.add(2, 10)
    assert timers.due(1_000) == [2]
