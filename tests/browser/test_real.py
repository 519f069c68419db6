"""The dashboard of a real server, in a real browser, with unmodified clients and workers of three protocols.

DASHBOARD_PICTURES=FOLDER keeps the pictures that it takes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.browser.browser import Browser
from tests.browser.contact import pages_of, picture_all
from tests.browser.world import World, world
from tests.support.shared import eventually

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning:gear")


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as around:
        yield around


@pytest.fixture(autouse=True)
def _nothing_amiss(browser: Browser) -> Iterator[None]:
    """Whatever a test does: no request goes elsewhere, no script fails, and the policy forbids nothing."""
    yield
    assert browser.elsewhere() == []
    assert browser.complaints() == []


def shown(state: str, queue: str) -> str:
    return f"#/jobs?state={state}&q=queue:{queue}"


def test_jobs_of_three_protocols_arrive_while_the_page_is_looked_at(
    browser: Browser, around: World
) -> None:
    browser.open(f"{around.address}#/")
    browser.until_shown("franca push default hello world")
    browser.js("window.never_loaded_again = true")
    line = browser.js("document.querySelector('.ways code').innerText")
    assert line.startswith(f"curl {around.address}api/v1/jobs ")
    if shutil.which("curl"):
        subprocess.run(["sh", "-c", line], check=True, capture_output=True, timeout=30)
    else:
        print("curl is not here: what a new server shows is NOT tried")
    around.push_faktory("default", "CreateInvoice", [0, "a"])
    browser.until_shown("Needs attention")
    browser.press("g", "j")
    browser.until("document.title === 'Ready jobs · Franca'")
    browser.until_shown("CreateInvoice")
    around.push_gearman("resize", [0, "b.jpg"])
    browser.until_shown("resize")
    around.push_beanstalkd("reports", [0, "c.pdf"])
    browser.until_shown("reports")
    via = "[...document.querySelectorAll('td.route-col')].map((cell) => cell.innerText.trim().split(/\\s/)[0])"
    assert browser.js(via)[:3] == ["bs", "gm", "fk"]
    assert browser.js("window.never_loaded_again")


def test_one_is_found_by_its_filter_and_opened(browser: Browser, around: World) -> None:
    around.push_gearman("thumbnails", [0, "wanted.jpg"])
    around.push_gearman("thumbnails", [0, "other.jpg"])
    browser.open(f"{around.address}#/jobs")
    browser.press("/")
    browser.type('via:gearman arg:"wanted"')
    browser.press("Enter")
    browser.until("document.querySelectorAll('tbody tr').length === 1")
    browser.press("j", "Enter")
    browser.until_shown("over Gearman to thumbnails, stored on disk before it was acknowledged")
    browser.until_shown('"wanted.jpg"')


def test_a_dead_job_is_retried_and_its_worker_gets_it(browser: Browser, around: World) -> None:
    worker = around.worker("beanstalkd", "burying", ["orders"])
    around.push_beanstalkd("orders", [-7])
    assert worker.said("ran")["number"] == -7
    browser.open(around.address + shown("dead", "orders"))
    browser.until("document.querySelectorAll('tbody tr').length === 1")
    browser.press("j", "x")
    browser.until_shown("1 selected")
    browser.press("r")
    browser.until_shown("1 job made ready.")
    assert worker.said("ran")["number"] == -7
    browser.until("document.querySelectorAll('tbody tr').length === 1")
    browser.press("j", "Enter")
    browser.until_shown("Attempt 2 failed")
    worker.close()


def test_workers_of_one_machine_have_one_host_and_are_asked_what_they_can_be_asked(
    browser: Browser, around: World
) -> None:
    around.worker("gearman", "worker-one", ["odd"])
    around.worker("faktory", "worker-two", ["odd"])
    browser.open(f"{around.address}#/workers?q=odd")
    browser.until_shown("2 workers on 1 host")
    rows = "[...document.querySelectorAll('tbody tr')].map((row) => [row.dataset.key.split('/')[0], row.querySelectorAll('[data-act=stop]').length])"
    assert dict(browser.js(rows)) == {"gearman": 0, "faktory": 1}


def test_a_ready_job_of_a_paused_queue_is_not_said_to_wait_for_a_worker(
    browser: Browser, around: World
) -> None:
    around.post("jobs", {"queue": "halted", "type": "any"})
    (job,) = cast("list[dict[str, int]]", around.get("jobs?q=queue:halted")["jobs"])
    browser.open(f"{around.address}#/jobs/{job['id']}")
    browser.until_shown("waiting for a worker of halted")
    around.post("queues/halted/pause", {})
    browser.until_shown("but halted is paused")


def test_a_queue_that_is_paused_gives_out_nothing_until_it_goes_on(
    browser: Browser, around: World
) -> None:
    worker = around.worker("gearman", "painter", ["paint", "unpaused"])
    around.push_gearman("paint", [1])
    assert worker.said("ran")["number"] == 1
    browser.open(f"{around.address}#/queues/paint")
    browser.click("[data-act=turn]")
    browser.until_shown("paint is paused")
    around.push_gearman("paint", [2])
    browser.until("document.querySelector('.figure-value').innerText === '1'")
    # What it is given after that comes first, and while it is paused, alone.
    around.push_gearman("unpaused", [3])
    assert worker.said("ran")["number"] == 3
    assert worker.has_said() == []
    browser.click("[data-act=turn]")
    assert worker.said("ran")["number"] == 2
    worker.close()


def test_a_schedule_made_in_the_dialog_fires(browser: Browser, around: World) -> None:
    worker = around.worker("faktory", "ticking-1", ["ticks"], types=["tick"])
    browser.open(f"{around.address}#/schedules")
    browser.press("g", "s")
    browser.click("[data-act=add]")
    typed = {"id": "ticker", "queue": "ticks", "type": "tick", "args": "[5]", "every": "1s"}
    for name, value in typed.items():
        browser.fill(f"[name={name}]", value)
    browser.click("dialog [type=submit]")
    browser.until_shown("ticker was created.")
    assert worker.said("ran")["number"] == 5
    browser.until("document.querySelector('tbody').innerText.includes('done')")
    browser.js("document.querySelector('[data-act=drop]').click()")
    browser.click("dialog [value=yes]")
    browser.until_shown("was deleted")
    worker.close()


def test_keys_and_the_palette_lead_everywhere(browser: Browser, around: World) -> None:
    around.push_beanstalkd("letters", [0])
    browser.open(f"{around.address}#/")
    browser.press("g", "q")
    browser.until("document.title === 'Queues · Franca'")
    browser.until_shown("letters")
    browser.press("?")
    browser.until("document.querySelector('dialog[open]')")
    browser.until_shown("Ctrl")
    browser.press("Escape")
    browser.until("!document.querySelector('dialog[open]')")
    browser.press("Control+k")
    browser.until("document.querySelectorAll('.palette-list li').length > 0")
    browser.type("pause letters")
    chosen = "document.querySelector('.palette-list [aria-selected=true]')"
    browser.until(f"{chosen}?.innerText.includes('Pause letters')")
    browser.press("Enter")
    eventually(lambda: paused(around, "letters"), "letters is paused")
    browser.until("document.querySelector('tbody').innerText.includes('paused')")


def paused(around: World, queue: str) -> bool:
    found = around.get(f"queues/{queue}")["paused"]
    assert isinstance(found, bool)
    return found


@pytest.mark.long
def test_every_page_is_pictured(browser: Browser, around: World, tmp_path: Path) -> None:
    worker = around.worker("beanstalkd", "last", ["pictured"])
    around.push_beanstalkd("pictured", [1])
    worker.said("ran")
    folder = Path(os.environ.get("DASHBOARD_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    pages = pages_of(around)
    picture_all(browser, around.address, pages, folder)
    assert len(list(folder.glob("*.png"))) >= 4 * len(pages)
