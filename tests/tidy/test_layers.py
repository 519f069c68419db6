"""The arrows between the layers, and that this test sees a forbidden one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.layers import violations

PACKAGE = Path(__file__).parents[2] / "src" / "franca"


def test_nobody_imports_what_it_may_not() -> None:
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("core/broker.py", "import time"),
        ("core/broker.py", "import os"),
        ("core/broker.py", "from asyncio import sleep"),
        ("core/broker.py", "from franca.protocols.conversation import Link"),
        ("core/broker.py", "from franca.store.port import Store"),
        ("core/broker.py", "import franca.node.node"),
        ("core/broker.py", "from random import randrange"),
        ("core/broker.py", "import random; random.random()"),
        ("core/broker.py", "from datetime import datetime; datetime.now()"),
        ("core/broker.py", "open('/etc/passwd')"),
        ("core/broker.py", "async def wait(): ..."),
        ("core/broker.py", "import requests"),
        ("core/broker.py", "def late():\n    import socket"),
        ("core/broker.py", "from ..node import config"),
        ("engine/engine.py", "from franca.store.port import Store"),
        ("engine/engine.py", "from franca.protocols.faktory.wire import OK"),
        ("engine/engine.py", "import threading"),
        ("store/sqlite.py", "from franca.engine.engine import Engine"),
        ("store/sqlite.py", "from franca.node import config"),
        ("protocols/faktory/wire.py", "from franca.engine.engine import Engine"),
        ("protocols/faktory/wire.py", "from franca.protocols.gearman.wire import Packet"),
        ("protocols/bodies.py", "from franca.protocols.faktory.wire import OK"),
        ("protocols/faktory/wire.py", "import socket"),
        ("protocols/faktory/wire.py", "from io import FileIO"),
        ("protocols/faktory/wire.py", "import io; io.open('/etc/passwd')"),
        ("control/server.py", "from franca.node.settings import Settings"),
        ("control/server.py", "from franca.store.port import Store"),
        ("node/node.py", "from franca.cli.main import main"),
        ("control/server.py", "from franca import cli"),
        ("core/broker.py", "from franca import __version__"),
        ("unheard_of/new.py", "from franca.core.model import Job"),
    ],
)
def test_a_planted_import_is_seen(tmp_path: Path, file: str, line: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(f"{line}\n")
    assert len(violations(tmp_path)) >= 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("core/broker.py", "from random import Random"),
        ("core/broker.py", "from franca.core.model import Job"),
        ("core/cron.py", "from datetime import UTC, datetime; datetime.fromtimestamp(0, UTC)"),
        ("engine/engine.py", "from franca.protocols.conversation import Link"),
        ("protocols/faktory/wire.py", "from franca.protocols.buffer import ByteBuffer"),
        ("protocols/faktory/wire.py", "from franca.protocols.faktory.messages import Push"),
        ("control/server.py", "from franca.engine.engine import Engine; import asyncio"),
        ("protocols/faktory/wire.py", "from io import BytesIO"),
        ("node/node.py", "from franca.protocols.faktory.service import Service; import time"),
        ("cli/main.py", "from franca import __version__"),
    ],
)
def test_what_is_allowed_is_not_seen(tmp_path: Path, file: str, line: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(f"{line}\n")
    assert violations(tmp_path) == []
