"""The language in which people say which jobs they mean, the same wherever they say it.

    queue:mail,default type:Send* -via:gearman error:Timeout age>1h tries>3 "free text"

Terms are joined by AND, values by commas by OR; `-` in front means not, `*` stands for anything.
What is read is a value; whether a job fits is found out without regular expressions, so that no
filter takes longer than the text that it is compared with.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

from msgspec import Struct

from franca.control.arguments import LOOKED_BYTES, beginning_of
from franca.control.fill import by_of, last_error
from franca.control.grouping import class_of
from franca.control.port import BadRequest
from franca.control.states import StateFilter, public_state, read_states
from franca.core.history import end_of
from franca.core.model import Job, JobId, Millis, State
from franca.values import read_duration

CHARS_MAX = 4_096
TERMS_MAX = 32
VALUES_MAX = 256
"""Of a whole filter: its length, its terms, and the values in all of them."""
DIGITS_MAX = 18

FIELDS = {
    "queue": "where it waits",
    "type": "what it is to its worker",
    "via": "protocol that it was submitted over",
    "by": "protocol of the worker that ran it last",
    "worker": "who holds or held it",
    "error": "kind or text of its last error",
    "class": "its error class, by id",
    "arg": "text in its arguments",
    "id": "number or name",
    "name": "what its protocol calls it",
    "key": "what makes it unique",
    "state": "one of the seven states",
    "age": "since it was submitted: age>1h",
    "ended": "since it ended or died: ended<1h",
    "ran": "how long it ran: ran>30s",
    "tries": "runs so far: tries>3",
}
SPANS = ("age", "ended", "ran")
NUMBERS = (*SPANS, "tries")
_OPERATORS = (">=", "<=", ":", ">", "<")
_CALCULATED: dict[str, Callable[[int, int], bool]] = {
    ":": int.__eq__,
    ">": int.__gt__,
    "<": int.__lt__,
    ">=": int.__ge__,
    "<=": int.__le__,
}

Hide = Callable[[str], str]
"""Takes out of a text what somebody is not shown."""
Pattern = tuple[str, ...]
"""The pieces of a value between its stars."""


class Term(Struct, frozen=True):
    """One condition. Without a field it is a text that may stand anywhere."""

    field: str
    negated: bool
    operator: str = ":"
    values: tuple[Pattern, ...] = ()
    number: int = 0

    @property
    def exact(self) -> tuple[str, ...]:
        """The values, if all of them are meant as they are, so that they can be looked up."""
        sole = all(len(pattern) == 1 for pattern in self.values)
        return tuple(pattern[0] for pattern in self.values) if sole and not self.negated else ()


class Filter(Struct, frozen=True):
    """Which jobs are meant: all terms fit."""

    terms: tuple[Term, ...] = ()

    @property
    def states(self) -> StateFilter:
        """The states that are asked for by name."""
        words = [word for term in self.terms if term.field == "state" for word in term.exact]
        return read_states(words)

    def exact(self, field: str) -> tuple[str, ...]:
        """The values of a field that can be looked up; none if there is no such term."""
        for term in self.terms:
            if term.field == field and term.exact:
                return term.exact
        return ()

    def looked_up(self, field: str) -> tuple[str, ...]:
        """The values of a field, or how they begin: those end in a star. None if others are."""
        for term in self.terms:
            if term.field == field and not term.negated:
                simple = all(len(p) == 1 or (len(p) == 2 and not p[1]) for p in term.values)
                return tuple("*".join(pattern) for pattern in term.values) if simple else ()
        return ()

    @property
    def ids(self) -> tuple[JobId, ...]:
        """The ids that are asked for, if nothing but ids may be meant."""
        words = self.exact("id")
        if all(word.isascii() and word.isdigit() for word in words):
            return tuple(int(word) for word in words if len(word) <= DIGITS_MAX)
        return ()

    def spans(self, *fields: str) -> Iterator[tuple[str, Millis]]:
        """The bounds of these spans that must hold, each with how it is compared."""
        for term in self.terms:
            if term.field in fields and not term.negated:
                yield term.operator, term.number

    @property
    def reads_bodies(self) -> bool:
        """Whether arguments must be looked into."""
        return any(term.field in ("arg", "") for term in self.terms)

    def fits(self, job: Job, now: Millis, hide: Hide | None = None) -> bool:
        """Whether a job is one of those that are meant, to one from whom this is hidden."""
        texts: dict[str, tuple[str, ...]] = {}
        return all(_holds(term, job, now, hide, texts) is not term.negated for term in self.terms)


# -- reading ------------------------------------------------------------------------------------


def read_filter(text: str) -> Filter:
    """What a filter says. `BadRequest` says what is wrong with it, and what was meant, perhaps."""
    if len(text) > CHARS_MAX:
        raise BadRequest(f"a filter is no longer than {CHARS_MAX} characters")
    terms = [_read_term(negated, word) for negated, word in _words(text)]
    if len(terms) > TERMS_MAX or sum(len(term.values) for term in terms) > VALUES_MAX:
        raise BadRequest(f"a filter has {TERMS_MAX} terms and {VALUES_MAX} values at most")
    found = Filter(tuple(terms))
    if found.terms:
        found.states  # noqa: B018 (a wrong state is told now)
    return found


class _Word(Struct):
    """A word as it was written: its characters, each with whether it was quoted."""

    text: str
    quoted: list[bool]


def _words(text: str) -> Iterator[tuple[bool, _Word]]:
    """The words between blanks, quotes taken off; and whether each has a minus in front."""
    at, end = 0, len(text)
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        negated = text[at] == "-" and at + 1 < end and not text[at + 1].isspace()
        at += negated
        word = _Word("", [])
        characters: list[str] = []
        inside = False
        while at < end and (inside or not text[at].isspace()):
            character = text[at]
            if inside and character == "\\" and at + 1 < end:
                at += 1
                characters.append(text[at])
                word.quoted.append(True)
            elif character == '"':
                inside = not inside
            else:
                characters.append(character)
                word.quoted.append(inside)
            at += 1
        if inside:
            raise BadRequest("a quote is opened and not closed")
        word.text = "".join(characters)
        yield negated, word


def _read_term(negated: bool, word: _Word) -> Term:
    field, operator, start = _field_of(word)
    if not field:
        return Term("", negated, values=(tuple(_pieces(word, 0, len(word.text), lower=True)),))
    if field not in FIELDS:
        near = difflib.get_close_matches(field, FIELDS, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FIELDS)}"
        raise BadRequest(f"no field is called {field[:40]!r}: {hint}; a text goes into quotes")
    value = word.text[start:]
    if not value:
        raise BadRequest(f"{field}{operator} needs a value behind it")
    if field in NUMBERS:
        return _read_number(Term(field, negated, operator), value)
    if operator != ":":
        raise BadRequest(f"{field} is compared by a colon: {field}:{value[:40]}")
    return Term(field, negated, values=tuple(_values(field, word, start)))


def _field_of(word: _Word) -> tuple[str, str, int]:
    """The field in front of a word, what is behind it, and where the value begins."""
    letters = 0
    text = word.text
    while letters < len(text) and text[letters].islower() and text[letters].isascii():
        letters += 1
    if not letters or any(word.quoted[: letters + 1]):
        return "", "", 0
    for operator in _OPERATORS:
        if text.startswith(operator, letters):
            return text[:letters], operator, letters + len(operator)
    return "", "", 0


def _read_number(term: Term, value: str) -> Term:
    if term.field in SPANS:
        if term.operator == ":":
            raise BadRequest(f"{term.field} is compared: {term.field}>{value[:40]}")
        try:
            number = read_duration(value)
        except ValueError as error:
            raise BadRequest(f"{term.field}: {error}") from None
    elif value.isascii() and value.isdigit() and len(value) <= DIGITS_MAX:
        number = int(value)
    else:
        raise BadRequest(f"{term.field}{term.operator} needs a whole number, not {value[:40]!r}")
    return Term(term.field, term.negated, term.operator, number=number)


def _values(field: str, word: _Word, start: int) -> Iterator[Pattern]:
    """The values between commas that are not quoted."""
    lower = field == "error"
    begin = start
    for at in range(start, len(word.text) + 1):
        is_end = at == len(word.text)
        if is_end or (word.text[at] == "," and not word.quoted[at]):
            if at > begin:
                yield tuple(_pieces(word, begin, at, lower=lower))
            begin = at + 1


def _pieces(word: _Word, start: int, end: int, *, lower: bool) -> Iterator[str]:
    """What stands between the stars that are not quoted."""
    begin = start
    for at in range(start, end + 1):
        if at == end or (word.text[at] == "*" and not word.quoted[at]):
            piece = word.text[begin:at]
            yield piece.lower() if lower else piece
            begin = at + 1


# -- comparing ----------------------------------------------------------------------------------


def matches(pattern: Pattern, text: str) -> bool:
    """Whether a text is what a pattern says: its pieces, with anything between them."""
    if len(pattern) == 1:
        return text == pattern[0]
    first, *middle, last = pattern
    if not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    return at <= end and _in_order(middle, text[at:end])


def contains(pattern: Pattern, text: str) -> bool:
    """Whether the pieces of a pattern stand somewhere in a text, in their order."""
    return _in_order(pattern, text)


def _in_order(pieces: Pattern | list[str], text: str) -> bool:
    at = 0
    for piece in pieces:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _holds(
    term: Term, job: Job, now: Millis, hide: Hide | None, texts: dict[str, tuple[str, ...]]
) -> bool:
    """Whether one condition holds. `texts` has those of this job that were looked at before."""
    if term.field in NUMBERS:
        value = _number_of(term.field, job, now)
        return value is not None and _CALCULATED[term.operator](value, term.number)
    texts_of, compare = _TEXTS[term.field]
    found = texts.get(term.field)
    if found is None:
        found = texts_of(job) if hide is None else tuple(map(hide, texts_of(job)))
        texts[term.field] = found
    return any(compare(pattern, text) for pattern in term.values for text in found)


def _number_of(field: str, job: Job, now: Millis) -> int | None:
    if field == "tries":
        return job.attempts
    if field == "age":
        return now - job.created_at
    if field == "ended":
        return now - end_of(job) if end_of(job) else None
    if not job.started_at:
        return None
    if job.state is State.LEASED:
        return now - job.started_at
    return job.ended_at - job.started_at if job.ended_at else None


def _arguments(job: Job) -> str:
    return beginning_of(job.media, job.body[:LOOKED_BYTES])[0].decode("utf-8", "replace")


def _error(job: Job) -> str:
    return (last_error(job) or "").lower()


def _anything(job: Job) -> tuple[str, ...]:
    names = f"{job.name}\n{job.queue}\n{job.kind}\n{job.key}\n{job.holder}".lower()
    return names, _error(job), _arguments(job).lower()


def _class_id(job: Job) -> str:
    return class_of(job) or ""


_Texts = Callable[[Job], tuple[str, ...]]
_TEXTS: dict[str, tuple[_Texts, Callable[[Pattern, str], bool]]] = {
    "": (_anything, contains),
    "queue": (lambda job: (job.queue,), matches),
    "type": (lambda job: (job.kind,), matches),
    "via": (lambda job: (job.origin,), matches),
    "by": (lambda job: (by_of(job),), matches),
    "worker": (lambda job: (job.holder,), matches),
    "error": (lambda job: (_error(job),), contains),
    "class": (lambda job: (_class_id(job),), matches),
    "arg": (lambda job: (_arguments(job),), contains),
    "id": (lambda job: (str(job.id), job.name), matches),
    "name": (lambda job: (job.name,), matches),
    "key": (lambda job: (job.key,), matches),
    "state": (lambda job: (public_state(job), job.state.name.lower()), matches),
}
