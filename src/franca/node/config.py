"""Where settings come from: defaults, a TOML file, the environment and flags.

A later source wins over an earlier one, in that order, and each value remembers where it came
from. Unknown keys are errors. What a key is called, how it is read and what it is by default
stands in one table, `keys()`. Reads files and the environment it is handed, nothing else.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from franca.control.values import (
    Address,
    Reader,
    one_of,
    or_number,
    read_addresses,
    read_duration,
    read_number,
    read_size,
    read_switch,
    read_text,
    whole_number,
)
from franca.core.limits import Limits
from franca.node.settings import (
    ADDRESS_OPTIONS,
    HIDDEN,
    LISTENERS,
    ConfigError,
    FaktoryOptions,
    GearmanOptions,
    PeriodicOptions,
    Secret,
    Settings,
    Shown,
    Tls,
    check,
    flag_of,
)
from franca.protocols.memodb.settings import MemoDBSettings

PREFIX = "FRANCA_"
_NOT_SETTINGS = frozenset({"FRANCA_CONFIG", "FRANCA_URL"})
# A Kubernetes service named `franca` puts these into every pod beside it.
_OF_KUBERNETES = re.compile(r"FRANCA_(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP)(_.*)?)?)")
_FORMER_NAMES = {"faktory.binding": "faktory.listen"}


# -- the table of keys ------------------------------------------------------------------------


class Key(Struct, frozen=True):
    """One setting: its dotted name, how it is read, what it is by default, its flag if any."""

    name: str
    read: Reader
    default: object
    flag: str = ""


def keys() -> dict[str, Key]:
    """Every setting there is, in the order in which they are shown."""
    limits = msgspec.structs.asdict(Limits())
    memodb = msgspec.structs.asdict(MemoDBSettings())
    table = [
        Key("data", read_text, "", "--data"),
        Key("store", read_store, "sqlite:", "--store"),
        *(Key(f"{n}.listen", read_addresses, list(a), flag_of(n)) for n, a in LISTENERS.items()),
        Key("insecure_bind", read_switch, False, "--insecure-bind"),
        Key("faktory.password", read_text, ""),
        Key("faktory.password_file", read_text, "", "--password-file"),
        Key("faktory.allow_v1_passwords", read_switch, True),
        Key("gearman.wakeup", whole_number(0, 255), 1, "--gearman-wakeup"),
        Key("gearman.job_retries", whole_number(-1, 255), -1, "--gearman-job-retries"),
        Key("gearman.exceptions", read_switch, False, "--gearman-exceptions"),
        Key("gearman.on_timeout", one_of("requeue", "fail"), "requeue"),
        Key("gearman.admin", one_of("loopback", "all", "off"), "loopback"),
        *(Key(f"memodb.{name}", _reader_of_limit(name), value) for name, value in memodb.items()),
        Key("periodic.dialect", ADDRESS_OPTIONS["periodic"]["dialect"], "auto"),
        Key("periodic.confirm", ADDRESS_OPTIONS["periodic"]["confirm"], "modern"),
        Key("periodic.submit_while_running", one_of("keep", "drop"), "keep"),
        Key("periodic.auth_file", read_text, "", "--periodic-auth-file"),
        Key("tls.certificate", read_text, "", "--tls-cert"),
        Key("tls.key", read_text, "", "--tls-key"),
        Key("tls.client_ca", read_text, "", "--tls-client-ca"),
        Key("stop_grace", read_duration, "10s"),
        Key("remote_shutdown", one_of("loopback", "never", "all"), "loopback"),
        Key("timezone", read_timezone, "local"),
        Key("log_format", one_of("auto", "console", "json"), "auto", "--log-format"),
        Key("log_level", one_of("debug", "info", "warning", "error"), "info", "--log-level"),
        Key("sync", one_of("full"), "full"),
        *(Key(f"limits.{name}", _reader_of_limit(name), value) for name, value in limits.items()),
    ]
    return {key.name: key for key in table}


def read_store(raw: object) -> str:
    """`sqlite:` for the data directory's own file, `memory:` for none."""
    names = {"": "sqlite:", "sqlite": "sqlite:", "memory": "memory:"}
    name = names.get(raw, raw) if isinstance(raw, str) else raw
    if isinstance(name, str) and name in names.values():
        return name
    raise ValueError(f"the stores are sqlite: (in the data directory) and memory:, not {raw!r}")


def read_timezone(raw: object) -> str:
    """`local` for the machine's, or a name such as Europe/Berlin."""
    name = read_text(raw)
    if name not in ("local", "UTC"):
        import zoneinfo  # looked up only where a zone is named

        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"no time zone is called {name!r}") from None
    return name


