"""WORK_*: only the holder's word counts; each who waits hears every word and one end."""

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.gearman.settings import GearmanSettings
from tests.protocols.gearman.puppet import Puppet, World, err, res
from tests.support.gearman import ENDS, Type, request

NOT_FOUND = err("JOB_NOT_FOUND", "Job given in work result not found")
NO_SUCH_JOB = err("JOB_NOT_FOUND", "Job does not exist on server")
NO_SUCH_EXCEPTION = err("JOB_NOT_FOUND", "An exception was received for a job that does not exist")


class Run:
    """A job that is waited for and runs."""

    def __init__(self, world: World | None = None, *, exceptions: bool = False) -> None:
        self.world = world or World()
        self.client, self.worker, self.handle = self.world.running()
        if exceptions:
            assert self.client.call(Type.OPTION_REQ, "exceptions").type == Type.OPTION_RES


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (Type.WORK_STATUS, ("1", "2")), (Type.WORK_STATUS, ("0.5", "-7")), (Type.WORK_STATUS, ("abc", "")),
        (Type.WORK_DATA, ("a\0b",)), (Type.WORK_DATA, ("",)), (Type.WORK_WARNING, ("careful",)),
    ],
)  # fmt: skip
def test_every_word_is_passed_on_as_it_came(
    run: Run, number: int, arguments: tuple[str, ...]
) -> None:
    run.worker.say(number, run.handle, *arguments)
    assert run.client.heard() == [res(number, run.handle, *arguments)]
    assert run.worker.bytes_heard() == b""


@pytest.mark.parametrize(
    ("number", "arguments", "answer"),
    [
        (Type.WORK_COMPLETE, ("r",), NOT_FOUND),
        (Type.WORK_FAIL, (), NOT_FOUND),
        (Type.WORK_STATUS, ("1", "2"), NOT_FOUND),
        (Type.WORK_DATA, ("d",), NO_SUCH_JOB),
        (Type.WORK_WARNING, ("w",), NO_SUCH_JOB),
        (Type.WORK_EXCEPTION, ("e",), NO_SUCH_EXCEPTION),
    ],
)
def test_the_word_of_who_does_not_hold_the_job_has_no_effect(
    run: Run, number: int, arguments: tuple[str, ...], answer: object
) -> None:
    stranger = run.world.worker("f")
    for handle in (run.handle, b"H:never:1"):
        assert stranger.call(number, handle, *arguments) == answer
    assert run.client.bytes_heard() == b""
    run.worker.complete(run.handle, "r")
    assert run.client.heard() == [res(Type.WORK_COMPLETE, run.handle, "r")]
    assert run.worker.call(number, run.handle, *arguments) == answer, "nor has a second word"


