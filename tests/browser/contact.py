"""Every page of a real server beside other pictures: `python -m tests.browser.contact FOLDER [OTHERS] [SECONDS]`.

A server with clients and workers of three protocols is pictured after some time of load. OTHERS is a
folder of pictures with the same names, such as an earlier FOLDER; `contact-*.png` shows both.
"""

from __future__ import annotations

import html
import sys
import tempfile
import time
from pathlib import Path

from tests.browser.browser import Browser
from tests.browser.shots import SCHEMES, WIDTHS, started
from tests.browser.world import Shop, World, world

STATES = ("ready", "running", "retrying", "scheduled", "done", "dead", "cancelled")
_SHEET = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>
body {{ margin: 16px; font: 13px sans-serif; background: #888; width: {width}px; }}
.pair {{ display: flex; gap: 16px; align-items: start; margin-bottom: 24px; }}
figure {{ margin: 0; }} figcaption {{ padding: 4px 0; }} img {{ width: {each}px; display: block; }}
</style>{pairs}"""


def pages_of(around: World) -> dict[str, str]:
    """The address of each page behind the server's, by name: a job of each state has one."""
    pages = {
        "overview": "#/", "jobs": "#/jobs", "errors": "#/errors", "queues": "#/queues",
        "queue": "#/queues/billing", "types": "#/types?range=1h", "workers": "#/workers",
        "schedules": "#/schedules", "settings": "#/settings", "audit": "#/audit", "try": "try",
    }  # fmt: skip
    for state in STATES:
        jobs = around.get(f"jobs?limit=1&state={state}")["jobs"]
        assert isinstance(jobs, list)
        if state != "ready":
            pages[f"jobs-{state}"] = f"#/jobs?state={state}"
        if jobs:
            pages["job" if state == "done" else f"job-{state}"] = f"#/jobs/{jobs[0]['id']}"
    return pages


def picture(
    browser: Browser, address: str, pages: dict[str, str], folder: Path, **look: object
) -> None:
    """One picture of each page, by width and scheme; on a phone the whole page."""
    for name, page in pages.items():
        browser.open(address + page, **look)
        browser.until("!document.querySelector('.loading')")
        if look["width"] == 390:
            # The bar at the bottom of the window would hide a part of a longer page.
            browser.resize(390, int(browser.js("document.documentElement.scrollHeight")))
        browser.shot(folder / f"{name}-{look['width']}-{look['scheme']}.png")


def picture_all(browser: Browser, address: str, pages: dict[str, str], folder: Path) -> None:
    """Pictures of each page in every look."""
    for scheme in SCHEMES:
        for width, height in WIDTHS.items():
            picture(browser, address, pages, folder, width=width, height=height, scheme=scheme)


def sheet(browser: Browser, folder: Path, others: Path, width: int, scheme: str) -> None:
    """One picture with a pair for each page, theirs on the right."""
    look = f"{width}-{scheme}"
    each = {1440: 960, 390: 390}[width]
    pairs = []
    for ours in sorted(folder.glob(f"*-{look}.png")):
        theirs = others / ours.name
        images = [path for path in (ours, theirs) if path.exists()]
        figures = "".join(
            f"<figure><figcaption>{html.escape(ours.stem)}</figcaption><img src={path.as_uri()}></figure>"
            for path in images
        )
        pairs.append(f"<div class=pair>{figures}</div>")
    path = folder / f"contact-{look}.html"
    title = f"Every page, {look}"
    path.write_text(
        _SHEET.format(title=title, width=2 * each + 16, each=each, pairs="".join(pairs))
    )
    browser.picture_of_file(path.as_uri(), str(path.with_suffix(".png")), 2 * each + 48)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    others = Path(sys.argv[2]).resolve() if sys.argv[2:] else None
    seconds = float(sys.argv[3]) if sys.argv[3:] else 60
    with tempfile.TemporaryDirectory() as data, world(Path(data)) as around:
        shop = Shop(around)
        shop.start()
        time.sleep(seconds)
        take(around, folder, others)
        shop.close()


def take(around: World, folder: Path, others: Path | None) -> None:
    with started(folder / "log") as browser:
        picture_all(browser, around.address, pages_of(around), folder)
        if others:
            for width in WIDTHS:
                for scheme in SCHEMES:
                    sheet(browser, folder, others, width, scheme)


if __name__ == "__main__":
    main()
