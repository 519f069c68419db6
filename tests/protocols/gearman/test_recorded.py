"""What real peers were heard to say is understood however it is cut into pieces."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.protocols.gearman.puppet import World
from tests.real.gearman.transcript import FOLDER, said
from tests.support.gearman import Type

WORKER = "A worker, and a job: "
PATHS = sorted(FOLDER.glob("*.txt"))


def _world_with(title: str) -> tuple[World, bytes]:
    """A world with the job that the peers of an act speak of, and its handle."""
    does = title.removeprefix(WORKER) if title.startswith(WORKER) else ""
    world = World()
    return world, world.connect().submit_bg(f"told.{does}" if does else "nobody", "abc", "given")


def _heard(title: str, sent: bytes, *cuts: int) -> bytes:
    """What a peer hears when what it says comes in pieces."""
    peer = _world_with(title)[0].connect()
    for begin, end in pairwise((0, *cuts, len(sent))):
        peer.send(sent[begin:end])
    return peer.bytes_heard()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_recorded_peers_hear_the_same_wherever_their_words_are_cut(path: Path) -> None:
    for title, sent in said(path, lambda title: _world_with(title)[1]):
        whole = _heard(title, sent)
        assert b"\0RES" + Type.ERROR.to_bytes(4, "big") not in whole, f"{title}: {whole!r}"
        assert not title.startswith(WORKER) or b"\0told." in whole, "it is given its job"
        assert _heard(title, sent, *range(1, len(sent))) == whole, f"{title}, byte by byte"
        for cut in range(1, len(sent)):
            assert _heard(title, sent, cut) == whole, f"{title}, cut at {cut}"
