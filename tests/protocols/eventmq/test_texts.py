"""Headers and queues, in all the ways in which they are written."""

import json
import re

import pytest

from franca.core.model import Backoff
from franca.core.names import text_of
from franca.protocols.eventmq import texts
from franca.protocols.eventmq.texts import Unfit, read_headers, read_queues, terms_of

TOKEN = texts._TOKEN

# -- headers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "headers"),
    [
        (b"", {}),
        (b"   ", {}),
        (b"reply-requested", {"reply-requested": "true"}),
        (b"reply-requested,guarantee", {"reply-requested": "true", "guarantee": "true"}),
        (b" Reply-Requested , timeout: 5 ", {"reply-requested": "true", "timeout": "5"}),
        (b"retry-count:3,timeout:10", {"retry-count": "3", "timeout": "10"}),
        (b'{"reply-requested": true, "timeout": 5}', {"reply-requested": "true", "timeout": "5"}),
        (b"{'reply-requested': True, 'timeout': 5}", {"reply-requested": "true", "timeout": "5"}),
        (b"{'guarantee': False}", {"guarantee": "false"}),
        (b"{'guarantee': None}", {"guarantee": "false"}),
        (b"{}", {}),
        (b"set()", {}),
        (b"{'guarantee', 'timeout:5'}", {"guarantee": "true", "timeout": "5"}),
        (b"{broken", {"{broken": "true"}),
        (b"cron:0,30 * * * *,nohaste", {"cron": "0,30 * * * *", "nohaste": "true"}),
        (b"nohaste,cron:1,2,3 0 * * *", {"nohaste": "true", "cron": "1,2,3 0 * * *"}),
        (b",,", {}),
        (b"\xff\xfe", {"\ufffd\ufffd": "true"}),
    ],
)
def test_headers_are_read_however_they_are_written(raw: bytes, headers: dict[str, str]) -> None:
    assert read_headers(raw) == headers


@pytest.mark.parametrize(
    ("raw", "forwarded"),
    [
        (b"", b"reply-requested"),
        (b"reply-requested", b"reply-requested"),
        (b"timeout:5", b"timeout:5,reply-requested"),
        (b"guarantee,reply-requested,x", b"guarantee,reply-requested,x"),
        (b"{'timeout': 5, 'guarantee': True}", b"timeout:5,guarantee,reply-requested"),
        (b'{"reply-requested": true}', b"reply-requested"),
        (b'{"reply-requested": false}', b"reply-requested"),
        # A job manager dies of these, and with it all jobs that it runs.
        (b"timeout:abc", b"reply-requested"),
        (b"timeout:1.5,guarantee", b"timeout:1,guarantee,reply-requested"),
        (b"timeout:-1", b"reply-requested"),
        (b"timeout", b"reply-requested"),
    ],
)
def test_workers_are_told_in_the_form_that_they_read(raw: bytes, forwarded: bytes) -> None:
    assert terms_of(raw).forwarded == forwarded


def test_what_headers_mean() -> None:
    read = terms_of
    plain = read(b"")
    assert (plain.wants_result, plain.policy.max_failures, plain.policy.lease_ms) == (False, 0, 0)
    assert (plain.policy.expiry_is_failure, plain.policy.loss_is_failure) == (True, False)
    assert read(b"reply-requested").wants_result
    assert read(b"timeout:5").policy.lease_ms == 7_000
    assert read(b"timeout:5").timeout_ms == 5_000
    assert read(b"retry-count:3").policy.max_failures == 3
    guaranteed = read(b"guarantee").policy
    assert (guaranteed.max_failures, guaranteed.never_given_up) == (-1, True)
    assert (guaranteed.backoff, guaranteed.delay_ms) == (Backoff.DOUBLING, 1_000)


