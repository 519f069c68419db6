"""What Prometheus is told: right after jobs of several protocols, bounded, and made in slices."""

import asyncio
import platform
from random import Random
from typing import Any

import pytest
from prometheus_client.exposition import choose_encoder

from franca.core.history import MINUTE_MS, OTHER, Rates, RatesQuery, Tally, bucket_of
from franca.core.model import Job
from franca.core.queues import Queue
from franca.protocols.conversation import Peer
from franca.web import metric_queues, metric_tallies
from franca.web import metrics as web_metrics
from franca.web.metrics import Metrics, media_for
from tests.control.kit import FakeNode
from tests.protocols.beanstalkd.puppet import Puppet as BeanstalkdPuppet
from tests.protocols.faktory.puppet import Puppet as FaktoryPuppet
from tests.protocols.gearman.puppet import Puppet as GearmanPuppet
from tests.support import faktory
from tests.support.gearman import Type
from tests.support.protocols import listeners
from tests.web.metric_kit import OPEN_METRICS, Scrape, faults, histogram_faults, take

PEER = Peer("127.0.0.1:50001", local=True)
PROTOCOLS = ("faktory", "gearman", "beanstalkd")


class Busy(FakeNode):
    """A server of three protocols, some of whose jobs have run."""

    def __init__(self, **limits: int) -> None:
        super().__init__(**limits)
        services = [listeners(name, self.broker, Random(1)) for name in PROTOCOLS]
        self.serve({name: service for some in services for name, service in some.items()})

    def work(self) -> None:
        """Push and run some jobs."""
        worker = self.add(FaktoryPuppet(self, self.open_link("faktory", PEER))).hello("w1")
        for number in range(4):
            worker.push(faktory.job(f"jid-number-{number}", queue="mail", retry=0))
        self.now += 1_000
        for number in range(3):
            worker.fetch("mail")
            self.now += 300
            if number:
                worker.ack(f"jid-number-{number}")
            else:
                worker.fail("jid-number-0")
        gearman = self.add(GearmanPuppet(self, self.open_link("gearman", PEER)))
        handle = gearman.submit("resize", kind=Type.SUBMIT_JOB_BG)
        other = self.add(GearmanPuppet(self, self.open_link("gearman", PEER))).can_do("resize")
        assert other.call(Type.GRAB_JOB, wanted=(Type.JOB_ASSIGN,))
        other.complete(handle)
        tube = self.add(BeanstalkdPuppet(self, self.open_link("beanstalkd", PEER)))
        assert tube.ask("use mail") == "USING mail"
        tube.put(b'{"jid":"abcdefgh1234","jobtype":"t","args":[]}')
        tube.ask("use tube")
        tube.put()


class Named(FakeNode):
    """A server whose queues a test makes, with counts that it says."""

    def make(self, name: str, done: int = 1, **counts: int) -> Queue:
        """A queue that has counted so much."""
        queue = self.broker.queue(name)
        queue.pushed = queue.done = done
        for field, value in counts.items():
            setattr(queue, field, value)
        return queue

    def forget(self, name: str) -> None:
        """The queue has been idle for long."""
        self.broker.queue_list.unlist(self.broker.queues[name])

    def scrape(self, metrics: Metrics) -> Scrape:
        """A later scrape."""
        self.now += 60_000
        return take(metrics)


def completed(scrape: Scrape) -> dict[str, float]:
    return scrape.values("franca_jobs_completed_total", "queue")


# -- what it says ---------------------------------------------------------------------------------


def test_jobs_of_three_protocols_are_counted() -> None:
    node = Busy()
    metrics = Metrics(node)
    node.work()
    early = take(metrics)
    assert early.values("franca_connections", "protocol") == {
        "faktory": 1,
        "gearman": 2,
        "beanstalkd": 1,
    }
    assert early("franca_workers", protocol="faktory", state="idle") == 1
    assert early("franca_workers", protocol="gearman", state="idle") == 1
    assert early("franca_workers", protocol="faktory", state="quiet") == 0
    assert early.values("franca_queue_workers", "queue") == {"mail": 1, "resize": 1, "tube": 0}
    node.now += 2 * MINUTE_MS
    node.run()
    found = take(metrics)
    assert found("franca_jobs_pushed_total", queue="mail") == 5
    assert found("franca_jobs_completed_total", queue="mail") == 2
    assert found("franca_jobs_failed_total", queue="mail") == 1
    assert found("franca_jobs_completed_total", queue="resize") == 1
    assert found("franca_jobs_dead_total", queue="resize") == 0
    assert found("franca_queue_jobs", queue="mail", state="ready") == 2
    assert found("franca_queue_jobs", queue="tube", state="ready") == 1
    assert found("franca_queue_oldest_job_age_seconds", queue="tube") == 120
    assert found("franca_jobs", state="done") == 3
    assert found("franca_jobs_crossed_total", via="faktory", by="faktory") == 2
    assert found("franca_jobs_crossed_total", via="gearman", by="gearman") == 1
    waits = "franca_job_wait_seconds_bucket"
    assert found(waits, queue="mail", le="+Inf") == 2
    assert found(waits, queue="mail", le="1.024") == 0
    assert found(waits, queue="mail", le="4.096") == 2
    assert found("franca_job_duration_seconds_bucket", queue="mail", le="1.024") == 2
    assert found("franca_job_duration_seconds_bucket", queue="mail", le="0.256") == 0
    assert found("franca_type_jobs_completed_total", type="resize") == 1
    assert (
        found("franca_build_info", version="test", store="memory", python=platform.python_version())
        == 1
    )


