"""After a flush the parts of the broker are what they were: empty, and still the same ones."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.core.kit import Bench, T


def shared_records(bench: Bench) -> dict[int, set[str]]:
    """Where each record is that several parts look into, by its identity."""
    places: defaultdict[int, set[str]] = defaultdict(set)
    for where, record in records(bench):
        places[id(record)].add(where)
    return {key: found for key, found in places.items() if len(found) > 1}


def records(bench: Bench) -> Iterator[tuple[str, object]]:
    parts = {id(part): part for part in bench.broker.parts}
    for part in list(parts.values()):
        for inner in (getattr(part, name) for name in attributes(part)):
            if type(inner).__module__.startswith("franca.core.") and attributes(inner):
                parts.setdefault(id(inner), inner)
    for part in parts.values():
        for name in attributes(part):
            record = getattr(part, name)
            if isinstance(record, dict | list):
                yield f"{type(part).__name__}.{name}", record


def attributes(part: object) -> Iterable[str]:
    names: Iterable[str] = getattr(part, "__dict__", ()) or getattr(part, "__slots__", ())
    return names


def test_what_parts_share_they_share_after_a_flush() -> None:
    bench = Bench()
    bench.submit()
    before = set(map(frozenset, shared_records(bench).values()))
    assert len(before) > 10
    bench.broker.flush(T)
    assert set(map(frozenset, shared_records(bench).values())) == before
