"""What single libraries offer beside jobs: their admin clients, options, echoes, timeouts."""

import json
import re

import pytest

from tests.real.fetched import NODE
from tests.real.gearman.clients import b64
from tests.real.gearman.kinds import KINDS, differs
from tests.real.gearman.kit import Peers, bare, digest
from tests.real.kit import CallRefused
from tests.support.shared import eventually

GEARMAN_WORK_EXCEPTION, GEARMAN_WORK_FAIL = 23, 24
PACKAGES = {"abraxas": "2.1.10", "gearmanode": "0.9.2", "node-gearman": "0.2.2"}


@pytest.mark.parametrize(("name", "version"), PACKAGES.items())
def test_the_lock_file_pins_the_node_libraries(name: str, version: str) -> None:
    packages = json.loads((NODE / "package-lock.json").read_text())["packages"]
    assert packages[f"node_modules/{name}"]["version"] == version


# -- the name of a job and of a worker -------------------------------------------------------------


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.grabs_unique])
def test_a_worker_that_asks_sees_the_unique_of_its_job(shared: Peers, kind: str) -> None:
    function = f"unique.{kind}"
    worker = shared.worker(kind, {function: "reverse"}, unique=True)
    handle = shared.shared_library("gear").background(function, b"x", unique="its unique")
    told = worker.said("ran")
    assert (told["unique"], told["handle"]) == ("its unique", handle)


@pytest.mark.parametrize(
    "kind", [name for name in KINDS if name not in ("gearman", "node-gearman")]
)
def test_a_worker_is_listed_under_the_name_it_gives(shared: Peers, kind: str) -> None:
    shared.worker(kind, {f"listed.{kind}": "reverse"}, id=f"listed-{kind}")
    wanted = f" 127.0.0.1 listed-{kind} : listed.{kind}"

    def listed() -> bool:
        return any(line.endswith(wanted) for line in shared.lines("workers"))

    eventually(listed, wanted)


# -- admin clients ---------------------------------------------------------------------------------


def test_gear_asks_for_lists_on_the_connection_of_its_jobs(shared: Peers) -> None:
    client = shared.library("gear")
    handle = client.background("gear.asked", b"x", unique="gear-asked")
    assert "gear.asked\t1\t0\t0\n" in client.call("admin", "Status")
    assert f"{handle}\t" in client.call("admin", "ShowJobs")
    assert "gear-asked\n" in client.call("admin", "ShowUniqueJobs")
    assert client.call("admin", "Workers").endswith(".\n")
    assert client.call("admin", "Version").startswith("OK ")
    assert client.call("admin", "CancelJob", handle).startswith("OK")


def test_the_admin_client_of_python3_gearman(shared: Peers) -> None:
    client = shared.shared_library("python3-gearman")
    client.background("py.asked", b"x")
    wanted = {"task": "py.asked", "queued": 1, "running": 0, "workers": 0}
    assert wanted in client.call("admin", "get_status")
    shared.shared_worker("php")
    assert client.do("php.reverse", b"abc").result == b"cba"
    workers = client.call("admin", "get_workers")
    assert "php.reverse" in {task for worker in workers for task in worker["tasks"]}
    assert client.call("admin", "get_version").startswith("OK ")
    assert client.call("admin", "ping_server") > 0


def test_the_admin_client_of_aiogear(shared: Peers) -> None:
    client = shared.shared_library("aiogear")
    client.background("aio.asked", b"x")
    wanted = {"function": "aio.asked", "total": 1, "running": 0, "available_workers": 0}
    assert wanted in client.call("admin", "status")
    shared.shared_worker("php")
    assert client.do("php.reverse", b"abc").result == b"cba"
    workers = client.call("admin", "workers")
    assert "php-worker" in {worker["name"] for worker in workers}
    assert client.call("admin", "version").startswith("OK ")
    assert client.call("admin", "verbose").startswith("OK ")
    assert client.call("admin", "maxqueue", "aio.asked") == "OK"


