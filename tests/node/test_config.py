"""Settings: which source wins, what is refused, and what is never shown."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from franca.node.config import data_directory, keys, load, variable_of
from franca.node.settings import (
    LISTENERS,
    ConfigError,
    Settings,
    Shown,
    check_binds,
    open_binds,
    secrets_of,
)
from franca.values import Address, read_addresses

HOME = {"HOME": "/home/anna"}


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "franca.toml"
    path.write_text(text)
    return str(path)


def source_of(settings: Settings, key: str) -> str:
    return next(shown.source for shown in settings.shown if shown.key == key)


# -- which source wins ------------------------------------------------------------------------


def test_without_any_source_there_are_defaults_for_all() -> None:
    settings = load({}, HOME)
    assert settings.data == "/home/anna/.local/share/franca"
    assert settings.listeners == {
        name: read_addresses([text.replace("{data}", settings.data) for text in texts])
        for name, texts in LISTENERS.items()
    }
    assert settings.listeners["faktory"] == (Address("127.0.0.1", 7419),)
    assert settings.listeners["gearman"] == (Address("127.0.0.1", 4730),)
    assert settings.listeners["memodb"] == (Address("127.0.0.1", 12703),)
    assert {shown.source for shown in settings.shown} == {"default"}
    assert [shown.key for shown in settings.shown] == list(keys())


@pytest.mark.parametrize(
    ("file", "env", "flags", "value", "source"),
    [
        ("", {}, {}, 10_000, "default"),
        ("stop_grace = '1s'", {}, {}, 1_000, "FILE"),
        (
            "stop_grace = '1s'",
            {"FRANCA_STOP_GRACE": "2s"},
            {},
            2_000,
            "environment FRANCA_STOP_GRACE",
        ),
        ("stop_grace = '1s'", {"FRANCA_STOP_GRACE": ""}, {}, 1_000, "FILE"),
    ],
)
def test_the_environment_wins_over_the_file(
    tmp_path: Path,
    file: str,
    env: Mapping[str, str],
    flags: Mapping[str, object],
    value: int,
    source: str,
) -> None:
    path = written(tmp_path, file)
    settings = load(flags, HOME | dict(env), path)
    assert settings.stop_grace_ms == value
    assert source_of(settings, "stop_grace") == source.replace("FILE", path)


def test_a_flag_wins_over_all_and_absent_flags_over_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "log_level = 'error'\n[faktory]\nlisten = 'off'")
    env = HOME | {"FRANCA_LOG_LEVEL": "warning"}
    absent = {"log_level": None, "faktory.listen": ()}
    assert load(absent, env, path).log_level == "warning"
    assert load(absent, env, path).listeners["faktory"] == ()

    given = load({"log_level": "debug", "faktory.listen": (":1", "/s")}, env, path)
    assert given.log_level == "debug"
    assert given.listeners["faktory"] == (Address("", 1), Address(path="/s"))
    assert source_of(given, "faktory.listen") == "flag --faktory"


@pytest.mark.parametrize(
    ("env", "data"),
    [
        ({"XDG_DATA_HOME": "/xdg"}, "/xdg/franca"),
        ({"XDG_DATA_HOME": "/xdg", "STATE_DIRECTORY": "/var/lib/franca:/other"}, "/var/lib/franca"),
        ({"STATE_DIRECTORY": "/var/lib/franca", "FRANCA_DATA": "~/jobs"}, "/home/anna/jobs"),
    ],
)
def test_where_the_data_lies(env: Mapping[str, str], data: str) -> None:
    assert load({}, HOME | dict(env)).data == data
    assert data_directory(None, HOME | dict(env)) == data
    assert data_directory("/given", HOME | dict(env)) == "/given"


def test_clients_find_the_data_even_if_another_setting_is_wrong(tmp_path: Path) -> None:
    path = written(tmp_path, "data = '/from/file'\nnonsense = 1")
    assert data_directory(None, HOME, path) == "/from/file"


@pytest.mark.parametrize("place", ["FRANCA_CONFIG", "XDG_CONFIG_HOME", "CONFIGURATION_DIRECTORY"])
def test_the_file_is_found_where_it_belongs(tmp_path: Path, place: str) -> None:
    folder = tmp_path / ("franca" if place == "XDG_CONFIG_HOME" else "")
    folder.mkdir(exist_ok=True)
    path = written(folder, "timezone = 'UTC'")
    env = HOME | {place: path if place == "FRANCA_CONFIG" else str(tmp_path)}
    assert load({}, env).timezone == "UTC"


def test_every_key_can_be_set_by_file_and_by_environment(tmp_path: Path) -> None:
    settings = load({}, HOME | {"FRANCA_LIMITS__BODY_BYTES_MAX": "1MiB"})
    assert settings.limits.body_bytes_max == 1 << 20
    path = written(tmp_path, "[limits]\nhandshake_ms = '2s'\nwindow_jobs = 5\nballast_bytes = 0")
    limits = load({}, HOME, path).limits
    assert (limits.handshake_ms, limits.window_jobs, limits.ballast_bytes) == (2_000, 5, 0)
    assert variable_of("limits.window_jobs") == "FRANCA_LIMITS__WINDOW_JOBS"
    path = written(tmp_path, "[memodb]\nheartbeat_ms = '5s'\nshare_bytes = '1MiB'")
    chosen = load({}, HOME | {"FRANCA_MEMODB__SHARE_JOBS": "7"}, path).protocols["memodb"]
    names = ("heartbeat_ms", "share_bytes", "share_jobs")
    assert [chosen[name] for name in names] == [5_000, 1 << 20, 7]


def test_who_bounds_messages_alone_bounds_bodies_with_them() -> None:
    settings = load({}, HOME | {"FRANCA_LIMITS__FRAME_BYTES_MAX": "20MiB"})
    assert settings.limits.body_bytes_max == settings.limits.frame_bytes_max == 20 << 20
    assert Shown("limits.body_bytes_max", 20 << 20, "default") in settings.shown


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stor = 'x'", "no setting stor; did you mean store?"),
        ("[faktory]\nlistn = 'x'", "did you mean faktory.listen?"),
        ("[faktory]\nbinding = ':1'", "did you mean faktory.listen?"),
        ("faktory = ':1'", "did you mean faktory.listen?"),
        ("listen = ':1'", ".listen?"),
        ("[limts]\nwindow_jobs = 1", "no setting limts"),
        ("[limits]\nhandshake = 1", "did you mean limits.handshake_ms?"),
        ("zzzzzz = 1", "no setting zzzzzz"),
        ("data = 5", "data: expected a text"),
        ("stop_grace = 5", 'such as "30s"'),
        ("stop_grace = 'soon'", 'such as "30s"'),
        ("insecure_bind = 'maybe'", "true or false"),
        ("remote_shutdown = 'some'", "loopback, never, all"),
        ("timezone = 'Mars/Base'", "no time zone"),
        ("sync = 'off'", "expected one of full"),
        ("store = 'redis:'", "sqlite:"),
        ("log_format = 'xml'", "auto, console, json"),
        ("[limits]\nwindow_jobs = 0", "above zero"),
        ("[limits]\nframe_bytes_max = '1KiB'", "frame_bytes_max"),
        ("[limits]\nframe_bytes_max = '20MiB'\nbody_bytes_max = '21MiB'", "frame_bytes_max"),
        ("[limits]\noutput_hard_bytes = '1KiB'", "output_hard_bytes"),
        ("[limits]\nlarge_body_bytes = '1KiB'", "large_body_bytes"),
        ("[faktory]\nlisten = 'tls://0.0.0.0:1'", "needs a certificate"),
        ("[tls]\ncertificate = 'a.pem'", "needed together"),
        ("[tls]\nclient_ca = 'a.pem'", "client_ca needs"),
        ("[faktory]\npassword = 'a'\npassword_file = 'b'", "not both"),
        ("[faktory]\npassword_file = '/nowhere/at/all'", "cannot be read"),
        ("= nonsense", "franca.toml: "),
    ],
)
def test_a_wrong_file_is_refused_with_the_remedy(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load({}, HOME, path)
    assert message in str(error.value)


def test_a_missing_file_is_refused_only_if_it_was_named() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load({}, HOME, "/nowhere/franca.toml")


def test_an_unknown_variable_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean FRANCA_FAKTORY__LISTEN"):
        load({}, HOME | {"FRANCA_FAKTRY__LISTEN": ":1"})


def test_what_kubernetes_adds_for_a_service_of_our_name_is_none_of_ours() -> None:
    added = ["FRANCA_SERVICE_HOST", "FRANCA_SERVICE_PORT", "FRANCA_SERVICE_PORT_MAIN"]
    added += ["FRANCA_PORT", "FRANCA_PORT_7419_TCP", "FRANCA_PORT_7419_TCP_ADDR", "FRANCA_URL"]
    load({}, HOME | dict.fromkeys(added, "tcp://10.0.0.1:7419"))


# -- who may come in --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:1",
        "127.9.9.9:1",
        "localhost:1",
        "[::1]:1",
        "[::ffff:127.0.0.1]:1",
        "/run/s",
        "off",
    ],
)
def test_what_only_this_machine_reaches_needs_no_password(address: str) -> None:
    check_binds(load({"faktory.listen": (address,)}, HOME))


@pytest.mark.parametrize(
    "address", ["0.0.0.0:1", ":1", "[::]:1", "10.0.0.1:1", "host.example:1", "[::ffff:10.0.0.1]:1"]
)
def test_what_others_reach_needs_a_password_or_the_flag(address: str) -> None:
    flags: dict[str, object] = {"faktory.listen": ("127.0.0.1:1", address)}
    with pytest.raises(ConfigError) as error:
        check_binds(load(flags, HOME))
    for remedy in ("127.0.0.1", "--password-file", "FAKTORY_PASSWORD", "--insecure-bind"):
        assert remedy in str(error.value)

    check_binds(load(flags, HOME | {"FAKTORY_PASSWORD": "hush"}))
    insecure = load(flags | {"insecure_bind": True}, HOME)
    check_binds(insecure)
    assert len(open_binds(insecure)) == 1


def test_a_protocol_without_passwords_is_told_other_remedies() -> None:
    with pytest.raises(ConfigError) as error:
        check_binds(load({"gearman.listen": ("0.0.0.0:1",)}, HOME | {"FAKTORY_PASSWORD": "hush"}))
    assert "--tls-client-ca" in str(error.value)
    assert "set a password" not in str(error.value)


def test_client_certificates_are_as_good_as_a_password(tmp_path: Path) -> None:
    flags: dict[str, object] = {"faktory.listen": ("tls://0.0.0.0:1",)}
    flags |= {"tls.certificate": "c.pem", "tls.key": "k.pem"}
    with pytest.raises(ConfigError):
        check_binds(load(flags, HOME))
    check_binds(load(flags | {"tls.client_ca": "ca.pem"}, HOME))


# -- Gearman ----------------------------------------------------------------------------------


def test_the_port_that_users_of_gearmand_export_is_honoured() -> None:
    env = HOME | {"GEARMAND_PORT": "4731"}
    assert load({}, env).listeners["gearman"] == (Address("127.0.0.1", 4731),)
    flags = {"gearman.listen": ("127.0.0.1:1",)}
    assert load(flags, env).listeners["gearman"] == (Address("127.0.0.1", 1),)
    with pytest.raises(ConfigError, match="GEARMAND_PORT"):
        load({}, HOME | {"GEARMAND_PORT": "many"})


def test_what_may_be_chosen_about_gearman() -> None:
    assert load({}, HOME).protocols["gearman"] == {
        "wakeup": 1,
        "job_retries": -1,
        "exceptions": False,
        "on_timeout": "requeue",
        "admin": "loopback",
    }
    flags = {"gearman.wakeup": "3", "gearman.job_retries": "0", "gearman.exceptions": True}
    env = HOME | {"FRANCA_GEARMAN__ON_TIMEOUT": "fail", "FRANCA_GEARMAN__ADMIN": "off"}
    assert [*load(flags, env).protocols["gearman"].values()] == [3, 0, True, "fail", "off"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wakeup", "-1"),
        ("wakeup", "256"),
        ("job_retries", "-2"),
        ("job_retries", "x"),
        ("admin", "me"),
    ],
)
def test_what_may_not(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"gearman.{name}"):
        load({}, HOME | {f"FRANCA_GEARMAN__{name.upper()}": value})


# -- passwords --------------------------------------------------------------------------------


def password_of(settings: Settings) -> str:
    [secret] = secrets_of(settings)
    return secret


def test_the_variable_of_the_original_is_a_password_or_the_path_of_one(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("from a file\n")
    assert password_of(load({}, HOME | {"FAKTORY_PASSWORD": "plain"})) == "plain"
    in_file = load({}, HOME | {"FAKTORY_PASSWORD": str(path)})
    assert password_of(in_file) == "from a file"


def test_a_later_password_takes_the_place_of_an_earlier_one_in_either_form(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("flagged")
    config = written(tmp_path, "[faktory]\npassword = 'filed'")
    assert password_of(load({}, HOME, config)) == "filed"
    env = HOME | {"FAKTORY_PASSWORD": "of the original"}
    assert password_of(load({}, env, config)) == "of the original"
    env |= {"FRANCA_FAKTORY__PASSWORD": "ours"}
    assert password_of(load({}, env, config)) == "ours"
    flags = {"faktory.password_file": str(path)}
    assert password_of(load(flags, env, config)) == "flagged"


def test_an_empty_password_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        load({"faktory.password_file": str(path)}, HOME)


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    settings = load({}, HOME | {"FAKTORY_PASSWORD": "canary-1"})
    config = written(tmp_path, "[faktory]\npassword = 8723491")
    with pytest.raises(ConfigError) as error:
        load({}, HOME, config)
    assert "canary" not in repr(settings) + str(settings.shown) + str(settings.protocols)
    assert "8723491" not in str(error.value)
