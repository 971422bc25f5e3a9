-- Session memory: what the Observer and the Reflector have made of long threads, and how far they have come.

ALTER TABLE messages ADD COLUMN tokens INTEGER;    -- what it takes of a prompt; NULL for older ones

ALTER TABLE threads ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;  -- of all its messages
ALTER TABLE threads ADD COLUMN observe_at INTEGER; -- how many tokens make the next observation due; NULL: nobody observes it
ALTER TABLE threads ADD COLUMN to_observe INTEGER NOT NULL DEFAULT 0; -- whether it has come so far
ALTER TABLE threads ADD COLUMN flush_at INTEGER;   -- when the rest is to be observed, if nobody speaks before

UPDATE threads AS t SET tokens = (
    SELECT coalesce(sum(4 + (length(m.text) + coalesce(length(m.parts), 0)) / 4), 0) FROM messages AS m
     WHERE m.agent_id = t.agent_id AND m.resource_id = t.resource_id AND m.thread_id = t.thread_id);

CREATE INDEX threads_to_observe ON threads (agent_id, resource_id, thread_id) WHERE to_observe = 1;
CREATE INDEX threads_to_flush ON threads (flush_at) WHERE flush_at IS NOT NULL;

CREATE TABLE observing (                         -- one row for each thread that is observed
    agent_id        TEXT NOT NULL,
    resource_id     TEXT NOT NULL,
    thread_id       TEXT NOT NULL,
    observed_seq    INTEGER NOT NULL DEFAULT 0,  -- the cursor: everything up to here was observed
    observed_tokens INTEGER NOT NULL DEFAULT 0,  -- of the messages up to it
    active_seq      INTEGER NOT NULL DEFAULT 0,  -- up to here observations stand in place of messages
    active_tokens   INTEGER NOT NULL DEFAULT 0,  -- of the messages up to it
    window_seq      INTEGER NOT NULL DEFAULT 0,  -- the messages after this one are shown
    asked_first     INTEGER NOT NULL DEFAULT 0,  -- and these before it: what the turn under way was asked
    asked_last      INTEGER NOT NULL DEFAULT 0,
    log_tokens      INTEGER NOT NULL DEFAULT 0,  -- of the active observations
    ready_tokens    INTEGER NOT NULL DEFAULT 0,  -- of those that wait
    version         INTEGER NOT NULL DEFAULT 0,  -- grows whenever the active observations change
    reflecting      INTEGER NOT NULL DEFAULT 0,  -- whether condensed rows wait for the next activation
    reflect_at      INTEGER NOT NULL DEFAULT 0,  -- tokens of observations that make the next reflection due, if more than the setting
    reflected       TEXT NOT NULL DEFAULT '',    -- what was reflected on last, by its hash
    session         TEXT NOT NULL DEFAULT '{}',  -- JSON object: where the conversation stands
    session_seq     INTEGER NOT NULL DEFAULT 0,  -- the last message that it knows of
    session_change  INTEGER NOT NULL DEFAULT 0,  -- the scope's change number when those messages were read
    provider        TEXT NOT NULL DEFAULT '',    -- who was asked last: another one has no prompt in its cache
    attempts        INTEGER NOT NULL DEFAULT 0,  -- failures in a row
    due_at          INTEGER NOT NULL DEFAULT 0,  -- not to be tried again before
    error           TEXT,
    dead            INTEGER NOT NULL DEFAULT 0,  -- given up, until an operator or new messages ask for it
    usage_day       TEXT NOT NULL DEFAULT '',    -- ISO date in UTC, with the calls and tokens of that day
    usage_calls     INTEGER NOT NULL DEFAULT 0,
    usage_tokens    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_id, resource_id, thread_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX dead_observing ON observing (agent_id, resource_id, thread_id) WHERE dead = 1;

CREATE TABLE observation_batches (               -- every run of the Observer, also one that found nothing to say
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    last_seq    INTEGER NOT NULL,
    first_seq   INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,                -- of the messages
    row_count   INTEGER NOT NULL,
    outcome     TEXT NOT NULL CHECK (outcome IN ('observed', 'empty', 'refused')),
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, last_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE observations (
    agent_id       TEXT NOT NULL,
    resource_id    TEXT NOT NULL,
    thread_id      TEXT NOT NULL,
    observation_id TEXT NOT NULL,
    position       INTEGER NOT NULL,             -- where it stands in the log
    priority       TEXT NOT NULL CHECK (priority IN ('critical', 'important', 'info', 'completion')),
    happened_at    INTEGER NOT NULL,
    until_at       INTEGER,                      -- where it tells of more than a moment
    dates          TEXT NOT NULL,                -- JSON array of ISO dates that the text speaks of
    text           TEXT NOT NULL,
    parent_id      TEXT,
    first_seq      INTEGER NOT NULL,             -- the messages that it covers: from, to,
    last_seq       INTEGER NOT NULL,
    covers         TEXT NOT NULL,                -- and all ranges of them as a JSON array
    status         TEXT NOT NULL CHECK (status IN ('ready', 'active', 'superseded', 'dropped', 'quarantined')),
    supersedes     TEXT NOT NULL,                -- JSON array of the rows that it stands for
    successor_id   TEXT,                         -- the row that takes its place; empty if it is dropped
    tokens         INTEGER NOT NULL,
    seen_change    INTEGER NOT NULL,             -- the scope's change number when the messages were read
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, observation_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX observations_by_status ON observations (agent_id, resource_id, thread_id, status, position);
