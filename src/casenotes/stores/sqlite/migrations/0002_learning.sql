-- What is learned from finished turns, what became of every candidate, and who is working on what.

ALTER TABLE messages ADD COLUMN turn_id TEXT;

ALTER TABLE turns ADD COLUMN first_seq INTEGER NOT NULL DEFAULT 0; -- the turn's first message
ALTER TABLE turns ADD COLUMN learning TEXT CHECK (learning IN ('queued', 'done', 'dead'));
ALTER TABLE turns ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;    -- not to be tried again before
ALTER TABLE turns ADD COLUMN error TEXT;

CREATE INDEX unlearned_turns ON turns (agent_id, resource_id, thread_id, closed_at) WHERE learning = 'queued';
CREATE INDEX dead_turns ON turns (agent_id, resource_id, thread_id) WHERE learning = 'dead';

CREATE TABLE entries (
    agent_id        TEXT NOT NULL,
    resource_id     TEXT NOT NULL,
    entry_id        TEXT NOT NULL,
    content         TEXT NOT NULL,
    content_hash    TEXT NOT NULL,              -- SHA-256 of the lower-cased, whitespace-collapsed content
    source          TEXT NOT NULL,              -- who stands behind it: see docs/concepts/learning.md
    status          TEXT NOT NULL CHECK (status IN ('active', 'superseded', 'quarantined', 'forgotten')),
    verified        INTEGER NOT NULL,
    thread_id       TEXT NOT NULL,
    message_id      TEXT,                       -- the newest message it is quoted from
    metadata        TEXT,                       -- JSON object
    created_at      INTEGER NOT NULL,           -- time of the newest evidence when it was learned
    last_seen_at    INTEGER NOT NULL,
    valid_until     INTEGER,
    superseded_by   TEXT,
    change          INTEGER NOT NULL,
    PRIMARY KEY (agent_id, resource_id, entry_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX one_active_entry ON entries (agent_id, resource_id, content_hash) WHERE status = 'active';
CREATE INDEX entries_by_change ON entries (agent_id, resource_id, change);

CREATE TABLE evidence (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    entry_id    TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    start       INTEGER NOT NULL,               -- in characters of the message's text
    stop        INTEGER NOT NULL,
    quote_hash  TEXT NOT NULL,                  -- SHA-256; the words themselves stay in the message log
    PRIMARY KEY (agent_id, resource_id, entry_id, message_id, start, stop)
) STRICT, WITHOUT ROWID;

CREATE TABLE receipts (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    turn_id     TEXT NOT NULL,
    position    INTEGER NOT NULL,
    status      TEXT NOT NULL,
    reason      TEXT NOT NULL,
    detail      TEXT NOT NULL,
    content     TEXT NOT NULL,
    source      TEXT NOT NULL,
    quotes      TEXT NOT NULL,                  -- JSON array
    entry_id    TEXT,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, turn_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX receipts_by_time ON receipts (agent_id, resource_id, created_at);

CREATE TABLE shown (                            -- items that a thread's model has been shown
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    turn_id     TEXT NOT NULL,                  -- the turn that it was shown in
    kind        TEXT NOT NULL CHECK (kind IN ('entry', 'message')),
    item_id     TEXT NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, turn_id, kind, item_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    task        TEXT NOT NULL,
    owner       TEXT NOT NULL,
    fence       INTEGER NOT NULL,               -- grows with every holder: older ones cannot write any more
    expires_at  INTEGER NOT NULL,               -- by the machine's clock
    PRIMARY KEY (agent_id, resource_id, thread_id, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE model_usage (
    agent_id      TEXT NOT NULL,
    resource_id   TEXT NOT NULL,
    day           TEXT NOT NULL,                -- ISO date in UTC
    task          TEXT NOT NULL,
    calls         INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost          REAL NOT NULL,                -- US dollars, as far as prices are known
    PRIMARY KEY (agent_id, resource_id, day, task)
) STRICT, WITHOUT ROWID;