def _reader_of_limit(name: str) -> Reader:
    if name.endswith("_ms"):
        return or_number(read_duration)
    least = 0 if name in ("disk_reserve_bytes", "ballast_bytes") else 1
    return or_number(read_size, least) if "bytes" in name else read_number


# -- all sources together ---------------------------------------------------------------------

Layer = dict[str, tuple[object, str]]
"""What one source says: the raw value of each key it names, and where exactly it says so."""


def load(flags: Mapping[str, object], env: Mapping[str, str], config: str = "") -> Settings:
    """The settings of all sources together. `flags` are by key; None and () were not given."""
    table = keys()
    merged = _merge(
        [
            _defaults(table.values(), env),
            _of_file(config or _found_config(env), table),
            _of_originals(env),
            _of_environment(env, table),
            _of_flags(flags, table),
        ]
    )
    values: dict[str, object] = {}
    for name, (raw, source) in merged.items():
        try:
            values[name] = table[name].read(raw)
        except ValueError as error:
            text = "expected a text" if name.endswith(".password") else str(error)
            raise ConfigError(f"{source}: {name}: {text}") from None
    settings = _build(values, merged, env)
    check(settings)
    return settings


def data_directory(data: str | None, env: Mapping[str, str], config: str = "") -> str:
    """Where the data lies, found without judging any other setting."""
    if not data and not env.get("FRANCA_DATA"):
        path = config or _found_config(env)
        in_file = _tree(path).get("data") if path else None
        data = in_file if isinstance(in_file, str) else str(_defaults([], env)["data"][0])
    return _absolute(data or env["FRANCA_DATA"], env)


def _merge(layers: Iterable[Layer]) -> Layer:
    merged: Layer = {}
    for layer in layers:
        forms = [layer[n] for n in ("faktory.password", "faktory.password_file") if n in layer]
        if forms and merged:
            if all(raw for raw, _source in forms) and len(forms) == 2:
                raise ConfigError(f"{forms[0][1]}: a password or a password_file, not both")
            # A password of a later source takes the place of an earlier one in either form.
            merged["faktory.password"] = merged["faktory.password_file"] = ("", forms[0][1])
        merged |= layer
    return merged


def _defaults(table: Iterable[Key], env: Mapping[str, str]) -> Layer:
    layer: Layer = {key.name: (key.default, "default") for key in table}
    state = env.get("STATE_DIRECTORY", "").split(":")[0]
    if state:
        return layer | {"data": (state, "environment STATE_DIRECTORY")}
    home = env.get("XDG_DATA_HOME") or "~/.local/share"
    return layer | {"data": (os.path.join(home, "franca"), "default")}


def _found_config(env: Mapping[str, str]) -> str:
    """The configuration file that the environment names or that lies in its place, if any."""
    if env.get("FRANCA_CONFIG"):
        return env["FRANCA_CONFIG"]
    own = os.path.join(env.get("XDG_CONFIG_HOME") or "~/.config", "franca")
    for folder in (env.get("CONFIGURATION_DIRECTORY", "").split(":")[0], own):
        path = _absolute(os.path.join(folder, "franca.toml"), env) if folder else ""
        if path and os.path.exists(path):
            return path
    return ""


def _tree(path: str) -> dict[str, object]:
    import tomllib  # most commands have no file to read

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _of_file(path: str, table: Mapping[str, Key]) -> Layer:
    layer: Layer = {}
    tables = {name.partition(".")[0] for name in table if "." in name}
    for name, raw in _flat(_tree(path), tables) if path else ():
        if name not in table:
            raise ConfigError(f"{path}: {_unknown(name, table, str)}")
        layer[name] = (raw, path)
    return layer


def _flat(tree: Mapping[str, object], tables: set[str]) -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, dict) and name in tables:
            yield from ((f"{name}.{inner}", raw) for inner, raw in value.items())
        else:
            yield name, value


def _of_originals(env: Mapping[str, str]) -> Layer:
    """What users of the original servers already export."""
    layer: Layer = {}
    port = env.get("GEARMAND_PORT", "")
    if port:
        host = LISTENERS["gearman"][0].rpartition(":")[0]
        layer["gearman.listen"] = (f"{host}:{port}", "environment GEARMAND_PORT")
    address = env.get("PERIODIC_PORT", "")
    if address:
        # A number is a port; the original's tools also take an address here.
        host = LISTENERS["periodic"][0].rpartition(":")[0]
        text = f"{host}:{address}" if address.isdigit() else address
        layer["periodic.listen"] = (text, "environment PERIODIC_PORT")
    password = env.get("FAKTORY_PASSWORD", "")
    if password:
        # As the original: a value that begins with a slash is the path of a file.
        name = "faktory.password_file" if password.startswith("/") else "faktory.password"
        layer[name] = (password, "environment FAKTORY_PASSWORD")
    return layer


