"""The server as a whole: listings, settings, silence, the end, and who may do what."""

import struct

import pytest

from franca.core.limits import Limits
from franca.core.model import NewJob, Policy, State
from franca.protocols.periodic.auth import read_rules
from franca.protocols.periodic.settings import Listening
from tests.protocols.periodic.puppet import NOW_S, Puppet, World
from tests.support import periodic as p
from tests.support.periodic import BIN, packed, str8
from tests.support.queue_counts import queue_counts

SMALL = Limits(window_jobs=4, supply_jobs=2)

# -- status ---------------------------------------------------------------------------------------


def test_status_counts_every_job_from_where_every_tool_counts_it() -> None:
    world = World(limits=SMALL)
    client, worker = world.peer(), world.worker("f", "idle")
    client.submit_many(9)
    for number in range(9):
        client.submit("later", f"n{number}", at=NOW_S + 10 + number)
    worker.grab()
    world.broker.submit(NewJob("strangers", "k", b"", Policy()), world.now)
    status = client.status()
    assert status == {
        "f": [1, 9, 1, 0, NOW_S],
        "idle": [1, 0, 0, 0, NOW_S],
        "later": [0, 9, 0, 0, NOW_S + 10],
        "strangers": [0, 1, 0, 0, NOW_S],
    }
    counts = {
        c.queue: c.scheduled + c.retrying + c.ready + c.leased for c in queue_counts(world.broker)
    }
    assert counts == {func: row[1] for func, row in status.items() if func != "idle"}


def test_a_function_without_workers_is_listed_until_dropped(client: Puppet, world: World) -> None:
    world.worker("f").hang_up()
    assert client.status() == {"f": [0, 0, 0, 0, NOW_S]}
    client.drop("f")
    assert client.status() == {}


def test_an_odd_name_does_not_break_the_listing(client: Puppet) -> None:
    for name in ("a,b", "c\nd", "e\rf", "100%"):
        client.submit(name, "n")
    assert set(client.status()) == {"a%2Cb", "c%0Ad", "e%0Df", "100%"}


# -- settings -------------------------------------------------------------------------------------


def setting(key: str, value: int | None = None) -> bytes:
    return str8(key) + (b"" if value is None else struct.pack(">I", value))


@pytest.mark.parametrize(
    ("key", "value"),
    [("timeout", 600), ("lock-timeout", 300), ("assign-wait", 2), ("keepalive", 120),
     ("max-batch-size", 500), ("run-job-aggressive", 0), ("undelivered-of", 0)],
)  # fmt: skip
def test_every_setting_of_the_original_can_be_asked_for(key: str, value: int) -> None:
    answer = World().peer().ask(p.CONFIG_GET, setting(key))
    assert (answer.command, int.from_bytes(answer.data)) == (p.CONFIG, value)


def test_the_timeout_of_jobs_without_one_can_be_changed(client: Puppet, worker: Puppet) -> None:
    assert client.word(p.CONFIG_SET, setting("timeout", 90)) == p.SUCCESS
    client.submit("f", "n")
    assert worker.grab().timeout == 90


def test_no_setting_can_be_made_harmful_or_new(world: World, client: Puppet) -> None:
    for key, value in (("keepalive", 0), ("timeout", 0), ("new", 7), ("timeout", 0xFFFFFFFF)):
        assert client.word(p.CONFIG_SET, setting(key, value)) == p.SUCCESS
    assert [
        int.from_bytes(client.ask(p.CONFIG_GET, setting(k)).data) for k in ("keepalive", "new")
    ] == [120, 0]
    assert client.word(p.CONFIG_SET, setting("timeout", 1)) == p.SUCCESS
    assert int.from_bytes(client.ask(p.CONFIG_GET, setting("timeout")).data) == 60
    world.pass_time(60_000, step=1_000)
    client.submit("f", "n")


# -- silence and the end --------------------------------------------------------------------------


def test_a_peer_that_falls_silent_is_hung_up_on_and_one_that_pings_is_not(world: World) -> None:
    silent, alive, old = world.worker("f"), world.peer(), world.worker("f", dialect="doc")
    world.peer().submit("f", "n")
    silent.grab()
    for _ in range(13):
        world.pass_time(10_000, step=500)
        assert alive.word(p.PING) == p.PONG
    assert (silent.is_hung_up, old.is_hung_up) == (True, False)
    world.pass_time(2_000)
    assert world.jobs(State.READY)


def test_the_end_waits_for_workers_that_run_something(world: World) -> None:
    client, worker, idle = world.peer(), world.worker("f"), world.worker("f")
    client.submit("f", "n")
    job = worker.grab()
    idle.say(p.GRAB_JOB)
    idle.heard()
    world.stop()
    assert world.engine.consumers() == 1
    client.submit("f", "m")
    assert idle.assigned() == []
    worker.done(job)
    assert (worker.try_grab(), world.engine.consumers()) == ([], 0)


