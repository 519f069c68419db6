"""The filter language: what it means, what is wrong with it, and that no filter takes long."""

import pytest
from msgspec.structs import replace

from franca.control.port import BadRequest
from franca.control.query import CHARS_MAX, TERMS_MAX, matches, read_filter
from franca.core.broker import new_job
from franca.core.model import Attempt, Job, NewJob, Outcome, Policy, State

NOW = 1_900_000_000_000
MAIL = NewJob(
    "mail", "SendReceipt", b'["a b", {"to": "x@y"}]', Policy(), "jid-1", origin="gearman", key="k"
)


def job(**fields: object) -> Job:
    attempt = Attempt("mail-1", 1, 2, Outcome.FAILED, "Net::ReadTimeout", "after 30 s")
    made = new_job(MAIL, 17, NOW - 3_600_000)
    some = {"holder": "mail-1", "attempts": 4, "attempt_log": [attempt], "failures": 1}
    return replace(made, **some | fields)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("queue:mail", True),
        ("queue:news,mail", True),
        ("queue:news", False),
        ("-queue:news", True),
        ("-queue:news,mail", False),
        ("queue:mai", False),
        ("queue:m*l", True),
        ("queue:*", True),
        ("type:Send*", True),
        ("type:*Receipt", True),
        ("type:Send*Digest", False),
        ("via:gearman", True),
        ("-via:gearman", False),
        ("worker:mail-1", True),
        ("error:timeout", True),
        ("error:Net*30", True),
        ("error:30*Net", False),
        ('error:"after 30 s"', True),
        ('arg:"a b"', True),
        ("arg:a*y", True),
        ('arg:"a*y"', False),
        ("id:17", True),
        ("id:18,17", True),
        ("id:jid-1", True),
        ("name:jid-*", True),
        ("key:k", True),
        ("state:ready", True),
        ("state:dead,ready", True),
        ("state:running", False),
        ("age>59m", True),
        ("age>1h", False),
        ("age>=1h", True),
        ("age<1h1s", True),
        ("ended<1h", False),
        ("ended>1ms", False),
        ("tries>3", True),
        ("tries>4", False),
        ("tries:4", True),
        ("tries<=4", True),
        ("ran>1s", False),
        ("x@y", True),
        ("RECEIPT", True),
        ('"ReadTimeout after"', False),
        ("receipt -queue:mail", False),
        ("receipt queue:mail tries>3", True),
        ('"queue:news"', False),
        ("mail-1", True),
    ],
)
def test_a_filter_means_what_it_says(text: str, fits: bool) -> None:
    assert read_filter(text).fits(job(), NOW) is fits


def test_how_long_it_ran_is_known_of_runs_that_are_over_or_go_on() -> None:
    asked = read_filter("ran>30s")
    assert not asked.fits(job(), NOW)
    assert asked.fits(job(state=State.LEASED, started_at=NOW - 31_000), NOW)
    ended = job(state=State.DONE, started_at=NOW - 90_000, ended_at=NOW - 60_000)
    assert not asked.fits(ended, NOW)
    assert asked.fits(replace(ended, ended_at=NOW - 59_999), NOW)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quee:mail", "did you mean queue"),
        ("tpye:x", "did you mean type"),
        ("zzz:x", "there are queue, type"),
        ("queue:", "needs a value"),
        ('queue:"mail', "a quote"),
        ("queue>mail", "compared by a colon"),
        ("age:1h", "age>"),
        ("age>soon", "duration"),
        ("tries>many", "whole number"),
        ("state:runing", "no state is called"),
        ("a " * (TERMS_MAX + 1), "at most"),
        ("queue:" + ",".join(["a"] * 300), "at most"),
        ("x" * (CHARS_MAX + 1), "no longer than"),
    ],
)
def test_a_wrong_filter_is_told_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        read_filter(text)


@pytest.mark.parametrize(
    ("text", "queues", "ids"),
    [
        ("queue:a,b", ("a", "b"), ()),
        ("queue:a*", ("a*",), ()),
        ("queue:*a", (), ()),
        ("-queue:a", (), ()),
        ("id:1,2", (), (1, 2)),
        ("id:1,x", (), ()),
        ("-id:1", (), ()),
    ],
)
def test_what_can_be_looked_up_is_told_apart(
    text: str, queues: tuple[str, ...], ids: tuple[int, ...]
) -> None:
    asked = read_filter(text)
    assert (asked.looked_up("queue"), asked.ids) == (queues, ids)


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        (("a", "a"), "a", False),
        (("a", "a"), "aa", True),
        (("ab", "ba"), "aba", False),
        (("", ""), "", True),
        (("a", "b", "c"), "a-b-c", True),
        (("a", "b", "c"), "a-c-b", False),
        (("a", "b", "b"), "ab", False),
    ],
)
def test_pieces_of_a_pattern_do_not_overlap(
    pattern: tuple[str, ...], text: str, fits: bool
) -> None:
    assert matches(pattern, text) is fits


def test_only_the_beginning_of_long_arguments_is_looked_at() -> None:
    body = b'["' + b"x" * 100_000 + b'needle"]'
    assert not read_filter("arg:needle").fits(job(body=body), NOW)
    assert read_filter("arg:xxx").fits(job(body=body), NOW)
