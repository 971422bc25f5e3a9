-- Session memory: what the Observer and the Reflector have made of long threads, and how far they have come.

ALTER TABLE casenotes.messages ADD COLUMN tokens bigint;    -- what it takes of a prompt; NULL for older ones

ALTER TABLE casenotes.threads ADD COLUMN tokens bigint NOT NULL DEFAULT 0;  -- of all its messages
ALTER TABLE casenotes.threads ADD COLUMN observe_at bigint; -- how many tokens make the next observation due; NULL: nobody observes it
ALTER TABLE casenotes.threads ADD COLUMN to_observe boolean NOT NULL DEFAULT false; -- whether it has come so far
ALTER TABLE casenotes.threads ADD COLUMN flush_at timestamptz;   -- when the rest is to be observed, if nobody speaks before

UPDATE casenotes.threads AS t SET tokens = (
    SELECT coalesce(sum(4 + (length(m.text) + coalesce(length(m.parts), 0)) / 4), 0) FROM casenotes.messages AS m
     WHERE m.agent_id = t.agent_id AND m.resource_id = t.resource_id AND m.thread_id = t.thread_id);

CREATE INDEX threads_to_observe ON casenotes.threads (agent_id, resource_id, thread_id) WHERE to_observe;
CREATE INDEX threads_to_flush ON casenotes.threads (flush_at) WHERE flush_at IS NOT NULL;

CREATE TABLE casenotes.observing (                         -- one row for each thread that is observed
    agent_id        text COLLATE "C" NOT NULL,
    resource_id     text COLLATE "C" NOT NULL,
    thread_id       text COLLATE "C" NOT NULL,
    observed_seq    bigint NOT NULL DEFAULT 0,  -- the cursor: everything up to here was observed
    observed_tokens bigint NOT NULL DEFAULT 0,  -- of the messages up to it
    active_seq      bigint NOT NULL DEFAULT 0,  -- up to here observations stand in place of messages
    active_tokens   bigint NOT NULL DEFAULT 0,  -- of the messages up to it
    window_seq      bigint NOT NULL DEFAULT 0,  -- the messages after this one are shown
    asked_first     bigint NOT NULL DEFAULT 0,  -- and these before it: what the turn under way was asked
    asked_last      bigint NOT NULL DEFAULT 0,
    log_tokens      bigint NOT NULL DEFAULT 0,  -- of the active observations
    ready_tokens    bigint NOT NULL DEFAULT 0,  -- of those that wait
    version         bigint NOT NULL DEFAULT 0,  -- grows whenever the active observations change
    reflecting      boolean NOT NULL DEFAULT false,  -- whether condensed rows wait for the next activation
    reflect_at      bigint NOT NULL DEFAULT 0,  -- tokens of observations that make the next reflection due, if more than the setting
    reflected       text NOT NULL DEFAULT '',    -- what was reflected on last, by its hash
    session         text NOT NULL DEFAULT '{}',  -- JSON object: where the conversation stands
    session_seq     bigint NOT NULL DEFAULT 0,  -- the last message that it knows of
    session_change  bigint NOT NULL DEFAULT 0,  -- the scope's change number when those messages were read
    provider        text NOT NULL DEFAULT '',    -- who was asked last: another one has no prompt in its cache
    attempts        bigint NOT NULL DEFAULT 0,  -- failures in a row
    due_at          timestamptz NOT NULL DEFAULT 'epoch',  -- not to be tried again before
    error           text,
    dead            boolean NOT NULL DEFAULT false,  -- given up, until an operator or new messages ask for it
    usage_day       text NOT NULL DEFAULT '',    -- ISO date in UTC, with the calls and tokens of that day
    usage_calls     bigint NOT NULL DEFAULT 0,
    usage_tokens    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_id, resource_id, thread_id)
);

CREATE INDEX dead_observing ON casenotes.observing (agent_id, resource_id, thread_id) WHERE dead;

CREATE TABLE casenotes.observation_batches (               -- every run of the Observer, also one that found nothing to say
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    last_seq    bigint NOT NULL,
    first_seq   bigint NOT NULL,
    tokens      bigint NOT NULL,                -- of the messages
    row_count   bigint NOT NULL,
    outcome     text NOT NULL CHECK (outcome IN ('observed', 'empty', 'refused')),
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, last_seq)
);

CREATE TABLE casenotes.observations (
    agent_id       text COLLATE "C" NOT NULL,
    resource_id    text COLLATE "C" NOT NULL,
    thread_id      text COLLATE "C" NOT NULL,
    observation_id text COLLATE "C" NOT NULL,
    position       bigint NOT NULL,             -- where it stands in the log
    priority       text NOT NULL CHECK (priority IN ('critical', 'important', 'info', 'completion')),
    happened_at    timestamptz NOT NULL,
    until_at       timestamptz,                      -- where it tells of more than a moment
    dates          text NOT NULL,                -- JSON array of ISO dates that the text speaks of
    text           text NOT NULL,
    parent_id      text COLLATE "C",
    first_seq      bigint NOT NULL,             -- the messages that it covers: from, to,
    last_seq       bigint NOT NULL,
    covers         text NOT NULL,                -- and all ranges of them as a JSON array
    status         text NOT NULL CHECK (status IN ('ready', 'active', 'superseded', 'dropped', 'quarantined')),
    supersedes     text NOT NULL,                -- JSON array of the rows that it stands for
    successor_id   text COLLATE "C",                         -- the row that takes its place; empty if it is dropped
    tokens         bigint NOT NULL,
    seen_change    bigint NOT NULL,             -- the scope's change number when the messages were read
    created_at     timestamptz NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, observation_id)
);

CREATE INDEX observations_by_status ON casenotes.observations (agent_id, resource_id, thread_id, status, position);

ALTER TABLE casenotes.observing ALTER COLUMN session SET STATISTICS 0, ALTER COLUMN error SET STATISTICS 0;
ALTER TABLE casenotes.observations ALTER COLUMN text SET STATISTICS 0;
