-- The message log and what search derives from it. Times are microseconds since 1970 in UTC.
-- Agent and resource are part of every key: no statement reaches a row without naming its scope.

CREATE TABLE scopes (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,              -- '' where there is no resource
    change      INTEGER NOT NULL DEFAULT 0, -- grows with every commit that search must see
    epoch       INTEGER NOT NULL DEFAULT 0, -- grows when something was removed
    PRIMARY KEY (agent_id, resource_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    title       TEXT,
    metadata    TEXT,                       -- JSON object
    last_seq    INTEGER NOT NULL DEFAULT 0, -- sequence numbers start at 1 and are never given twice
    last_change INTEGER NOT NULL DEFAULT 0, -- the scope's change number at the newest message
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    role        TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    text        TEXT NOT NULL,
    parts       TEXT,                       -- JSON array of tool calls and results
    metadata    TEXT,                       -- JSON object
    created_at  INTEGER NOT NULL,
    change      INTEGER NOT NULL,           -- never falls along a thread: no index of its own is needed
    UNIQUE (message_id, agent_id, resource_id), -- ids mostly grow, so new ones share a page
    UNIQUE (agent_id, resource_id, thread_id, seq)
) STRICT;

CREATE TABLE turns (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    turn_id     TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('open', 'success', 'failure', 'aborted', 'abandoned')),
    opened_at   INTEGER NOT NULL,
    closed_at   INTEGER,
    PRIMARY KEY (agent_id, resource_id, thread_id, turn_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX open_turns ON turns (agent_id, resource_id, thread_id) WHERE status = 'open';

CREATE TABLE spaces (
    space_id   INTEGER PRIMARY KEY,
    model      TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    normalised INTEGER NOT NULL,
    active     INTEGER NOT NULL,
    UNIQUE (model, dimensions, normalised)
) STRICT;

CREATE UNIQUE INDEX one_active_space ON spaces (active) WHERE active = 1;

CREATE TABLE vectors (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    space_id    INTEGER NOT NULL REFERENCES spaces (space_id),
    kind        TEXT NOT NULL CHECK (kind IN ('entry', 'message')),
    item_id     TEXT NOT NULL,
    vector      BLOB NOT NULL,              -- float32, little-endian
    change      INTEGER NOT NULL,
    UNIQUE (agent_id, resource_id, space_id, kind, item_id)
) STRICT;

CREATE INDEX vectors_by_change ON vectors (agent_id, resource_id, space_id, change);
