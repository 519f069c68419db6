"""A supply stops where its bytes do, and goes on from there."""

from pathlib import Path
from random import Random

from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.events import Granted
from franca.core.limits import Limits
from franca.core.model import Demand, NewJob, OnHangUp, Policy
from franca.core.wants import SupplyReady
from franca.store.rows import POLICIES_MAX
from franca.store.sqlite import SqliteStore
from tests.store.kit import StoreFixture, tailed

SMALL = replace(Limits(), window_jobs=2, supply_jobs=4, supply_bytes=5_000)


def test_large_bodies_come_into_memory_a_few_at_a_time_and_all_of_them_come(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "store.db"))
    broker = Broker(SMALL, Random(1))
    broker.restore_at(store.open(), 1)
    for number in range(20):
        broker.submit(NewJob("q", "k", b"%04d" % number * 1_000, Policy(lease_ms=60_000)), 1)
    worker = broker.open_session("w", OnHangUp.KEEP, None)
    got: list[bytes] = []
    largest = 0
    for _ in range(100):
        changes, wants = broker.drain(), broker.take_wants()
        for want, jobs in zip(wants, store.write(changes, wants), strict=True):
            largest = max(largest, sum(len(job.body) for job in jobs))
            assert isinstance(want, SupplyReady)
            broker.supplied_ready(want, jobs, 2)
        store.commit()
        answer = broker.demand(Demand(worker, ("q",), 1), 2)
        if isinstance(answer, Granted):
            got.append(answer.job.body[:4])
            broker.finish(answer.job, "w", b"", 2)
    store.close()
    assert got == [b"%04d" % number for number in range(20)]
    assert 0 < largest <= 8_000


def test_policies_are_shared_and_no_more_of_them_remembered_than_is_of_use(
    s: StoreFixture,
) -> None:
    policies = [Policy(lease_ms=number) for number in range(2 * POLICIES_MAX)]
    s.write(added=[tailed(1 + n, policy=policy) for n, policy in enumerate(policies)])
    found = s.ready()
    assert [job.policy for job in found] == policies
    assert len(s.sqlite._reading._policies) <= POLICIES_MAX
    last, again = s.recall(ids=(found[-1].id,)), s.recall(ids=(found[-1].id,))
    assert last[0].policy is again[0].policy