@pytest.mark.parametrize(
    ("allowed", "local", "stops"),
    [("loopback", True, 1), ("loopback", False, 0), ("never", True, 0), ("all", False, 1)],
)
def test_shutdown_stops_the_server_if_allowed(allowed: str, local: bool, stops: int) -> None:
    world = World(remote_shutdown=allowed)
    client = world.peer(local=local)
    client.say(p.SHUTDOWN)
    assert world.stops == stops
    assert client.words() == ([] if stops else [p.NO_WORKER])


@pytest.mark.parametrize("dialect", ["auto", "bin"])
def test_a_frame_without_a_crc_stops_nothing(dialect: str) -> None:
    world = World(dialect=dialect)
    peer = world.connect(BIN)
    peer.send(peer.framed(b"\1") + peer.framed(b"junk\x14"))
    peer.send(peer.framed(b"junk\x14") + peer.framed(b"junk\x09"))
    assert (world.stops, peer.is_hung_up) == (0, False)


def test_operators_see_workers_and_may_have_them_rest(world: World) -> None:
    world.peer()
    worker = world.worker("f", "e")
    (view,) = world.service.workers()
    assert (view.protocol, list(view.queues), view.state) == ("periodic", ["e", "f"], "idle")
    assert not world.service.ask_worker("nobody", "quiet")
    worker.say(p.GRAB_JOB)
    worker.heard()
    assert world.service.ask_worker(view.name, "quiet")
    world.peer().submit("f", "n")
    assert (worker.assigned(), next(world.service.workers()).state) == ([], "quiet")
    assert world.service.ask_worker(view.name, "stop")
    world.run()
    assert worker.is_hung_up


def test_a_worker_is_found_by_its_name_among_many_and_not_once_it_is_gone(world: World) -> None:
    workers = [world.worker("f") for _ in range(3)]
    names = [view.name for view in world.service.workers()]
    # Nobody else is looked at: among thousands that would take seconds.
    assert list(world.service.connections) == names
    workers[1].hang_up()
    asked = [world.service.ask_worker(name, "quiet") for name in names]
    assert asked == [True, False, True]


def test_a_listener_may_differ_from_the_others() -> None:
    world = World(listeners={"127.0.0.1:5001": Listening(confirm="old")})
    usual, apart = world.peer(), world.peer(listener="127.0.0.1:5001")
    assert usual.word(p.CAN_DO, str8("f")) == p.SUCCESS
    apart.say(p.CAN_DO, str8("f"))
    assert apart.heard() == []


# -- who may do what ------------------------------------------------------------------------------

RULES = b"""
# role name token functions
client  anna   secret-a  f,g
worker  bert   secret-b  f     # not g
admin   carla  secret-c
"""


def guarded(rules: bytes = RULES) -> World:
    world = World(auth_file="rules")
    world.service.take_file(rules)
    return world


def named(world: World, name: str, token: str, role: int = p.CLIENT) -> Puppet:
    return world.connect().register(role, name, token)


def test_each_role_may_do_its_own_with_its_own_functions() -> None:
    world = guarded()
    anna, bert = named(world, "anna", "secret-a"), named(world, "bert", "secret-b", p.WORKER)
    assert (anna.offer("f", "n"), anna.offer("h", "n")) == (p.SUCCESS, p.NO_WORKER)
    assert anna.word(p.CAN_DO, str8("f")) == p.NO_WORKER
    assert bert.word(p.CAN_DO, str8("f")) == p.SUCCESS
    assert bert.word(p.CAN_DO, str8("g")) == p.NO_WORKER
    assert bert.word(p.BROADCAST, str8("g")) == p.NO_WORKER
    assert bert.offer("f", "m") == p.NO_WORKER
    assert bert.word(p.RUN_JOB, packed("f", "m")) == p.NO_WORKER
    bert.done(bert.grab())
    bert.heard()
    assert anna.word(p.REMOVE_JOB, str8("h") + str8("n")) == p.NO_WORKER
    assert anna.word(p.RECV_DATA, packed("h", "n")) == p.NO_WORKER
    for command, args in (
        (p.DROP_FUNC, str8("f")), (p.DUMP, b""), (p.LOAD, bytes(8)), (p.SHUTDOWN, b""),
        (p.CONFIG_SET, setting("timeout", 9)),
    ):  # fmt: skip
        assert anna.word(command, args) == p.NO_WORKER, command
    assert (anna.word(p.PING), world.stops) == (p.PONG, 0)


def test_a_client_sees_only_its_own_functions() -> None:
    world = guarded()
    carla = named(world, "carla", "secret-c")
    for func in ("f", "g", "h"):
        carla.submit(func, "n")
    assert set(named(world, "anna", "secret-a").status()) == {"f", "g"}
    assert set(carla.status()) == {"f", "g", "h"}


def test_an_admin_may_do_anything() -> None:
    world = guarded()
    carla = named(world, "carla", "secret-c")
    assert carla.word(p.CAN_DO, str8("any")) == p.SUCCESS
    assert carla.word(p.CONFIG_SET, setting("timeout", 9)) == p.SUCCESS
    assert carla.ask(p.DUMP).command == p.DATA
    carla.say(p.SHUTDOWN)
    assert world.stops == 1