@pytest.mark.parametrize("number", [*ENDS, Type.WORK_DATA, Type.WORK_WARNING])
def test_a_handle_of_megabytes_is_no_jobs_and_not_looked_at(
    worker: Puppet, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    class Held(dict[bytes, object]):
        def get(self, key: bytes, otherwise: object = None) -> object:
            looked_at.append(len(key))
            return otherwise

        def pop(self, key: bytes, otherwise: object = None) -> object:
            return self.get(key, otherwise)

    monkeypatch.setattr(worker.conversation, "held", Held())
    assert worker.call(number, b"\1" * 1_000_000).type == Type.ERROR
    assert max(looked_at, default=0) < 200


def test_a_handle_that_is_too_long_is_refused_in_the_originals_words(worker: Puppet) -> None:
    text = "Error occurred due to GEARMAND_JOB_HANDLE_SIZE being too small from snprintf"
    assert worker.call(Type.WORK_FAIL, "H" * 64) == err("ARGUMENT_TOO_LARGE", text)
    assert worker.call(Type.WORK_FAIL, "H" * 63) == NOT_FOUND


def test_a_failed_job_is_not_run_again_and_the_bare_handle_is_told(run: Run) -> None:
    run.worker.fail(run.handle)
    size = len(run.handle).to_bytes(4, "big")
    assert run.client.bytes_heard() == b"\0RES\0\0\0\x0e" + size + run.handle
    assert run.worker.grab() is None


@pytest.mark.parametrize("number", [Type.WORK_DATA, Type.WORK_WARNING, Type.WORK_COMPLETE])
@pytest.mark.parametrize("background", [True, False])
def test_all_who_wait_share_a_long_result(world: World, number: int, background: bool) -> None:
    worker, clients = world.worker("f"), [world.connect() for _ in range(5)]
    if background:
        world.connect().submit_bg(unique="u")
    [handle] = {client.submit(unique="u") for client in clients for _ in range(2)}
    worker.grab()
    worker.begin(request(number, handle, b"r" * 100_000))
    pieces = [piece for client in clients for piece in client.link.out]
    assert {id(piece) for piece in pieces if len(piece) > 1_000} == {id(pieces[1])}
    assert len(pieces) == 20
    assert all(client.link.in_pieces for client in clients)
    assert {client.link.after_commit for client in clients} == {background and number == 13}
    world.run()
    assert clients[0].heard() == [res(number, handle, b"r" * 100_000)] * 2


def test_a_status_without_both_numbers_is_refused_and_passed_on_to_nobody(run: Run) -> None:
    refused = err("INVALID_PACKET", "The packet has too few arguments")
    for arguments in ((), ("1",)):
        assert run.worker.call(Type.WORK_STATUS, run.handle, *arguments) == refused
    assert run.client.bytes_heard() == b""


def test_a_status_that_is_too_long_is_passed_on_and_not_kept(run: Run) -> None:
    run.worker.say(Type.WORK_STATUS, run.handle, "1", "2")
    run.worker.say(Type.WORK_STATUS, run.handle, "3", "4" * 10_000)
    assert len(run.client.heard()) == 2
    assert run.client.status(run.handle) == [b"1", b"1", b"1", b"2"]


def test_a_nul_behind_a_handle_is_not_forwarded(run: Run) -> None:
    run.worker.fail(run.handle + b"\0")
    assert run.client.heard() == [res(Type.WORK_FAIL, run.handle)]


@pytest.mark.parametrize("exceptions", [True, False])
@pytest.mark.parametrize("text", [b"boom\0\xff", b""])
def test_an_exception_is_one_end_to_all_in_the_words_that_each_knows(
    exceptions: bool, text: bytes
) -> None:
    run = Run(exceptions=exceptions)
    run.worker.say(Type.WORK_EXCEPTION, run.handle, text)
    end = res(Type.WORK_EXCEPTION, run.handle, text)
    assert run.client.heard() == [end if exceptions else res(Type.WORK_FAIL, run.handle)]


def test_a_server_may_send_exceptions_to_all() -> None:
    run = Run(World(settings=GearmanSettings(exceptions=True)))
    run.worker.say(Type.WORK_EXCEPTION, run.handle, "boom")
    assert run.client.heard() == [res(Type.WORK_EXCEPTION, run.handle, "boom")]
    assert run.client.call(Type.OPTION_REQ, "exceptions") == res(Type.OPTION_RES, "exceptions")


def test_who_knows_exceptions_hears_of_a_plain_failure_plainly() -> None:
    run = Run(exceptions=True)
    run.worker.fail(run.handle)
    assert run.client.heard() == [res(Type.WORK_FAIL, run.handle)]


def test_a_failure_after_an_exception_is_swallowed(run: Run) -> None:
    died = request(Type.WORK_EXCEPTION, run.handle, "died")
    run.worker.send(died + request(Type.WORK_FAIL, run.handle))
    assert run.client.heard() == [res(Type.WORK_FAIL, run.handle)]
    assert run.worker.bytes_heard() == b"", "the worker would die of an ERROR"
    assert not run.worker.is_hung_up


def test_what_is_remembered_of_ended_jobs_is_bounded(client: Puppet, worker: Puppet) -> None:
    for _ in range(200):
        client.submit_bg()
        worker.say(Type.WORK_EXCEPTION, worker.grab_handle(), "")
    assert len(worker.conversation.ignored) == 64


def test_the_results_of_background_jobs_are_dropped(world: World) -> None:
    client, worker, handle = world.running(kind=Type.SUBMIT_JOB_BG)
    for number in (Type.WORK_DATA, Type.WORK_WARNING, Type.WORK_COMPLETE):
        worker.say(number, handle, "r")
    assert client.bytes_heard() == worker.bytes_heard() == b""


def test_a_background_job_that_fails_is_kept_among_the_dead_with_its_reason(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    client.submit_bg("f", "plain")
    client.submit_bg("f", "loud")
    worker.fail(worker.grab_handle())
    worker.say(Type.WORK_EXCEPTION, worker.grab_handle(), "boom")
    for job in world.jobs(State.DEAD):
        told = [(each.error_kind, each.error_text) for each in job.attempt_log or []][-1:]
        assert told == [("WORK_FAIL", "") if job.body == b"plain" else ("Exception", "boom")]
    assert len(world.jobs(State.DEAD)) == 2


def test_a_result_that_is_too_large_is_a_failure_with_that_reason() -> None:
    run = Run(World(limits=Limits(body_bytes_max=100)))
    run.worker.complete(run.handle, b"x" * 101)
    assert run.client.heard() == [res(Type.WORK_FAIL, run.handle)]


def test_the_end_of_a_joined_background_job_waits_for_the_disk(world: World) -> None:
    background, waiting, worker = world.connect(), world.connect(), world.worker("f")
    handle = background.submit_bg(unique="u")
    assert (waiting.submit(unique="u"), waiting.waited_for_commit) == (handle, False)
    worker.grab()
    worker.complete(handle, "r")
    assert waiting.cut() == res(Type.WORK_COMPLETE, handle, "r")
    assert waiting.waited_for_commit


def test_a_result_without_a_separator_is_an_empty_result(run: Run) -> None:
    run.worker.say(Type.WORK_COMPLETE, run.handle)
    assert run.client.heard() == [res(Type.WORK_COMPLETE, run.handle, "")]


# -- a client that is slower than its worker --------------------------------------------------------


def test_a_worker_is_held_back_while_its_client_does_not_take_what_it_sends(run: Run) -> None:
    run.world.engine.hold_back(run.client.link)
    data = [request(Type.WORK_DATA, run.handle, str(n)) for n in range(3)]
    run.worker.send(data[0])
    run.worker.send(data[1] + request(Type.WORK_COMPLETE, run.handle, "r"))
    run.world.pass_time(5_000)
    assert run.client.heard() == [res(Type.WORK_DATA, run.handle, "0")]
    run.world.engine.go_on(run.client.link)
    run.world.pass_time(200)
    end = res(Type.WORK_COMPLETE, run.handle, "r")
    assert run.client.heard() == [res(Type.WORK_DATA, run.handle, "1"), end]


def test_a_client_that_never_reads_is_waited_for_once(run: Run) -> None:
    run.world.engine.hold_back(run.client.link)
    data = request(Type.WORK_DATA, run.handle, "d")
    run.worker.send(data)
    run.worker.send(data)
    run.world.pass_time(9_000)
    assert len(run.client.heard()) == 1
    run.world.pass_time(2_000)
    run.worker.send(data)
    assert len(run.client.heard()) == 2


def test_a_worker_does_not_wait_for_each_client_that_never_reads(world: World) -> None:
    worker, deaf, good = world.worker("f"), [world.connect() for _ in range(4)], world.connect()
    handles = [client.submit() for client in (*deaf, good)]
    for _ in handles:
        worker.grab()
    for client in deaf:
        world.engine.hold_back(client.link)
    for handle in handles[:-1]:
        worker.send(request(Type.WORK_DATA, handle, "d") * 2)
    worker.send(request(Type.WORK_COMPLETE, handles[-1], "r"))
    world.pass_time(9_900)
    assert good.heard() == []
    world.pass_time(1_000)
    assert good.heard() == [res(Type.WORK_COMPLETE, handles[-1], "r")]
    world.pass_time(60_000, step=1_000)
    worker.send(request(Type.WORK_DATA, handles[1], "d"))
    worker.send(request(Type.ECHO_REQ, "x"))
    assert worker.cut() is None, "a minute later it waits again"
    world.pass_time(11_000)
    assert worker.cut() == res(Type.ECHO_RES, "x")


def test_a_client_that_reads_slowly_is_waited_for_again_and_again(run: Run) -> None:
    data = request(Type.WORK_DATA, run.handle, "d")
    for _ in range(10):
        run.world.engine.hold_back(run.client.link)
        run.worker.send(data)
        run.worker.send(data)
        run.world.pass_time(5_000)
        assert len(run.client.heard()) == 1, "the worker is held back"
        run.world.engine.go_on(run.client.link)
        run.world.pass_time(100)
        assert len(run.client.heard()) == 1


def test_time_spent_on_clients_cut_off_is_in_vain_too(worker: Puppet, world: World) -> None:
    for number in range(5):
        deaf = world.connect()
        handle = deaf.submit()
        worker.grab()
        world.engine.hold_back(deaf.link)
        worker.send(request(Type.WORK_DATA, handle, "d"))
        worker.send(request(Type.ECHO_REQ, "x"))
        world.pass_time(4_000)
        assert (worker.cut() is None) is (number < 2), "ten seconds are enough"
        deaf.hang_up()
        world.pass_time(100)
        worker.heard()


@pytest.mark.parametrize("who", ["client", "worker"])
def test_who_leaves_meanwhile_holds_nobody_back(run: Run, who: str) -> None:
    run.world.engine.hold_back(run.client.link)
    run.worker.send(request(Type.WORK_DATA, run.handle, "d"))
    run.worker.send(request(Type.ECHO_REQ, "x"))
    assert run.worker.bytes_heard() == b""
    (run.client if who == "client" else run.worker).hang_up()
    run.world.pass_time(200)
    assert (run.worker.cut() == res(Type.ECHO_RES, "x")) is (who == "client")


# -- options and echo -----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [b"exceptions", b"EXCEPTIONS", b"Exceptions\0"])
def test_the_option_is_echoed_as_it_was_sent(peer: Puppet, option: bytes) -> None:
    assert peer.call(Type.OPTION_REQ, option) == res(Type.OPTION_RES, option)


@pytest.mark.parametrize("option", [b"", b"other", b"exceptions2", b"exceptions" + b"\0" * 60])
def test_other_options_are_not_known(peer: Puppet, option: bytes) -> None:
    answer = peer.call(Type.OPTION_REQ, option)
    assert answer == err("UNKNOWN_OPTION", "Server does not recognize given option")


def test_an_echo_is_any_bytes() -> None:
    every = bytes(range(256))
    assert World().connect().call(Type.ECHO_REQ, every) == res(Type.ECHO_RES, every)


@pytest.mark.parametrize(
    ("said", "shown"),
    [(b"w1", b"w1"), (b"a\0b", b"a"), (b"", b"-"), (b"x" * 200, b"x" * 127), (b"a\nb", b"a?b")],
)
def test_a_client_id_is_shown_on_one_line(peer: Puppet, said: bytes, shown: bytes) -> None:
    peer.say(Type.SET_CLIENT_ID, said)
    assert peer.bytes_heard() == b""
    assert peer.say_line("workers") == b"1 127.0.0.1 %b :\n.\n" % shown
