-- What is learned from finished turns, what became of every candidate, and who is working on what.

ALTER TABLE casenotes.messages ADD COLUMN turn_id text COLLATE "C";

ALTER TABLE casenotes.turns ADD COLUMN first_seq bigint NOT NULL DEFAULT 0; -- the turn's first message
ALTER TABLE casenotes.turns ADD COLUMN learning text CHECK (learning IN ('queued', 'done', 'dead'));
ALTER TABLE casenotes.turns ADD COLUMN attempts bigint NOT NULL DEFAULT 0;
ALTER TABLE casenotes.turns ADD COLUMN due_at timestamptz NOT NULL DEFAULT 'epoch'; -- not to be tried again before
ALTER TABLE casenotes.turns ADD COLUMN error text;

CREATE INDEX unlearned_turns ON casenotes.turns (agent_id, resource_id, thread_id, closed_at) WHERE learning = 'queued';
CREATE INDEX dead_turns ON casenotes.turns (agent_id, resource_id, thread_id) WHERE learning = 'dead';

CREATE TABLE casenotes.entries (
    agent_id        text COLLATE "C" NOT NULL,
    resource_id     text COLLATE "C" NOT NULL,
    entry_id        text COLLATE "C" NOT NULL,
    content         text NOT NULL,
    content_hash    text NOT NULL,              -- SHA-256 of the lower-cased, whitespace-collapsed content
    source          text NOT NULL,              -- who stands behind it: see docs/concepts/learning.md
    status          text NOT NULL CHECK (status IN ('active', 'superseded', 'quarantined', 'forgotten')),
    verified        boolean NOT NULL,
    thread_id       text COLLATE "C" NOT NULL,
    message_id      text COLLATE "C",                       -- the newest message it is quoted from
    metadata        text,                       -- JSON object
    created_at      timestamptz NOT NULL,           -- time of the newest evidence when it was learned
    last_seen_at    timestamptz NOT NULL,
    valid_until     timestamptz,
    superseded_by   text,
    change          bigint NOT NULL,
    PRIMARY KEY (agent_id, resource_id, entry_id)
);

CREATE UNIQUE INDEX one_active_entry ON casenotes.entries (agent_id, resource_id, content_hash) WHERE status = 'active';
CREATE INDEX entries_by_change ON casenotes.entries (agent_id, resource_id, change);

CREATE TABLE casenotes.evidence (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    entry_id    text COLLATE "C" NOT NULL,
    message_id  text COLLATE "C" NOT NULL,
    start       bigint NOT NULL,               -- in characters of the message's text
    stop        bigint NOT NULL,
    quote_hash  text NOT NULL,                  -- SHA-256; the words themselves stay in the message log
    PRIMARY KEY (agent_id, resource_id, entry_id, message_id, start, stop)
);

CREATE TABLE casenotes.receipts (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    turn_id     text COLLATE "C" NOT NULL,
    position    bigint NOT NULL,
    status      text NOT NULL,
    reason      text NOT NULL,
    detail      text NOT NULL,
    content     text NOT NULL,
    source      text NOT NULL,
    quotes      text NOT NULL,                  -- JSON array
    entry_id    text COLLATE "C",
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, turn_id, position)
);

CREATE INDEX receipts_by_time ON casenotes.receipts (agent_id, resource_id, created_at);

CREATE TABLE casenotes.shown (                            -- items that a thread's model has been shown
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    turn_id     text COLLATE "C" NOT NULL,                  -- the turn that it was shown in
    kind        text NOT NULL CHECK (kind IN ('entry', 'message')),
    item_id     text COLLATE "C" NOT NULL,
    PRIMARY KEY (agent_id, resource_id, thread_id, turn_id, kind, item_id)
);

CREATE TABLE casenotes.leases (
    agent_id    text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    thread_id   text COLLATE "C" NOT NULL,
    task        text COLLATE "C" NOT NULL,
    owner       text NOT NULL,
    fence       bigint NOT NULL,               -- grows with every holder: older ones cannot write any more
    expires_at  timestamptz NOT NULL,               -- by the server's clock
    PRIMARY KEY (agent_id, resource_id, thread_id, task)
);

CREATE TABLE casenotes.model_usage (
    agent_id      text COLLATE "C" NOT NULL,
    resource_id   text COLLATE "C" NOT NULL,
    day           text COLLATE "C" NOT NULL,                -- ISO date in UTC
    task          text COLLATE "C" NOT NULL,
    calls         bigint NOT NULL,
    input_tokens  bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cost          double precision NOT NULL,                -- US dollars, as far as prices are known
    PRIMARY KEY (agent_id, resource_id, day, task)
);
