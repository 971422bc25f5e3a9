-- Rows name their scope, thread and message by a number, as ids of any length stood in every row and index;
-- `messages` shows them as before. What was found for a turn becomes one record of it, in place of a row and an
-- index entry for each item. Vectors take 16 bits a number: they find the same.

DROP INDEX hidden_messages;
DROP INDEX vectors_by_change;
DROP INDEX threads_to_observe;
DROP INDEX threads_to_flush;
DROP INDEX one_active_space;
ALTER TABLE scopes RENAME TO scopes_5;
ALTER TABLE threads RENAME TO threads_5;
ALTER TABLE messages RENAME TO messages_5;
ALTER TABLE spaces RENAME TO spaces_5;
ALTER TABLE vectors RENAME TO vectors_5;
ALTER TABLE events RENAME TO events_5;

CREATE TABLE scopes (
    number      INTEGER PRIMARY KEY,
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,              -- '' where there is no resource
    change      INTEGER NOT NULL DEFAULT 0, -- grows with every commit that search must see
    epoch       INTEGER NOT NULL DEFAULT 0, -- grows when something was removed
    UNIQUE (agent_id, resource_id)
) STRICT;

INSERT INTO scopes (agent_id, resource_id, change, epoch)
SELECT agent_id, resource_id, change, epoch FROM scopes_5;

CREATE TABLE threads (
    number      INTEGER PRIMARY KEY,
    agent_id    TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    thread_id   TEXT NOT NULL,
    title       TEXT,
    metadata    TEXT,                        -- JSON object
    last_seq    INTEGER NOT NULL DEFAULT 0,  -- sequence numbers start at 1 and are never given twice
    last_change INTEGER NOT NULL DEFAULT 0,  -- the scope's change number at the newest message
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    parent_id   TEXT,                        -- of a sub-agent's thread: the conversation that it works for
    apart       INTEGER NOT NULL DEFAULT 0,  -- all of its messages are hidden, for good
    run_seq     INTEGER NOT NULL DEFAULT 0,  -- the last message of its last finished run
    tokens      INTEGER NOT NULL DEFAULT 0,  -- of all its messages
    observe_at  INTEGER,                     -- how many tokens make the next observation due; NULL: nobody observes it
    to_observe  INTEGER NOT NULL DEFAULT 0,  -- whether it has come so far
    flush_at    INTEGER,                     -- when the rest is to be observed, if nobody speaks before
    UNIQUE (agent_id, resource_id, thread_id)
) STRICT;

INSERT INTO threads (agent_id, resource_id, thread_id, title, metadata, last_seq, last_change, created_at, updated_at,
                     parent_id, apart, run_seq, tokens, observe_at, to_observe, flush_at)
SELECT agent_id, resource_id, thread_id, title, metadata, last_seq, last_change, created_at, updated_at,
       parent_id, apart, run_seq, tokens, observe_at, to_observe, flush_at FROM threads_5;

CREATE TABLE message_rows (
    number      INTEGER PRIMARY KEY,
    scope       INTEGER NOT NULL,
    thread      INTEGER NOT NULL REFERENCES threads (number),
    message_id  TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    role        TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    text        TEXT NOT NULL,
    parts       TEXT,                        -- JSON array of tool calls and results
    metadata    TEXT,                        -- JSON object
    created_at  INTEGER NOT NULL,
    change      INTEGER NOT NULL,            -- never falls along a thread: no index of its own is needed
    turn_id     TEXT,
    hidden      INTEGER NOT NULL DEFAULT 0,  -- kept in the log, not found by recall
    tokens      INTEGER,                     -- what it takes of a prompt; NULL for older ones
    UNIQUE (message_id, scope),              -- ids mostly grow, so new ones share a page
    UNIQUE (thread, seq)
) STRICT;

INSERT INTO message_rows (scope, thread, message_id, seq, role, text, parts, metadata, created_at, change, turn_id,
                          hidden, tokens)
SELECT s.number, t.number, m.message_id, m.seq, m.role, m.text, m.parts, m.metadata, m.created_at, m.change,
       m.turn_id, m.hidden, m.tokens
  FROM messages_5 AS m JOIN scopes AS s ON s.agent_id = m.agent_id AND s.resource_id = m.resource_id
  JOIN threads AS t ON t.agent_id = m.agent_id AND t.resource_id = m.resource_id AND t.thread_id = m.thread_id
 ORDER BY m.rowid;