def test_both_formats_are_sound_and_say_the_same() -> None:
    node = Busy()
    metrics = Metrics(node)
    node.work()
    node.commits.add(0.002)
    node.groups.add(7)
    node.now += 2 * MINUTE_MS
    text, media = asyncio.run(metrics.scrape())
    assert media == "text/plain; version=0.0.4; charset=utf-8"
    assert faults(text.decode()) == []
    plain, opened = Scrape(text), take(metrics, OPEN_METRICS)
    assert plain.series == opened.series
    assert histogram_faults(plain) == []
    assert opened.content.endswith(b"\n# EOF\n")
    assert opened.content.count(b"# EOF") == 1
    assert plain("franca_store_commit_duration_seconds_bucket", le="0.01") == 1
    assert plain("franca_store_commit_duration_seconds_sum") == 0.002
    assert plain("franca_store_batch_jobs_bucket", le="1.0") == 0
    assert plain("franca_store_batch_jobs_count") == plain("franca_store_commits_total") == 1


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("a counter ends in _total", "# HELP franca_a x\n# TYPE franca_a counter\nfranca_a 1\n"),
        ("not in base units", "# HELP franca_a_ms x\n# TYPE franca_a_ms gauge\nfranca_a_ms 1\n"),
        ("no help", "# TYPE franca_a gauge\nfranca_a 1\n"),
        ("not a name of ours", "# HELP a x\n# TYPE a gauge\na 1\n"),
        ("only a counter ends so", "# HELP franca_a_total x\n# TYPE franca_a_total gauge\n"),
        ("of no type", "franca_a 1\n"),
        ("said twice", "# HELP franca_a x\n# HELP franca_a x\n# TYPE franca_a gauge\n"),
    ],
)
def test_a_planted_fault_is_seen(fault: str, text: str) -> None:
    assert fault in "".join(faults(text))


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("", "text/plain"),
        ("*/*", "text/plain"),
        ("text/plain;version=0.0.4", "text/plain"),
        ("application/openmetrics-text; version=1.0.0", OPEN_METRICS),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
            "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.2",
            OPEN_METRICS,
        ),
        ("text/plain, application/openmetrics-text;q=0.5", "text/plain"),
        ("application/openmetrics-text;q=0", "text/plain"),
        ("application/openmetrics-text;q=x", "text/plain"),
    ],
)
def test_the_format_is_the_one_that_is_wanted_most(accept: str, media: str) -> None:
    assert media_for(accept) == media


def test_a_job_whose_time_has_come_is_overdue_and_one_to_come_is_not() -> None:
    node = FakeNode()
    metrics = Metrics(node)
    node.submit(run_at=node.now + 5_000)
    assert take(metrics)("franca_scheduler_lag_seconds") == 0
    node.now += 7_000
    assert take(metrics)("franca_scheduler_lag_seconds") == 2


# -- names ----------------------------------------------------------------------------------------


def test_names_are_escaped() -> None:
    node = Named()
    names = ['say "hi"', "a\\b", "two\nlines", "ü€😀", "", "{}=,"]
    for number, name in enumerate(names):
        node.make(name, number + 1)
    metrics = Metrics(node)
    expected = {name: number + 1 for number, name in enumerate(names)}
    assert completed(take(metrics)) == expected
    assert completed(take(metrics, OPEN_METRICS)) == expected


def test_names_that_cannot_be_told_are_summed() -> None:
    node = Named()
    for name in ("n" * 129, "\udcff", OTHER):
        node.make(name, 5)
    node.make("n" * 128, 1)
    assert completed(take(Metrics(node))) == {"n" * 128: 1, OTHER: 15}


