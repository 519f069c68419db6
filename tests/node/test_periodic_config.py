"""What may be set about Periodic, and where."""

import pytest

from franca.node.config import load
from franca.node.settings import ConfigError, check_binds, open_binds
from franca.values import Address, read_address

HOME = {"HOME": "/home/anna"}


def listeners(env: dict[str, str] | None = None, **flags: object) -> tuple[Address, ...]:
    return load(flags, HOME | (env or {})).listeners["periodic"]


def test_by_default_it_listens_on_loopback_and_in_the_data_directory() -> None:
    assert [str(address) for address in listeners(data="/srv/jobs")] == [
        "127.0.0.1:5000",
        "unix:/srv/jobs/periodic.sock",
    ]


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("5001", "127.0.0.1:5001"),
        ("tcp://127.0.0.1:5002", "127.0.0.1:5002"),
        ("unix:///tmp/periodic.sock", "unix:/tmp/periodic.sock"),
    ],
)
def test_the_originals_variable_may_be_a_port_or_an_address(said: str, address: str) -> None:
    assert [str(a) for a in listeners({"PERIODIC_PORT": said})] == [address]


def test_our_own_variable_and_the_flag_win_over_it() -> None:
    env = {"PERIODIC_PORT": "5001", "FRANCA_PERIODIC__LISTEN": "127.0.0.1:5002"}
    assert [str(a) for a in listeners(env)] == ["127.0.0.1:5002"]
    flag = {"periodic.listen": ("127.0.0.1:5003", "{data}/p.sock"), "data": "/srv"}
    assert [str(a) for a in listeners(env, **flag)] == ["127.0.0.1:5003", "unix:/srv/p.sock"]


def test_an_address_may_carry_options_of_its_own() -> None:
    address = read_address("127.0.0.1:5001?dialect=doc&confirm=OLD")
    assert address.options == (("dialect", "doc"), ("confirm", "old"))
    assert str(address) == "127.0.0.1:5001"
    assert read_address("unix:/run/p.sock?dialect=crc").path == "/run/p.sock"


@pytest.mark.parametrize(
    ("flags", "wrong"),
    [
        ({"periodic.listen": ("127.0.0.1:1?dialect=klingon",)}, "dialect"),
        ({"periodic.listen": ("127.0.0.1:1?colour=red",)}, "colour"),
        ({"periodic.listen": ("127.0.0.1:1?dialect",)}, "dialect"),
        ({"faktory.listen": ("127.0.0.1:1?dialect=doc",)}, "dialect"),
    ],
)
def test_a_wrong_option_is_refused(flags: dict[str, object], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        load(flags, HOME)


def test_every_option_has_a_key() -> None:
    env = {
        "FRANCA_PERIODIC__DIALECT": "doc",
        "FRANCA_PERIODIC__CONFIRM": "old",
        "FRANCA_PERIODIC__SUBMIT_WHILE_RUNNING": "drop",
        "FRANCA_PERIODIC__AUTH_FILE": "~/rules",
    }
    chosen = load({}, HOME | env).protocols["periodic"]
    assert [*chosen.values()] == ["doc", "old", "drop", "/home/anna/rules"]
    usual = load({}, HOME).protocols["periodic"]
    assert [*usual.values()] == ["auto", "modern", "keep", ""]
    with pytest.raises(ConfigError):
        load({}, HOME | {"FRANCA_PERIODIC__DIALECT": "klingon"})


def test_an_auth_file_is_what_an_open_listener_needs() -> None:
    flags: dict[str, object] = {"periodic.listen": ("0.0.0.0:5000",)}
    with pytest.raises(ConfigError, match="--periodic-auth-file"):
        check_binds(load(flags, HOME))
    settings = load(flags | {"periodic.auth_file": "/etc/rules"}, HOME)
    check_binds(settings)
    assert open_binds(settings) == []
