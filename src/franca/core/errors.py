"""What a peer may cause and the broker refuses. A refusal has changed nothing."""

from __future__ import annotations


class Refused(Exception):
    """The broker says no; `code` is for programs, the text for people."""

    code = "refused"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NotHeld(Refused):
    """The job is not leased, or not by this holder."""

    code = "not-held"


class NotUnique(Refused):
    """A live job of this queue already has this key."""

    code = "not-unique"


class NotFound(Refused):
    """No such job, queue or schedule."""

    code = "not-found"


class TooMuch(Refused):
    """A limit of the server would be passed."""

    code = "too-much"


class StoreFull(Refused):
    """The disk has no room for new jobs; running ones may still be finished."""

    code = "store-full"


class WireError(Exception):
    """Bytes that are no message of the protocol. The link that sent them is beyond repair."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
