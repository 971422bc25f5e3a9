-- Every statement of the SQLite store. Each names its scope; values are always bound.

-- name: thread_state
-- Where an append starts: the thread's last sequence number and the scope's change number.
SELECT (SELECT last_seq FROM threads WHERE agent_id = ? AND resource_id = ? AND thread_id = ?),
       (SELECT change FROM scopes WHERE agent_id = ? AND resource_id = ?)

-- name: insert_message
-- Parameters by position here and in the next two: they run once a message or a thread.
INSERT INTO messages (agent_id, resource_id, thread_id, message_id, seq, role, text, parts, metadata,
                      created_at, change, turn_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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
INSERT INTO turns (agent_id, resource_id, thread_id, turn_id, status, opened_at, first_seq)
VALUES (:agent, :resource, :thread, :turn, 'open', :at, :first_seq)
ON CONFLICT DO NOTHING

-- name: close_turn
UPDATE turns SET status = :status, closed_at = :at,
                 learning = CASE WHEN :learn THEN coalesce(learning, 'queued')
                                 WHEN learning <> 'queued' THEN learning END
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn

-- name: claim_message
-- A message that is said again, because its turn failed or it was saved before any turn, belongs to the new one.
UPDATE messages SET turn_id = :turn
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND message_id = :id
   AND (turn_id IS NULL OR turn_id IN (
        SELECT t.turn_id FROM turns AS t
         WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread
           AND t.status <> 'success'))

-- name: put_shown
INSERT INTO shown (agent_id, resource_id, thread_id, kind, item_id, turn_id)
VALUES (:agent, :resource, :thread, :kind, :id, :turn)
ON CONFLICT DO NOTHING

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

-- name: changed_entries
SELECT entry_id, thread_id, created_at, source, content FROM entries
 WHERE agent_id = :agent AND resource_id = :resource AND change > :after AND status = 'active'
 ORDER BY change, entry_id

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

-- name: put_entry_vector
INSERT INTO vectors (agent_id, resource_id, space_id, kind, item_id, vector, change)
SELECT :agent, :resource, s.space_id, 'entry', e.entry_id, :vector, :change
  FROM entries AS e JOIN spaces AS s ON s.space_id = :space
 WHERE e.agent_id = :agent AND e.resource_id = :resource AND e.entry_id = :id
ON CONFLICT (agent_id, resource_id, space_id, kind, item_id)
DO UPDATE SET vector = excluded.vector, change = excluded.change

-- name: unembedded_entries
SELECT entry_id, content FROM entries AS e
 WHERE agent_id = :agent AND resource_id = :resource AND status <> 'forgotten'
   AND NOT EXISTS (SELECT 1 FROM vectors AS v
                    WHERE v.agent_id = :agent AND v.resource_id = :resource AND v.space_id = :space
                      AND v.kind = 'entry' AND v.item_id = e.entry_id)
   AND entry_id > :after_entry
 ORDER BY entry_id LIMIT :limit

-- name: unembedded
SELECT message_id, thread_id, seq, role, text, parts FROM messages AS m
 WHERE agent_id = :agent AND resource_id = :resource
   AND (trim(text) <> '' OR parts IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM vectors AS v
                    WHERE v.agent_id = :agent AND v.resource_id = :resource AND v.space_id = :space
                      AND v.kind = 'message' AND v.item_id = m.message_id)
   AND (thread_id, seq) > (:after_thread, :after_seq)
 ORDER BY thread_id, seq LIMIT :limit

-- name: scopes
SELECT agent_id, resource_id, count(DISTINCT thread_id), count(*),
       (SELECT count(*) FROM entries AS e
         WHERE e.agent_id = m.agent_id AND e.resource_id = m.resource_id AND e.status <> 'forgotten')
  FROM messages AS m GROUP BY agent_id, resource_id ORDER BY agent_id, resource_id

-- name: stats
SELECT (SELECT count(*) FROM scopes), (SELECT count(*) FROM threads), (SELECT count(*) FROM messages),
       (SELECT count(*) FROM vectors), (SELECT count(*) FROM turns WHERE status = 'open'),
       (SELECT count(*) FROM entries WHERE status = 'active'),
       (SELECT count(*) FROM turns WHERE learning = 'queued'),
       (SELECT count(*) FROM turns WHERE learning = 'dead')

-- name: broken_threads
-- Threads that would give out a sequence number twice.
SELECT count(*) FROM threads AS t
 WHERE last_seq < (SELECT max(seq) FROM messages AS m
                    WHERE m.agent_id = t.agent_id AND m.resource_id = t.resource_id
                      AND m.thread_id = t.thread_id)

-- name: broken_vectors
-- Vectors of the wrong size, or of items that do not exist.
SELECT count(*) FROM vectors AS v JOIN spaces AS s ON s.space_id = v.space_id
 WHERE length(v.vector) <> 4 * s.dimensions
    OR (v.kind = 'message' AND NOT EXISTS (
        SELECT 1 FROM messages AS m
         WHERE m.agent_id = v.agent_id AND m.resource_id = v.resource_id AND m.message_id = v.item_id))
    OR (v.kind = 'entry' AND NOT EXISTS (
        SELECT 1 FROM entries AS e
         WHERE e.agent_id = v.agent_id AND e.resource_id = v.resource_id AND e.entry_id = v.item_id))

-- name: broken_entries
-- Verified entries whose evidence is gone.
SELECT count(*) FROM entries AS e
 WHERE verified = 1 AND status = 'active' AND NOT EXISTS (
     SELECT 1 FROM evidence AS q JOIN messages AS m
         ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
      WHERE q.agent_id = e.agent_id AND q.resource_id = e.resource_id AND q.entry_id = e.entry_id)

-- name: entries_by_id
SELECT entry_id, content, source, status, verified, thread_id, message_id, created_at, last_seen_at FROM entries
 WHERE agent_id = :agent AND resource_id = :resource
   AND entry_id IN (SELECT value FROM json_each(:ids))

-- name: evidence_of
-- The words come from the message log; positions count characters from 0.
SELECT q.entry_id, q.message_id, q.start, q.stop, substr(m.text, q.start + 1, q.stop - q.start)
  FROM evidence AS q JOIN messages AS m
    ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
 WHERE q.agent_id = :agent AND q.resource_id = :resource
   AND q.entry_id IN (SELECT value FROM json_each(:ids))
 ORDER BY m.created_at, m.thread_id, m.seq, q.start

-- name: active_by_hash
SELECT content_hash, entry_id FROM entries
 WHERE agent_id = :agent AND resource_id = :resource AND status = 'active'
   AND content_hash IN (SELECT value FROM json_each(:hashes))

-- name: forgotten_sources
-- Which text was forgotten, and which messages it had been learned from.
SELECT e.content_hash, q.message_id FROM entries AS e JOIN evidence AS q
    ON q.agent_id = e.agent_id AND q.resource_id = e.resource_id AND q.entry_id = e.entry_id
 WHERE e.agent_id = :agent AND e.resource_id = :resource AND e.status = 'forgotten'
   AND e.content_hash IN (SELECT value FROM json_each(:hashes))

-- name: entries_change
-- The change number of the newest entry.
SELECT coalesce(max(change), 0) FROM entries WHERE agent_id = :agent AND resource_id = :resource

-- name: insert_entry
INSERT INTO entries (agent_id, resource_id, entry_id, content, content_hash, source, status, verified,
                     thread_id, message_id, created_at, last_seen_at, change)
VALUES (:agent, :resource, :id, :content, :hash, :source, 'active', :verified,
        :thread, :message, :created_at, :created_at, :change)

-- name: insert_evidence
INSERT INTO evidence (agent_id, resource_id, entry_id, message_id, start, stop, quote_hash)
VALUES (:agent, :resource, :entry, :message, :start, :stop, :hash)
ON CONFLICT DO NOTHING

-- name: see_entry_again
UPDATE entries SET last_seen_at = max(last_seen_at, :seen_at), verified = max(verified, :verified)
 WHERE agent_id = :agent AND resource_id = :resource AND entry_id = :entry

-- name: insert_receipt
INSERT INTO receipts (agent_id, resource_id, thread_id, turn_id, position, status, reason, detail,
                      content, source, quotes, entry_id, created_at)
VALUES (:agent, :resource, :thread, :turn, :position, :status, :reason, :detail,
        :content, :source, :quotes, :entry, :at)

-- name: shown
SELECT kind, item_id, turn_id FROM shown
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: receipts
SELECT status, content, source, reason, detail, quotes, entry_id FROM receipts
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn
 ORDER BY position

-- name: ledger
SELECT thread_id, turn_id, created_at, status, content, source, reason, detail, quotes, entry_id FROM receipts
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
   AND (:status IS NULL OR status = :status)
 ORDER BY created_at DESC, thread_id, turn_id DESC, position LIMIT :limit

-- name: acquire_lease
INSERT INTO leases AS l (agent_id, resource_id, thread_id, task, owner, fence, expires_at)
VALUES (:agent, :resource, :thread, :task, :owner, 1, :expires_at)
ON CONFLICT DO UPDATE SET owner = excluded.owner, fence = l.fence + 1, expires_at = excluded.expires_at
    WHERE l.expires_at <= :now
RETURNING fence

-- name: renew_lease
UPDATE leases SET expires_at = :expires_at
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND task = :task
   AND owner = :owner AND fence = :fence

-- name: holds_lease
SELECT 1 FROM leases
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND task = :task
   AND owner = :owner AND fence = :fence

-- name: queued_turns
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at FROM turns
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
   AND learning = 'queued'
 ORDER BY closed_at, first_seq, turn_id

-- name: due_threads
SELECT t.agent_id, t.resource_id, t.thread_id FROM turns AS t
 WHERE t.learning = 'queued' AND t.due_at <= :now
   AND NOT EXISTS (SELECT 1 FROM leases AS l
                    WHERE l.agent_id = t.agent_id AND l.resource_id = t.resource_id
                      AND l.thread_id = t.thread_id AND l.task = 'extract' AND l.expires_at > :clock)
 GROUP BY t.agent_id, t.resource_id, t.thread_id ORDER BY min(t.closed_at) LIMIT :limit

-- name: dead_turns
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at FROM turns
 WHERE learning = 'dead' ORDER BY closed_at DESC LIMIT :limit

-- name: revive_turns
UPDATE turns SET learning = 'queued', attempts = 0, due_at = 0 WHERE learning = 'dead'

-- name: turn_state
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at FROM turns
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn

-- name: turn_messages
SELECT message_id, m.thread_id, seq, role, text, parts, metadata, created_at
  FROM turns AS t JOIN messages AS m
    ON m.agent_id = t.agent_id AND m.resource_id = t.resource_id AND m.thread_id = t.thread_id
   AND m.seq >= t.first_seq AND m.turn_id = t.turn_id
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread AND t.turn_id = :turn
 ORDER BY seq

-- name: messages_before_turn
SELECT * FROM (
    SELECT message_id, m.thread_id, seq, role, text, parts, metadata, created_at
      FROM turns AS t JOIN messages AS m
        ON m.agent_id = t.agent_id AND m.resource_id = t.resource_id AND m.thread_id = t.thread_id
       AND m.seq < t.first_seq
     WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread AND t.turn_id = :turn
       AND role IN ('user', 'assistant') AND trim(text) <> ''
     ORDER BY seq DESC LIMIT :limit)
ORDER BY seq

-- name: turn_learned
UPDATE turns SET learning = 'done', error = NULL
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn
   AND learning IN ('queued', 'dead')

-- name: turn_failed
UPDATE turns SET attempts = attempts + :counts, due_at = :due_at, error = :error,
                 learning = CASE WHEN :dead THEN 'dead' ELSE learning END
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn
   AND learning = 'queued'

-- name: usage
SELECT task, calls, input_tokens, output_tokens, cost FROM model_usage
 WHERE agent_id = :agent AND resource_id = :resource AND day = :day ORDER BY task

-- name: add_usage
INSERT INTO model_usage AS u (agent_id, resource_id, day, task, calls, input_tokens, output_tokens, cost)
VALUES (:agent, :resource, :day, :task, :calls, :input_tokens, :output_tokens, :cost)
ON CONFLICT DO UPDATE SET calls = u.calls + excluded.calls,
                          input_tokens = u.input_tokens + excluded.input_tokens,
                          output_tokens = u.output_tokens + excluded.output_tokens,
                          cost = u.cost + excluded.cost
