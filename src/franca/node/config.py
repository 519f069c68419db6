"""Where settings come from: defaults, a TOML file, the environment and flags.

A later source wins over an earlier one, in that order, and each value remembers where it came
from. Unknown keys are errors. What a key is called, how it is read and what it is by default
stands in one table, `keys()`. Reads files and the environment it is handed, nothing else.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from franca import values
from franca.core.limits import Limits
from franca.node.settings import LISTENERS, ConfigError, Secret, Settings, Shown, check, flag_of
from franca.protocols.declaration import Setting
from franca.protocols.registry import PROTOCOLS
from franca.values import one_of, read_switch
from franca.web import settings as web
from franca.web.settings import NAME as WEB

PREFIX = "FRANCA_"
_NOT_SETTINGS = frozenset({"FRANCA_CONFIG", "FRANCA_URL"})
# A Kubernetes service named `franca` puts these into every pod beside it.
_OF_KUBERNETES = re.compile(r"FRANCA_(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP)(_.*)?)?)")
_FORMER_NAMES = {"faktory.binding": "faktory.listen"}
_BODY, _FORMER_BODY_BYTES = "limits.body_bytes_max", 16 << 20


# -- the table of keys ------------------------------------------------------------------------


def keys() -> dict[str, Setting]:
    """Every setting there is, in the order in which they are shown, by its dotted name."""
    limits = msgspec.structs.asdict(Limits())
    formats, levels = ("auto", "console", "json"), ("debug", "info", "warning", "error")
    table = [
        Setting("data", values.read_text, "", "--data", "The data directory."),
        Setting("store", read_store, "sqlite:", "--store", _STORES),
        *(_listener(name, addresses) for name, addresses in LISTENERS.items()),
        Setting("insecure_bind", read_switch, False, "--insecure-bind", _INSECURE, switch=True),
        *(
            replace(one, name=f"{name}.{one.name}")
            for name, settings in _parts().items()
            for one in settings
        ),
        Setting("tls.certificate", values.read_text, "", "--tls-cert", _CERTIFICATE, path=True),
        Setting("tls.key", values.read_text, "", "--tls-key", "Its private key (PEM).", path=True),
        Setting("tls.client_ca", values.read_text, "", "--tls-client-ca", _CLIENT_CA, path=True),
        Setting("stop_grace", values.read_duration, "10s"),
        Setting("remote_shutdown", one_of("loopback", "never", "all"), "loopback"),
        Setting("timezone", read_timezone, "local"),
        Setting("log_format", one_of(*formats), "auto", "--log-format", "auto, console or json."),
        Setting("log_level", one_of(*levels), "info", "--log-level", _LEVELS),
        Setting("sync", one_of("full"), "full"),
        *(Setting(f"limits.{name}", _reader_of(name), value) for name, value in limits.items()),
    ]
    return {one.name: one for one in table}


_STORES = "sqlite: (in the data directory) or memory: (nothing survives a restart)."
_INSECURE = "Allow other machines in without a password."
_CERTIFICATE = "The certificate for tls:// listeners (PEM)."
_CLIENT_CA = "Ask clients for a certificate of this authority (PEM)."
_LEVELS = "debug, info, warning or error."


def _parts() -> dict[str, tuple[Setting, ...]]:
    """What may be chosen about each protocol, and about the web side."""
    return {name: declared.settings for name, declared in PROTOCOLS.items()} | {WEB: web.SETTINGS}


def _listener(name: str, addresses: tuple[str, ...]) -> Setting:
    spoken = name.replace("_", " ").title()
    text = f"Where to speak {spoken} (default {' '.join(addresses)}), or off. May be repeated."
    text = web.HELP if name == WEB else text
    return Setting(f"{name}.listen", values.read_addresses, list(addresses), flag_of(name), text)


def _reader_of(limit: str) -> values.Reader:
    return values.reader_of(limit, 0 if limit in ("disk_reserve_bytes", "ballast_bytes") else 1)


def read_store(raw: object) -> str:
    """`sqlite:` for the data directory's own file, `memory:` for none."""
    if raw in ("", "sqlite", "sqlite:"):
        return "sqlite:"
    if raw in ("memory", "memory:"):
        return "memory:"
    raise ValueError(f"the stores are sqlite: (in the data directory) and memory:, not {raw!r}")


def read_timezone(raw: object) -> str:
    """`local` for the machine's, or a name such as Europe/Berlin."""
    name = values.read_text(raw)
    if name not in ("local", "UTC"):
        import zoneinfo  # looked up only where a zone is named

        try:
            zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"no time zone is called {name!r}") from None
    return name


# -- all sources together ---------------------------------------------------------------------

Layer = dict[str, tuple[object, str]]
"""What one source says: the raw value of each key it names, and where exactly it says so."""


def load(flags: Mapping[str, object], env: Mapping[str, str], config: str = "") -> Settings:
    """The settings of all sources together. `flags` are by key; None and () were not given."""
    table = keys()
    given = {name: raw for name, raw in flags.items() if raw is not None and raw != ()}
    layers = [
        _defaults(table.values(), env),
        _of_file(config or _found_config(env), table),
        _of_originals(env),
        _of_environment(env, table),
        {name: (raw, f"flag {table[name].flag}") for name, raw in given.items()},
    ]
    held = [(_other(one.name, one.holds), one.name) for one in table.values() if one.holds]
    merged = _merge(layers, held)
    chosen: dict[str, object] = {}
    for name, (raw, source) in merged.items():
        try:
            chosen[name] = table[name].read(raw)
        except ValueError as error:
            text = "expected a text" if table[name].secret else str(error)
            raise ConfigError(f"{source}: {name}: {text}") from None
    settings = _build(chosen, merged, table, env)
    check(settings)
    return settings