@pytest.mark.parametrize(
    "raw",
    [
        b"timeout:nan",
        b"timeout:inf",
        b"timeout:1e300",
        b"retry-count:x",
        b"retry-count:-5",
        b"{" * 4000,
        b"{'a':0x" + b"f" * 3_800 + b"}",
        b'{"timeout":' + b"9" * 4_000 + b"}",
        b"timeout:" + b"9" * 4_000,
        b"{'retry-count': 1e999, 'timeout': -1e999}",
        "timeout:٣,retry-count:1_0".encode(),
        b'{"timeout": "\\ud800"}',
    ],
)
def test_odd_numbers_cost_nobody_a_job(raw: bytes) -> None:
    terms = terms_of(raw)
    assert 0 <= terms.policy.lease_ms <= 11 * 365 * 86_400_000
    assert 0 <= terms.policy.max_failures <= 1_000_000
    timeout = dict(word.partition(b":")[::2] for word in terms.forwarded.split(b",")).get(
        b"timeout", b"1"
    )
    assert timeout.isdigit()
    assert int(timeout[:20]) <= 10 * 365 * 86_400


def test_a_dictionary_is_read_whatever_else_is_in_it() -> None:
    raw = b"{'a': 0x" + b"f" * 3_000 + b", u'timeout': 5, b'guarantee': True, 'x': [1, {2: 3}], }"
    headers = read_headers(raw)
    assert (headers["timeout"], headers["guarantee"]) == ("5", "true")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\"b\u00fc\ud83d\ude00"', 'a"bü\U0001f600'),
        (r"'a\'b\x41\n'", "a'bA\n"),
        (r'"\ud800x"', "\ufffdx"),
        ("[1, (2, [3]), {4}]", ["1", ["2", ["3"]], ["4"]]),
        ("{'a': {'b': None}}", {"a": {"b": "None"}}),
        ("[1,]", ["1"]),
        ("()", []),
        ("{}", {}),
    ],
)
def test_literals_are_read_as_json_and_python_write_them(text: str, value: object) -> None:
    assert texts.read_literal(text, 99) == value


@pytest.mark.parametrize(
    "text", ["", "[", "]", "[1 2]", "{1: 2, 3}", "{[1]: 2}", "'a", "a b", "[1]]", "[" * 9 + "]" * 9]
)
def test_what_is_no_literal_is_not_read(text: str) -> None:
    with pytest.raises(texts.Unreadable):
        texts.read_literal(text, 99)


def test_terms_are_remembered_but_not_without_end() -> None:
    assert terms_of(b"timeout:1") is terms_of(b"timeout:1")
    for number in range(5_000):
        terms_of(b"timeout:%d" % number)
    assert texts._remembered_terms.cache_info().currsize <= 1_000
    assert terms_of(b"x" * 257) is not terms_of(b"x" * 257)


# -- queues ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "queues"),
    [
        (b"", [(10, "default")]),
        (b"[]", [(10, "default")]),
        (b'[[10, "default"], [15, "email"]]', [(10, "default"), (15, "email")]),
        (b"[[10, 'default'], [15, 'email']]", [(10, "default"), (15, "email")]),
        (b"((10, 'default'), (15, 'email'))", [(10, "default"), (15, "email")]),
        (b"[40, 'email'],[10, 'default']", [(40, "email"), (10, "default")]),
        (b'[40, "email"],[10, "default"]', [(40, "email"), (10, "default")]),
        (b"[40, 'email']", [(40, "email")]),
        (b'[40, "email"]', [(40, "email")]),
        (b"email", [(10, "email")]),
        (b"email,default", [(10, "email"), (10, "default")]),
        (b'["email", "default"]', [(10, "email"), (10, "default")]),
        (b'[[5, "a"], [7, "a"]]', [(5, "a")]),
        (b'[[1.9, "a"], [-3, "b"]]', [(1, "a"), (-3, "b")]),
        (b'[[1e300, "a"]]', [(1_000_000, "a")]),
        ('[[1, "ü"]]'.encode(), [(1, "ü")]),
        (b"[[1, 'a\xff']]", [(1, text_of(b"a\xff"))]),
        (b"\xff,b", [(10, text_of(b"\xff")), (10, "b")]),
        (b"[[5, email]]", [(5, "email")]),
    ],
)
def test_queues_are_read_however_written(raw: bytes, queues: list[tuple[int, str]]) -> None:
    assert list(read_queues(raw, 1_024)) == queues


