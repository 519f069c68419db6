"""The zone whose clocks are meant."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from franca.node import services
from franca.node.services import zone_of

WINTER, SUMMER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)


def offsets(name: str) -> list[timedelta | None]:
    return [moment.astimezone(zone_of(name)).utcoffset() for moment in (WINTER, SUMMER)]


def test_a_zone_by_its_name() -> None:
    assert offsets("UTC") == [timedelta(0)] * 2
    assert offsets("Europe/Berlin") == [timedelta(hours=1), timedelta(hours=2)]


def test_the_machines_zone_knows_its_summer(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("Europe/Berlin", ":Europe/Berlin"):
        monkeypatch.setenv("TZ", text)
        assert offsets("local") == [timedelta(hours=1), timedelta(hours=2)]


def test_without_a_table_it_is_an_offset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(services, "LOCALTIME", str(tmp_path / "none"))
    here = datetime.now().astimezone().utcoffset()
    assert offsets("local") == [here] * 2
