-- What happens to entries after they were learned, in a way that can be told and taken back.

-- The table is made anew because a status was added: what a worker or an operator took out is `dropped`.
CREATE TABLE entries_3 (
    agent_id         TEXT NOT NULL,
    resource_id      TEXT NOT NULL,
    entry_id         TEXT NOT NULL,
    content          TEXT NOT NULL,
    content_hash     TEXT NOT NULL,              -- SHA-256 of the lower-cased, whitespace-collapsed content
    source           TEXT NOT NULL,              -- who stands behind it: see docs/concepts/learning.md
    status           TEXT NOT NULL
                     CHECK (status IN ('active', 'superseded', 'quarantined', 'forgotten', 'dropped')),
    verified         INTEGER NOT NULL,
    thread_id        TEXT NOT NULL,
    message_id       TEXT,                       -- the newest message it is quoted from
    metadata         TEXT,                       -- JSON object
    created_at       INTEGER NOT NULL,           -- time of the newest evidence when it was learned
    last_seen_at     INTEGER NOT NULL,
    valid_until      INTEGER,                    -- when a correction or a merge took its place
    superseded_by    TEXT,
    change           INTEGER NOT NULL,
    origin           TEXT NOT NULL DEFAULT 'learned' CHECK (origin IN ('learned', 'remembered', 'merged')),
    reflections_left INTEGER NOT NULL DEFAULT 0, -- how often the reflector may still be asked about it
    PRIMARY KEY (agent_id, resource_id, entry_id)
) STRICT, WITHOUT ROWID;

INSERT INTO entries_3 (agent_id, resource_id, entry_id, content, content_hash, source, status, verified, thread_id,
                       message_id, metadata, created_at, last_seen_at, valid_until, superseded_by, change)
SELECT agent_id, resource_id, entry_id, content, content_hash, source, status, verified, thread_id,
       message_id, metadata, created_at, last_seen_at, valid_until, superseded_by, change FROM entries;

DROP TABLE entries;
ALTER TABLE entries_3 RENAME TO entries;

CREATE UNIQUE INDEX one_active_entry ON entries (agent_id, resource_id, content_hash) WHERE status = 'active';
CREATE INDEX entries_by_change ON entries (agent_id, resource_id, change);
CREATE INDEX entries_by_id ON entries (entry_id);
CREATE INDEX entries_to_reflect ON entries (agent_id, resource_id) WHERE reflections_left > 0;
CREATE INDEX evidence_by_message ON evidence (agent_id, resource_id, message_id);
CREATE INDEX receipts_by_entry ON receipts (agent_id, resource_id, entry_id) WHERE entry_id IS NOT NULL;
CREATE INDEX shown_items ON shown (agent_id, resource_id, kind, item_id);

ALTER TABLE messages ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0; -- kept in the log, not found by recall

CREATE TABLE revisions (                            -- one row for each item that a revision touched
    agent_id             TEXT NOT NULL,
    resource_id          TEXT NOT NULL,
    revision_id          TEXT NOT NULL,
    kind                 TEXT NOT NULL CHECK (kind IN ('entry', 'message')),
    item_id              TEXT NOT NULL,
    action               TEXT NOT NULL,             -- superseded, merged, dropped, forgotten, released, added, …
    actor                TEXT NOT NULL,             -- who did it: reflector, user, audit, rebuild
    status_before        TEXT,                      -- how to take it back
    valid_until_before   INTEGER,
    superseded_by_before TEXT,
    successor_id         TEXT,
    message_id           TEXT,                      -- the words that state a change
    start                INTEGER,
    stop                 INTEGER,
    quote_hash           TEXT,
    detail               TEXT NOT NULL,
    created_at           INTEGER NOT NULL,
    undone_at            INTEGER,
    change               INTEGER NOT NULL,          -- the scope's change number: tells what came later
    PRIMARY KEY (agent_id, resource_id, revision_id, kind, item_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX revisions_by_item ON revisions (agent_id, resource_id, item_id);
CREATE INDEX conflicts ON revisions (agent_id, resource_id) WHERE action = 'conflicting';
CREATE INDEX revisions_by_successor ON revisions (agent_id, resource_id, successor_id)
    WHERE successor_id IS NOT NULL;

CREATE TABLE erasures (count INTEGER NOT NULL) STRICT; -- a scope made after an erasure has a later epoch
INSERT INTO erasures (count) VALUES (0);