def _of_environment(env: Mapping[str, str], table: Mapping[str, Key]) -> Layer:
    layer: Layer = {}
    for variable, text in env.items():
        if not variable.startswith(PREFIX) or variable in _NOT_SETTINGS or not text:
            continue
        name = variable.removeprefix(PREFIX).lower().replace("__", ".")
        if name in table:
            layer[name] = (text, f"environment {variable}")
        elif not _OF_KUBERNETES.fullmatch(variable):
            raise ConfigError(f"environment: {_unknown(name, table, variable_of)}")
    return layer


def variable_of(name: str) -> str:
    """The environment variable that sets a key."""
    return PREFIX + name.upper().replace(".", "__")


def _of_flags(flags: Mapping[str, object], table: Mapping[str, Key]) -> Layer:
    given = {name: raw for name, raw in flags.items() if raw is not None and raw != ()}
    return {name: (raw, f"flag {table[name].flag}") for name, raw in given.items()}


def _unknown(name: str, table: Mapping[str, Key], spelled: Callable[[str], str]) -> str:
    near = _nearest(name, table)
    hint = f"; did you mean {spelled(near)}?" if near else ""
    return f"there is no setting {spelled(name)}{hint}"


def _nearest(name: str, table: Mapping[str, Key]) -> str:
    """The known key that a wrong one most likely stands for, or nothing."""
    if name in _FORMER_NAMES:
        return _FORMER_NAMES[name]
    if f"{name}.listen" in table:
        return f"{name}.listen"
    whole = difflib.get_close_matches(name, table, 1)
    if whole:
        return whole[0]
    ends = {key.rpartition(".")[2]: key for key in reversed(list(table))}
    part = difflib.get_close_matches(name.rpartition(".")[2], ends, 1)
    return ends[part[0]] if part else ""


# -- the whole --------------------------------------------------------------------------------


def _build(values: Mapping[str, object], merged: Layer, env: Mapping[str, str]) -> Settings:
    def part(table: str) -> dict[str, object]:
        return {n.partition(".")[2]: v for n, v in values.items() if n.startswith(f"{table}.")}

    faktory = part("faktory")
    password = str(faktory["password"])
    if faktory["password_file"]:
        source = merged["faktory.password_file"][1]
        password = _password_in(_absolute(str(faktory["password_file"]), env), source)
    tls = {name: str(path) and _absolute(str(path), env) for name, path in part("tls").items()}
    whole: dict[str, object] = {name: value for name, value in values.items() if "." not in name}
    whole["data"] = _absolute(str(whole["data"]), env)
    whole["stop_grace_ms"] = whole.pop("stop_grace")
    listeners = {name: values[f"{name}.listen"] for name in LISTENERS}
    whole["listeners"] = _in_data(listeners, str(whole["data"]))  # type: ignore[arg-type]
    whole["tls"] = msgspec.convert(tls, Tls)
    whole["limits"] = msgspec.convert(part("limits"), Limits)
    gearman = {name: value for name, value in part("gearman").items() if name != "listen"}
    whole["gearman"] = msgspec.convert(gearman, GearmanOptions)
    memodb = {name: value for name, value in part("memodb").items() if name != "listen"}
    whole["memodb"] = msgspec.convert(memodb, MemoDBSettings)
    periodic = {name: value for name, value in part("periodic").items() if name != "listen"}
    periodic["auth_file"] = periodic["auth_file"] and _absolute(str(periodic["auth_file"]), env)
    whole["periodic"] = msgspec.convert(periodic, PeriodicOptions)
    whole["faktory"] = FaktoryOptions(Secret(password), bool(faktory["allow_v1_passwords"]))
    apart: dict[str, object] = {"data": whole["data"]}
    if merged["faktory.password"][0]:
        apart["faktory.password"] = HIDDEN
    whole["shown"] = tuple(
        Shown(name, apart.get(name, raw), source) for name, (raw, source) in merged.items()
    )
    return msgspec.convert(whole, Settings)


def _in_data(
    listeners: Mapping[str, tuple[Address, ...]], data: str
) -> dict[str, tuple[Address, ...]]:
    """The listeners, those whose sockets lie in the data directory at their full paths."""
    return {
        name: tuple(replace(a, path=a.path.replace("{data}", data)) for a in addresses)
        for name, addresses in listeners.items()
    }


def _password_in(path: str, source: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            password = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: the password file {path} cannot be read: {error}") from None
    if not password:
        raise ConfigError(f"{source}: the password file {path} is empty")
    return password


def _absolute(path: str, env: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        path = (env.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.abspath(path)
