"""The core, the engine and the store know no protocol, not even by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from franca.protocols.registry import PROTOCOLS

PACKAGE = Path(__file__).parents[2] / "src" / "franca"
IGNORANT = ("core", "engine", "store")
WORDS = (*PROTOCOLS, "jid", "wid", "msgid", "tube")
_SPOKEN = re.compile(rf"(?<![a-z])({'|'.join(WORDS)})s?(?![a-z])", re.IGNORECASE)


def spoken(text: str) -> list[str]:
    """The words of protocols in a text, also inside names made of several words."""
    # Names such as JidIndex and jid_of are several words each.
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text)
    return [match.group().lower() for match in _SPOKEN.finditer(apart)]


@pytest.mark.parametrize("folder", IGNORANT)
def test_no_word_of_a_protocol_is_spoken(folder: str) -> None:
    files = [p for p in (PACKAGE / folder).rglob("*") if p.suffix in (".py", ".sql")]
    assert files
    found = {
        str(path.relative_to(PACKAGE)): words
        for path in files
        if (words := spoken(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the jid of a job", ["jid"]),
        ("def jid_of(job): ...", ["jid"]),
        ("class JidIndex", ["jid"]),
        ("# as Faktory does", ["faktory"]),
        ("GEARMAN_PORT", ["gearman"]),
        ("wids", ["wids"]),
        ("width, rigid, aperiodic, twid", []),
        ("periodically", []),
    ],
)
def test_words_are_found_where_they_are_words(text: str, words: list[str]) -> None:
    assert spoken(text) == words
