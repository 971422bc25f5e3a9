-- Every statement of the SQLite store. Each names its scope; values are always bound.

-- name: thread_state
-- Where an append starts: the thread's last sequence number and the scope's change number.
SELECT (SELECT last_seq FROM threads WHERE agent_id = ? AND resource_id = ? AND thread_id = ?),
       (SELECT change FROM scopes WHERE agent_id = ? AND resource_id = ?)

-- name: insert_message
-- Parameters by position here and in the next two: they run once a message or a thread.
INSERT INTO messages (agent_id, resource_id, thread_id, message_id, seq, role, text, parts, metadata,
                      created_at, change)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (message_id, agent_id, resource_id) DO NOTHING

-- name: advance_thread
INSERT INTO threads (agent_id, resource_id, thread_id, last_seq, last_change, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET last_seq = excluded.last_seq,
                          last_change = excluded.last_change,
                          created_at = min(created_at, excluded.created_at),
                          updated_at = max(updated_at, excluded.updated_at)

-- name: advance_scope
INSERT INTO scopes (agent_id, resource_id, change) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET change = excluded.change

-- name: next_change
INSERT INTO scopes (agent_id, resource_id, change) VALUES (:agent, :resource, 1)
ON CONFLICT DO UPDATE SET change = change + 1
RETURNING change

-- name: abandon_open_turns
UPDATE turns SET status = 'abandoned', closed_at = :at
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
   AND status = 'open' AND turn_id <> :turn

-- name: open_turn
INSERT INTO turns (agent_id, resource_id, thread_id, turn_id, status, opened_at)
VALUES (:agent, :resource, :thread, :turn, 'open', :at)
ON CONFLICT DO NOTHING

-- name: close_turn
UPDATE turns SET status = :status, closed_at = :at
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn

-- name: history_before
SELECT * FROM (
    SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM messages
     WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND seq < :before
     ORDER BY seq DESC LIMIT :limit)
ORDER BY seq

-- name: history_after
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM messages
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND seq > :after
 ORDER BY seq LIMIT :limit

-- name: messages_by_id
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM messages
 WHERE agent_id = :agent AND resource_id = :resource
   AND message_id IN (SELECT value FROM json_each(:ids))

-- name: threads
SELECT thread_id, title, metadata,
       (SELECT count(*) FROM messages AS m
         WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = t.thread_id),
       created_at, updated_at
  FROM threads AS t
 WHERE agent_id = :agent AND resource_id = :resource
 ORDER BY created_at, thread_id

-- name: update_thread
UPDATE threads SET title = coalesce(:title, title), metadata = coalesce(:metadata, metadata)
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: freshness
SELECT epoch, change FROM scopes WHERE agent_id = :agent AND resource_id = :resource

-- name: all_messages
SELECT rowid, message_id, thread_id, created_at, role, text, parts FROM messages
 WHERE agent_id = :agent AND resource_id = :resource

-- name: changed_threads
SELECT thread_id FROM threads
 WHERE agent_id = :agent AND resource_id = :resource AND last_change > :after

-- name: newest_first
-- Read row by row and left off at the first change number that is known.
SELECT change, rowid, message_id, thread_id, created_at, role, text, parts FROM messages
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
 ORDER BY seq DESC

-- name: changed_vectors
SELECT kind, item_id, vector FROM vectors
 WHERE agent_id = :agent AND resource_id = :resource AND space_id = :space AND change > :after
 ORDER BY change, rowid

-- name: spaces
SELECT space_id, model, dimensions, normalised, active FROM spaces ORDER BY space_id

-- name: insert_space
INSERT INTO spaces (space_id, model, dimensions, normalised, active)
VALUES (:space, :model, :dimensions, :normalised, :active)

-- name: deactivate_spaces
UPDATE spaces SET active = 0 WHERE active = 1

-- name: activate_space
UPDATE spaces SET active = 1 WHERE space_id = :space

-- name: renew_scopes
-- All indexes in memory, in any process, are to be built anew.
UPDATE scopes SET epoch = epoch + 1

-- name: drop_vectors
DELETE FROM vectors WHERE rowid IN (
    SELECT v.rowid FROM vectors AS v JOIN spaces AS s ON s.space_id = v.space_id AND s.active = 0
     WHERE v.agent_id = :agent AND v.resource_id = :resource AND v.space_id = :space LIMIT :limit)

-- name: drop_vectors_of_space
DELETE FROM vectors
 WHERE space_id = (SELECT space_id FROM spaces WHERE space_id = :space AND active = 0)

-- name: drop_space
DELETE FROM spaces WHERE space_id = :space AND active = 0

-- name: put_message_vector
-- Only for a message and a space that exist: a slow embedder must not bring back what was removed.
INSERT INTO vectors (agent_id, resource_id, space_id, kind, item_id, vector, change)
SELECT :agent, :resource, s.space_id, 'message', m.message_id, :vector, :change
  FROM messages AS m JOIN spaces AS s ON s.space_id = :space
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.message_id = :id
ON CONFLICT (agent_id, resource_id, space_id, kind, item_id)
DO UPDATE SET vector = excluded.vector, change = excluded.change

-- name: unembedded
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM messages AS m
 WHERE agent_id = :agent AND resource_id = :resource
   AND (trim(text) <> '' OR parts IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM vectors AS v
                    WHERE v.agent_id = :agent AND v.resource_id = :resource AND v.space_id = :space
                      AND v.kind = 'message' AND v.item_id = m.message_id)
   AND (thread_id, seq) > (:after_thread, :after_seq)
 ORDER BY thread_id, seq LIMIT :limit

-- name: scopes
SELECT agent_id, resource_id, count(DISTINCT thread_id), count(*) FROM messages
 GROUP BY agent_id, resource_id ORDER BY agent_id, resource_id

-- name: stats
SELECT (SELECT count(*) FROM scopes), (SELECT count(*) FROM threads), (SELECT count(*) FROM messages),
       (SELECT count(*) FROM vectors), (SELECT count(*) FROM turns WHERE status = 'open')

-- name: broken_threads
-- Threads that would give out a sequence number twice.
SELECT count(*) FROM threads AS t
 WHERE last_seq < (SELECT max(seq) FROM messages AS m
                    WHERE m.agent_id = t.agent_id AND m.resource_id = t.resource_id
                      AND m.thread_id = t.thread_id)

-- name: broken_vectors
-- Vectors of the wrong size, or of messages that do not exist.
SELECT count(*) FROM vectors AS v JOIN spaces AS s ON s.space_id = v.space_id
 WHERE length(v.vector) <> 4 * s.dimensions
    OR (v.kind = 'message' AND NOT EXISTS (
        SELECT 1 FROM messages AS m
         WHERE m.agent_id = v.agent_id AND m.resource_id = v.resource_id AND m.message_id = v.item_id))