def data_directory(data: str | None, env: Mapping[str, str], config: str = "") -> str:
    """Where the data lies, found without judging any other setting."""
    if not data and not env.get("FRANCA_DATA"):
        path = config or _found_config(env)
        in_file = _tree(path).get("data") if path else None
        data = in_file if isinstance(in_file, str) else str(_defaults([], env)["data"][0])
    return _absolute(data or env["FRANCA_DATA"], env)


def _merge(layers: Iterable[Layer], either: Iterable[tuple[str, str]]) -> Layer:
    """All layers together. Of a setting and the file that holds it, `either` may be given."""
    merged: Layer = {}
    for layer in layers:
        for text, file in either:
            forms = [layer[name] for name in (text, file) if name in layer]
            if forms and merged:
                if all(raw for raw, _source in forms) and len(forms) == 2:
                    names = " or a ".join(name.partition(".")[2] for name in (text, file))
                    raise ConfigError(f"{forms[0][1]}: a {names}, not both")
                # That of a later source takes the place of an earlier one in either form.
                merged[text] = merged[file] = ("", forms[0][1])
        merged |= layer
    return merged


def _other(name: str, other: str) -> str:
    """The full name of a setting of the same protocol."""
    return f"{name.partition('.')[0]}.{other}"


def _defaults(table: Iterable[Setting], env: Mapping[str, str]) -> Layer:
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


def _of_file(path: str, table: Mapping[str, Setting]) -> Layer:
    layer: Layer = {}
    tables = {name.partition(".")[0] for name in table if "." in name}
    for name, value in _tree(path).items() if path else ():
        named = {name: value}
        if isinstance(value, dict) and name in tables:
            named = {f"{name}.{inner}": raw for inner, raw in value.items()}
        for key, raw in named.items():
            if key not in table:
                raise ConfigError(f"{path}: {_unknown(key, table, str)}")
            layer[key] = (raw, path)
    return layer


def _of_originals(env: Mapping[str, str]) -> Layer:
    """What users of the original servers already export."""
    return {
        f"{name}.{setting}": (raw, f"environment {variable}")
        for name, declared in PROTOCOLS.items()
        for setting, (raw, variable) in declared.originals(env).items()
    }


def _of_environment(env: Mapping[str, str], table: Mapping[str, Setting]) -> Layer:
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


def _unknown(name: str, table: Mapping[str, Setting], spelled: Callable[[str], str]) -> str:
    near = _nearest(name, table)
    hint = f"; did you mean {spelled(near)}?" if near else ""
    return f"there is no setting {spelled(name)}{hint}"


def _nearest(name: str, table: Mapping[str, Setting]) -> str:
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


def _build(
    chosen: dict[str, object], merged: Layer, table: Mapping[str, Setting], env: Mapping[str, str]
) -> Settings:
    for one in table.values():
        path = chosen[one.name]
        if one.path and path:
            chosen[one.name] = path = _absolute(str(path), env)
        if one.holds and path:
            held = table[_other(one.name, one.holds)]
            chosen[held.name] = _held_in(str(path), one, held, merged[one.name][1])
    hidden = {n for n, one in table.items() if one.secret and merged[n][0]}
    chosen |= {n: Secret(str(chosen[n])) for n, one in table.items() if one.secret}
    chosen["data"] = data = _absolute(str(chosen["data"]), env)
    shown: dict[str, object] = {"data": data, **dict.fromkeys(hidden, Secret.HIDDEN)}
    tables: dict[str, dict[str, object]] = {"": {}}
    for name, value in chosen.items():
        inside, _, inner = name.rpartition(".")
        tables.setdefault(inside, {})[inner] = value
    limits = msgspec.convert(tables["limits"], Limits)
    if merged[_BODY][1] == "default":
        # A file that bounds messages alone may have been written when this default was less.
        most = max(limits.frame_bytes_max, _FORMER_BODY_BYTES)
        shown[_BODY] = body = min(limits.body_bytes_max, most)
        limits = replace(limits, body_bytes_max=body)
    whole = tables[""] | {"limits": limits, "tls": tables["tls"]}
    whole["stop_grace_ms"] = whole.pop("stop_grace")
    whole["listeners"] = listeners = dict[str, list[values.Address]]()
    for name in LISTENERS:
        found = values.read_addresses(merged[f"{name}.listen"][0])
        listeners[name] = [replace(a, path=a.path.replace("{data}", data)) for a in found]
    whole["protocols"] = {
        name: {one.name: tables[name][one.name] for one in settings}
        for name, settings in _parts().items()
    }
    whole["shown"] = [Shown(n, shown.get(n, raw), source) for n, (raw, source) in merged.items()]
    return msgspec.convert(whole, Settings)


def _held_in(path: str, setting: Setting, held: Setting, source: str) -> object:
    """What a setting is that stands in a file."""
    text = _content(path, setting, source)
    try:
        return held.read(text)
    except ValueError as error:
        raise ConfigError(f"{source}: the {setting.holds} file {path}: {error}") from None


def _content(path: str, setting: Setting, source: str) -> str:
    """What stands in a file that holds a setting."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        text = f"the {setting.holds} file {path} cannot be read: {error}"
        raise ConfigError(f"{source}: {text}") from None
    if not text:
        raise ConfigError(f"{source}: the {setting.holds} file {path} is empty")
    return text


def _absolute(path: str, env: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        path = (env.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.abspath(path)
