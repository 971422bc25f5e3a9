-- Every statement of the PostgreSQL store. Each names its scope; values are always bound.

-- name: enter_scope
-- Tells row-level security, where it is switched on, whose rows this transaction may see.
SELECT set_config('casenotes.agent_id', %(agent)s, true),
       set_config('casenotes.resource_id', %(resource)s, true)

-- name: next_change
-- Also locks the scope until commit, so that change numbers become visible in order.
INSERT INTO casenotes.scopes AS s (agent_id, resource_id, change) VALUES (%(agent)s, %(resource)s, 1)
ON CONFLICT (agent_id, resource_id) DO UPDATE SET change = s.change + 1
RETURNING change

-- name: last_seq
SELECT last_seq FROM casenotes.threads
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: insert_message
INSERT INTO casenotes.messages (agent_id, resource_id, message_id, thread_id, seq, role, text, parts,
                                metadata, created_at, change)
VALUES (%(agent)s, %(resource)s, %(id)s, %(thread)s, %(seq)s, %(role)s, %(text)s, %(parts)s,
        %(metadata)s, %(created_at)s, %(change)s)

-- name: advance_thread
INSERT INTO casenotes.threads AS t (agent_id, resource_id, thread_id, last_seq, created_at, updated_at)
VALUES (%(agent)s, %(resource)s, %(thread)s, %(last_seq)s, %(first_at)s, %(last_at)s)
ON CONFLICT (agent_id, resource_id, thread_id)
DO UPDATE SET last_seq = excluded.last_seq,
              created_at = least(t.created_at, excluded.created_at),
              updated_at = greatest(t.updated_at, excluded.updated_at)

-- name: abandon_open_turns
UPDATE casenotes.turns SET status = 'abandoned', closed_at = %(at)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND status = 'open' AND turn_id <> %(turn)s

-- name: open_turn
INSERT INTO casenotes.turns (agent_id, resource_id, thread_id, turn_id, status, opened_at)
VALUES (%(agent)s, %(resource)s, %(thread)s, %(turn)s, 'open', %(at)s)
ON CONFLICT DO NOTHING

-- name: close_turn
UPDATE casenotes.turns SET status = %(status)s, closed_at = %(at)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND turn_id = %(turn)s

-- name: history_before
SELECT * FROM (
    SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM casenotes.messages
     WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
       AND seq < %(before)s
     ORDER BY seq DESC LIMIT %(limit)s) AS newest
ORDER BY seq

-- name: history_after
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM casenotes.messages
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND seq > %(after)s
 ORDER BY seq LIMIT %(limit)s

-- name: messages_by_id
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM casenotes.messages
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND message_id = ANY(%(ids)s)

-- name: threads
SELECT thread_id, title, metadata,
       (SELECT count(*) FROM casenotes.messages AS m
         WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = t.thread_id),
       created_at, updated_at
  FROM casenotes.threads AS t
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s
 ORDER BY created_at, thread_id

-- name: update_thread
UPDATE casenotes.threads
   SET title = coalesce(%(title)s, title), metadata = coalesce(%(metadata)s, metadata)
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: freshness
SELECT epoch, change FROM casenotes.scopes WHERE agent_id = %(agent)s AND resource_id = %(resource)s

-- name: changed_messages
SELECT message_id, thread_id, created_at, role, text, parts FROM casenotes.messages
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND change > %(after)s
 ORDER BY change, thread_id, seq

-- name: changed_vectors
SELECT kind, item_id, vector FROM casenotes.vectors
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND space_id = %(space)s
   AND change > %(after)s
 ORDER BY change, item_id

-- name: lock_spaces
LOCK TABLE casenotes.spaces IN SHARE ROW EXCLUSIVE MODE

-- name: spaces
SELECT space_id, model, dimensions, normalised, active FROM casenotes.spaces ORDER BY space_id

-- name: insert_space
INSERT INTO casenotes.spaces (model, dimensions, normalised, active)
VALUES (%(model)s, %(dimensions)s, %(normalised)s, %(active)s)

-- name: deactivate_spaces
UPDATE casenotes.spaces SET active = false WHERE active

