"""What each library says and hears, packet by packet, kept as files.

A difference is a failure; UPDATE_TRANSCRIPTS=1 writes the files anew, to be read before they are
committed.
"""

import re
import shutil
import struct
import subprocess

import pytest

from tests.real.gearman.clients import LibraryClient
from tests.real.gearman.kinds import KINDS, differs, need
from tests.real.gearman.kit import Peers
from tests.real.gearman.transcript import FOLDER, Act, text
from tests.real.kit import compare
from tests.real.relay import CLIENT, SERVER, Relay
from tests.support.shared import eventually

HEADINGS = {
    "gearman": "gearman, the tool, 1.1.20 from Debian (libgearman)",
    "gear": "gear 0.16.0 from PyPI",
    "python3-gearman": "python3-gearman 0.1.0 from PyPI",
    "aiogear": "aiogear 0.2.6 from PyPI",
    "gearmanode": "gearmanode 0.9.2 from npm",
    "abraxas": "abraxas 2.1.10 from npm",
    "node-gearman": "node-gearman 0.2.2 from npm",
    "perl": "Gearman::Client and Gearman::Worker 2.004.015 from Debian",
    "php": "PHP's gearman extension 2.1.0 from Debian (libgearman)",
}
VERSIONS = {
    "gearman": ("1.1.20", ["dpkg-query", "-W", "-f", "${Version}", "gearman-tools"]),
    "perl": (
        "v2.4.15",
        ["perl", "-MGearman::Client", "-e", "print $Gearman::Client::VERSION->normal"],
    ),
    "php": ("2.1.0 1.1.20", ["php", "-r", "echo phpversion('gearman'), ' ', gearman_version();"]),
}
"""What the machine brings may be another version than the one that was heard."""
PRE_SLEEP = b"\0REQ" + struct.pack(">II", 4, 0)


@differs("its handles and its answers to exceptions are its own")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_is_what_was_said(shared: Peers, kind: str) -> None:
    _need_version(kind)
    acts = [_client_act(shared, kind)]
    acts.append(_worker_act(shared, kind, "progress" if KINDS[kind].tells else "reverse"))
    acts.append(_worker_act(shared, kind, "raise" if KINDS[kind].raises else "fail"))
    compare(FOLDER / f"{kind}.txt", text(HEADINGS[kind], acts))


def _need_version(kind: str) -> None:
    need(kind)
    if kind in VERSIONS:
        wanted, argv = VERSIONS[kind]
        known = shutil.which(argv[0]) is not None
        found = subprocess.run(argv, capture_output=True, text=True).stdout if known else ""
        if not found.startswith(wanted):
            pytest.skip(f"recorded with {kind} {wanted}; here is {found}")


def _client_act(peers: Peers, kind: str) -> Act:
    act = Act("A client: a job that is done, one that is not, one in the background")
    peers.shared_worker("gear")
    with Relay(peers.port) as proxy:
        client = peers.client(kind, port=proxy.port)
        assert client.do("gear.reverse", b"abc").result == b"cba"
        assert client.do("gear.raise", b"abc").outcome != "complete"
        handle = client.background("nobody", b"later", "given", priority="low")
        if KINDS[kind].asks_status:
            assert isinstance(client, LibraryClient)
            assert client.status(handle) == [1, 0, 0, 0]
        eventually(lambda: proxy.said(SERVER).count(b"\0RES") >= 5, "all answers")
        if isinstance(client, LibraryClient):
            client.close()
    act.note(proxy)
    return act


def _worker_act(peers: Peers, kind: str, does: str) -> Act:
    act = Act(f"A worker, and a job: {does}")
    function = f"told.{does}"
    with Relay(peers.port) as proxy:
        worker = peers.worker(kind, {function: does}, port=proxy.port)
        eventually(lambda: proxy.said(CLIENT).count(PRE_SLEEP) == 1, "its sleep")
        peers.shared_client("gear").do(function, b"abc", unique="given")
        eventually(lambda: proxy.said(CLIENT).count(PRE_SLEEP) == 2, "its next sleep")
        worker.close()
    act.note(proxy)
    return act


def test_every_kind_has_its_file() -> None:
    names = {path.stem for path in FOLDER.glob("*.txt")}
    assert names == set(KINDS)
    for path in FOLDER.glob("*.txt"):
        assert not re.search(r"H:\w", path.read_text(encoding="utf-8")), "a handle in it"
