"""Names: bytes on the wire, text in the server, and back without loss.

Nearly every name is UTF-8 and is that text. The rest is written as Latin-1 behind a mark, so that
two names that differ on the wire differ here too.
"""

from __future__ import annotations

from typing import Final

MARK: Final = "\ufffd"


def text_of(name: bytes) -> str:
    """The name as the server keeps it."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return MARK + name.decode("latin-1")
    return MARK + name.decode("latin-1") if text.startswith(MARK) else text


def bytes_of(text: str) -> bytes:
    """The name as the wire has it."""
    if text.startswith(MARK):
        try:
            return text[1:].encode("latin-1")
        except UnicodeEncodeError:
            pass  # a name that another protocol made
    return text.encode()
