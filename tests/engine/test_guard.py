"""One conversation that raises ends its own link and nothing else; an error of the broker is raised."""

from collections.abc import Callable
from typing import NoReturn

import pytest

from franca.core.errors import NotFound
from franca.core.model import Demand, Job, JobQuery, Millis, NewJob, OnHangUp, Policy, State
from franca.engine.engine import Engine
from franca.protocols.conversation import Link
from tests.engine.fixtures import T, World, echo


def raising(error: Exception) -> Callable[..., NoReturn]:
    def fail(*args: object, **options: object) -> NoReturn:
        raise error

    return fail


def assert_ended(engine: Engine, link: Link) -> None:
    assert (link.closed, link.closing, link.broken, link.out) == (True, True, True, [])
    assert link in engine.with_output
    assert link not in engine.links
    assert echo(link).hung_up == [True]
    assert engine.unhandled == 1
    [notice] = engine.notices
    assert (notice.link, type(notice.error)) == (link, ZeroDivisionError)


def test_an_exception_while_reading_ends_that_link_and_others_are_heard(world: World) -> None:
    before, bad, after = world.open(), world.open(), world.open()
    for link in (before, bad, after):
        world.say(link, "one\n")
    echo(bad).on_message = raising(ZeroDivisionError())  # type: ignore[method-assign]
    world.engine.turn(T)
    assert (world.said(before), world.said(after)) == ("one\n", "one\n")
    assert_ended(world.engine, bad)


def test_what_was_written_before_the_exception_is_not_sent(world: World, link: Link) -> None:
    world.say(link, "one\npush\ntwo\n")
    act = echo(link).on_message

    def fail_at_push(message: tuple[bytes, ...], now: Millis) -> None:
        act(message, now)
        if message[0] == b"push":
            raise ZeroDivisionError

    echo(link).on_message = fail_at_push  # type: ignore[method-assign]
    world.engine.turn(T)
    assert_ended(world.engine, link)
    assert not link.after_commit


def test_a_job_whose_grant_raised_goes_back_as_if_it_had_never_been_given(world: World) -> None:
    worker, producer = world.open(), world.open()
    world.say(worker, "take\n")
    world.engine.turn(T)
    echo(worker).on_event = raising(ZeroDivisionError())  # type: ignore[method-assign]
    world.say(producer, "push\n")
    world.engine.turn(T)
    assert world.said(producer) == "taken\n"
    assert_ended(world.engine, worker)
    [job] = world.broker.jobs.values()
    assert (job.state, job.attempts, job.losses) == (State.READY, 0, 0)


def test_everybody_else_is_told_what_was_to_be_told_after_the_exception(world: World) -> None:
    first, second, producer = world.open(), world.open(), world.open()
    for link in (first, second):
        world.say(link, "take\n")
    world.engine.turn(T)
    echo(first).on_event = raising(ZeroDivisionError())  # type: ignore[method-assign]
    world.say(producer, "push\npush\n")
    world.engine.turn(T)
    assert world.said(second) == "given\n"
    assert_ended(world.engine, first)


def test_an_exception_about_recalled_jobs_ends_the_link_that_asked(world: World) -> None:
    link, other = world.open(), world.open()

    class Asker:
        def __init__(self) -> None:
            self.link = link

        def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
            raise ZeroDivisionError

    world.broker.recall(JobQuery(), Asker())
    [want] = world.broker.take_wants()
    world.engine.supplied(want, [], T)
    assert_ended(world.engine, link)
    assert not other.closing


def test_an_exception_at_the_end_of_a_link_is_charged_to_it_and_what_it_ran_goes_back(
    world: World,
) -> None:
    worker, other = world.open(), world.open()
    world.say(worker, "push\ntake\n")
    world.engine.turn(T)
    echo(worker).hang_up = raising(ZeroDivisionError())  # type: ignore[method-assign]
    world.say(other, "take\n")
    world.engine.turn(T)
    world.engine.close_link(worker, T, undelivered=False)
    assert (worker.closed, world.engine.unhandled) == (True, 1)
    assert isinstance(world.engine.notices[0].error, ZeroDivisionError)
    assert world.said(other) == "given\n"


