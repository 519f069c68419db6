"""One conversation that raises ends its own link and nothing else; an error of the broker is raised."""

from collections.abc import Callable
from typing import NoReturn

import pytest

from franca.core.errors import NotFound
from franca.core.model import Demand, Job, JobQuery, Millis, NewJob, OnHangUp, Policy, State
from franca.engine.engine import Engine
from franca.protocols.conversation import Link
from tests.engine.fixtures import Stage, T, echo


def raising(error: Exception) -> Callable[..., NoReturn]:
    def fail(*args: object, **options: object) -> NoReturn:
        raise error

    return fail


def assert_ended(engine: Engine, link: Link) -> None:
    assert (link.closed, link.closing, link.broken, link.out) == (True, True, True, [])
    assert link in engine.speaking
    assert link not in engine.links
    assert echo(link).hung_up == [True]
    assert engine.unhandled == 1
    [notice] = engine.notices
    assert (notice.link, type(notice.error)) == (link, ZeroDivisionError)


def test_an_exception_while_reading_ends_that_link_and_others_are_heard(stage: Stage) -> None:
    before, bad, after = stage.open(), stage.open(), stage.open()
    for link in (before, bad, after):
        stage.say(link, "one\n")
    echo(bad).on_message = raising(ZeroDivisionError())  # type: ignore[method-assign]
    stage.engine.turn(T)
    assert (stage.said(before), stage.said(after)) == ("one\n", "one\n")
    assert_ended(stage.engine, bad)


def test_what_was_written_before_the_exception_is_not_sent(stage: Stage, link: Link) -> None:
    stage.say(link, "one\npush\ntwo\n")
    act = echo(link).on_message

    def fail_at_push(line: str, now: Millis) -> None:
        act(line, now)
        if line == "push":
            raise ZeroDivisionError

    echo(link).on_message = fail_at_push  # type: ignore[method-assign]
    stage.engine.turn(T)
    assert_ended(stage.engine, link)
    assert not link.after_commit


def test_a_job_whose_grant_raised_goes_back_as_if_it_had_never_been_given(stage: Stage) -> None:
    worker, producer = stage.open(), stage.open()
    stage.say(worker, "take\n")
    stage.engine.turn(T)
    echo(worker).on_event = raising(ZeroDivisionError())  # type: ignore[method-assign]
    stage.say(producer, "push\n")
    stage.engine.turn(T)
    assert stage.said(producer) == "taken\n"
    assert_ended(stage.engine, worker)
    [job] = stage.broker.jobs.values()
    assert (job.state, job.attempts, job.losses) == (State.READY, 0, 0)


def test_everybody_else_is_told_what_was_to_be_told_after_the_exception(stage: Stage) -> None:
    first, second, producer = stage.open(), stage.open(), stage.open()
    for link in (first, second):
        stage.say(link, "take\n")
    stage.engine.turn(T)
    echo(first).on_event = raising(ZeroDivisionError())  # type: ignore[method-assign]
    stage.say(producer, "push\npush\n")
    stage.engine.turn(T)
    assert stage.said(second) == "given\n"
    assert_ended(stage.engine, first)


def test_an_exception_about_recalled_jobs_ends_the_link_that_asked(stage: Stage) -> None:
    link, other = stage.open(), stage.open()

    class Asker:
        def __init__(self) -> None:
            self.link = link

        def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
            raise ZeroDivisionError

    stage.broker.recall(JobQuery(), Asker())
    [want] = stage.broker.take_wants()
    stage.engine.supplied(want, [], T)
    assert_ended(stage.engine, link)
    assert not other.closing


def test_an_exception_at_the_end_of_a_link_is_charged_to_it_and_what_it_ran_goes_back(
    stage: Stage,
) -> None:
    worker, other = stage.open(), stage.open()
    stage.say(worker, "push\ntake\n")
    stage.engine.turn(T)
    echo(worker).hang_up = raising(ZeroDivisionError())  # type: ignore[method-assign]
    stage.say(other, "take\n")
    stage.engine.turn(T)
    stage.engine.close_link(worker, T, undelivered=False)
    assert (worker.closed, stage.engine.unhandled) == (True, 1)
    assert isinstance(stage.engine.notices[0].error, ZeroDivisionError)
    assert stage.said(other) == "given\n"


