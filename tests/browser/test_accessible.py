"""Every page as axe sees it, wide and narrow, light and dark."""

from __future__ import annotations

import pytest

from tests.browser.browser import Browser
from tests.browser.shots import PAGES

SERIOUS = ("serious", "critical")
LOOKS = [(1440, "light"), (390, "dark")]
"""Every colour and every width; the other two pairs have nothing else."""


def serious(browser: Browser) -> list[object]:
    return [fault for fault in browser.faults() if fault["impact"] in SERIOUS]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_a_serious_fault(
    browser: Browser, dashboard: str, page: str, width: int, scheme: str
) -> None:
    browser.open(dashboard + PAGES[page], width=width, scheme=scheme)
    assert serious(browser) == []


DIALOGS = {
    "submit": ("#/", "[data-act=submit]"),
    "schedule": ("#/schedules", "[data-act=add]"),
    "purge": ("#/queues/mail", "[data-act=purge]"),
    "palette": ("#/", "[data-act=palette]"),
    "help": ("#/settings", "[data-act=help]"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("dialog", DIALOGS)
def test_no_dialog_has_a_serious_fault(
    browser: Browser, dashboard: str, dialog: str, scheme: str
) -> None:
    page, opener = DIALOGS[dialog]
    browser.open(dashboard + page, scheme=scheme)
    browser.click(opener)
    browser.until("document.querySelector('dialog[open]')")
    assert serious(browser) == []
    browser.press("Escape")
    browser.until("!document.querySelector('dialog[open]')")


def test_a_fault_is_seen(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/jobs")
    browser.js("document.querySelector('#filter').removeAttribute('aria-label')")
    browser.js("document.querySelector('#filter').removeAttribute('placeholder')")
    assert [fault["id"] for fault in browser.faults() if fault["impact"] in SERIOUS] == ["label"]
