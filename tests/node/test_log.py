"""The log: its fields, what it hides, and that it never holds anybody up."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from franca.node import log

Lines = Callable[[], list[str]]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[int, Lines]]:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    yield descriptor, lambda: path.read_text().splitlines()
    os.close(descriptor)


def logged(descriptor: int, form: str, act: Callable[[], None], **options: object) -> None:
    level = str(options.pop("level", "info"))
    opened = log.start(form, level, descriptor=descriptor, secrets=["hunter22", "abc"])
    try:
        act()
    finally:
        opened.close()


def test_a_line_is_json_with_stable_names_in_a_stable_order(file: tuple[int, Lines]) -> None:
    descriptor, lines = file
    logged(
        descriptor,
        "json",
        lambda: log.event("info", "listening", "here", own=1, queue="q", protocol="faktory"),
    )
    [line] = lines()
    shown = json.loads(line)
    assert list(shown) == ["ts", "level", "event", "msg", "protocol", "queue", "own"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown["ts"])
    assert (shown["level"], shown["event"], shown["msg"], shown["own"]) == (
        "info",
        "listening",
        "here",
        1,
    )


def test_people_get_one_line_that_moves_no_cursor(file: tuple[int, Lines]) -> None:
    descriptor, lines = file
    logged(
        descriptor,
        "console",
        lambda: log.event("warning", "odd", "a\x1b[2J\nb", worker="x y\r\x00", queue="q"),
    )
    [line] = lines()
    assert line.isprintable()
    assert "a\\x1b[2J\\nb queue=q" in line


def test_a_file_is_no_terminal(file: tuple[int, Lines]) -> None:
    assert (log.is_console("auto", file[0]), log.is_console("console", file[0])) == (False, True)


@pytest.mark.parametrize(
    ("text", "canary"),
    [
        ('bad line HELLO {"wid":"x","pwdhash":"canary"}', "canary"),
        ('hello{"pwdhash":"canary"}', "canary"),
        ('PUSH {"jid":"1","args":["canary"]}', "canary"),
        ('PUSHB [{"args":["canary"]}]', "canary"),
        ('{"jid":"1","args":["canary"]}', "canary"),
        ("{'args': ['canary']}", "canary"),
        ("connect tcp://:canary@localhost:7419 failed", "canary"),
        ("connect tcp://anna:canary@localhost:7419 failed", "canary"),
        ("password=canary", "canary"),
        ('"password": "canary"', "canary"),
        ("Token: canary", "canary"),
        ("they said hunter22 aloud", "hunter22"),
    ],
)
@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_do_not_leave_in_texts_fields_or_errors(
    file: tuple[int, Lines], form: str, text: str, canary: str
) -> None:
    descriptor, lines = file

    def act() -> None:
        log.event("info", "x", text)
        log.event("info", "x", "in a field", reason=text, error=ValueError(text))
        log.failure("x", "in an error", ValueError(text))
        logging.getLogger("library").error("as an argument: %s", text)

    logged(descriptor, form, act)
    assert len(lines()) >= 4
    assert canary not in "\n".join(lines())


@pytest.mark.parametrize("name", ["args", "body", "password", "pwdhash", "line", "hello", "result"])
def test_some_fields_are_never_shown(file: tuple[int, Lines], name: str) -> None:
    descriptor, lines = file
    logged(descriptor, "json", lambda: log.event("info", "x", "y", **{name: ["canary"]}))
    assert json.loads(lines()[0])[name] == log.REDACTED


def test_a_very_short_secret_does_not_cut_words_to_pieces(file: tuple[int, Lines]) -> None:
    descriptor, lines = file
    logged(descriptor, "json", lambda: log.event("info", "x", "the abc of it"))
    assert json.loads(lines()[0])["msg"] == "the abc of it"


def test_long_texts_are_cut(file: tuple[int, Lines]) -> None:
    descriptor, lines = file
    logged(descriptor, "json", lambda: log.event("info", "x", "y" * 100_000))
    assert len(lines()[0]) < 3_000


def test_levels_below_the_chosen_one_are_left_out(file: tuple[int, Lines]) -> None:
    descriptor, lines = file

    def act() -> None:
        for level in ("debug", "info", "warning", "error"):
            log.event(level, level, "x")

    logged(descriptor, "json", act, level="warning")
    assert [json.loads(line)["event"] for line in lines()] == ["warning", "error"]


def test_an_error_is_told_with_the_way_it_came(file: tuple[int, Lines]) -> None:
    descriptor, lines = file

    def act() -> None:
        try:
            raise ValueError("broken")
        except ValueError as error:
            log.failure("boom", "it broke", error)

    logged(descriptor, "json", act)
    shown = json.loads(lines()[0])
    assert (shown["level"], shown["event"], shown["msg"]) == ("error", "boom", "it broke")
    assert shown["trace"].endswith("ValueError: broken")


def test_an_event_that_cannot_be_written_silences_no_other(file: tuple[int, Lines]) -> None:
    descriptor, lines = file

    class Sulking:
        def __str__(self) -> str:
            raise RuntimeError("no")

    def act() -> None:
        log.event("info", "x", "y", what=Sulking())
        log.event("info", "after", "still here")

    logged(descriptor, "json", act)
    assert [json.loads(line)["event"] for line in lines()] == ["log-failed", "after"]


def test_a_reader_that_does_not_read_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "QUEUE_EVENTS", 100)
    monkeypatch.setattr(log, "STOP_WAIT_S", 0.01)
    reading, writing = os.pipe()
    opened = log.start("json", "info", descriptor=writing)
    for _ in range(3_000):
        log.event("info", "flood", "x" * 2_000)
    opened.close()
    assert opened.dropped > 1_000
    assert opened._thread.is_alive()
    monkeypatch.setattr(log, "STOP_WAIT_S", 3_600)
    opened.close()  # as the interpreter does once more at its end

    os.set_blocking(reading, False)
    said = b""
    while opened._thread.is_alive():
        try:
            said += os.read(reading, 1 << 16)
        except BlockingIOError:
            pass
    os.close(reading)
    os.close(writing)
    assert b"log-dropped" in said


def test_nobody_at_the_other_end_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    opened = log.start("json", "info", descriptor=writing)
    log.event("info", "x", "y")
    opened.close()
    os.close(writing)


def test_a_text_for_people_is_written_as_it_is_and_in_its_place(file: tuple[int, Lines]) -> None:
    descriptor, lines = file

    def act() -> None:
        log.event("info", "before", "first")
        log.show("Franca\n  data /d\n")
        log.event("info", "after", "last")

    logged(descriptor, "console", act, level="error")
    assert lines() == ["Franca", "  data /d", ""]


def test_a_text_for_people_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "STOP_WAIT_S", 0.01)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    opened = log.start("console", "info", descriptor=writing)
    log.show("Franca")
    opened.close()
    assert opened._thread.is_alive()
    said = b""
    while not said.endswith(b"Franca\n"):
        said += os.read(reading, 1 << 16)
    os.close(reading)
    os.close(writing)
