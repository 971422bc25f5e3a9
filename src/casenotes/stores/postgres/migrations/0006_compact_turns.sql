-- What was found for a turn becomes one record of it, in place of a row and an index entry for each item:
-- {reason: {"entries": [id, …], "messages": [number, …]}, …}; the reason is empty for what was shown.

ALTER TABLE casenotes.messages ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX messages_by_number ON casenotes.messages (number);

ALTER TABLE casenotes.turns ADD COLUMN shown json;

UPDATE casenotes.turns AS t SET shown = json_build_object('', json_build_object(
    'entries', (SELECT coalesce(json_agg(s.item_id), '[]') FROM casenotes.shown AS s
        WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
          AND s.turn_id = t.turn_id AND s.kind = 'entry'),
    'messages', (SELECT coalesce(json_agg(m.number), '[]') FROM casenotes.shown AS s JOIN casenotes.messages AS m
            ON m.agent_id = s.agent_id AND m.resource_id = s.resource_id AND m.message_id = s.item_id
         WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
           AND s.turn_id = t.turn_id AND s.kind = 'message')))
 WHERE EXISTS (SELECT 1 FROM casenotes.shown AS s
        WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
          AND s.turn_id = t.turn_id);

ALTER TABLE casenotes.turns ALTER COLUMN shown SET STATISTICS 0;

DROP TABLE casenotes.shown;

-- 16 bits a number find the same; pgvector before 0.7 does not know them.
DO $$
BEGIN
    IF to_regtype('halfvec') IS NOT NULL THEN
        ALTER TABLE casenotes.vectors ALTER COLUMN vector TYPE halfvec USING vector::halfvec;
        ALTER TABLE casenotes.vectors ALTER COLUMN vector SET STATISTICS 0;
    END IF;
END $$;
