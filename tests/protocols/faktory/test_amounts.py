"""What one connection, or many that do the same, can make the server keep or do at once."""

import sys

import pytest

from franca.core.limits import Limits
from franca.core.model import Job
from franca.protocols.faktory.admin_commands import QUEUES_A_STEP
from tests.protocols.faktory.puppet import OK, Puppet, World
from tests.support.faktory import Reply

SOFT_BYTES = 100_000


def with_queues(count: int, size: int = 8) -> World:
    """A world with very many queues, whose names are so long."""
    world = World(limits=Limits(output_soft_bytes=SOFT_BYTES))
    for number in range(count):
        world.broker.queue(f"{number:08}".ljust(size, "x"))
    return world


def turn_until(*clients: Puppet) -> int:
    """How many turns it takes until each of these has something to hear."""
    turns = 0
    while not all(client.link.out for client in clients):
        clients[0].begin()
        turns += 1
    return turns


def test_a_long_info_is_the_same_pieces_for_all_who_ask() -> None:
    world = with_queues(3_000, 1_000)
    clients = [world.client() for _ in range(40)]
    for client in clients:
        client.begin("INFO", turns=0)
    turn_until(*clients)
    pieces = {id(piece): len(piece) for client in clients for piece in client.link.out[1:]}
    assert sum(pieces.values()) < 4_000_000
    assert max(pieces.values()) < 3_000_000
    world.run()
    for client in clients:
        (reply,) = client.take_all()
        assert len(reply.json["faktory"]["queues"]) == 3_000


@pytest.mark.parametrize("count", [900, 3_000])
def test_who_asks_again_and_again_is_told_a_share_in_a_turn(count: int) -> None:
    world = with_queues(count, 1_000)
    client = world.client()
    client.begin(*["INFO"] * 16, turns=0)
    for _ in range(16):
        turn_until(client)
        assert sum(piece.startswith(b"$") for piece in client.link.out) == 1
        world.listen()
    assert len(client.take_all()) == 16


def test_who_fetches_large_jobs_in_one_breath_is_given_a_share_in_a_turn() -> None:
    world = World(limits=Limits(output_soft_bytes=SOFT_BYTES))
    client = world.client()
    for number in range(20):
        assert client.push(f"jid-{number:04}", "x" * 60_000) == OK
    for ending in (b"", b"TRA"):
        world.engine.inputs.append((client.link, b"FETCH\r\n" * 10 + ending))
        heard = 0
        while heard < 10:
            turn_until(client)
            assert len(client.link.out) <= 2
            heard += len(client.link.out)
            world.listen()
    assert len(client.take_all()) == 20


def test_a_long_answer_of_work_ends_a_share_too() -> None:
    world = with_queues(900, 1_000)
    client = world.client()
    client.begin(" ".join(["QUEUE LATENCY", *world.broker.queues]), "INFO", "INFO", turns=0)
    turn_until(client)
    assert len(client.link.out) == 1
    world.run()
    assert [reply.kind for reply in client.take_all()] == ["$"] * 3


def test_info_about_very_many_queues_is_made_in_steps_for_all_together() -> None:
    queues = 40 * QUEUES_A_STEP
    world = with_queues(queues)
    clients = [world.client() for _ in range(4)]
    for client in clients:
        client.begin("INFO", turns=0)
    turns = turn_until(*clients)
    assert queues / QUEUES_A_STEP / len(clients) <= turns <= queues / QUEUES_A_STEP / 2
    world.run()
    first, *others = (client.take() for client in clients)
    assert others == [first] * 3


def test_no_turn_of_a_long_info_takes_long() -> None:
    world = with_queues(30_000, 1_000)
    client = world.client()
    # A busy machine may count a pause of its own as ours, but not each time.
    for _ in range(4):
        world.now += 1_000
        if (longest := client.longest_turn("INFO")) < 0.1:
            return
    raise AssertionError(f"{longest} s")


def test_an_info_that_nobody_waits_for_any_more_is_begun_anew() -> None:
    world = with_queues(20 * QUEUES_A_STEP)
    client, other = world.client(), world.client()
    client.begin("INFO", turns=5)
    client.hang_up()
    other.push("job-00001", queue="00000000")
    world.pass_time(1_000)
    assert other.info()["faktory"]["total_enqueued"] == 1


def test_queues_that_come_and_go_while_info_is_made_leave_it_whole() -> None:
    world = with_queues(5 * QUEUES_A_STEP)
    client, other = world.client(), world.client()
    client.begin("INFO", turns=2)
    other.push("job-00001", queue="new")
    assert other.call("QUEUE REMOVE *") == OK
    facts = client.read().json["faktory"]
    assert len(facts["queues"]) == facts["total_queues"]


# -- commands that are worked on ---------------------------------------------------------------


