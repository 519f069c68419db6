"""The log: one line per event on stderr, for people on a terminal, as JSON everywhere else.

Whoever logs never waits: events go into a bounded queue and a thread writes them; what does not
fit is counted, and the count is told once there is room again. Every line passes one redaction:
no greeting, password or job's argument leaves this way, whoever put it into a text or a field.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import queue
import re
import select
import threading
from collections.abc import Iterable, Mapping

LOGGER = logging.getLogger("franca")
QUEUE_EVENTS = 10_000
TEXT_CHARS = 2_000
STOP_WAIT_S = 1.0
SECRET_CHARS_MIN = 4
"""Shorter secrets are not looked for in texts: the search would cut ordinary words to pieces."""
REDACTED = "[redacted]"

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_SECRET_WORDS = r"(?:password|pwdhash|secret|token)"
_NEVER_SHOWN = frozenset(
    {"args", "arguments", "authorization", "body", "cookie", "hello", "line", "password"}
    | {"payload", "pwdhash", "result", "salt", "secret", "token"}
)
_FIRST = ("protocol", "address", "remote", "queue", "type", "jid", "worker", "attempt")
# Where a word begins; in bytes shown as Python shows them, also behind the end of a line.
_AT_WORD = r"(?:\b|(?<=\\[nrt]))"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"(?is){_AT_WORD}(HELLO|PUSHB?)(\s*[\[{{]).*"), rf"\1 {REDACTED}"),
    (re.compile(r"(://[^\s/@:]*:)[^\s@]+@"), rf"\1{REDACTED}@"),
    (re.compile(rf"(\b{_SECRET_WORDS}\b[\"']?\s*[:=]\s*)\S+", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(r"([\"']args[\"']\s*:).*", re.DOTALL), rf"\1{REDACTED}"),
)
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROL |= {10: "\\n", 13: "\\r", 9: "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m", "debug": "\x1b[2m"}


def event(level: int | str, name: str, text: str, /, **fields: object) -> None:
    """Log one event: its stable `name` is for programs, the text for people."""
    number = _LEVELS[level] if isinstance(level, str) else level
    if LOGGER.isEnabledFor(number):
        LOGGER.log(number, text, extra={"event": name, "fields": fields})


def show(text: str) -> None:
    """Write a text for people as it is, lines and all, in its place among the events."""
    record = LOGGER.makeRecord(LOGGER.name, _LEVELS["info"], "", 0, text, (), None)
    record.as_it_is = True
    logging.getLogger().handle(record)


def failure(name: str, text: str, error: BaseException, /, **fields: object) -> None:
    """Log an error that nobody expected, with the way it came."""
    info = (type(error), error, error.__traceback__)
    LOGGER.error(text, exc_info=info, extra={"event": name, "fields": fields})


def is_console(form: str, descriptor: int = 2) -> bool:
    """Whether this format, or `auto` in this place, writes for people."""
    return form == "console" or (form == "auto" and os.isatty(descriptor))


def start(
    form: str = "auto", level: str = "info", *, secrets: Iterable[str] = (), descriptor: int = 2
) -> Log:
    """Send all that is logged in this process to `descriptor` until the log is closed."""
    colour = os.isatty(descriptor) and not os.environ.get("NO_COLOR")
    written = Format(Redaction(secrets), for_people=is_console(form, descriptor), colour=colour)
    return Log(written, level, descriptor)


class Redaction:
    """What is taken out of every text and field, and how the rest is made fit for one line."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= SECRET_CHARS_MIN]

    def text(self, text: str) -> str:
        """The text without secrets, cut to a bearable length."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}..."

    def field(self, name: str, value: object) -> object:
        """The value as it may be shown."""
        if name in _NEVER_SHOWN:
            return REDACTED
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))


class Format:
    """How a record is written: for people, in `colour` or not, or as one JSON object a line."""

    def __init__(self, redact: Redaction, *, for_people: bool, colour: bool) -> None:
        self._redact = redact
        self._for_people = for_people
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; an error has the way it came below it, if it is for people."""
        shown = self._fields(record)
        if self._for_people:
            return self._line(shown)
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))

    def _fields(self, record: logging.LogRecord) -> dict[str, object]:
        """`ts level event msg`, then what the event carries, then the way an error came."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        shown: dict[str, object] = {
            "ts": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
            "level": record.levelname.lower(),
            "event": getattr(record, "event", record.name),
            "msg": self._redact.text(record.getMessage()),
        }
        carried: Mapping[str, object] = getattr(record, "fields", {})
        for name in dict.fromkeys((*_FIRST, *carried)):
            if name in carried and name not in shown:
                shown[name] = self._redact.field(name, carried[name])
        if record.exc_text:
            shown["trace"] = self._redact.text(record.exc_text)
        return shown

    def _line(self, shown: dict[str, object]) -> str:
        """Time, level, text and name=value. Whatever a peer put into it moves no cursor."""
        moment, level, _name, text = (str(shown.pop(n)) for n in ("ts", "level", "event", "msg"))
        trace = str(shown.pop("trace", ""))
        pairs = [f"{name}={_quoted(value)}" for name, value in shown.items()]
        line = " ".join([moment, f"{level:<7}", text.translate(_CONTROL), *pairs])
        for row in trace.splitlines():
            line += f"\n    {row.translate(_CONTROL)}"
        colour = _COLOURS.get(level, "") if self._colour else ""
        return f"{colour}{line}\x1b[0m" if colour else line


def _quoted(value: object) -> str:
    text = str(value).translate(_CONTROL)
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text else text


class Log(logging.Handler):
    """The way from loggers to a descriptor, open until `close`. Whoever logs never waits.

    `dropped` events were lost because they came faster than they could be written.
    """

    def __init__(self, form: Format, level: str, descriptor: int) -> None:
        super().__init__()
        self.dropped = self._told = 0
        self._form = form
        self._descriptor = descriptor
        self._records: queue.Queue[logging.LogRecord | None] = queue.Queue(QUEUE_EVENTS)
        LOGGER.setLevel(_LEVELS[level])
        # On the root logger, so that what libraries have to say is told in the same form.
        logging.getLogger().addHandler(self)
        self._thread = threading.Thread(target=self._write_forever, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue it, or count it as lost. Everything but an error's frames is left to the thread."""
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.exc_info = None
        try:
            self._records.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what is queued, but wait only a moment for a reader that does not read."""
        if self not in logging.getLogger().handlers:
            return  # it is closed; the interpreter closes all handlers again as it ends
        super().close()
        logging.getLogger().removeHandler(self)
        try:
            self._records.put(None, timeout=STOP_WAIT_S)
        except queue.Full:
            self._records.get_nowait()
            self._records.put_nowait(None)
        self._thread.join(STOP_WAIT_S)

    def _write_forever(self) -> None:
        while (record := self._records.get()) is not None:
            dropped = self.dropped
            if dropped > self._told:
                lost = f"{dropped - self._told} events were lost: the log's reader is too slow"
                self._write(self._form.format(_record("log-dropped", lost)))
                self._told = dropped
            try:
                is_event = not getattr(record, "as_it_is", False)
                line = self._form.format(record) if is_event else str(record.msg)
            except Exception as error:
                # One event that cannot be written must not silence all others.
                line = self._form.format(_record("log-failed", f"an event was lost: {error!r}"))
            self._write(line)

    def _write(self, line: str) -> None:
        """Past Python's buffers: a thread that hangs in one of their locks hangs the exit too."""
        unsent = memoryview(f"{line}\n".encode(errors="backslashreplace"))
        while unsent:
            try:
                unsent = unsent[os.write(self._descriptor, unsent) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                return  # nobody reads any more


def _record(name: str, text: str) -> logging.LogRecord:
    record = logging.LogRecord("franca", logging.WARNING, "", 0, text, None, None)
    record.event = name
    return record
