"""What people do with the dashboard, against a made-up server in the page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.browser.browser import Browser
from tests.browser.serve import PASSWORD
from tests.browser.shots import PAGES

TITLES = {
    "o": "Overview", "j": "Ready jobs", "e": "Errors", "q": "Queues", "y": "Types", "w": "Workers", "s": "Schedules", "t": "Settings",
}  # fmt: skip


def sent(browser: Browser) -> list[dict[str, Any]]:
    """What the page asked the server to change."""
    return list(browser.js("window.asked.filter((one) => one.method !== 'GET')"))


def asked(browser: Browser, path: str) -> list[int]:
    """When the page asked for this."""
    return list(
        browser.js(f"window.asked.filter((one) => one.path === '{path}').map((one) => one.at)")
    )


def rows(browser: Browser) -> Sequence[str]:
    return list(
        browser.js("[...document.querySelectorAll('tbody tr')].map((row) => row.dataset.key)")
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_drawn_as_wide_as_the_window_without_a_complaint_or_a_call_elsewhere(
    browser: Browser, dashboard: str, page: str
) -> None:
    browser.open(dashboard + PAGES[page])
    text = browser.js("document.body.innerText")
    assert "could not be displayed" not in text
    assert not any(word in text for word in ("undefined", "NaN", "[object", "Invalid Date"))
    browser.resize(390, 844)
    assert browser.js("document.documentElement.scrollWidth") <= 390
    assert browser.complaints() == []
    assert browser.elsewhere() == []


def test_a_window_knows_nothing_of_the_one_before(browser: Browser, dashboard: str) -> None:
    known = "[localStorage.length, sessionStorage.length, document.cookie, innerWidth, window.mine]"
    browser.open(f"{dashboard}#/", width=390)
    browser.js("localStorage.a = 1; sessionStorage.b = 2; document.cookie = 'c=3'; window.mine = 4")
    assert browser.js(known) == [1, 1, "c=3", 390, 4]
    browser.open(f"{dashboard}#/")
    assert browser.js(known) == [0, 0, "", 1440, None]


def test_every_page_is_a_key_away(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/")
    for key, title in TITLES.items():
        browser.press("g", key)
        browser.until(f"document.title === '{title} · Franca'")


def test_a_job_is_found_by_filter_and_opened_by_keys(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/jobs?state=dead")
    browser.press("/")
    browser.type("queue:billing type:ChargeCard")
    browser.press("Enter")
    browser.until("location.hash.includes('ChargeCard')")
    browser.until(
        "[...document.querySelectorAll('td.queue')].every((cell) => cell.innerText === 'billing')"
    )
    first = rows(browser)[0]
    browser.press("j", "Enter")
    browser.until(f"location.hash === '#/jobs/{first}'")
    browser.until_shown("Backtrace")


def test_a_wrong_field_is_answered_with_the_nearest(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/jobs")
    browser.press("/")
    browser.type("quue:mail ")
    browser.press("Enter")
    browser.until_shown("Did you mean “queue”?")


def test_jobs_are_selected_and_retried_and_the_page_holds_still(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}#/jobs?state=dead", clock=True)
    browser.press("j", "x", "j", "j", "X")
    browser.until_shown("3 selected")
    browser.until_shown("Paused while you select")
    before = rows(browser)
    n = len(asked(browser, "jobs"))
    browser.passes(10_000)
    assert len(asked(browser, "jobs")) == n
    browser.press("r")
    browser.until_shown("3 jobs made ready.")
    assert [one["body"] for one in sent(browser)] == [
        f'{{"action":"retry","ids":[{",".join(before[:3])}]}}'
    ]


def test_what_cannot_be_taken_back_is_asked(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/jobs?state=dead")
    browser.press("a", "d")
    browser.until("document.querySelector('dialog[open]')")
    browser.press("Enter")
    browser.until("!document.querySelector('dialog[open]')")
    assert sent(browser) == []
    browser.click("[data-act=all]")
    browser.press("d")
    browser.until_shown("Delete 731 jobs?")
    browser.click("dialog [value=yes]")
    browser.until_shown("Deleting")
    assert [one["body"] for one in sent(browser)] == ['{"action":"delete","state":"dead","q":""}']
    browser.until_shown("731 of 731 jobs")


def test_a_queue_is_paused_at_once_and_undone(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/queues/mail")
    browser.click("[data-act=turn]")
    browser.until_shown("mail is paused")
    browser.click(".toast button")
    browser.until("window.asked.filter((one) => one.method === 'POST').length === 2")
    assert [one["path"] for one in sent(browser)] == ["queues/mail/pause", "queues/mail/resume"]


def test_purging_wants_the_name(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/queues/mail")
    browser.click("[data-act=purge]")
    browser.fill("dialog input", "mai")
    assert browser.js("document.querySelector('dialog [value=yes]').disabled")
    browser.fill("dialog input", "mail")
    browser.click("dialog [value=yes]")
    browser.until_shown("The ready jobs of mail were removed.")


def test_a_job_is_submitted_with_its_arguments_as_they_were_typed(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}#/")
    browser.click("[data-act=submit]")
    browser.fill("[name=type]", "hello")
    browser.fill("[name=args]", "{}")
    browser.press("Enter")
    browser.click("dialog [type=submit]")
    browser.until_shown("JSON array")
    browser.fill("[name=args]", "[9007199254740993, 1.50]")
    browser.fill("[name=wait]", "5m")
    browser.click("dialog [type=submit]")
    browser.until_shown("is scheduled")
    assert (
        sent(browser)[0]["body"]
        == '{"queue":"default","type":"hello","in_ms":300000,"args":[9007199254740993, 1.50]}'
    )


def test_a_schedule_is_made_changed_and_deleted(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/schedules")
    browser.click("[data-act=add]")
    for name, value in (
        ("id", "mornings"),
        ("type", "report"),
        ("cron", "0 7 *"),
        ("timezone", "Europe/Berlin"),
    ):
        browser.fill(f"[name={name}]", value)
    browser.click("dialog [type=submit]")
    browser.until_shown("has no five fields")
    browser.fill("[name=cron]", "0 7 * * 1")
    browser.click("dialog [type=submit]")
    browser.until_shown("every Monday at 07:00")
    assert sent(browser)[-1]["body"] == (
        '{"id":"mornings","queue":"default","type":"report","timezone":"Europe/Berlin","cron":"0 7 * * 1","args":[]}'
    )
    browser.js("document.querySelector('[data-act=edit]').click()")
    browser.until("document.querySelector('dialog [name=args]')?.value === '[9007199254740993]'")
    browser.press("Escape")
    browser.js("document.querySelector('[data-act=drop]').click()")
    browser.until("document.querySelector('dialog[open]')")
    browser.click("dialog [value=yes]")
    browser.until_shown("was deleted")
    assert sent(browser)[-1]["method"] == "DELETE"


def test_the_palette_goes_anywhere_and_does_anything(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/")
    browser.press("Control+k")
    browser.until("[...document.querySelectorAll('.palette-list li')].length")
    browser.type("pause billing")
    browser.until(
        "document.querySelector('.palette-list [aria-selected=true]').innerText.includes('Pause billing')"
    )
    browser.press("Enter")
    browser.until("window.asked.some((one) => one.path === 'queues/billing/pause')")
    browser.until("!document.querySelector('dialog[open]')")
    browser.press("Control+k")
    browser.until("document.querySelectorAll('.palette-list li').length > 0")
    browser.type("48211911")
    browser.press("Enter")
    browser.until("location.hash === '#/jobs/48211911'")


@pytest.mark.parametrize(
    "page",
    [
        "#/jobs?state=dead",
        "#/queues/mail",
        *(
            pytest.param(page, marks=pytest.mark.long)
            for page in (
                "#/",
                "#/jobs/48215907",
                "#/errors?open=a41f",
                "#/queues",
                "#/workers",
                "#/schedules",
            )
        ),
    ],
)
def test_whoever_may_only_look_sees_no_buttons_that_change_something(
    browser: Browser, dashboard: str, page: str
) -> None:
    seen = "[...document.querySelectorAll('[data-write], input[type=checkbox]')].filter((one) => one.offsetParent).length"
    browser.open(f"{dashboard}{page}")
    browser.js("document.querySelector('tbody tr')?.dispatchEvent(new Event('mouseover'))")
    operator = browser.js(seen)
    browser.open(f"{dashboard}?role=viewer{page}")
    assert operator > 0
    assert browser.js(seen) == 0
    browser.press("j", "x", "r", "d", "c")
    assert not browser.js("Boolean(document.querySelector('dialog[open]'))")
    assert sent(browser) == []


def test_a_new_server_says_how_to_push_a_first_job_through_what_listens(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}?empty#/")
    browser.until_shown("franca push default hello world")
    text = browser.js("document.querySelector('#page').innerText")
    for line in (
        "nc 127.0.0.1 7419",
        "gearman -h 10.0.1.4 -p 4730",
        "PERIODIC_PORT=tcp://127.0.0.1:5000",
        "EMQ_BROKER_ADDR=tcp://10.0.1.4:47290",
        "tcp://10.0.1.4:12703",
        "nc ::1 11300",
    ):
        assert line in text


def test_the_page_asks_at_most_once_a_second_and_not_while_it_is_stopped(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}#/queues", clock=True)
    at: list[int] = []
    steps = 0
    # Where the machine is slow, an answer may be read later than the page's time goes by.
    while len(at) < 9 and steps < 100:
        browser.passes(1000)
        at = asked(browser, "queues")
        steps += 1
    # The first is the page itself, and another may follow it as soon as the stream is open.
    assert 9 <= len(at) <= steps + 3
    assert all(later - earlier > 900 for earlier, later in pairwise(at[1:]))
    assert browser.js("window.streams") == 1
    browser.press("p")
    browser.until_shown("Stopped")
    n = len(asked(browser, "queues"))
    browser.passes(20_000)
    assert len(asked(browser, "queues")) == n
    assert browser.js("window.streams") == 0


def test_a_page_that_nobody_sees_asks_nothing(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}#/queues", clock=True)
    browser.js("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    browser.js("document.dispatchEvent(new Event('visibilitychange'))")
    n = len(asked(browser, "queues"))
    browser.passes(20_000)
    assert len(asked(browser, "queues")) == n
    assert browser.js("window.streams") == 0
    browser.js("Object.defineProperty(document, 'hidden', { value: false, configurable: true })")
    browser.js("document.dispatchEvent(new Event('visibilitychange'))")
    browser.passes(2000)
    assert len(asked(browser, "queues")) > n


def test_without_a_stream_the_page_asks_every_other_second(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}?streamless#/queues", clock=True)
    for _ in range(10):
        browser.passes(1000)
    assert 4 <= len(asked(browser, "queues")) <= 7


def test_what_is_not_there_is_told_by_a_server_that_answers(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}#/queues/nope")
    browser.until_shown("There is no queue nope.")
    assert browser.js("document.querySelector('#page a.btn').hash") == "#/queues"
    assert browser.js("document.querySelector('.live.on').innerText") == "Live"
    browser.open(f"{dashboard}?down#/queues/nope")
    browser.until_shown("No answer")


def test_a_server_that_does_not_answer_is_told_and_the_page_goes_on_trying(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}?down#/")
    browser.until_shown("The server is not responding")
    browser.until("window.asked.length > 3")
    assert "could not be displayed" not in browser.js("document.body.innerText")


def test_whoever_has_to_sign_in_comes_back_to_the_page_that_was_asked_for(
    browser: Browser, dashboard: str
) -> None:
    browser.open(f"{dashboard}login")
    browser.js("sessionStorage.setItem('franca.after-login', '#/queues/mail')")
    browser.fill("#password", "open")
    browser.press("Enter")
    browser.until_shown("Wrong password or token")
    browser.fill("#password", PASSWORD)
    browser.press("Enter")
    browser.until("location.hash === '#/queues/mail'")


def test_a_refusal_leads_to_the_sign_in(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}?login#/types")
    browser.until("location.pathname.endsWith('/login')")
    assert browser.js("sessionStorage.getItem('franca.after-login')") == "#/types"


def test_the_api_can_be_tried(browser: Browser, dashboard: str) -> None:
    browser.open(f"{dashboard}try")
    browser.until_shown("4 operations")
    browser.click("summary:has-text('/api/v1/jobs/{job}')")
    browser.fill("[name='path.job']", "48211911")
    browser.click(".try-form [type=submit]")
    browser.until(
        "[...document.querySelectorAll('.try-out')].some((one) => one.innerText.includes('200'))"
    )
    assert "attempt_log" in browser.js("document.querySelector('.try-out').innerText")
