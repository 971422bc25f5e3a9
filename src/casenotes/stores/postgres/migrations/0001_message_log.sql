-- The message log and what search derives from it. Agent and resource lead every key: no statement
-- reaches a row without naming its scope. Ids compare by bytes (collation C), as in SQLite.

CREATE TABLE casenotes.scopes (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,              -- '' where there is no resource
    change      bigint NOT NULL DEFAULT 0,              -- grows with every commit that search must see
    epoch       bigint NOT NULL DEFAULT 0,              -- grows when something was removed
    PRIMARY KEY (agent_id, resource_id)
);

CREATE TABLE casenotes.threads (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    title       text,
    metadata    text,                                   -- JSON object
    last_seq    bigint NOT NULL DEFAULT 0,              -- sequence numbers start at 1 and have no gaps
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id)
);

CREATE TABLE casenotes.messages (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    message_id  text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    seq         bigint NOT NULL,
    role        text NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    text        text NOT NULL,
    parts       text,                                   -- JSON array of tool calls and results
    metadata    text,                                   -- JSON object
    created_at  timestamptz NOT NULL,
    change      bigint NOT NULL,
    PRIMARY KEY (agent_id, resource_id, message_id),
    UNIQUE (agent_id, resource_id, thread_id, seq)
);

CREATE INDEX messages_by_change ON casenotes.messages (agent_id, resource_id, change);

CREATE TABLE casenotes.turns (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    turn_id     text COLLATE "C" NOT NULL,
    status      text NOT NULL CHECK (status IN ('open', 'success', 'failure', 'aborted', 'abandoned')),
    opened_at   timestamptz NOT NULL,
    closed_at   timestamptz,
    PRIMARY KEY (agent_id, resource_id, thread_id, turn_id)
);

CREATE INDEX open_turns ON casenotes.turns (agent_id, resource_id, thread_id) WHERE status = 'open';

CREATE TABLE casenotes.spaces (
    space_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model      text NOT NULL,
    dimensions integer NOT NULL,
    normalised boolean NOT NULL,
    active     boolean NOT NULL,
    UNIQUE (model, dimensions, normalised)
);

CREATE UNIQUE INDEX one_active_space ON casenotes.spaces (active) WHERE active;

CREATE TABLE casenotes.vectors (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    space_id    bigint NOT NULL REFERENCES casenotes.spaces (space_id),
    kind        text NOT NULL CHECK (kind IN ('entry', 'message')),
    item_id     text COLLATE "C" NOT NULL,
    vector      vector NOT NULL,
    change      bigint NOT NULL,
    PRIMARY KEY (agent_id, resource_id, space_id, kind, item_id)
);

CREATE INDEX vectors_by_change ON casenotes.vectors (agent_id, resource_id, space_id, change);