CREATE VIEW messages AS
SELECT m.number, s.agent_id, s.resource_id, t.thread_id, m.message_id, m.seq, m.role, m.text, m.parts, m.metadata,
       m.created_at, m.change, m.turn_id, m.hidden, m.tokens, m.scope
  FROM scopes AS s JOIN threads AS t ON t.agent_id = s.agent_id AND t.resource_id = s.resource_id
  JOIN message_rows AS m ON m.thread = t.number AND m.scope = s.number;

CREATE TABLE spaces (
    space_id   INTEGER PRIMARY KEY AUTOINCREMENT, -- never one that was used before
    model      TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    normalised INTEGER NOT NULL,
    active     INTEGER NOT NULL,
    UNIQUE (model, dimensions, normalised)
) STRICT;

INSERT INTO spaces (space_id, model, dimensions, normalised, active)
SELECT space_id, model, dimensions, normalised, active FROM spaces_5;

CREATE TABLE vectors (
    number   INTEGER PRIMARY KEY,
    scope    INTEGER NOT NULL,
    space_id INTEGER NOT NULL REFERENCES spaces (space_id),
    message  INTEGER,                        -- it is that of a message, by its number,
    entry_id TEXT,                           -- or of an entry
    vector   BLOB NOT NULL,                  -- float16, little-endian
    change   INTEGER NOT NULL,
    CHECK ((message IS NULL) <> (entry_id IS NULL))
) STRICT;

INSERT INTO vectors (scope, space_id, message, entry_id, vector, change)
SELECT s.number, v.space_id, m.number, CASE v.kind WHEN 'entry' THEN v.item_id END, half_floats(v.vector), v.change
  FROM vectors_5 AS v JOIN scopes AS s ON s.agent_id = v.agent_id AND s.resource_id = v.resource_id
  LEFT JOIN message_rows AS m ON v.kind = 'message' AND m.message_id = v.item_id AND m.scope = s.number
 WHERE v.kind = 'entry' OR m.number IS NOT NULL
 ORDER BY v.rowid;

CREATE TABLE events (                        -- what happened in a thread, newest last
    thread     INTEGER NOT NULL REFERENCES threads (number),
    position   INTEGER NOT NULL,
    name       TEXT NOT NULL,
    data       TEXT NOT NULL,                -- JSON object
    created_at INTEGER NOT NULL,
    PRIMARY KEY (thread, position)
) STRICT, WITHOUT ROWID;

INSERT INTO events (thread, position, name, data, created_at)
SELECT t.number, e.position, e.name, e.data, e.created_at FROM events_5 AS e JOIN threads AS t
    ON t.agent_id = e.agent_id AND t.resource_id = e.resource_id AND t.thread_id = e.thread_id;

-- {reason: {"entries": [id, …], "messages": [number, …]}, …}; the reason is empty for what was shown.
ALTER TABLE turns ADD COLUMN shown TEXT;

UPDATE turns AS t SET shown = json_object('', json_object(
    'entries', json((SELECT json_group_array(s.item_id) FROM shown AS s
        WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
          AND s.turn_id = t.turn_id AND s.kind = 'entry')),
    'messages', json((SELECT json_group_array(m.number)
         FROM shown AS s JOIN scopes AS c ON c.agent_id = s.agent_id AND c.resource_id = s.resource_id
         JOIN message_rows AS m ON m.message_id = s.item_id AND m.scope = c.number
        WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
          AND s.turn_id = t.turn_id AND s.kind = 'message'))))
 WHERE EXISTS (SELECT 1 FROM shown AS s
        WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
          AND s.turn_id = t.turn_id);

DROP TABLE shown;
DROP TABLE events_5;
DROP TABLE vectors_5;
DROP TABLE spaces_5;
DROP TABLE messages_5;
DROP TABLE threads_5;
DROP TABLE scopes_5;

CREATE INDEX hidden_messages ON message_rows (thread) WHERE hidden = 1;
CREATE INDEX threads_to_observe ON threads (agent_id, resource_id, thread_id) WHERE to_observe = 1;
CREATE INDEX threads_to_flush ON threads (flush_at) WHERE flush_at IS NOT NULL;
CREATE UNIQUE INDEX one_active_space ON spaces (active) WHERE active = 1;
CREATE UNIQUE INDEX message_vectors ON vectors (message, space_id) WHERE message IS NOT NULL;
CREATE UNIQUE INDEX entry_vectors ON vectors (entry_id, scope, space_id) WHERE entry_id IS NOT NULL;
CREATE INDEX vectors_by_change ON vectors (scope, space_id, change);
