-- What layers keep for themselves, run summaries, the history of events, and which layers have yet to learn from a turn.

CREATE TABLE casenotes.layer_states (                      -- one row a version; the newest holds
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,                   -- empty: the state of the whole resource
    layer       text COLLATE "C" NOT NULL,
    version     bigint NOT NULL,
    value       text NOT NULL,                   -- JSON object; what stems from one thread is in `items` with its thread_id
    author      text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, layer, version)
);

CREATE TABLE casenotes.episodes (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    episode_id  text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    summary     text NOT NULL,
    outcome     text NOT NULL,
    token_count bigint NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (agent_id, resource_id, episode_id)
);

CREATE INDEX episodes_by_time ON casenotes.episodes (agent_id, created_at);

CREATE TABLE casenotes.events (                            -- what happened in a thread, newest last
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    position    bigint GENERATED ALWAYS AS IDENTITY,
    name        text NOT NULL,
    data        text NOT NULL,                   -- JSON object
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, position)
);

CREATE INDEX hidden_messages ON casenotes.messages (agent_id, resource_id, thread_id) WHERE hidden;

ALTER TABLE casenotes.threads ADD COLUMN parent_id text COLLATE "C"; -- of a sub-agent's thread: the conversation that it works for
ALTER TABLE casenotes.threads ADD COLUMN apart boolean NOT NULL DEFAULT false; -- all of its messages are hidden, for good
ALTER TABLE casenotes.threads ADD COLUMN run_seq bigint NOT NULL DEFAULT 0; -- the last message of its last finished run

ALTER TABLE casenotes.turns ADD COLUMN pending text;       -- layers that have not learned from it yet, between commas
UPDATE casenotes.turns SET pending = ',memory,' WHERE learning IN ('queued', 'dead');
UPDATE casenotes.turns SET pending = ',' WHERE learning = 'done';

ALTER TABLE casenotes.layer_states ALTER COLUMN value SET STATISTICS 0, ALTER COLUMN author SET STATISTICS 0;
ALTER TABLE casenotes.episodes ALTER COLUMN summary SET STATISTICS 0;
ALTER TABLE casenotes.events ALTER COLUMN data SET STATISTICS 0;