def test_every_session_of_a_conversation_that_cannot_end_is_closed(stage: Stage) -> None:
    link, other = stage.open(), stage.open()
    conversation = echo(link)
    kept = stage.broker.open_session("kept", OnHangUp.KEEP, conversation)
    stage.broker.demand(Demand(kept, ("q",)), T)
    assert stage.broker.sessions_of(conversation) == [conversation.session, kept]
    conversation.hang_up = raising(ZeroDivisionError())  # type: ignore[method-assign]
    stage.engine.close_link(link, T, undelivered=False)
    assert (kept.open, kept.demands) == (False, {})
    assert stage.broker.sessions_of(conversation) == []
    assert stage.broker.sessions_of(echo(other)) == [echo(other).session]


def test_an_error_of_the_broker_at_the_end_of_a_link_is_raised(stage: Stage, link: Link) -> None:
    stage.say(link, "push\ntake\n")
    stage.engine.turn(T)
    stage.broker.queues.clear()
    with pytest.raises(KeyError):
        stage.engine.close_link(link, T, undelivered=False)


def test_an_error_of_the_broker_is_not_the_peers(stage: Stage, link: Link) -> None:
    stage.broker.totals = None  # type: ignore[assignment]
    stage.say(link, "push\n")
    with pytest.raises(AttributeError):
        stage.engine.turn(T)
    assert not link.broken


def test_nor_is_one_that_comes_up_while_others_are_told(stage: Stage, link: Link) -> None:
    job = stage.broker.submit(NewJob("q", "k", b"", Policy()), T)

    def ask(*args: object) -> None:
        stage.broker.queues["q"].size = None  # type: ignore[assignment]
        stage.broker.cancel(job, T)

    echo(link).on_event = ask  # type: ignore[method-assign, assignment]
    stage.broker.watch(job.id, echo(link).session)
    other = stage.broker.submit(NewJob("r", "k", b"", Policy()), T)
    stage.broker.watch(other.id, echo(link).session)
    stage.broker.cancel(other, T)
    with pytest.raises(TypeError):
        stage.engine.deliver(T)


def test_a_refusal_that_a_conversation_does_not_expect_is_its_own_mistake(
    stage: Stage, link: Link
) -> None:
    job = stage.broker.submit(NewJob("q", "k", b"", Policy()), T)
    stage.broker.cancel(job, T)

    def cancel_again(line: str, now: Millis) -> None:
        stage.broker.cancel(job, now)

    echo(link).on_message = cancel_again  # type: ignore[method-assign]
    stage.say(link, "x\n")
    stage.engine.turn(T)
    assert link.broken
    assert isinstance(stage.engine.notices[0].error, NotFound)


def test_what_a_service_does_for_one_link_in_a_tick_is_charged_to_that_link(stage: Stage) -> None:
    bad, other = stage.open(), stage.open()

    class Part:
        """Of a conversation, as protocols have them."""

        def __init__(self, link: Link) -> None:
            self._conversation = link.conversation

        def ring(self) -> None:
            raise ZeroDivisionError

    part = Part(bad)
    stage.engine.services["echo"].tick = lambda now: part.ring()  # type: ignore[method-assign]
    stage.engine.tick(T)
    assert_ended(stage.engine, bad)
    assert not other.closed


def test_an_exception_of_the_service_itself_in_a_tick_is_raised(stage: Stage) -> None:
    stage.open()
    stage.engine.services["echo"].tick = raising(ZeroDivisionError())  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        stage.engine.tick(T)


def test_an_exception_while_a_link_is_asked_to_leave_ends_that_link_and_others_are_asked(
    stage: Stage,
) -> None:
    bad, other = stage.open(), stage.open()
    asked: list[Millis] = []
    echo(bad).stop = raising(ZeroDivisionError())  # type: ignore[method-assign]
    echo(other).stop = asked.append  # type: ignore[method-assign, assignment]
    stage.engine.stop(T)
    assert_ended(stage.engine, bad)
    assert asked == [T]