def slow_push(jid: str, size: int) -> bytes:
    """A large job whose text must be mended, which takes many turns."""
    args = rb"\ud800" * (size // 6)
    return b'PUSH {"jid":"%b","jobtype":"t","args":["%b"]}' % (jid.encode(), args)


def test_a_command_counts_as_unread_until_it_is_answered(world: World, client: Puppet) -> None:
    for verb in (b"PUSH", b"PUSHB", b"FAIL"):
        line = slow_push("jid-0001", 400_000).replace(b"PUSH", verb)
        client.begin(line, "TRACK x")
        while not client.link.out:
            assert 400_000 <= client.conversation.unread() <= len(line) + 11
            assert world.engine.waits_to_act(client.link)
            world.engine.turn(world.now)
        world.run()
        assert client.conversation.unread() == 0
        assert len(client.take_all()) == 2


def test_a_command_of_a_client_that_is_gone_counts_no_more(world: World, client: Puppet) -> None:
    client.begin(slow_push("jid-0001", 400_000))
    conversation = client.conversation
    client.hang_up()
    assert conversation.unread() == 0


def test_nobody_is_blamed_for_the_time_that_its_command_takes(world: World, client: Puppet) -> None:
    client.begin(slow_push("jid-0001", 1_000_000), turns=0)
    while not client.link.out:
        world.now += world.limits.frame_ms
        world.engine.turn(world.now)
        assert (client.link.closing, client.link.partial_since) == (False, 0)


def crowded() -> tuple[World, Puppet, Puppet, bytes]:
    """One whose large command is worked on, and one who has sent only a part of another."""
    world = World(limits=Limits(input_bytes=700_000))
    client, other = world.client(), world.client()
    line = slow_push("jid-0002", 400_000)
    client.begin(slow_push("jid-0001", 400_000))
    world.engine.inputs.append((other.link, line[:280_000]))
    world.engine.turn(world.now)
    assert (other.conversation.holding, client.link.out) == (True, [])
    return world, client, other, line[280_000:] + b"\r\n"


def test_the_rest_of_a_large_command_waits_while_enough_is_worked_on() -> None:
    world, client, other, rest = crowded()
    small = world.client()
    assert small.push("jid-0003") == OK
    world.run()
    assert (client.take(), other.conversation.holding) == (OK, False)
    other.send(rest)
    assert other.take() == OK


def test_all_who_have_sent_a_part_wait_at_once() -> None:
    world = World(limits=Limits(input_bytes=700_000))
    client, fetching, *others = (world.client() for _ in range(5))
    for number, other in enumerate((fetching, *others)):
        other.send(slow_push(f"jid-000{number}", 400_000)[:280_000])
    fetching.send(b'"]}\r\nFETCH\r\n')
    assert fetching.take() == OK
    client.begin(slow_push("jid-0009", 400_000))
    assert all(world.engine.waits_to_act(other.link) for other in others)
    world.run()
    assert (client.take(), any(other.conversation.holding for other in others)) == (OK, False)


@pytest.mark.parametrize("what", ["comes all the same", "is gone", "does not read"])
def test_nobody_waits_for_a_command_that_is_not_worked_on(what: str) -> None:
    world, client, other, rest = crowded()
    if what == "is gone":
        client.hang_up()
    elif what == "does not read":
        world.engine.hold_back(client.link)
        world.pass_time(200)
    assert other.conversation.holding is (what == "comes all the same")
    other.send(rest)
    assert other.take() == OK
    assert client.take() == (OK if what == "comes all the same" else None)


def test_who_leaves_while_it_waits_is_not_called() -> None:
    world, client, other, _ = crowded()
    other.hang_up()
    world.run()
    assert (client.take(), client.push("jid-0003")) == (OK, OK)


# -- jobs that were given out -------------------------------------------------------------------


def test_a_connection_that_was_given_a_job_does_not_keep_it(world: World) -> None:
    idle, other = world.client("w1"), world.client("w1")
    other.push("jid-0001", "x" * 1_000)
    (found,) = world.broker.jobs.values()
    known = sys.getrefcount(found)
    assert idle.fetch() is not None
    assert (other.ack("jid-0001"), world.broker.jobs) == (OK, {})
    assert sys.getrefcount(found) < known
    assert not any(isinstance(kept, Job) for kept in vars(idle.conversation).values())
    idle.hang_up(undelivered=True)
    assert not world.jobs()


# -- what must be short -------------------------------------------------------------------------

FORMS = [b"PUSH {%b}", b"PUSHB [{%b}]"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("member", "text", "reason"),
    [
        (b"at", b"2030-01-01T00:00:00.%b1Z", "invalid timestamp for"),
        (b"created_at", b"%b", "created_at and enqueued_at cannot be longer"),
        (b"enqueued_at", b"%b", "created_at and enqueued_at cannot be longer"),
        (b"queue", b"q%b", "queue names cannot be longer than 1024 bytes"),
        (b"jobtype", b"t%b", "jid and jobtype cannot be longer than 1024 bytes"),
    ],
)
@pytest.mark.parametrize("size", [2_000, 2_000_000])
def test_what_must_be_short_is_refused_if_it_is_long(
    client: Puppet, form: bytes, member: bytes, text: bytes, reason: str, size: int
) -> None:
    said = {b"jid": b"jid-0001", b"jobtype": b"t", member: text % (b"1" * size)}
    members = b",".join(b'"%b":"%b"' % pair for pair in said.items()) + b',"args":[]'
    reply = client.call(form % members)
    assert reason in reply.text
    assert reply.kind == ("-" if form.startswith(b"PUSH ") else "$")
    assert not client.world.jobs()


def test_a_time_of_very_many_digits_does_not_take_long() -> None:
    line = b'PUSH {"jid":"jid-0001","jobtype":"t","args":[],"at":"2030-01-01T00:00:00.%bZ"}'
    said = line % (b"1" * 20_000_000)
    assert any(World().client().longest_turn(said) < 0.08 for _ in range(4))


@pytest.mark.parametrize("form", FORMS)
def test_a_long_custom_is_looked_at_in_steps(form: bytes) -> None:
    long = b"[1], " * 200_000
    said = form % (b'"jid":"jid-0001","jobtype":"t","args":[1],"custom":{"a":[%b1]}' % long)
    for _ in range(4):
        client = World().client()
        longest = client.longest_turn(said)
        assert client.take() in (OK, Reply("$", b"{}"))
        assert "[1], [1], 1]}" in client.call("FETCH").text
        assert client.call(said) in (OK, Reply("$", b"{}"))
        if longest < 0.05:
            return
    raise AssertionError(f"{longest} s")
