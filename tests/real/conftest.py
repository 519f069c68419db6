"""The servers and programs of each test, which end with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from tests.real.emq import Broker, Client, EmqStage
from tests.real.kit import Stage
from tests.support.server import Server


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def stage(tmp_path: Path, stack: ExitStack) -> Stage:
    return Stage(tmp_path, stack)


@pytest.fixture
def server(stage: Stage) -> Server:
    return stage.server()


@pytest.fixture
def emq(tmp_path: Path, stack: ExitStack) -> EmqStage:
    return EmqStage(tmp_path, stack)


@pytest.fixture
def broker(emq: EmqStage) -> Broker:
    return emq.broker()


@pytest.fixture
def client(emq: EmqStage, broker: Broker) -> Client:
    return emq.client(broker)


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    """An authority that nobody trusts but those who are told to."""
    return trustme.CA()
