"""What real peers were heard to say is understood however it is cut into pieces."""

from pathlib import Path

import pytest

from tests.protocols.gearman.puppet import World
from tests.real.gearman.transcript import FOLDER, said
from tests.support.gearman import Type

WORKER = "A worker, and a job: "
PATHS = sorted(FOLDER.glob("*.txt"))


class Replay:
    """A world with the jobs that the peers of a file speak of."""

    def __init__(self, path: Path) -> None:
        self.world = World()
        self._other = self.world.connect()
        self.connections = said(path, self._handle)

    def _handle(self, title: str) -> bytes:
        """The job of an act; whoever asks for it again is told the same handle."""
        does = title.removeprefix(WORKER) if title.startswith(WORKER) else ""
        return self._other.submit_bg(f"told.{does}" if does else "nobody", b"abc", b"given")

    def heard(self, number: int, *cuts: int) -> bytes:
        """What the peer on one connection hears when what it says comes in pieces."""
        _, sent = self.connections[number]
        peer = self.world.connect()
        for begin, end in zip((0, *cuts), (*cuts, len(sent)), strict=True):
            peer.send(sent[begin:end])
        return peer.heard()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_recorded_peers_hear_the_same_wherever_their_words_are_cut(path: Path) -> None:
    for number, (title, sent) in enumerate(Replay(path).connections):
        whole = Replay(path).heard(number)
        assert _has_no_error(whole), f"{title}: {whole!r}"
        assert not title.startswith(WORKER) or b"\0told." in whole, "it is given its job"
        assert Replay(path).heard(number, *range(1, len(sent))) == whole, f"{title}, byte by byte"
        for cut in range(1, len(sent)):
            assert Replay(path).heard(number, cut) == whole, f"{title}, cut at {cut}"


def _has_no_error(heard: bytes) -> bool:
    return b"\0RES" + Type.ERROR.to_bytes(4, "big") not in heard
