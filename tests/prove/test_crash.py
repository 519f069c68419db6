"""The replayer keeps what was synced, and nothing that was not is safe from it."""

from pathlib import Path
from random import Random

from tests.prove.crash import (
    CREATED,
    DIRECTORY,
    HEAD,
    Disk,
    Kind,
    Record,
    materialise,
    read_trace,
    replies,
)
from tests.support.faktory import take_replies

OPEN_DIR = Record(Kind.OPEN, DIRECTORY, handle=1)
OPEN_FILE = Record(Kind.OPEN, CREATED, handle=2, data=b"f")


def states(records: list[Record], count: int = 200) -> list[dict[str, bytes]]:
    """Many of the states that a crash after these records may leave."""
    disk = Disk()
    for record in records:
        disk.feed(record)
    return [disk.after_crash(Random(seed)) for seed in range(count)]


def write(data: bytes, offset: int = 0) -> Record:
    return Record(Kind.WRITE, handle=2, offset=offset, data=data)


def encode(*records: Record) -> bytes:
    """The bytes of a trace."""
    return b"".join(
        HEAD.pack(len(r.data), r.kind, r.flags, 0, r.handle, 0, r.offset, r.upto) + r.data
        for r in records
    )


def sync(handle: int, upto: int) -> Record:
    return Record(Kind.SYNC, handle=handle, upto=upto)


def test_what_was_synced_with_its_name_is_always_there() -> None:
    records = [OPEN_DIR, OPEN_FILE, write(b"abc"), sync(2, 3), sync(1, 3)]
    assert all(state == {"f": b"abc"} for state in states(records))


def test_a_name_that_was_not_synced_may_be_missing() -> None:
    found = states([OPEN_DIR, OPEN_FILE, write(b"abc"), sync(2, 3)])
    assert {} in found
    assert {"f": b"abc"} in found


def test_an_unsynced_write_may_be_there_or_not() -> None:
    found = states([OPEN_DIR, OPEN_FILE, sync(1, 2), write(b"abc")])
    assert {state["f"] for state in found} == {b"", b"abc"}


def test_a_sync_covers_only_what_was_written_before_it_began() -> None:
    records = [OPEN_DIR, OPEN_FILE, sync(1, 2), write(b"a"), write(b"b", 1), sync(2, 4)]
    assert {state["f"] for state in states(records)} == {b"a", b"ab"}


def test_later_writes_may_survive_earlier_ones_that_did_not() -> None:
    found = states([OPEN_DIR, OPEN_FILE, sync(1, 2), write(b"a"), write(b"b", 1)])
    assert {state["f"] for state in found} == {b"", b"a", b"\0b", b"ab"}


def test_a_torn_write_ends_at_a_sector() -> None:
    page = bytes(range(256)) * 16
    found = {
        state["f"] for state in states([OPEN_DIR, OPEN_FILE, sync(1, 2), write(page, 24)], 500)
    }
    assert {len(content) % 512 for content in found - {b"", bytes(24) + page}} == {0}
    assert len(found) > 5


def test_an_unsynced_truncation_may_be_undone() -> None:
    cut = Record(Kind.TRUNCATE, handle=2, offset=1)
    records = [OPEN_DIR, OPEN_FILE, write(b"abc"), sync(2, 3), sync(1, 3), cut]
    assert {state["f"] for state in states(records)} == {b"abc", b"a"}


def test_what_a_failed_sync_was_for_is_not_saved_by_the_next() -> None:
    failed = Record(Kind.FAILED_SYNC, handle=2, upto=4)
    records = [OPEN_DIR, OPEN_FILE, sync(1, 2), write(b"a"), failed, write(b"b", 1), sync(2, 6)]
    assert {state["f"] for state in states(records)} == {b"\0b"}


def test_a_rename_is_all_or_nothing() -> None:
    rename = Record(Kind.RENAME, data=b"f\0g")
    records = [OPEN_DIR, OPEN_FILE, write(b"abc"), sync(2, 3), sync(1, 3), rename]
    assert {tuple(state) for state in states(records)} == {("f",), ("g",)}


def test_a_removed_file_may_come_back_until_the_directory_is_synced() -> None:
    unlink = Record(Kind.UNLINK, data=b"f")
    records = [OPEN_DIR, OPEN_FILE, sync(1, 2), unlink]
    assert {tuple(state) for state in states(records)} == {("f",), ()}
    assert all(state == {} for state in states([*records, sync(1, 4)]))


def test_a_file_that_was_there_before_the_trace_keeps_its_content() -> None:
    disk = Disk.holding({"f": b"old"})
    disk.feed(Record(Kind.OPEN, handle=2, data=b"f"))
    assert disk.after_crash(Random(1)) == {"f": b"old"}


def test_a_trace_is_read_as_it_was_written_but_for_a_torn_end(tmp_path: Path) -> None:
    records = [OPEN_DIR, OPEN_FILE, write(b"abc", 7), sync(2, 3)]
    (tmp_path / "trace").write_bytes(encode(*records) + encode(write(b"abc"))[:-1])
    assert read_trace(tmp_path / "trace") == records


def test_replies_are_counted_when_their_last_byte_has_left() -> None:
    sent = [
        Record(Kind.SEND, handle=7, data=b"+OK\r\n$5\r\nhe"),
        Record(Kind.SEND, handle=8, data=b"$-1\r\n"),
        Record(Kind.SEND, handle=7, data=b"l\no\r\n-ERR no\r\n"),
    ]
    told = replies(sent, 7, take_replies)
    assert [(mark.record, mark.reply) for mark in told] == [
        (0, b"+OK\r\n"),
        (2, b"$5\r\nhel\no\r\n"),
        (2, b"-ERR no\r\n"),
    ]
    assert [mark.reply for mark in replies(sent, 8, take_replies)] == [b"$-1\r\n"]


def test_a_state_is_written_out_with_its_folders(tmp_path: Path) -> None:
    materialise({"a": b"1", "sub/b": b"2"}, tmp_path)
    assert (tmp_path / "sub" / "b").read_bytes() == b"2"