def test_abraxas_asks_everything_on_one_connection(shared: Peers) -> None:
    client = shared.library("abraxas")
    assert client.call("echo", b64(b"\0 any bytes \xff")) == b64(b"\0 any bytes \xff")
    client.background("abraxas.asked", b"x")
    found = client.call("admin", "status")["abraxas.asked"]
    assert found == {"function": "abraxas.asked", "inqueue": 1, "running": 0, "workers": 0}
    shared.shared_worker("php")
    assert client.do("php.reverse", b"abc").result == b"cba"
    workers = client.call("admin", "workers")
    assert "php-worker" in {worker["clientid"] for worker in workers}


def test_perl_asks_for_the_servers_status(shared: Peers) -> None:
    client = shared.shared_library("perl")
    client.background("perl.asked", b"x")
    found = client.call("admin", "get_job_server_status")["perl.asked"]
    assert {name: int(found[name]) for name in found} == {"queued": 1, "running": 0, "capable": 0}


@differs("these are commands of the Perl server")
def test_perl_asks_for_jobs_and_clients(shared: Peers) -> None:
    gate = shared.path("gate")
    worker = shared.worker("gear", {"perl.seen": "wait"})
    waiting = shared.client("gear")
    end = waiting.begin("perl.seen", str(gate).encode(), "seen-unique")
    worker.said("started")
    client = shared.shared_library("perl")

    seen = client.call("admin", "get_job_server_jobs")["perl.seen"]
    assert (seen["key"], int(seen["listeners"])) == ("seen-unique", 1)
    assert re.fullmatch(r"127\.0\.0\.1:\d+", seen["address"])

    clients = client.call("admin", "get_job_server_clients")
    assert [c["perl.seen"]["key"] for c in clients.values() if "perl.seen" in c] == ["seen-unique"]
    gate.touch()
    assert end().outcome == "complete"


def test_a_full_queue_is_an_error_to_whoever_submits_and_to_nobody_else(shared: Peers) -> None:
    gear, php = shared.library("gear"), shared.library("php")
    gear.background("full", b"1", "full-1")
    admin = shared.shared_library("python3-gearman")
    # It takes the carriage return of the answer for a part of it; the limit holds all the same.
    with pytest.raises(CallRefused, match="Expected 'OK', received: OK\r"):
        admin.call("admin", "send_maxqueue", "full", 2)
    php.background("full", b"2", "full-2")
    with pytest.raises(CallRefused, match="Job queue is full"):
        php.background("full", b"3", "full-3")
    with pytest.raises(CallRefused, match="Unable to submit job"):
        gear.background("full", b"3", "full-3")
    assert php.background("full", b"again", "full-2"), "it joins what is there"

    worker = shared.worker("gear", {"full": "reverse"})
    assert {worker.said("ran")["digest"] for _ in range(2)} == {digest(b"1"), digest(b"2")}
    shared.until_counts("full", 0, 0, 1)
    assert php.do("full", b"abc").result == b"cba"


@differs("it has no such command since 1.1.15")
@pytest.mark.parametrize(
    ("kind", "verb", "args"),
    [
        ("python3-gearman", "admin", ("send_shutdown",)),
        ("aiogear", "admin", ("shutdown", True)),
        ("aiogear", "admin", ("shutdown",)),
        ("abraxas", "shutdown", (True,)),
    ],
)
def test_a_client_on_this_machine_may_shut_the_server_down(
    peers: Peers, kind: str, verb: str, args: tuple[object, ...]
) -> None:
    client = peers.library(kind)
    peers.client("gear").background("kept", b"x")
    client.call(verb, *args)
    assert peers.server.wait(timeout=20) == 0
    peers.server.start()
    assert peers.counts("kept") == (1, 0, 0)


# -- options and echoes ----------------------------------------------------------------------------


