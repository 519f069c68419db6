"""Samples of the broker's counters: rates, gaps, and how much is kept."""

from franca.control.rates import KEPT, LATE_MS, QUEUES_MAX, SAMPLE_MS, Counters, Rates

START = 1_900_000_000_000


def pushed_of(line):  # type: ignore[no-untyped-def]
    return line.pushed


def ready_of(line):  # type: ignore[no-untyped-def]
    return line.ready


def sampled(counts: list[int], step_ms: int = SAMPLE_MS) -> Rates:
    """A queue into which so many jobs have been pushed at each sample."""
    rates = Rates()
    for number, pushed in enumerate(counts):
        rates.begin(START + number * step_ms, Counters(pushed, 0, 0, number))
        rates.put("q", Counters(pushed, 0, 0, number))
        rates.end()
    return rates


def test_a_rate_is_what_the_counters_grew_by_in_a_minute() -> None:
    rates = sampled([0, 15, 30, 45, 60, 75, 90])
    now = START + 6 * SAMPLE_MS + 5_000
    told = rates.per_second(rates.queues["q"], Counters(95), now)
    assert told is not None
    assert told.pushed == 1.0


def test_a_young_server_tells_the_rate_since_its_start() -> None:
    rates = sampled([0])
    assert rates.per_second(rates.queues["q"], Counters(7), START + 500) is None
    told = rates.per_second(rates.queues["q"], Counters(7, 3, 1), START + 2_000)
    assert told is not None
    assert (told.pushed, told.done, told.failed) == (3.5, 1.5, 0.5)


def test_it_is_time_for_a_sample_every_15_seconds() -> None:
    rates = Rates()
    assert rates.is_due(START)
    rates.begin(START, Counters())
    assert not rates.is_due(START + SAMPLE_MS - 1)
    assert rates.is_due(START + SAMPLE_MS)


def test_a_series_has_a_point_for_each_sample_but_the_first() -> None:
    rates = sampled([0, 30, 30, 90])
    line = rates.queues["q"]
    assert rates.rate(line, (pushed_of,)) == [2.0, 0.0, 4.0]
    assert rates.column(line, ready_of) == [1, 2, 3]
    assert [at - START for at in rates.times()] == [15_000, 30_000, 45_000]


def test_a_server_that_slept_leaves_a_gap() -> None:
    rates = sampled([0, 30])
    rates.begin(START + SAMPLE_MS + LATE_MS + 1, Counters(500))
    rates.begin(START + 2 * SAMPLE_MS + LATE_MS + 1, Counters(515))
    assert rates.rate(rates.all, (pushed_of,)) == [2.0, None, 1.0]


def test_counters_that_were_set_back_count_from_zero() -> None:
    rates = sampled([0, 1_000, 30])
    assert rates.rate(rates.queues["q"], (pushed_of,)) == [round(1_000 / 15, 3), 2.0]


def test_an_hour_is_kept_and_a_queue_that_came_later_has_gaps_before() -> None:
    rates = sampled([number * 15 for number in range(KEPT + 60)])
    rates.begin(START + (KEPT + 60) * SAMPLE_MS, Counters(10**6))
    rates.put("q", Counters((KEPT + 60) * 15))
    rates.put("late", Counters(5))
    rates.end()
    assert rates.rate(rates.queues["q"], (pushed_of,)) == [1.0] * KEPT
    assert rates.rate(rates.queues["late"], (pushed_of,)) == [None] * (KEPT - 1) + [0.333]
    rates.begin(START + (KEPT + 61) * SAMPLE_MS, Counters(10**6))
    rates.put("late", Counters(20))
    assert rates.rate(rates.queues["late"], (pushed_of,))[-2:] == [0.333, 1.0]


def test_queues_that_are_gone_are_forgotten_and_too_many_are_left_out() -> None:
    rates = sampled([0])
    rates.begin(START + SAMPLE_MS, Counters())
    for number in range(QUEUES_MAX + 10):
        rates.put(f"q{number}", Counters())
    rates.end()
    assert "q" not in rates.queues
    rates.begin(START + 2 * SAMPLE_MS, Counters())
    rates.put(f"q{QUEUES_MAX + 9}", Counters(1_000_000))
    rates.end()
    [line] = rates.queues.values()
    assert rates.rate(line, (pushed_of,)) == [None, None]


def test_of_too_many_queues_some_are_left_out() -> None:
    rates = sampled([0])
    for number in range(QUEUES_MAX + 10):
        rates.put(f"q{number}", Counters())
    assert len(rates.queues) == QUEUES_MAX


def test_numbers_as_large_as_there_are_do_not_overflow() -> None:
    rates = sampled([0, 1 << 40])
    assert rates.rate(rates.queues["q"], (pushed_of,)) == [round((2**32 - 1) / 15, 3)]


def test_small_charts_have_forty_points() -> None:
    recent = (rates := sampled(list(range(100)))).recent(rates.queues["q"])
    assert recent is not None
    assert len(recent.into) == len(recent.out) == len(recent.depth) == 40


def test_a_minute_is_told_once_with_what_is_left_out_as_one() -> None:
    rates = Rates()
    told = []
    for number in range(10):
        rates.begin(START + number * SAMPLE_MS, Counters(5 * number, 0, 0, 7))
        rates.put("q", Counters(3 * number, 0, 0, 4))
        rates.end()
        told.append(rates.minute())
    minutes = [minute for minute in told if minute is not None]
    assert [bool(minute) for minute in told] == [False] * 4 + [True] + [False] * 3 + [True, False]
    for minute in minutes:
        numbers = {name: (tally.pushed, tally.depth) for name, tally in minute.items()}
        assert numbers == {"q": (12, 4), "*other*": (8, 3)}
