-- Jobs that the server holds in memory, and those it does not. `job` is the whole job, the other
-- columns are what is searched and sorted by. Same columns, two tables: the
-- first is small and read whole at start, the second may be larger than memory and has indexes.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    priority INTEGER NOT NULL,
    apart INTEGER NOT NULL,
    state INTEGER NOT NULL,
    place INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    job BLOB NOT NULL,
    crc INTEGER NOT NULL
);

CREATE TABLE tail (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    priority INTEGER NOT NULL,
    apart INTEGER NOT NULL,
    state INTEGER NOT NULL,
    place INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    job BLOB NOT NULL,
    crc INTEGER NOT NULL
);

-- State 1 is READY: a backlog pays for one index and no more.
CREATE INDEX tail_ready ON tail (queue, priority, place) WHERE state = 1;
CREATE INDEX tail_timed ON tail (state, run_at, id) WHERE state <> 1;
CREATE INDEX tail_named ON tail (name) WHERE state <> 1;
CREATE INDEX tail_keyed ON tail (queue, key) WHERE key <> '';

-- Large bodies lie apart: a change of state must not write them again.
CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL, crc INTEGER NOT NULL);

-- Ended jobs, one row a group.
CREATE TABLE ended (
    id INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    jobs BLOB NOT NULL,
    crc INTEGER NOT NULL
);

CREATE TABLE queues (queue TEXT PRIMARY KEY, paused INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE schedules (id TEXT PRIMARY KEY, schedule BLOB NOT NULL) WITHOUT ROWID;

-- Counts since the store was made, how many rows there must be, and a checksum (`sealed`) of all
-- rows of the small tables together; `crc` is the checksum of the numbers before it.
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    pushed INTEGER NOT NULL,
    processed INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    last_job_id INTEGER NOT NULL,
    last_place INTEGER NOT NULL,
    held_rows INTEGER NOT NULL,
    tail_rows INTEGER NOT NULL,
    sealed INTEGER NOT NULL,
    crc INTEGER NOT NULL
);
INSERT INTO totals VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 2537878664);
