"""What is logged about peers is bounded, and what is left out is counted."""

import logging

import pytest

from franca.node.notices import LINES_PER_PERIOD, PERIOD_MS, NoticeLog
from franca.protocols.conversation import Link, Notice, Peer


def notice(protocol: str, error: Exception | None = None) -> Notice:
    link = Link("l", Peer("127.0.0.1:9", True), [], [], [], 0, protocol)
    return Notice(link, "too large", error)


def test_a_flood_of_bad_peers_is_a_few_lines_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "franca")
    told = NoticeLog()
    flood = [notice("a") for _ in range(50)]
    told.tell(flood, 0)
    assert (len(caplog.records), told.count, flood) == (LINES_PER_PERIOD, 50, [])
    told.tell([notice("b")], 0)
    assert len(caplog.records) == LINES_PER_PERIOD + 1
    told.tell([notice("a")], PERIOD_MS)
    assert caplog.records[-1].fields["not_logged"] == 50 - LINES_PER_PERIOD  # type: ignore[attr-defined]


def test_an_error_is_logged_with_the_way_it_came(caplog: pytest.LogCaptureFixture) -> None:
    NoticeLog().tell([notice("a", ZeroDivisionError("x"))], 0)
    [record] = caplog.records
    assert (record.event, record.exc_info is not None) == ("peer-failed", True)  # type: ignore[attr-defined]
