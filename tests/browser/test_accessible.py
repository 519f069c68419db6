"""Every page as axe sees it, wide and narrow, light and dark."""

from __future__ import annotations

import pytest

from tests.browser.browser import Browser
from tests.browser.shots import PAGES, SCHEMES, WIDTHS

SERIOUS = ("serious", "critical")
LOOKS = [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
TYPICAL = [
    ("overview", 1440, "light"),
    ("jobs-dead", 390, "dark"),
    ("job-dead", 1440, "dark"),
    ("settings", 390, "light"),
]
"""What is always looked at: each of these has much that others have, too."""
ALL = [(page, width, scheme) for page in PAGES for width, scheme in LOOKS]
REST = [pytest.param(*one, marks=pytest.mark.long) for one in ALL if one not in TYPICAL]


def serious(browser: Browser) -> list[object]:
    return [fault for fault in browser.faults() if fault["impact"] in SERIOUS]


@pytest.mark.parametrize(("page", "width", "scheme"), [*TYPICAL, *REST])
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


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
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
