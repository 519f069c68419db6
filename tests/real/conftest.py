"""The servers and programs of each test, which end with it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from franca.node.settings import LISTENERS
from tests.real.emq import Broker, Client, EmqPeers
from tests.real.kit import Peers
from tests.support.server import Server
from tests.support.shared import emptied


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def peers(tmp_path: Path, stack: ExitStack) -> Peers:
    return Peers(tmp_path, stack)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    unix = ("--eventmq", f"ipc://{folder}/emq.sock")
    with Server(folder / "data", speaks=tuple(LISTENERS), extra_args=unix) as server:
        yield server


@pytest.fixture
def server(request: pytest.FixtureRequest, shared_server: Server) -> Iterator[Server]:
    """A server of every protocol."""
    yield from emptied(shared_server, request.session)


@pytest.fixture
def emq(tmp_path: Path, stack: ExitStack) -> EmqPeers:
    return EmqPeers(tmp_path, stack)


@pytest.fixture
def broker(emq: EmqPeers) -> Broker:
    return emq.broker()


@pytest.fixture
def client(emq: EmqPeers, broker: Broker) -> Client:
    return emq.client(broker)


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    """An authority that nobody trusts but those who are told to."""
    return trustme.CA()
