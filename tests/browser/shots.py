"""Pictures of every page: `python -m tests.browser.shots FOLDER [PAGE...]`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.browser.browser import Browser
from tests.browser.serve import serving
from tests.real.fetched import npm

NODE = Path(__file__).with_name("node")
PAGES = {
    "overview": "#/",
    "jobs": "#/jobs",
    "jobs-running": "#/jobs?state=running",
    "jobs-done": "#/jobs?state=done",
    "jobs-dead": "#/jobs?state=dead",
    "job": "#/jobs/48211911",
    "job-dead": "#/jobs/48215907",
    "job-running": "#/jobs/48215996",
    "errors": "#/errors?open=a41f",
    "queues": "#/queues",
    "queue": "#/queues/mail",
    "types": "#/types",
    "workers": "#/workers",
    "schedules": "#/schedules",
    "settings": "#/settings",
    "audit": "#/audit",
    "empty": "?empty#/",
    "try": "try",
    "login": "login",
}
"""Every page, by name."""
WIDTHS = {1440: 900, 390: 844}
SCHEMES = ("light", "dark")


@contextmanager
def started(log: Path) -> Iterator[Browser]:
    """Chromium, driven by a program on Node; `LookupError` says what is missing."""
    chromium = shutil.which("chromium")
    if not chromium:
        raise LookupError("chromium is not on the PATH")
    if complaint := npm("ci", NODE, "package-lock.json"):
        raise LookupError(complaint)
    spec = json.dumps({"chromium": chromium})
    program = Browser([shutil.which("node") or "node", str(NODE / "drive.js"), spec], log)
    try:
        program.said("ready")
        yield program
    finally:
        program.close()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[2:] or list(PAGES)
    with serving() as address, started(folder / "log") as browser:
        for scheme in SCHEMES:
            for width, height in WIDTHS.items():
                for name in wanted:
                    browser.open(address + PAGES[name], width=width, height=height, scheme=scheme)
                    browser.shot(folder / f"{name}-{width}-{scheme}.png", whole=width == 390)
                    for complaint in browser.complaints():
                        print(name, width, scheme, complaint)


if __name__ == "__main__":
    main()
