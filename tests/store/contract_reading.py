"""How every store is read: behind a group, by a search, and what has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from franca.core.model import JobQuery, Shelf, State
from franca.core.tail import Recall, SupplyReady, SupplyWaiting
from franca.store.ended import Ended
from tests.store.kit import BEGIN, Desk, Nobody, a_job, all_fields, copy, odd_jobs, tailed


class ReadingContract:
    """Subclasses make the desk; `ended_jobs` is 10."""

    def desk_in(self, folder: Path) -> Desk:
        """A desk with an empty store, which may use the folder."""
        raise NotImplementedError

    @pytest.fixture
    def desk(self, tmp_path: Path) -> Iterator[Desk]:
        desk = self.desk_in(tmp_path)
        yield desk
        desk.close()

    # -- reading behind a group ---------------------------------------------------------------------

    def test_what_is_wanted_is_read_behind_the_group_it_came_with(self, desk: Desk) -> None:
        desk.write(added=[tailed(1), tailed(2), tailed(3, state=State.WAITING, run_at=1)])
        ready, waiting, recalled = desk.write(
            SupplyReady("q", BEGIN, 9),
            SupplyWaiting(BEGIN, 9),
            Recall(JobQuery(states=(State.LEASED, State.DEAD)), Nobody()),
            added=[tailed(4, place=0), a_job(5, state=State.LEASED, holder="w")],
            updated=[tailed(3, state=State.DEAD, run_at=1)],
            gone_tail=[a_job(1, shelf=Shelf.NOWHERE)],
        )
        assert [job.id for job in ready] == [4, 2]
        assert waiting == []
        assert [(job.id, job.shelf) for job in recalled] == [(3, Shelf.TAIL), (5, Shelf.HELD)]

    def test_a_recall_sees_both_shelves_and_no_ended_jobs(self, desk: Desk) -> None:
        desk.write(added=[a_job(1), tailed(2)], ended=[a_job(3, state=State.DONE)])
        assert [job.id for job in desk.recall(limit=10)] == [1, 2]

    # -- searching ------------------------------------------------------------------------------------

    @pytest.fixture
    def stocked(self, desk: Desk) -> Desk:
        """Nine jobs: odd ones held, even ones in the tail, three of them ended long ago."""
        desk.write(
            added=[
                a_job(1, kind="mail", name="twin"),
                tailed(2, queue="other", name="twin"),
                a_job(3, state=State.LEASED, kind="mail"),
                tailed(4, state=State.WAITING, run_at=50),
                a_job(5, state=State.WAITING, run_at=40, queue="other"),
                tailed(6, state=State.DEAD, run_at=40),
            ]
        )
        desk.write(ended=[a_job(9, state=State.DONE, kind="mail"), a_job(7, state=State.CANCELLED)])
        desk.write(ended=[a_job(8, state=State.DONE, queue="other", name="twin")])
        return desk

    @pytest.mark.parametrize(
        ("query", "ids"),
        [
            ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
            ({"states": (State.READY,)}, [1, 2]),
            ({"states": (State.WAITING, State.DONE)}, [4, 5, 8, 9]),
            ({"states": (State.CANCELLED,)}, [7]),
            ({"queue": "other"}, [2, 5, 8]),
            ({"kind": "mail"}, [1, 3, 9]),
            ({"names": ("twin", "name-4")}, [1, 2, 4, 8]),
            ({"ids": (9, 1, 4, 77)}, [1, 4, 9]),
            ({"queue": "other", "states": (State.READY, State.LEASED)}, [2]),
            ({"kind": "mail", "states": (State.DONE,), "queue": "q"}, [9]),
            ({"names": ("nobody",)}, []),
        ],
    )
    def test_find_finds_what_fits(
        self, stocked: Desk, query: dict[str, object], ids: list[int]
    ) -> None:
        assert stocked.find(**query) == ids

    @pytest.mark.parametrize("limit", [1, 2, 3, 9])
    @pytest.mark.parametrize("newest_first", [False, True])
    def test_pages_put_together_are_everything_once(
        self, stocked: Desk, newest_first: bool, limit: int
    ) -> None:
        found: list[int] = []
        after = 0
        while page := stocked.find(after=after, limit=limit, newest_first=newest_first):
            assert len(page) <= limit
            found += page
            after = page[-1]
        assert found == sorted(range(1, 10), reverse=newest_first)

    def test_by_time_goes_by_time_and_then_by_id(self, stocked: Desk) -> None:
        timed = (State.WAITING, State.DEAD)
        assert stocked.find(states=timed, by_time=True) == [5, 6, 4]
        assert stocked.find(states=timed, by_time=True, limit=2) == [5, 6]
        assert stocked.find(states=timed, by_time=True, limit=1, after=5) == [5]

    def test_many_names_and_ids_may_be_asked_for_at_once(self, stocked: Desk) -> None:
        names = tuple(f"nobody-{n}" for n in range(10_000))
        assert stocked.find(names=(*names, "twin")) == [1, 2, 8]
        assert stocked.find(ids=tuple(range(3, 10_000))) == [3, 4, 5, 6, 7, 8, 9]

    def test_find_finds_what_reopening_finds(self, stocked: Desk) -> None:
        before = all_fields(stocked.store.find(JobQuery(limit=99)))
        stocked.reopen()
        assert all_fields(stocked.store.find(JobQuery(limit=99))) == before

    # -- the history of ended jobs ----------------------------------------------------------------------

    def test_ended_jobs_are_remembered_with_their_end(self, desk: Desk) -> None:
        job = a_job(
            1, state=State.DONE, ended_at=9, result=b"\0res", holder="w", attempts=2, failures=1, losses=3,
            started_at=8, ready_at=7, priority=-4, media="json", story=odd_jobs()[6].story, body=b"b" * 100,
        )  # fmt: skip
        desk.write(added=[job])
        desk.write(
            gone_held=[copy(job, shelf=Shelf.NOWHERE)], ended=[copy(job, shelf=Shelf.NOWHERE)]
        )
        desk.reopen()
        [found] = desk.store.find(JobQuery(states=(State.DONE,)))
        kept = Ended.__struct_fields__
        assert {name: getattr(found, name) for name in kept} == {
            name: getattr(job, name) for name in kept
        }

    def test_the_history_is_bounded_and_the_newest_stay(self, desk: Desk) -> None:
        for number in range(1, 36):
            desk.write(ended=[a_job(number, state=State.DONE)])
            if number % 7 == 0:
                desk.reopen()
        found = desk.find(limit=100)
        assert found[-10:] == list(range(26, 36))
        assert len(found) < 20

    def test_a_group_larger_than_the_history_leaves_the_newest(self, desk: Desk) -> None:
        desk.write(ended=[a_job(n, state=State.DONE) for n in range(1, 100)])
        assert desk.find(limit=100)[-10:] == list(range(90, 100))
        assert len(desk.find(limit=100)) < 20
