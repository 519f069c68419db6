-- Ended jobs in segments of a few thousand, for searches; `id` is that of the last piece in `ended`. The
-- columns of the keys come last: whoever does not need them does not read them.
CREATE TABLE segments (
    id INTEGER PRIMARY KEY,
    first_piece INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    size INTEGER NOT NULL,
    min_id INTEGER NOT NULL,
    max_id INTEGER NOT NULL,
    min_at INTEGER NOT NULL,
    max_at INTEGER NOT NULL,
    counts BLOB NOT NULL,
    crc INTEGER NOT NULL,
    sizes BLOB NOT NULL,
    ids BLOB NOT NULL,
    names BLOB NOT NULL,
    keys_crc INTEGER NOT NULL
);

-- What happened to the jobs of each queue and kind, in rows of a minute, five, and an hour.
CREATE TABLE rates (id INTEGER PRIMARY KEY, tallies BLOB NOT NULL, crc INTEGER NOT NULL);

-- Idempotency keys of submits, the oldest first.
CREATE TABLE idempotency_keys (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    digest INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    job_name TEXT NOT NULL,
    at INTEGER NOT NULL,
    crc INTEGER NOT NULL
);
