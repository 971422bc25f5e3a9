-- What layers keep for themselves, run summaries, the history of events, and which layers have yet to learn from a turn.

CREATE TABLE layer_states (                      -- one row a version; the newest holds
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,                   -- empty: the state of the whole resource
    layer       TEXT NOT NULL,
    version     INTEGER NOT NULL,
    value       TEXT NOT NULL,                   -- JSON object; what stems from one thread is in `items` with its thread_id
    author      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, layer, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE episodes (
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    episode_id  TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    summary     TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    token_count INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (agent_id, resource_id, episode_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX episodes_by_time ON episodes (agent_id, created_at);

CREATE TABLE events (                            -- what happened in a thread, newest last
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    position    INTEGER NOT NULL,
    name        TEXT NOT NULL,
    data        TEXT NOT NULL,                   -- JSON object
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX hidden_messages ON messages (agent_id, resource_id, thread_id) WHERE hidden = 1;

ALTER TABLE threads ADD COLUMN parent_id TEXT;    -- of a sub-agent's thread: the conversation that it works for
ALTER TABLE threads ADD COLUMN apart INTEGER NOT NULL DEFAULT 0; -- all of its messages are hidden, for good
ALTER TABLE threads ADD COLUMN run_seq INTEGER NOT NULL DEFAULT 0; -- the last message of its last finished run

ALTER TABLE turns ADD COLUMN pending TEXT;       -- layers that have not learned from it yet, between commas
UPDATE turns SET pending = ',memory,' WHERE learning IN ('queued', 'dead');
UPDATE turns SET pending = ',' WHERE learning = 'done';