def test_queues_beyond_those_that_have_series_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_queues, "NAMES_MAX", 3)
    node = Named()
    for number in range(5):
        node.make(f"q{number}", 10 + number, paused=True, dead=2)
    found = take(Metrics(node))
    assert completed(found) == {"q0": 10, "q1": 11, "q2": 12, OTHER: 27}
    assert not found.has("franca_queue_workers", queue=OTHER)
    assert found("franca_queue_paused", queue=OTHER) == 2
    assert found("franca_queue_jobs", queue=OTHER, state="dead") == 4
    assert found("franca_jobs", state="dead") == 10


def test_no_counter_goes_back_while_queues_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_queues, "NAMES_MAX", 4)
    rng = Random(7)
    node = Named()
    metrics = Metrics(node)
    told: dict[str, float] = {}
    ran = 0
    made: dict[str, Queue] = {}
    for _ in range(300):
        for _ in range(rng.randrange(4)):
            name = f"q{rng.randrange(9)}"
            if name not in node.broker.queues:
                made[name] = node.make(name, 0)
            steps = rng.randrange(5)
            made[name].done += steps
            made[name].pushed += steps
            ran += steps
        for name in rng.sample(sorted(node.broker.queues), min(1, len(node.broker.queues))):
            node.forget(name)
            if rng.random() < 0.3:
                made[name] = node.make(name, 0)
        now = completed(node.scrape(metrics))
        assert now.get(OTHER, 0) >= told.get(OTHER, 0)
        # What is told anew never has more in it than has happened since the scrape before.
        assert now.get(OTHER, 0) - told.get(OTHER, 0) <= ran
        ran = 0
        told = now


def test_a_queue_that_is_forgotten_is_not_told_again_with_the_others() -> None:
    node = Named()
    metrics = Metrics(node)
    queue = node.make("old", 1_000)
    assert completed(node.scrape(metrics)) == {"old": 1_000}
    queue.done += 3
    node.forget("old")
    assert completed(node.scrape(metrics)) == {OTHER: 3}
    node.make("old", 2)
    assert completed(node.scrape(metrics)) == {"old": 2, OTHER: 3}
    node.forget("old")
    node.make("old", 1)
    assert completed(node.scrape(metrics)) == {"old": 1, OTHER: 3}


def test_a_queue_stays_with_the_others_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_queues, "NAMES_MAX", 1)
    node = Named()
    metrics = Metrics(node)
    node.make("first", 1)
    node.make("second", 10)
    assert completed(node.scrape(metrics)) == {"first": 1, OTHER: 10}
    node.forget("first")
    assert completed(node.scrape(metrics)) == {OTHER: 10}
    node.make("third", 5)
    assert completed(node.scrape(metrics)) == {"third": 5, OTHER: 10}


def test_a_queue_that_nobody_pushed_to_has_no_series() -> None:
    node = FakeNode()
    node.broker.queue_list.get_or_make("only waited for")
    assert completed(take(Metrics(node))) == {}


# -- minutes --------------------------------------------------------------------------------------