@pytest.mark.parametrize(("name", "token"), [("anna", "wrong"), ("nobody", "secret-a"), ("", "")])
def test_a_wrong_name_or_token_may_do_nothing(name: str, token: str) -> None:
    world = guarded()
    stranger = named(world, name, token)
    assert stranger.offer("f", "n") == p.NO_WORKER
    assert (stranger.word(p.STATUS), stranger.word(p.GRAB_JOB)) == (p.NO_WORKER, p.NO_WORKER)
    assert stranger.word(p.CONFIG_GET, setting("timeout")) == p.NO_WORKER
    assert (stranger.word(p.SLEEP), stranger.word(p.PING)) == (p.NO_WORKER, p.PONG)


def test_without_a_name_there_is_no_way_in() -> None:
    world = guarded()
    assert world.peer().offer("f", "n") == p.NO_WORKER
    assert world.peer("doc").is_hung_up


def test_names_are_let_in_where_nobody_is_asked(world: World) -> None:
    worker = named(world, "any", "thing", p.WORKER)
    assert worker.word(p.CAN_DO, str8("f")) == p.SUCCESS
    assert named(world, "any", "other").offer("f", "n") == p.SUCCESS
    assert worker.grab().name == "n"


def test_rights_follow_the_file_for_those_who_are_connected_too() -> None:
    world = guarded()
    anna = named(world, "anna", "secret-a")
    anna.submit("f", "n")
    world.service.take_file(b"client anna secret-a g\n")
    assert (anna.offer("f", "n"), anna.offer("g", "n")) == (p.NO_WORKER, p.SUCCESS)
    with pytest.raises(ValueError):
        world.service.take_file(b"client anna\n")
    assert anna.offer("g", "n") == p.SUCCESS, "what was read last goes on to hold"
    world.service.take_file(b"")
    assert anna.offer("g", "n") == p.NO_WORKER


def test_who_loses_a_function_is_given_no_more_of_its_jobs_and_hears_no_more_of_them() -> None:
    rules = b"client anna a f,g\nworker bert b f,g\nadmin carla c\n"
    world = guarded(rules)
    anna, bert = named(world, "anna", "a"), named(world, "bert", "b", p.WORKER)
    carla = named(world, "carla", "c")
    for func in ("f", "g"):
        assert bert.word(p.CAN_DO, str8(func)) == p.SUCCESS
        assert anna.word(p.RECV_DATA, packed(func, "n")) == p.SUCCESS
    carla.submit("f", "n")
    running = bert.grab()
    bert.say(p.GRAB_JOB)
    bert.heard()
    run = anna.run_job("f", "n")
    world.service.take_file(rules.replace(b"f,g", b"g"))
    world.run()
    told = anna.heard()
    assert [message.command for message in told] == [p.NO_WORKER] * 2
    assert run in [message.msgid for message in told]
    carla.submit("f", "m")
    assert bert.heard() == []
    bert.say(p.WORK_DATA, running.handle + b"piece")
    bert.done(running, b"r")
    assert anna.heard() == []
    assert [job.name for job in world.jobs()] == ["m"], "what it ran it could finish"
    bert.heard()
    carla.submit("g", "n")
    assert [job.func for job in bert.assigned()] == ["g"]
    world.service.take_file(b"")
    world.run()
    assert (bert.conversation.worker.funcs, world.service.waits.taken) == ({}, 0)
    assert not world.service.streams


def test_nobody_may_do_anything_until_the_file_was_read() -> None:
    world = World(auth_file="rules")
    assert named(world, "anna", "secret-a").offer("f", "n") == p.NO_WORKER


def test_rules_are_read_line_by_line() -> None:
    rules = read_rules(b"  client a t f,,g  # why\r\n\n#x\nADMIN b u\nworker c v *\n")
    assert {name: (r.role, sorted(r.funcs)) for name, r in rules.items()} == {
        b"a": ("client", ["f", "g"]), b"b": ("admin", ["*"]), b"c": ("worker", ["*"]),
    }  # fmt: skip
    assert rules[b"c"].allows("anything")


@pytest.mark.parametrize(
    "line", [b"client a", b"client a t", b"guest a t f", b"client a t ,", b"client a t f g", b"client a t f\nworker a u g"]
)  # fmt: skip
def test_a_wrong_line_spoils_the_file(line: bytes) -> None:
    with pytest.raises(ValueError):
        read_rules(b"client good t f\n" + line)


@pytest.mark.parametrize("said", [b"", b"\0", b"\0REQ\0\0\0\1", b"\0REQ\0\0\0\x01\xa5\x05\xdf\x1b"])
def test_who_has_not_registered_is_a_stranger_and_is_not_kept(world: World, said: bytes) -> None:
    peer = world.connect()
    if said:
        peer.send(said)
    assert not peer.link.known
    world.pass_time(world.limits.handshake_ms + 2_000)
    assert peer.is_hung_up


@pytest.mark.parametrize("dialect", [p.CRC, p.DOC])
def test_who_has_registered_may_be_silent(world: World, dialect: str) -> None:
    peer = world.connect(dialect).register(p.CLIENT)
    assert peer.link.known
    world.pass_time(world.limits.handshake_ms + 2_000)
    assert not peer.is_hung_up
