"""How durations, sizes, switches and addresses are written in settings."""

import pytest

from franca import values


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("5ms", 5), ("30s", 30_000), ("1.5m", 90_000), ("1h30m", 5_400_000), ("2d", 172_800_000)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert values.read_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 years", "1h-30m", "m5", 5, None])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        values.read_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 64 << 20),
        ("10MB", 10_000_000),
        ("1.5 KiB", 1536),
        ("12", 12),
        ("7b", 7),
        ("2g", 2 * 10**9),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert values.read_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "12 apples", "-1", None])
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(ValueError, match="size"):
        values.read_size(text)


@pytest.mark.parametrize("raw", [10**24, str(10**24), "9" * 5_000, 2**53 + 1])
def test_bare_numbers_have_a_bound_as_those_with_a_unit_have(raw: object) -> None:
    for read in (
        values.read_number,
        values.or_number(values.read_size),
        values.or_number(values.read_duration),
    ):
        with pytest.raises(ValueError, match="too large"):
            read(raw)
        assert read(str(2**53)) == read(2**53) == 2**53


@pytest.mark.parametrize("host", ["a..b", ".", ".a", "a" * 300, "a." * 150, "é" * 300])
def test_what_cannot_be_the_name_of_a_host_is_refused_before_it_is_looked_for(host: str) -> None:
    with pytest.raises(ValueError, match="name of a host"):
        values.read_address(f"{host}:1")


@pytest.mark.parametrize(
    ("raw", "on"), [(True, True), ("yes", True), ("1", True), ("OFF", False), ("false", False)]
)
def test_switches(raw: object, on: bool) -> None:
    assert values.read_switch(raw) is on


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7419", values.Address("127.0.0.1", 7419)),
        ("localhost:0", values.Address("localhost", 0)),
        (":7419", values.Address("", 7419)),
        ("*:7419", values.Address("", 7419)),
        ("[::1]:7419", values.Address("::1", 7419)),
        ("tcp://[::]:1", values.Address("::", 1)),
        ("tcp://host.example:1", values.Address("host.example", 1)),
        ("tls://0.0.0.0:1", values.Address("0.0.0.0", 1, tls=True)),
        ("/run/franca.sock", values.Address(path="/run/franca.sock")),
        ("./franca.sock", values.Address(path="./franca.sock")),
        ("unix:franca.sock", values.Address(path="franca.sock")),
        ("unix:///run/f.sock", values.Address(path="/run/f.sock")),
        ("ipc:///run/f.sock", values.Address(path="/run/f.sock")),
    ],
)
def test_addresses(text: str, address: values.Address) -> None:
    assert (values.read_address(text), values.read_address(str(address))) == (address, address)


@pytest.mark.parametrize(
    "text",
    [
        "7419",
        "host",
        "host:",
        "host:port",
        "host:65536",
        "host:-1",
        "::1:7419",
        "[zz]:1",
        "unix:",
        "ipc://",
        "http://host:1",
        "tls:///run/f.sock",
        "tcp://host",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError):
        values.read_address(text)


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        ("off", 0),
        (["off"], 0),
        (":1,:2", 2),
        ([":1", ":1"], 1),
        ("", 0),
        ([":1", "/s", "[::1]:2"], 3),
    ],
)
def test_lists_of_addresses(raw: object, count: int) -> None:
    assert len(values.read_addresses(raw)) == count


@pytest.mark.parametrize("raw", [["off", ":1"], 7419, [7419], {"a": 1}])
def test_what_is_no_list_of_addresses(raw: object) -> None:
    with pytest.raises(ValueError):
        values.read_addresses(raw)