class Counting(FakeNode):
    """A server whose store has one job a minute of each name, and notes what it was asked."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.asked: list[RatesQuery] = []
        self.gaps = False

    async def rates(self, query: RatesQuery) -> Rates:
        self.asked.append(query)
        at = list(range(query.since, query.until + MINUTE_MS, query.step_ms))
        one = Tally(done=1, failed=2, dead=3, waits={bucket_of(1_000): 1}, runs={bucket_of(5): 1})
        return Rates(
            query.step_ms, at, [None if self.gaps else dict.fromkeys(self.names, one) for _ in at]
        )


def done_by_type(node: FakeNode, metrics: Metrics) -> dict[str, float]:
    return take(metrics).values("franca_type_jobs_completed_total", "type")


def test_each_minute_is_counted_once_when_it_is_over() -> None:
    node = Counting("a")
    node.now = node.now // MINUTE_MS * MINUTE_MS
    metrics = Metrics(node)
    assert done_by_type(node, metrics) == {}
    node.now += MINUTE_MS
    assert done_by_type(node, metrics) == {}
    node.now += 10_000
    assert done_by_type(node, metrics) == {"a": 1}
    node.now += 30_000
    assert done_by_type(node, metrics) == {"a": 1}
    assert len(node.asked) == 2, "of queues and of types, once for the minute"
    node.now += 3 * MINUTE_MS
    found = take(metrics)
    assert found("franca_type_jobs_completed_total", type="a") == 4
    assert found("franca_type_jobs_failed_total", type="a") == 8
    assert found("franca_type_jobs_dead_total", type="a") == 12
    assert found("franca_type_job_duration_seconds_bucket", type="a", le="0.004") == 0
    assert found("franca_type_job_duration_seconds_bucket", type="a", le="0.016") == 4
    assert found("franca_type_job_wait_seconds_bucket", type="a", le="1.024") == 4


def test_gaps_count_nothing_and_long_silence_is_not_made_up_for() -> None:
    node = Counting("a")
    metrics = Metrics(node)
    node.gaps = True
    node.now += 5 * MINUTE_MS
    assert done_by_type(node, metrics) == {}
    node.gaps = False
    node.now += 10 * metric_tallies.CATCH_UP_MS
    assert done_by_type(node, metrics) == {"a": 60}


def test_types_beyond_those_that_have_series_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_tallies, "NAMES_MAX", 2)
    node = Counting("a", "b", "c", "d" * 200, OTHER)
    metrics = Metrics(node)
    node.now += 2 * MINUTE_MS
    first = done_by_type(node, metrics)
    assert first.keys() == {"a", "b", OTHER}
    assert first[OTHER] == 3 * first["a"]


def test_a_histogram_of_a_queue_is_there_as_long_as_its_counters() -> None:
    node = Counting("q", "unheard of")
    node.submit("q")
    metrics = Metrics(node)
    node.now += 2 * MINUTE_MS
    buckets = "franca_job_wait_seconds_bucket"
    assert set(take(metrics).values(buckets, "queue")) == {"q", OTHER}
    node.broker.queue_list.unlist(node.broker.queues["q"])
    node.now += 2 * MINUTE_MS
    assert set(take(metrics).values(buckets, "queue")) == {OTHER}


# -- how it is made -------------------------------------------------------------------------------


def test_many_who_ask_within_a_second_cost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Named()
    node.make("q", 1)
    metrics = Metrics(node)

    async def two() -> tuple[bytes, bytes]:
        (one, _), (other, _) = await asyncio.gather(metrics.scrape(), metrics.scrape())
        return one, other

    one, other = asyncio.run(two())
    assert one is other
    node.make("q", 2)
    node.now += 999
    assert completed(take(metrics)) == {"q": 1}
    node.now += 60_000
    assert completed(take(metrics)) == {"q": 2}


class Pass:
    """Counts passes of the event loop, and what happens in each."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self._in_this: dict[str, int] = {}
        self.all: dict[str, int] = {}

    def note(self, what: str, count: int = 1) -> None:
        self.all[what] = self.all.get(what, 0) + count
        now = self._in_this[what] = self._in_this.get(what, 0) + count
        self.most[what] = max(self.most.get(what, 0), now)

    async def run(self, scrape: Any) -> Any:
        """Scrape, while others take their turns."""
        task = asyncio.ensure_future(scrape)
        while not task.done():
            self._in_this.clear()
            await asyncio.sleep(0)
        return await task


class Looked(Queue):
    """A queue that notes when it is looked at."""

    passes: Pass

    def first(self) -> Job | None:
        self.passes.note("queues")
        return super().first()


@pytest.mark.parametrize("count", [1_000, 20_000])
def test_a_scrape_goes_in_slices(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Pass()
    monkeypatch.setattr(Looked, "passes", passes, raising=False)
    node = Counting(*(f"q{number}" for number in range(999)))
    queues = node.broker.queue_list
    for number in range(count):
        name = f"q{number}"
        queues.by_name[name] = Looked(name=name, windows=queues.windows, listed=True)

    def counted(media: str) -> Any:
        encoder, content_type = choose_encoder(media)

        def write(alone: Any) -> bytes:
            (metric,) = alone.collect()
            passes.note("samples", len(metric.samples))
            return bytes(encoder(alone))

        return write, content_type

    monkeypatch.setattr("franca.web.metrics.choose_encoder", counted)
    metrics = Metrics(node)
    node.now += 2 * MINUTE_MS
    content, _ = asyncio.run(passes.run(metrics.scrape()))
    assert passes.all["queues"] == count
    assert passes.most["queues"] <= metric_queues.QUEUES_AT_ONCE
    assert passes.most["samples"] <= web_metrics.SAMPLES_AT_ONCE
    assert passes.all["samples"] > 60_000
    found = Scrape(content)
    assert len(completed(found)) == (1_000 if count == 1_000 else 1_001)
    assert len(content) < 8_000_000
    assert faults(content.decode()) == []