@pytest.mark.parametrize(
    "raw",
    [
        b'[[10, ""]]',
        b'[["default", 10]]',
        b"[[10]]",
        b"[[[10, 1]]]",
        b"{}x",
        b"5",
        b'[[true, "a"]]',
        b'[[1e400, "a"]]',
        b"[[1" + b"0" * 5_000 + b', "a"]]',
        b"[1, 2]",
        b"q" * 1_025,
        b"[" * 10_000,
        b"x" * 70_000,
        b"[" + b",".join(b'[1,"%d"]' % n for n in range(1_025)) + b"]",
    ],
)
def test_what_names_no_queues_is_refused(raw: bytes) -> None:
    with pytest.raises(Unfit):
        read_queues(raw, 1_024)


# -- long texts --------------------------------------------------------------------------------------


class CountedTokens:
    """A reader's pattern that counts how often it is asked."""

    def __init__(self) -> None:
        self.count = 0

    def match(self, text: str, at: int) -> re.Match[str] | None:
        self.count += 1
        return TOKEN.match(text, at)


@pytest.mark.parametrize("raw", [b"[" + b"a," * 32_600, b"[[1,a]," * 9_000, b"a," * 32_600])
def test_too_many_queues_are_not_read_to_end(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedTokens()
    monkeypatch.setattr(texts, "_TOKEN", counted)
    with pytest.raises(Unfit, match=r"more than 1024 queues|cannot be read"):
        read_queues(raw[:65_536], 1_024)
    assert counted.count <= 6 * 1_024 + 9


def test_the_longest_list_of_queues_is_read_in_every_form() -> None:
    pairs = [(weight % 7, f"queue-{weight}") for weight in range(1_024)]
    as_json, as_python = json.dumps(pairs).encode(), repr(pairs).encode()
    bare = as_json[1:-1]
    for raw in (as_json, as_python, bare):
        assert list(read_queues(raw, 1_024)) == pairs
    names = ",".join(name for _, name in pairs).encode()
    assert [name for _, name in read_queues(names, 1_024)] == [name for _, name in pairs]


def test_headers_are_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedTokens()
    monkeypatch.setattr(texts, "_TOKEN", counted)
    many = {f"h{number}": number for number in range(400)}
    assert terms_of(json.dumps({"timeout": 5, **many}).encode()).timeout_ms == 0
    assert counted.count <= 257
    assert len(read_headers(b"a," * 2_000 + b"timeout:5")) == 1
    few = {f"h{number}": number for number in range(60)}
    assert terms_of(json.dumps({"timeout": 5, **few}).encode()).timeout_ms == 5_000


@pytest.mark.parametrize(
    ("said", "forwarded"),
    [
        ("timeout:abc,timeout:5", b"timeout:5,reply-requested"),
        ("timeout:5,timeout:abc", b"reply-requested"),
        ("x-timeout:abc,y", b"y,reply-requested"),
        ("a:timeout:5", b"reply-requested"),
        ('{"a": "b,timeout:x", "timeout": 7}', b"timeout:7,reply-requested"),
        ("a," * 100 + "timeout:abc", b"a,reply-requested"),
        ("Timeout:5", b"timeout:5,reply-requested"),
        ("no-timeout,timeout:5", b"no-timeout,timeout:5,reply-requested"),
    ],
)
def test_a_job_manager_is_told_no_timeout_that_it_cannot_read(said: str, forwarded: bytes) -> None:
    told = terms_of(said.encode()).forwarded
    assert told == forwarded
    for word in told.decode().split(","):  # as a job manager reads them
        if "timeout:" in word:
            int(word.split(":")[1])
