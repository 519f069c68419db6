"""Metrics of a whole server: sockets, a store on a disk, its own loop."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from franca.node.config import load
from franca.node.run import Server
from franca.node.settings import LISTENERS
from franca.web.metrics import Metrics
from tests.support import faktory
from tests.support.beanstalkd import Beanstalkd, put
from tests.support.faktory import Faktory
from tests.support.gearman import Gearman, Type
from tests.support.server import HOST, free_port
from tests.web.metric_kit import Scrape, faults, histogram_faults

SPEAKS = ("faktory", "gearman", "beanstalkd")


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """A server sets the collector up for itself; later tests have it as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def work(ports: dict[str, int]) -> None:
    """Jobs of three protocols; those who wait stay connected no longer than this takes."""
    with (
        Faktory(ports["faktory"]) as client,
        Gearman(ports["gearman"]) as peer,
        Beanstalkd(ports["beanstalkd"]) as tube,
    ):
        client.hello("w1")
        for number in range(3):
            client.push(faktory.job(f"jid-number-{number}", queue="mail"))
            client.fetch("mail")
            client.ack(f"jid-number-{number}")
        peer.can_do("resize")
        peer.submit("resize", kind=Type.SUBMIT_JOB_BG)
        peer.complete(peer.next_job().handle)
        peer.echo()
        tube.send_bytes(put(b"work"))
        tube.read()


async def scraped(server: Server) -> Scrape:
    """Work while the server runs, scrape it, stop it."""
    metrics = Metrics(server)
    await asyncio.to_thread(work, {name: _port(server, name) for name in SPEAKS})
    content, _ = await metrics.scrape()
    assert faults(content.decode()) == []
    return Scrape(content)


def _port(server: Server, name: str) -> int:
    addresses = dict(server.listeners.addresses)
    return int(addresses[name].rpartition(":")[2])


@pytest.mark.parametrize("store", ["sqlite:", "memory:"])
def test_a_server_with_sockets_and_a_disk_is_measured(tmp_path: Path, store: str) -> None:
    listening = {
        f"{name}.listen": f"{HOST}:{free_port()}" if name in SPEAKS else "off" for name in LISTENERS
    }
    settings = load({"data": str(tmp_path / "data"), "store": store, **listening}, {})

    async def run() -> Scrape:
        ready = asyncio.Event()
        server = Server(settings, lambda addresses: ready.set())
        serving = asyncio.create_task(server.serve())
        await asyncio.wait(
            (serving, asyncio.create_task(ready.wait())), return_when=asyncio.FIRST_COMPLETED
        )
        found = await scraped(server)
        server.request_stop()
        assert await serving == 0
        return found

    found = asyncio.run(run())
    assert found("franca_jobs_completed_total", queue="mail") == 3
    assert found("franca_jobs_completed_total", queue="resize") == 1
    assert found("franca_queue_jobs", queue="default", state="ready") == 1
    assert found("franca_jobs", state="done") == 4
    commits = found("franca_store_commits_total")
    assert commits >= (9 if store == "sqlite:" else 1)
    assert found("franca_store_commit_duration_seconds_count") == commits
    assert found("franca_store_batch_jobs_count") == commits
    assert found("franca_store_batch_jobs_sum") >= 5
    assert found.has("franca_store_bytes") is (store == "sqlite:")
    assert found("franca_disk_size_bytes") >= found("franca_disk_free_bytes") > 0
    assert found("franca_process_resident_memory_bytes") > 1e7
    assert found("franca_process_cpu_seconds_total") > 0
    assert found("franca_jobs_crossed_total", via="faktory", by="faktory") == 3
    assert histogram_faults(found) == []
