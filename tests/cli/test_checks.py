"""What the doctor says of ports that somebody else has."""

import pytest

from franca.cli import checks
from franca.node.config import load
from franca.node.settings import Settings
from franca.values import Address


def verdicts(settings: Settings) -> set[str]:
    return {verdict for verdict, _text in checks._ports(settings)}


@pytest.mark.parametrize(
    ("flags", "all_taken", "expected"),
    [
        ({}, False, {"ok", "warn"}),
        ({"gearman.listen": "127.0.0.1:4730"}, False, {"ok", "fail"}),
        ({}, True, {"fail"}),
    ],
)
def test_a_default_port_that_is_taken_is_a_failure_only_where_no_other_is_left(
    flags: dict[str, object], all_taken: bool, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def why(address: Address) -> str:
        return "Address already in use" if all_taken or address.port == 4730 else ""

    monkeypatch.setattr(checks, "_why_taken", why)
    assert verdicts(load(flags, {})) == expected