-- name: activate_space
UPDATE casenotes.spaces SET active = true WHERE space_id = %(space)s

-- name: renew_scopes
-- All indexes in memory, in any process, are to be built anew.
UPDATE casenotes.scopes SET epoch = epoch + 1

-- name: drop_vectors
DELETE FROM casenotes.vectors
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND space_id = %(space)s
   AND (kind, item_id) IN (
       SELECT v.kind, v.item_id FROM casenotes.vectors AS v
         JOIN casenotes.spaces AS s ON s.space_id = v.space_id AND NOT s.active
        WHERE v.agent_id = %(agent)s AND v.resource_id = %(resource)s AND v.space_id = %(space)s
        LIMIT %(limit)s)

-- name: hold_space
-- Writers of this space wait, and then find it gone.
SELECT 1 FROM casenotes.spaces WHERE space_id = %(space)s FOR UPDATE

-- name: sees_one_scope
SELECT row_security_active('casenotes.messages')

-- name: drop_vectors_of_space
DELETE FROM casenotes.vectors
 WHERE space_id = (SELECT space_id FROM casenotes.spaces WHERE space_id = %(space)s AND NOT active)

-- name: drop_space
DELETE FROM casenotes.spaces WHERE space_id = %(space)s AND NOT active

-- name: put_message_vector
-- Only for a message and a space that exist: a slow embedder must not bring back what was removed.
INSERT INTO casenotes.vectors (agent_id, resource_id, space_id, kind, item_id, vector, change)
SELECT %(agent)s, %(resource)s, s.space_id, 'message', m.message_id, %(vector)s, %(change)s
  FROM casenotes.messages AS m JOIN casenotes.spaces AS s ON s.space_id = %(space)s
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.message_id = %(id)s
   FOR KEY SHARE OF s
ON CONFLICT (agent_id, resource_id, space_id, kind, item_id)
DO UPDATE SET vector = excluded.vector, change = excluded.change

-- name: unembedded
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at
  FROM casenotes.messages AS m
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s
   AND (trim(text) <> '' OR parts IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM casenotes.vectors AS v
                    WHERE v.agent_id = %(agent)s AND v.resource_id = %(resource)s
                      AND v.space_id = %(space)s AND v.kind = 'message' AND v.item_id = m.message_id)
   AND (thread_id, seq) > (%(after_thread)s, %(after_seq)s)
 ORDER BY thread_id, seq LIMIT %(limit)s

-- name: scopes
SELECT agent_id, resource_id, count(DISTINCT thread_id), count(*) FROM casenotes.messages
 GROUP BY agent_id, resource_id ORDER BY agent_id, resource_id

-- name: stats
SELECT (SELECT count(*) FROM casenotes.scopes), (SELECT count(*) FROM casenotes.threads),
       (SELECT count(*) FROM casenotes.messages), (SELECT count(*) FROM casenotes.vectors),
       (SELECT count(*) FROM casenotes.turns WHERE status = 'open'),
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE n.nspname = 'casenotes' AND c.relkind = 'r')

-- name: server_facts
SELECT current_setting('server_version'), current_setting('fsync'),
       current_setting('synchronous_commit'),
       (SELECT extversion FROM pg_extension WHERE extname = 'vector')

-- name: broken_threads
-- Threads that would give out a sequence number twice.
SELECT count(*) FROM casenotes.threads AS t
 WHERE last_seq < (SELECT max(seq) FROM casenotes.messages AS m
                    WHERE m.agent_id = t.agent_id AND m.resource_id = t.resource_id
                      AND m.thread_id = t.thread_id)

-- name: broken_vectors
-- Vectors of the wrong size, or of messages that do not exist.
SELECT count(*) FROM casenotes.vectors AS v JOIN casenotes.spaces AS s ON s.space_id = v.space_id
 WHERE vector_dims(v.vector) <> s.dimensions
    OR (v.kind = 'message' AND NOT EXISTS (
        SELECT 1 FROM casenotes.messages AS m
         WHERE m.agent_id = v.agent_id AND m.resource_id = v.resource_id
           AND m.message_id = v.item_id))
