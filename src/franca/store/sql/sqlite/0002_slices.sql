-- Whatever is read or deleted while serving is found by an index, and deleted a little at a time.

-- A queue whose tail is emptied enters its next era (`eras`; 0 if it is not listed there). READY
-- rows of an earlier era are gone: nobody sees them, and they are deleted when there is time.
ALTER TABLE tail ADD COLUMN era INTEGER NOT NULL DEFAULT 0;
CREATE TABLE eras (queue TEXT PRIMARY KEY, era INTEGER NOT NULL) WITHOUT ROWID;

DROP INDEX tail_ready;
CREATE INDEX tail_ready ON tail (queue, era, priority, place) WHERE state = 1;

-- Jobs that wait for their time, and dead ones, in order of their ids.
CREATE INDEX tail_states ON tail (state, id) WHERE state <> 1;

-- Held jobs that are gone and whose rows are still there: more than a group should delete at once.
CREATE TABLE gone (id INTEGER PRIMARY KEY, ids BLOB NOT NULL, crc INTEGER NOT NULL);
