-- What happens to entries after they were learned, in a way that can be told and taken back.

ALTER TABLE casenotes.entries DROP CONSTRAINT entries_status_check; -- what was taken out is `dropped`
ALTER TABLE casenotes.entries ADD CONSTRAINT entries_status_check
    CHECK (status IN ('active', 'superseded', 'quarantined', 'forgotten', 'dropped'));
ALTER TABLE casenotes.entries ADD COLUMN origin text NOT NULL DEFAULT 'learned'
    CHECK (origin IN ('learned', 'remembered', 'merged'));
ALTER TABLE casenotes.entries ADD COLUMN reflections_left integer NOT NULL DEFAULT 0; -- how often the reflector may still be asked

CREATE INDEX entries_by_id ON casenotes.entries (entry_id);
CREATE INDEX entries_to_reflect ON casenotes.entries (agent_id, resource_id) WHERE reflections_left > 0;
CREATE INDEX evidence_by_message ON casenotes.evidence (agent_id, resource_id, message_id);
CREATE INDEX receipts_by_entry ON casenotes.receipts (agent_id, resource_id, entry_id) WHERE entry_id IS NOT NULL;
CREATE INDEX shown_items ON casenotes.shown (agent_id, resource_id, kind, item_id);

ALTER TABLE casenotes.messages ADD COLUMN hidden boolean NOT NULL DEFAULT false; -- kept in the log, not found by recall

CREATE TABLE casenotes.revisions (                      -- one row for each item that a revision touched
    agent_id             text COLLATE "C" NOT NULL,
    resource_id          text COLLATE "C" NOT NULL,
    revision_id          text COLLATE "C" NOT NULL,
    kind                 text NOT NULL CHECK (kind IN ('entry', 'message')),
    item_id              text COLLATE "C" NOT NULL,
    action               text NOT NULL,                 -- superseded, merged, dropped, forgotten, released, added, …
    actor                text NOT NULL,                 -- who did it: reflector, user, audit, rebuild
    status_before        text,                          -- how to take it back
    valid_until_before   timestamptz,
    superseded_by_before text COLLATE "C",
    successor_id         text COLLATE "C",
    message_id           text COLLATE "C",              -- the words that state a change
    start                bigint,
    stop                 bigint,
    quote_hash           text,
    detail               text NOT NULL,
    created_at           timestamptz NOT NULL,
    undone_at            timestamptz,
    change               bigint NOT NULL,               -- the scope's change number: tells what came later
    PRIMARY KEY (agent_id, resource_id, revision_id, kind, item_id)
);

CREATE INDEX revisions_by_item ON casenotes.revisions (agent_id, resource_id, item_id);
CREATE INDEX conflicts ON casenotes.revisions (agent_id, resource_id) WHERE action = 'conflicting';
CREATE INDEX revisions_by_successor ON casenotes.revisions (agent_id, resource_id, successor_id)
    WHERE successor_id IS NOT NULL;

CREATE TABLE casenotes.erasures (count bigint NOT NULL); -- a scope made after an erasure has a later epoch
INSERT INTO casenotes.erasures (count) VALUES (0);

-- The planner keeps samples of column values in its own tables: of what people said it shall keep none.
ALTER TABLE casenotes.messages ALTER COLUMN text SET STATISTICS 0, ALTER COLUMN parts SET STATISTICS 0,
                               ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE casenotes.threads ALTER COLUMN title SET STATISTICS 0, ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE casenotes.turns ALTER COLUMN error SET STATISTICS 0;
ALTER TABLE casenotes.vectors ALTER COLUMN vector SET STATISTICS 0;
ALTER TABLE casenotes.entries ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE casenotes.receipts ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN quotes SET STATISTICS 0,
                               ALTER COLUMN detail SET STATISTICS 0;
ALTER TABLE casenotes.revisions ALTER COLUMN detail SET STATISTICS 0;