def test_gearmanode_echoes_and_sets_options(shared: Peers) -> None:
    client = shared.shared_library("gearmanode")
    assert client.call("echo", "größe") == "größe"
    assert client.call("option", "exceptions") == "exceptions"
    assert client.call("option", "streaming") == "UNKNOWN_OPTION"


def test_php_pings_and_asks_by_unique(shared: Peers) -> None:
    client = shared.library("php")
    assert client.call("ping", b64(b"\0 any bytes \xff")) is True
    client.background("php.asked", b"x", unique="php-unique")
    assert client.call("statusUnique", "php-unique") == [1, 0, 0, 0]
    # After this answer the extension hears no other, from any server.
    assert client.call("statusUnique", "php-unknown") == [0, 0, 0, 0]


@pytest.mark.parametrize("priority", ["high", None, "low"])
def test_php_waits_for_a_result_with_one_call(shared: Peers, priority: str | None) -> None:
    shared.shared_worker("gear")
    client = shared.shared_library("php")
    options = {"priority": priority} if priority else {}
    done = client.call("doNormal", "gear.reverse", b64(b"abc"), options)
    assert done == {"code": 0, "result": b64(b"cba")}
    failed = client.call("doNormal", "gear.fail", b64(b"abc"), options)
    assert failed == {"code": GEARMAN_WORK_FAIL, "result": ""}
    raised = client.call("doNormal", "gear.raise", b64(b"abc"), options)
    assert raised["code"] == GEARMAN_WORK_EXCEPTION


def test_aiogear_hears_of_a_group_of_jobs_in_its_callback(shared: Peers) -> None:
    shared.shared_worker("gear")
    client = shared.shared_library("aiogear")
    heard = client.call("group", "gear.progress", [b64(b"x"), b64(b"y")])
    assert heard.pop("results") == ["whole", "whole"]
    assert sorted(heard) == ["job 0", "job 1"]
    for told in heard.values():
        assert told[:4] == [
            ["status", {"complete": 1, "total": 4}],
            ["data", "part"],
            ["warning", "careful"],
            ["status", {"complete": 3, "total": 4}],
        ]


def test_the_prefix_of_a_perl_client_keeps_its_functions_apart(peers: Peers) -> None:
    """The name has a TAB in it."""
    ours = peers.library("perl", prefix="ours")
    peers.worker("perl", {"same": "reverse"}, prefix="ours")
    peers.worker("gear", {"same": "fail"})
    assert ours.do("same", b"abc").result == b"cba"
    assert peers.client("gear").do("same", b"abc").outcome == "fail"


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "timeout"),
    [pytest.param("perl", 1, id="perl"), pytest.param("abraxas", 1000, id="abraxas"),
     pytest.param("php", 1000, id="php")],
)  # fmt: skip
def test_a_job_that_takes_longer_than_its_worker_promised_is_given_to_another(
    shared: Peers, kind: str, timeout: int
) -> None:
    function, gate = f"slow.{kind}", shared.path("gate")
    slow = shared.worker(kind, {function: "wait"}, timeout=timeout)
    end = shared.client("gear").begin(function, str(gate).encode())
    slow.said("started")
    other = shared.worker("python3-gearman", {function: "wait"})
    other.said("started")
    gate.touch()
    assert end().result == str(gate).encode()[::-1]


def test_abraxas_runs_as_many_jobs_at_once_as_it_is_told(shared: Peers) -> None:
    worker = shared.worker("abraxas", {"three": "wait"}, maxJobs=3)
    gates = [shared.path("gate") for _ in range(4)]
    client = shared.shared_library("gear")
    handles = [client.background("three", str(gate).encode()) for gate in gates]
    started = {worker.said("started")["path"] for _ in range(3)}
    shared.until_counts("three", 4, 3, 1)
    for gate in gates:
        gate.touch()
    assert {worker.said("ran")["handle"] for _ in handles} == {bare(each) for each in handles}
    assert len(started) == 3
