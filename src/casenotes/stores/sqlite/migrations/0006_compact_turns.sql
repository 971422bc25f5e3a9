-- What was found for a turn becomes one record of it, in place of a row and an index entry for each item:
-- {reason: {"entries": [id, …], "messages": {thread: [number, …], …}}, …}; the reason is empty for what was shown.

ALTER TABLE turns ADD COLUMN shown TEXT;

UPDATE turns AS t SET shown = json_object('', json_object(
    'entries', json((SELECT json_group_array(s.item_id) FROM shown AS s
        WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
          AND s.turn_id = t.turn_id AND s.kind = 'entry')),
    'messages', json((SELECT json_group_object(p.thread_id, json(p.numbers)) FROM (
        SELECT m.thread_id, json_group_array(m.seq) AS numbers FROM shown AS s JOIN messages AS m
            ON m.agent_id = s.agent_id AND m.resource_id = s.resource_id AND m.message_id = s.item_id
         WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
           AND s.turn_id = t.turn_id AND s.kind = 'message'
         GROUP BY m.thread_id) AS p))))
 WHERE EXISTS (SELECT 1 FROM shown AS s
        WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id AND s.thread_id = t.thread_id
          AND s.turn_id = t.turn_id);

DROP TABLE shown;

UPDATE vectors SET vector = half_floats(vector); -- 16 bits a number find the same