def test_every_session_of_a_conversation_that_cannot_end_is_closed(world: World) -> None:
    link, other = world.open(), world.open()
    conversation = echo(link)
    kept = world.broker.open_session("kept", OnHangUp.KEEP, conversation)
    world.broker.demand(Demand(kept, ("q",)), T)
    assert world.broker.sessions_of(conversation) == [conversation.session, kept]
    conversation.hang_up = raising(ZeroDivisionError())  # type: ignore[method-assign]
    world.engine.close_link(link, T, undelivered=False)
    assert (kept.open, kept.demands) == (False, {})
    assert world.broker.sessions_of(conversation) == []
    assert world.broker.sessions_of(echo(other)) == [echo(other).session]


def test_an_error_of_the_broker_at_the_end_of_a_link_is_raised(world: World, link: Link) -> None:
    world.say(link, "push\ntake\n")
    world.engine.turn(T)
    world.broker.queues.clear()
    with pytest.raises(KeyError):
        world.engine.close_link(link, T, undelivered=False)


def test_an_error_of_the_broker_is_not_the_peers(world: World, link: Link) -> None:
    world.broker.totals = None  # type: ignore[assignment]
    world.say(link, "push\n")
    with pytest.raises(AttributeError):
        world.engine.turn(T)
    assert not link.broken


def test_nor_is_one_that_comes_up_while_others_are_told(world: World, link: Link) -> None:
    job = world.broker.submit(NewJob("q", "k", b"", Policy()), T)

    def ask(*args: object) -> None:
        world.broker.queues["q"].size = None  # type: ignore[assignment]
        world.broker.cancel(job, T)

    echo(link).on_event = ask  # type: ignore[method-assign, assignment]
    world.broker.watch(job.id, echo(link).session)
    other = world.broker.submit(NewJob("r", "k", b"", Policy()), T)
    world.broker.watch(other.id, echo(link).session)
    world.broker.cancel(other, T)
    with pytest.raises(TypeError):
        world.engine.deliver(T)


def test_a_refusal_that_a_conversation_does_not_expect_is_its_own_mistake(
    world: World, link: Link
) -> None:
    job = world.broker.submit(NewJob("q", "k", b"", Policy()), T)
    world.broker.cancel(job, T)

    def cancel_again(message: tuple[bytes, ...], now: Millis) -> None:
        world.broker.cancel(job, now)

    echo(link).on_message = cancel_again  # type: ignore[method-assign]
    world.say(link, "x\n")
    world.engine.turn(T)
    assert link.broken
    assert isinstance(world.engine.notices[0].error, NotFound)


def test_what_a_service_does_for_one_link_in_a_tick_is_charged_to_that_link(world: World) -> None:
    bad, other = world.open(), world.open()

    class Part:
        """Of a conversation, as protocols have them."""

        def __init__(self, link: Link) -> None:
            self._conversation = link.conversation

        def ring(self) -> None:
            raise ZeroDivisionError

    part = Part(bad)
    world.engine.services["echo"].tick = lambda now: part.ring()  # type: ignore[method-assign]
    world.engine.tick(T)
    assert_ended(world.engine, bad)
    assert not other.closed


def test_an_exception_of_the_service_itself_in_a_tick_is_raised(world: World) -> None:
    world.open()
    world.engine.services["echo"].tick = raising(ZeroDivisionError())  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        world.engine.tick(T)


def test_an_exception_while_a_link_is_asked_to_leave_ends_that_link_and_others_are_asked(
    world: World,
) -> None:
    bad, other = world.open(), world.open()
    asked: list[Millis] = []
    echo(bad).stop = raising(ZeroDivisionError())  # type: ignore[method-assign]
    echo(other).stop = asked.append  # type: ignore[method-assign, assignment]
    world.engine.stop(T)
    assert_ended(world.engine, bad)
    assert asked == [T]
