"""Whatever texts a job, a queue or a worker has: they are shown, and nothing of them is run."""

from __future__ import annotations

import pytest

from tests.browser.browser import Browser
from tests.browser.shots import PAGES

SHOWN = {name: page for name, page in PAGES.items() if name not in ("empty", "try", "login")}
TYPICAL = ("overview", "jobs-dead", "job-dead", "errors")
REST = [pytest.param(page, marks=pytest.mark.long) for page in SHOWN if page not in TYPICAL]
HARM = "Boolean(window.hit) || document.querySelectorAll('#page script, #page img, [onfocus], [onerror], [onload], iframe, object, a[href^=javascript]').length > 0"


@pytest.mark.parametrize("way", [pytest.param("hostile", marks=pytest.mark.long), "hostile=all"])
@pytest.mark.parametrize("page", [*TYPICAL, *REST])
def test_texts_stay_texts(browser: Browser, dashboard: str, page: str, way: str) -> None:
    browser.open(f"{dashboard}?{way}{SHOWN[page]}")
    assert "window.hit=1" in browser.js(
        "document.body.innerText + document.querySelector('#page').outerHTML"
    )
    assert "could not be displayed" not in browser.js("document.body.innerText")
    # What is under the pointer, in the palette and in completion is made of the same texts.
    browser.js("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.press("Control+k")
    browser.until("document.querySelectorAll('.palette-list li').length > 0")
    browser.type("a")
    browser.press("Escape")
    assert not browser.js(HARM)
    assert [
        c for c in browser.complaints() if "Content Security Policy" in c or "pageerror" in c
    ] == []


def test_completion_and_messages_are_texts(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}?hostile#/jobs?state=dead")
    browser.click("#filter")
    browser.type("queue:")
    browser.until("document.querySelectorAll('#filter-options li').length > 3")
    browser.press("ArrowDown", "Enter", "Escape")
    assert not browser.js(HARM)


def test_an_attack_that_works_is_seen(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/")
    browser.js(
        "document.querySelector('#page').insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit=1\">')"
    )
    assert browser.js(HARM)
