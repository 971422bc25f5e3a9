-- Every statement of the SQLite store. Each names its scope; values are always bound.

-- name: thread_state
-- Where an append starts: the scope's change number, the thread's last sequence number, whether it is apart.
SELECT s.change, t.last_seq, t.apart FROM (SELECT ?1 AS agent_id, ?2 AS resource_id) AS k
  LEFT JOIN scopes AS s ON s.agent_id = k.agent_id AND s.resource_id = k.resource_id
  LEFT JOIN threads AS t ON t.agent_id = k.agent_id AND t.resource_id = k.resource_id AND t.thread_id = ?3

-- name: insert_message
-- Into a thread that exists. Parameters by position here and in the next two: they run once a message or a thread.
INSERT INTO message_rows (scope, thread, message_id, seq, role, text, parts, metadata, created_at, change, turn_id,
                          hidden, tokens)
SELECT s.number, t.number, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14
  FROM scopes AS s JOIN threads AS t ON t.agent_id = s.agent_id AND t.resource_id = s.resource_id
 WHERE s.agent_id = ?1 AND s.resource_id = ?2 AND t.thread_id = ?3
ON CONFLICT (message_id, scope) DO NOTHING

-- name: add_scope
INSERT INTO scopes (agent_id, resource_id, epoch)
VALUES (?1, ?2, (SELECT 1000000 * count FROM erasures))
ON CONFLICT DO NOTHING

-- name: add_thread
INSERT INTO threads (agent_id, resource_id, thread_id, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?4)
ON CONFLICT DO NOTHING

-- name: advance_thread
INSERT INTO threads (agent_id, resource_id, thread_id, last_seq, last_change, created_at, updated_at, tokens)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens,
                          to_observe = coalesce(tokens + excluded.tokens >= observe_at, 0),
                          last_seq = excluded.last_seq,
                          last_change = excluded.last_change,
                          created_at = min(created_at, excluded.created_at),
                          updated_at = max(updated_at, excluded.updated_at)

-- name: advance_scope
INSERT INTO scopes (agent_id, resource_id, change, epoch)
VALUES (?, ?, ?, (SELECT 1000000 * count FROM erasures))
ON CONFLICT DO UPDATE SET change = excluded.change

-- name: note_parent
-- The first time that a sub-agent speaks in it; a thread in which others have spoken is not apart.
UPDATE threads SET parent_id = :parent, apart = (:hidden AND NOT EXISTS (
       SELECT 1 FROM messages AS m
        WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread AND m.hidden = 0))
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND parent_id IS NULL

-- name: ensure_parent
-- What a sub-agent fails at is noted there, even if nobody has spoken in it yet.
INSERT INTO threads (agent_id, resource_id, thread_id, created_at, updated_at)
VALUES (:agent, :resource, :parent, :at, :at)
ON CONFLICT DO NOTHING

-- name: abandon_open_turns
UPDATE turns SET status = 'abandoned', closed_at = :at
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
   AND status = 'open' AND turn_id <> :turn

-- name: open_turn
INSERT INTO turns (agent_id, resource_id, thread_id, turn_id, status, opened_at, first_seq)
VALUES (:agent, :resource, :thread, :turn, 'open', :at, :first_seq)
ON CONFLICT DO NOTHING

-- name: close_turn
UPDATE turns SET status = :status, closed_at = :at, pending = CASE WHEN pending IS NULL OR (status <> :status AND learning = 'queued') THEN :pending ELSE pending END,
                 learning = CASE WHEN :pending IS NOT NULL THEN coalesce(learning, 'queued')
                                 WHEN learning <> 'queued' THEN learning END
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn

-- name: claim_message
-- A message that is said again, because its turn failed or it was saved before any turn, belongs to the new one.
UPDATE message_rows SET turn_id = :turn
 WHERE number = (SELECT m.number FROM messages AS m
                  WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread
                    AND m.message_id = :id)
   AND (turn_id IS NULL OR turn_id IN (
        SELECT t.turn_id FROM turns AS t
         WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread
           AND t.status <> 'success'))

-- name: shown_record
SELECT shown FROM turns
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn

-- name: message_references
-- How a record of what was found names them: by their numbers, which are short.
SELECT m.message_id, m.number FROM json_each(:ids) AS i CROSS JOIN messages AS m ON m.message_id = i.value
 WHERE m.agent_id = :agent AND m.resource_id = :resource

-- name: put_shown
UPDATE turns SET shown = :shown
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

-- name: recent
-- Without what was forgotten; a thread that is apart has nothing but hidden messages.
SELECT * FROM (
    SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM messages AS m
     WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread
       AND (m.hidden = 0 OR (SELECT t.apart FROM threads AS t WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread))
     ORDER BY seq DESC LIMIT :limit)
ORDER BY seq

-- name: messages_by_id
-- By ids: each is looked up, whatever the planner thinks of how many messages a thread has.
SELECT m.message_id, m.thread_id, m.seq, m.role, m.text, m.parts, m.metadata, m.created_at
  FROM json_each(:ids) AS i CROSS JOIN messages AS m ON m.message_id = i.value
 WHERE m.agent_id = :agent AND m.resource_id = :resource

-- name: threads
-- One without a title brings the beginning of what the user said first.
SELECT thread_id, title, metadata,
       (SELECT substr(text, 1, 400) FROM messages AS m
         WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = t.thread_id
           AND title IS NULL AND role = 'user' AND trim(text) <> '' AND hidden = 0
         ORDER BY seq LIMIT 1),
       (SELECT count(*) FROM message_rows AS m WHERE m.thread = t.number),
       created_at, updated_at, parent_id, apart
  FROM threads AS t
 WHERE agent_id = :agent AND resource_id = :resource
 ORDER BY created_at, thread_id

-- name: update_thread
UPDATE threads SET title = coalesce(:title, title), metadata = coalesce(:metadata, metadata)
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: name_thread
-- Unless it has a title, and only while the turn is there that the title was made of.
UPDATE threads SET title = :title
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
   AND title IS NULL
   AND EXISTS (SELECT 1 FROM turns AS t
                WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread
                  AND t.turn_id = :turn)

-- name: freshness
SELECT epoch, change FROM scopes WHERE agent_id = :agent AND resource_id = :resource

-- name: all_messages
SELECT number, message_id, thread_id, created_at, role, text, parts, metadata FROM messages
 WHERE agent_id = :agent AND resource_id = :resource AND hidden = 0

-- name: changed_threads
SELECT thread_id FROM threads
 WHERE agent_id = :agent AND resource_id = :resource AND last_change > :after

-- name: newest_first
-- Read row by row and left off at the first change number that is known.
SELECT change, number, message_id, thread_id, created_at, role, text, parts, metadata FROM messages
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND hidden = 0
 ORDER BY seq DESC

-- name: changed_entries
SELECT entry_id, thread_id, created_at, source, content, status, valid_until FROM entries
 WHERE agent_id = :agent AND resource_id = :resource AND change > :after
   AND status IN ('active', 'superseded', 'quarantined')
 ORDER BY change, entry_id

-- name: changed_vectors
SELECT CASE WHEN v.message IS NULL THEN 'entry' ELSE 'message' END, coalesce(v.entry_id, m.message_id), v.vector
  FROM scopes AS s JOIN vectors AS v ON v.scope = s.number LEFT JOIN message_rows AS m ON m.number = v.message
 WHERE s.agent_id = :agent AND s.resource_id = :resource AND v.space_id = :space AND v.change > :after
   AND (v.message IS NULL OR m.number IS NOT NULL)
 ORDER BY v.change, v.number

-- name: spaces
SELECT space_id, model, dimensions, normalised, active, speakers FROM spaces ORDER BY space_id

-- name: insert_space
INSERT INTO spaces (model, dimensions, normalised, active, speakers)
VALUES (:model, :dimensions, :normalised, :active, 1)
RETURNING space_id

-- name: deactivate_spaces
UPDATE spaces SET active = 0 WHERE active = 1

-- name: activate_space
UPDATE spaces SET active = 1 WHERE space_id = :space

-- name: renew_scopes
-- All indexes in memory, in any process, are to be built anew.
UPDATE scopes SET epoch = epoch + 1

-- name: drop_vectors
DELETE FROM vectors WHERE number IN (
    SELECT v.number FROM scopes AS c JOIN vectors AS v ON v.scope = c.number
      JOIN spaces AS s ON s.space_id = v.space_id AND s.active = 0
     WHERE c.agent_id = :agent AND c.resource_id = :resource AND v.space_id = :space LIMIT :limit)

-- name: drop_vectors_of_space
DELETE FROM vectors
 WHERE space_id = (SELECT space_id FROM spaces WHERE space_id = :space AND active = 0)

-- name: drop_space
DELETE FROM spaces WHERE space_id = :space AND active = 0

-- name: put_message_vector
-- Only for a message and a space that exist: a slow embedder must not bring back what was removed.
INSERT INTO vectors (scope, space_id, message, vector, change)
SELECT m.scope, s.space_id, m.number, :vector, :change
  FROM messages AS m JOIN spaces AS s ON s.space_id = :space
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.message_id = :id AND m.hidden = 0
ON CONFLICT (message, space_id) WHERE message IS NOT NULL
DO UPDATE SET vector = excluded.vector, change = excluded.change

-- name: put_entry_vector
INSERT INTO vectors (scope, space_id, entry_id, vector, change)
SELECT c.number, s.space_id, e.entry_id, :vector, :change
  FROM entries AS e JOIN scopes AS c ON c.agent_id = e.agent_id AND c.resource_id = e.resource_id
  JOIN spaces AS s ON s.space_id = :space
 WHERE e.agent_id = :agent AND e.resource_id = :resource AND e.entry_id = :id
   AND e.status NOT IN ('forgotten', 'dropped')
ON CONFLICT (entry_id, scope, space_id) WHERE entry_id IS NOT NULL
DO UPDATE SET vector = excluded.vector, change = excluded.change

-- name: unembedded_entries
SELECT entry_id, content FROM entries AS e
 WHERE agent_id = :agent AND resource_id = :resource AND status NOT IN ('forgotten', 'dropped')
   AND NOT EXISTS (SELECT 1 FROM scopes AS c JOIN vectors AS v ON v.scope = c.number
                    WHERE c.agent_id = :agent AND c.resource_id = :resource AND v.space_id = :space
                      AND v.entry_id = e.entry_id)
   AND entry_id > :after_entry
 ORDER BY entry_id LIMIT :limit

-- name: unembedded
-- The rest of a thread, then the threads behind it: each part begins where it has to.
SELECT * FROM (
    SELECT message_id, thread_id, seq, role, text, parts, metadata FROM messages AS m
     WHERE agent_id = :agent AND resource_id = :resource
       AND (trim(text) <> '' OR parts IS NOT NULL) AND hidden = 0
       AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.space_id = :space AND v.message = m.number)
       AND thread_id = :after_thread AND seq > :after_seq
     ORDER BY seq LIMIT :limit)
UNION ALL
SELECT * FROM (
    SELECT message_id, thread_id, seq, role, text, parts, metadata FROM messages AS m
     WHERE agent_id = :agent AND resource_id = :resource
       AND (trim(text) <> '' OR parts IS NOT NULL) AND hidden = 0
       AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.space_id = :space AND v.message = m.number)
       AND thread_id > :after_thread
     ORDER BY thread_id, seq LIMIT :limit)
LIMIT :limit

-- name: scopes
-- Those too of which only a profile or another state is kept.
SELECT * FROM (
    SELECT s.agent_id, s.resource_id,
           (SELECT count(*) FROM threads AS t
             WHERE t.agent_id = s.agent_id AND t.resource_id = s.resource_id
               AND EXISTS (SELECT 1 FROM message_rows AS m WHERE m.thread = t.number)),
           (SELECT count(*) FROM threads AS t JOIN message_rows AS m ON m.thread = t.number
             WHERE t.agent_id = s.agent_id AND t.resource_id = s.resource_id) AS messages,
           (SELECT count(*) FROM entries AS e
             WHERE e.agent_id = s.agent_id AND e.resource_id = s.resource_id AND e.status NOT IN ('forgotten', 'dropped'))
      FROM scopes AS s) AS s
 WHERE s.messages > 0
    OR EXISTS (SELECT 1 FROM layer_states AS l WHERE l.agent_id = s.agent_id AND l.resource_id = s.resource_id)
 ORDER BY s.agent_id, s.resource_id

-- name: stats
SELECT (SELECT count(*) FROM scopes), (SELECT count(*) FROM threads), (SELECT count(*) FROM message_rows),
       (SELECT count(*) FROM vectors), (SELECT count(*) FROM turns WHERE status = 'open'),
       (SELECT count(*) FROM entries WHERE status = 'active'),
       (SELECT count(*) FROM turns WHERE learning = 'queued'),
       (SELECT count(*) FROM turns WHERE learning = 'dead')

-- name: table_sizes
SELECT CASE o.tbl_name WHEN 'message_rows' THEN 'messages' ELSE coalesce(o.tbl_name, d.name) END, sum(d.pgsize)
  FROM dbstat AS d LEFT JOIN sqlite_schema AS o ON o.name = d.name
 WHERE d.aggregate = TRUE GROUP BY 1 ORDER BY 2 DESC, 1

-- name: broken_threads
-- Threads that would give out a sequence number twice.
SELECT count(*) FROM threads AS t
 WHERE agent_id IS NOT NULL AND resource_id IS NOT NULL
   AND last_seq < (SELECT max(seq) FROM message_rows AS m WHERE m.thread = t.number)

-- name: broken_vectors
-- Vectors of the wrong size, or of items that do not exist.
SELECT count(*) FROM vectors AS v JOIN spaces AS s ON s.space_id = v.space_id
 WHERE length(v.vector) <> 2 * s.dimensions
    OR (v.message IS NOT NULL AND NOT EXISTS (SELECT 1 FROM message_rows AS m WHERE m.number = v.message))
    OR (v.entry_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM scopes AS c JOIN entries AS e ON e.agent_id = c.agent_id AND e.resource_id = c.resource_id
         WHERE c.number = v.scope AND e.entry_id = v.entry_id))

-- name: broken_entries
-- Verified entries whose evidence is gone.
SELECT count(*) FROM entries AS e
 WHERE verified = 1 AND status = 'active' AND NOT EXISTS (
     SELECT 1 FROM evidence AS q JOIN messages AS m
         ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
      WHERE q.agent_id = e.agent_id AND q.resource_id = e.resource_id AND q.entry_id = e.entry_id)

-- name: entries_by_id
SELECT entry_id, content, source, status, verified, thread_id, message_id, created_at, last_seen_at,
       valid_until, superseded_by, origin FROM entries
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

-- name: known_hashes
SELECT content_hash, entry_id FROM entries
 WHERE agent_id = :agent AND resource_id = :resource AND status IN ('active', 'quarantined')
   AND content_hash IN (SELECT value FROM json_each(:hashes))
 ORDER BY status DESC

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
                     thread_id, message_id, created_at, last_seen_at, change, origin, reflections_left,
                     valid_until, superseded_by)
VALUES (:agent, :resource, :id, :content, :hash, :source, :status, :verified,
        :thread, :message, :created_at, :created_at, :change, :origin, :reflections_left,
        :valid_until, :superseded_by)

-- name: insert_evidence
INSERT INTO evidence (agent_id, resource_id, entry_id, message_id, start, stop, quote_hash)
VALUES (:agent, :resource, :entry, :message, :start, :stop, :hash)
ON CONFLICT DO NOTHING

-- name: see_entry_again
UPDATE entries SET last_seen_at = max(last_seen_at, :seen_at), verified = max(verified, :verified),
                   origin = CASE WHEN :remembered THEN 'remembered' ELSE origin END
 WHERE agent_id = :agent AND resource_id = :resource AND entry_id = :entry

-- name: insert_receipt
INSERT INTO receipts (agent_id, resource_id, thread_id, turn_id, position, status, reason, detail,
                      content, source, quotes, entry_id, created_at)
VALUES (:agent, :resource, :thread, :turn, :position, :status, :reason, :detail,
        :content, :source, :quotes, :entry, :at)

-- name: shown
-- In all turns of the thread, or up to one of them.
SELECT 'entry', e.value, t.turn_id FROM turns AS t CROSS JOIN json_each(t.shown, '$."".entries') AS e
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread
   AND (:turn IS NULL OR t.turn_id = :turn OR t.first_seq <= (
        SELECT u.first_seq FROM turns AS u
         WHERE u.agent_id = :agent AND u.resource_id = :resource AND u.thread_id = :thread
           AND u.turn_id = :turn))
UNION ALL
SELECT 'message', m.message_id, t.turn_id FROM turns AS t
 CROSS JOIN json_each(t.shown, '$."".messages') AS n CROSS JOIN message_rows AS m ON m.number = n.value
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread
   AND (:turn IS NULL OR t.turn_id = :turn OR t.first_seq <= (
        SELECT u.first_seq FROM turns AS u
         WHERE u.agent_id = :agent AND u.resource_id = :resource AND u.thread_id = :thread
           AND u.turn_id = :turn))

-- name: turn_items
-- All that was found for one turn, by the reason for which it was left out, empty for what was shown.
SELECT 'entry', e.value, t.turn_id, r.key FROM turns AS t
 CROSS JOIN json_each(t.shown) AS r CROSS JOIN json_each(r.value, '$.entries') AS e
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread AND t.turn_id = :turn
UNION ALL
SELECT 'message', m.message_id, t.turn_id, r.key FROM turns AS t
 CROSS JOIN json_each(t.shown) AS r CROSS JOIN json_each(r.value, '$.messages') AS n
 CROSS JOIN message_rows AS m ON m.number = n.value
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread AND t.turn_id = :turn

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
-- Only for a thread that exists: whoever works on one that was erased must not leave its name behind.
INSERT INTO leases AS l (agent_id, resource_id, thread_id, task, owner, fence, expires_at)
SELECT agent_id, resource_id, thread_id, :task, :owner, 1, :expires_at FROM threads
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
ON CONFLICT DO UPDATE SET owner = excluded.owner, fence = l.fence + 1, expires_at = excluded.expires_at
    WHERE l.expires_at <= :now OR l.expires_at > :latest -- a clock was wrong
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
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at, pending FROM turns
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
   AND learning = 'queued'
 ORDER BY closed_at, first_seq, turn_id

-- name: due_threads
-- With a turn for one of these layers.
SELECT t.agent_id, t.resource_id, t.thread_id FROM turns AS t
 WHERE t.learning = 'queued' AND (t.due_at <= :now OR t.due_at > :latest)
   AND EXISTS (SELECT 1 FROM json_each(:layers) AS l WHERE instr(coalesce(t.pending, ',memory,'), ',' || l.value || ','))
   AND NOT EXISTS (SELECT 1 FROM leases AS l
                    WHERE l.agent_id = t.agent_id AND l.resource_id = t.resource_id
                      AND l.thread_id = t.thread_id AND l.task = 'extract'
                      AND l.expires_at > :clock AND l.expires_at <= :clock_latest)
 GROUP BY t.agent_id, t.resource_id, t.thread_id ORDER BY min(t.closed_at) LIMIT :limit

-- name: times_ahead
-- How many leases, retries and flushes wait for a time that none can have: a clock was wrong when it was written.
SELECT (SELECT count(*) FROM leases WHERE expires_at > :clock_latest),
       (SELECT count(*) FROM turns WHERE learning = 'queued' AND due_at > :latest),
       (SELECT count(*) FROM observing WHERE due_at > :latest),
       (SELECT count(*) FROM threads WHERE flush_at > :at_latest)

-- name: dead_turns
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at, pending FROM turns
 WHERE learning = 'dead' ORDER BY closed_at DESC LIMIT :limit

-- name: revive_turns
UPDATE turns SET learning = 'queued', attempts = 0, due_at = 0 WHERE learning = 'dead'

-- name: turn_state
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at, pending FROM turns
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn

-- name: turn_messages
-- Nothing is learned from what was forgotten meanwhile.
SELECT message_id, m.thread_id, seq, role, text, parts, metadata, created_at
  FROM turns AS t JOIN messages AS m
    ON m.agent_id = t.agent_id AND m.resource_id = t.resource_id AND m.thread_id = t.thread_id
   AND m.seq >= t.first_seq AND m.turn_id = t.turn_id AND m.hidden = 0
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread AND t.turn_id = :turn
 ORDER BY seq

-- name: messages_before_turn
SELECT * FROM (
    SELECT message_id, m.thread_id, seq, role, text, parts, metadata, created_at
      FROM turns AS t JOIN messages AS m
        ON m.agent_id = t.agent_id AND m.resource_id = t.resource_id AND m.thread_id = t.thread_id
       AND m.seq < t.first_seq AND m.hidden = 0
     WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread AND t.turn_id = :turn
       AND role IN ('user', 'assistant') AND trim(text) <> ''
     ORDER BY seq DESC LIMIT :limit)
ORDER BY seq

-- name: turn_learned
-- By one layer; the turn is done with when no other is left. Older releases name no layers: they know one.
UPDATE turns SET pending = replace(coalesce(pending, ',memory,'), ',' || :layer || ',', ','),
                 learning = CASE WHEN coalesce(pending, ',memory,') = ',' || :layer || ',' THEN 'done' ELSE learning END,
                 error = CASE WHEN coalesce(pending, ',memory,') = ',' || :layer || ',' THEN NULL ELSE error END
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn
   AND learning IN ('queued', 'dead') AND instr(coalesce(pending, ',memory,'), ',' || :layer || ',')

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
SELECT agent_id, resource_id, :day, :task, :calls, :input_tokens, :output_tokens, :cost FROM scopes
 WHERE agent_id = :agent AND resource_id = :resource
ON CONFLICT DO UPDATE SET calls = u.calls + excluded.calls,
                          input_tokens = u.input_tokens + excluded.input_tokens,
                          output_tokens = u.output_tokens + excluded.output_tokens,
                          cost = u.cost + excluded.cost

-- name: touch_scope
-- The next change number of a scope that exists; a late writer must not bring back one that was erased.
UPDATE scopes SET change = change + 1 WHERE agent_id = :agent AND resource_id = :resource
RETURNING change, epoch

-- name: renew_scope
-- Indexes of this scope in memory, in any process, are to be built anew.
UPDATE scopes SET epoch = epoch + 1 WHERE agent_id = :agent AND resource_id = :resource

-- name: finished_turns
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at, pending FROM turns
 WHERE agent_id = :agent AND resource_id = :resource AND status = 'success'
 ORDER BY closed_at, thread_id, first_seq, turn_id

-- name: revise_entry
-- Notes an entry as it is before it is changed; nothing if it is not as expected.
INSERT INTO revisions (agent_id, resource_id, revision_id, kind, item_id, action, actor, status_before,
                       valid_until_before, superseded_by_before, successor_id, message_id, start, stop,
                       quote_hash, detail, created_at, change)
SELECT e.agent_id, e.resource_id, :revision, 'entry', e.entry_id, :action, :actor, e.status,
       e.valid_until, e.superseded_by, :successor, :message, :start, :stop, :hash, :detail, :at, :change
  FROM entries AS e
 WHERE e.agent_id = :agent AND e.resource_id = :resource AND e.entry_id = :id AND e.status = :before

-- name: change_entry
UPDATE entries SET status = :after, valid_until = :valid_until, superseded_by = :superseded_by, change = :change
 WHERE agent_id = :agent AND resource_id = :resource AND entry_id = :id

-- name: revise_message
INSERT INTO revisions (agent_id, resource_id, revision_id, kind, item_id, action, actor, detail, created_at, change)
SELECT m.agent_id, m.resource_id, :revision, 'message', m.message_id, :action, :actor, :detail, :at, :change
  FROM messages AS m
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.message_id = :id

-- name: hide_message
UPDATE message_rows SET hidden = 1
 WHERE number = (SELECT m.number FROM messages AS m
                  WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.message_id = :id)

-- name: note_added
INSERT INTO revisions (agent_id, resource_id, revision_id, kind, item_id, action, actor, detail, created_at, change)
VALUES (:agent, :resource, :revision, 'entry', :id, 'added', :actor, '', :at, :change)

-- name: drop_item_vectors
DELETE FROM vectors WHERE number IN (
    SELECT v.number FROM scopes AS c JOIN vectors AS v ON v.scope = c.number AND v.entry_id = :id
     WHERE c.agent_id = :agent AND c.resource_id = :resource AND :kind = 'entry'
    UNION ALL
    SELECT v.number FROM messages AS m JOIN vectors AS v ON v.message = m.number
     WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.message_id = :id AND :kind = 'message')

-- name: append_receipt
INSERT INTO receipts (agent_id, resource_id, thread_id, turn_id, position, status, reason, detail,
                      content, source, quotes, entry_id, created_at)
SELECT :agent, :resource, :thread, :turn, coalesce(max(position), -1) + 1, :status, :reason, :detail,
       :content, :source, :quotes, :entry, :at
  FROM receipts
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND turn_id = :turn

-- name: revision_items
SELECT kind, item_id, action FROM revisions
 WHERE agent_id = :agent AND resource_id = :resource AND revision_id = :revision AND undone_at IS NULL

-- name: later_revisions
-- Revisions that stand on one: they must be undone first.
SELECT DISTINCT later.revision_id FROM revisions AS first JOIN revisions AS later
    ON later.agent_id = first.agent_id AND later.resource_id = first.resource_id
   AND later.kind = first.kind AND later.item_id = first.item_id AND later.change > first.change
 WHERE first.agent_id = :agent AND first.resource_id = :resource AND first.revision_id = :revision
   AND later.undone_at IS NULL

-- name: restore_entries
UPDATE entries AS e SET status = r.status_before, valid_until = r.valid_until_before,
                        superseded_by = r.superseded_by_before, change = :change
  FROM revisions AS r
 WHERE r.agent_id = e.agent_id AND r.resource_id = e.resource_id AND r.item_id = e.entry_id AND r.kind = 'entry'
   AND r.status_before IS NOT NULL AND r.revision_id = :revision
   AND e.agent_id = :agent AND e.resource_id = :resource

-- name: drop_added
UPDATE entries AS e SET status = 'dropped', change = :change
  FROM revisions AS r
 WHERE r.agent_id = e.agent_id AND r.resource_id = e.resource_id AND r.item_id = e.entry_id AND r.kind = 'entry'
   AND r.action = 'added' AND r.revision_id = :revision
   AND e.agent_id = :agent AND e.resource_id = :resource

-- name: show_messages
UPDATE message_rows AS m SET hidden = (SELECT t.apart FROM threads AS t WHERE t.number = m.thread)
 WHERE m.number IN (
    SELECT n.number FROM revisions AS r JOIN messages AS n
        ON n.agent_id = r.agent_id AND n.resource_id = r.resource_id AND n.message_id = r.item_id
     WHERE r.agent_id = :agent AND r.resource_id = :resource AND r.kind = 'message' AND r.revision_id = :revision)

-- name: mark_undone
UPDATE revisions SET undone_at = :at
 WHERE agent_id = :agent AND resource_id = :resource AND revision_id = :revision

-- name: history
SELECT r.revision_id, r.kind, r.item_id, r.action, r.actor, r.created_at, r.successor_id, r.detail, r.undone_at,
       r.message_id, r.start, r.stop,
       (SELECT substr(m.text, r.start + 1, r.stop - r.start) FROM messages AS m
         WHERE m.agent_id = r.agent_id AND m.resource_id = r.resource_id AND m.message_id = r.message_id)
  FROM revisions AS r
 WHERE r.agent_id = :agent AND r.resource_id = :resource AND (r.item_id IN (SELECT value FROM json_each(:ids)) OR r.successor_id IN (SELECT value FROM json_each(:ids)))
 ORDER BY r.change, r.revision_id, r.kind, r.item_id

-- name: conflicts
-- Asked at every recall: few revisions are conflicts, and the planner would read all of them.
SELECT r.item_id, r.successor_id FROM revisions AS r INDEXED BY conflicts
  JOIN entries AS a ON a.agent_id = r.agent_id AND a.resource_id = r.resource_id AND a.entry_id = r.item_id
  JOIN entries AS b ON b.agent_id = r.agent_id AND b.resource_id = r.resource_id AND b.entry_id = r.successor_id
 WHERE r.agent_id = :agent AND r.resource_id = :resource AND r.action = 'conflicting' AND r.undone_at IS NULL
   AND a.status = 'active' AND b.status = 'active' AND (r.item_id IN (SELECT value FROM json_each(:ids)) OR r.successor_id IN (SELECT value FROM json_each(:ids)))

-- name: entries_page
SELECT entry_id FROM entries
 WHERE agent_id = :agent AND resource_id = :resource AND status IN (SELECT value FROM json_each(:statuses)) AND entry_id > :after
 ORDER BY entry_id LIMIT :limit

-- name: evidence_rows
SELECT entry_id, message_id, start, stop, quote_hash FROM evidence
 WHERE agent_id = :agent AND resource_id = :resource AND entry_id IN (SELECT value FROM json_each(:ids))
 ORDER BY entry_id, message_id, start

-- name: quoting_messages
SELECT DISTINCT entry_id FROM evidence
 WHERE agent_id = :agent AND resource_id = :resource AND message_id IN (SELECT value FROM json_each(:ids))
 ORDER BY entry_id

-- name: quoting_thread
SELECT DISTINCT q.entry_id FROM evidence AS q JOIN messages AS m
    ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread
 ORDER BY q.entry_id

-- name: never_shown
SELECT entry_id FROM entries
 WHERE agent_id = :agent AND resource_id = :resource AND status = 'active' AND entry_id NOT IN (
     SELECT e.value FROM turns AS t CROSS JOIN json_each(t.shown, '$."".entries') AS e
      WHERE t.agent_id = :agent AND t.resource_id = :resource)
 ORDER BY entry_id

-- name: entry_owner
SELECT agent_id, resource_id FROM entries WHERE entry_id = :entry LIMIT 1

-- name: receipts_of_entry
SELECT thread_id, turn_id, created_at, status, content, source, reason, detail, quotes, entry_id FROM receipts
 WHERE agent_id = :agent AND resource_id = :resource AND entry_id = :entry
 ORDER BY created_at, thread_id, turn_id, position

-- name: take_to_reflect
UPDATE entries SET reflections_left = reflections_left - 1
 WHERE agent_id = :agent AND resource_id = :resource AND entry_id IN (
     SELECT entry_id FROM entries
      WHERE agent_id = :agent AND resource_id = :resource AND reflections_left > 0 AND status = 'active'
      ORDER BY created_at DESC, entry_id DESC LIMIT :limit)
RETURNING entry_id

-- name: reflected
UPDATE entries SET reflections_left = 0
 WHERE agent_id = :agent AND resource_id = :resource AND entry_id IN (SELECT value FROM json_each(:ids))

-- name: erase_entries
-- Those whose text came from the thread, or that nothing else supports; all without a thread.
DELETE FROM entries AS e
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread OR EXISTS (
     SELECT 1 FROM evidence AS q JOIN messages AS m
         ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
      WHERE q.agent_id = e.agent_id AND q.resource_id = e.resource_id AND q.entry_id = e.entry_id
        AND m.thread_id = :thread
        AND (e.origin = 'merged' OR NOT EXISTS (
            SELECT 1 FROM evidence AS q2 JOIN messages AS m2
                ON m2.agent_id = q2.agent_id AND m2.resource_id = q2.resource_id AND m2.message_id = q2.message_id
             WHERE q2.agent_id = e.agent_id AND q2.resource_id = e.resource_id AND q2.entry_id = e.entry_id
               AND m2.thread_id <> :thread))))

-- name: erase_threads
DELETE FROM threads
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)

-- name: erase_messages
DELETE FROM message_rows WHERE number IN (
    SELECT m.number FROM messages AS m
     WHERE m.agent_id = :agent AND m.resource_id = :resource AND (:thread IS NULL OR m.thread_id = :thread))

-- name: erase_turns
DELETE FROM turns
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)

-- name: erase_receipts
-- Also in other threads those of entries that are gone, and what the reflector wanted to do with any of them.
DELETE FROM receipts AS r
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread
     OR (entry_id IS NULL AND source = 'reflector')
     OR (entry_id IS NOT NULL AND NOT EXISTS (
         SELECT 1 FROM entries AS e
          WHERE e.agent_id = r.agent_id AND e.resource_id = r.resource_id AND e.entry_id = r.entry_id)))

-- name: erase_leases
DELETE FROM leases
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)

-- name: erase_evidence
-- Here and below: what no longer has its item.
DELETE FROM evidence AS q
 WHERE agent_id = :agent AND resource_id = :resource AND (
     NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.agent_id = q.agent_id AND m.resource_id = q.resource_id
                    AND m.message_id = q.message_id)
     OR NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.agent_id = q.agent_id AND e.resource_id = q.resource_id
                       AND e.entry_id = q.entry_id))

-- name: erase_vectors
DELETE FROM vectors WHERE number IN (
    SELECT v.number FROM scopes AS c JOIN vectors AS v ON v.scope = c.number
     WHERE c.agent_id = :agent AND c.resource_id = :resource AND (
         (v.message IS NOT NULL AND NOT EXISTS (SELECT 1 FROM message_rows AS m WHERE m.number = v.message))
         OR (v.entry_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM entries AS e
             WHERE e.agent_id = :agent AND e.resource_id = :resource AND e.entry_id = v.entry_id))))

-- name: erase_shown
-- What turns of other threads had found of it.
UPDATE turns AS t SET shown = (
    SELECT json_group_object(r.key, json_object(
        'entries', json((SELECT json_group_array(e.value) FROM json_each(r.value, '$.entries') AS e
             WHERE EXISTS (SELECT 1 FROM entries AS n
                 WHERE n.agent_id = :agent AND n.resource_id = :resource AND n.entry_id = e.value))),
        'messages', json((SELECT json_group_array(m.value) FROM json_each(r.value, '$.messages') AS m
             WHERE EXISTS (SELECT 1 FROM message_rows AS n WHERE n.number = m.value)))))
      FROM json_each(t.shown) AS r)
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND EXISTS (
    SELECT 1 FROM json_each(t.shown) AS r
     WHERE EXISTS (SELECT 1 FROM json_each(r.value, '$.messages') AS m
            WHERE NOT EXISTS (SELECT 1 FROM message_rows AS n WHERE n.number = m.value))
        OR EXISTS (SELECT 1 FROM json_each(r.value, '$.entries') AS e
            WHERE NOT EXISTS (SELECT 1 FROM entries AS n
                WHERE n.agent_id = :agent AND n.resource_id = :resource AND n.entry_id = e.value)))

-- name: erase_revisions
DELETE FROM revisions AS r
 WHERE agent_id = :agent AND resource_id = :resource AND (
     (kind = 'message' AND NOT EXISTS (SELECT 1 FROM messages AS m
         WHERE m.agent_id = r.agent_id AND m.resource_id = r.resource_id AND m.message_id = r.item_id))
     OR (kind = 'entry' AND NOT EXISTS (SELECT 1 FROM entries AS e
         WHERE e.agent_id = r.agent_id AND e.resource_id = r.resource_id AND e.entry_id = r.item_id)))

-- name: erase_usage
DELETE FROM model_usage WHERE agent_id = :agent AND resource_id = :resource

-- name: erase_scope
DELETE FROM scopes WHERE agent_id = :agent AND resource_id = :resource

-- name: count_erasure
UPDATE erasures SET count = count + 1

-- name: stored_texts
-- Everything that people or models wrote, and the ids they gave.
SELECT text FROM messages WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT metadata FROM messages WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT message_id FROM messages WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT thread_id FROM threads WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT title FROM threads WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT metadata FROM threads WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT error FROM turns WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT content FROM receipts WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT quotes FROM receipts WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT detail FROM receipts WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT content FROM entries WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT detail FROM revisions WHERE agent_id = :agent AND resource_id = :resource AND :thread IS NULL
UNION SELECT summary FROM episodes WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT text FROM observations WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT error FROM observing WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT resource_id FROM scopes WHERE agent_id = :agent AND resource_id = :resource AND :thread IS NULL

-- name: stored_vectors
-- But not those that others have as well, for the same words.
SELECT v.vector FROM scopes AS c JOIN vectors AS v ON v.scope = c.number
 WHERE c.agent_id = :agent AND c.resource_id = :resource AND (:thread IS NULL OR v.message IN (
     SELECT m.number FROM messages AS m
      WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread))
EXCEPT
SELECT v.vector FROM scopes AS c JOIN vectors AS v ON v.scope = c.number
 WHERE NOT (c.agent_id = :agent AND c.resource_id = :resource)
    OR (:thread IS NOT NULL AND (v.message IS NULL OR v.message NOT IN (
     SELECT m.number FROM messages AS m
      WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread)))

-- name: is_live
-- Whether some row contains these bytes with good reason.
SELECT EXISTS (SELECT 1 FROM messages
                WHERE instr(CAST(text AS BLOB), :piece) OR instr(CAST(parts AS BLOB), :piece)
                   OR instr(CAST(metadata AS BLOB), :piece) OR instr(CAST(message_id AS BLOB), :piece)
                   OR instr(CAST(thread_id AS BLOB), :piece) OR instr(CAST(resource_id AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM threads
                WHERE instr(CAST(title AS BLOB), :piece) OR instr(CAST(metadata AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM turns WHERE instr(CAST(error AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM entries WHERE instr(CAST(content AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM receipts
                WHERE instr(CAST(content AS BLOB), :piece) OR instr(CAST(quotes AS BLOB), :piece)
                   OR instr(CAST(detail AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM revisions WHERE instr(CAST(detail AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM layer_states
                WHERE instr(CAST(value AS BLOB), :piece) OR instr(CAST(author AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM episodes WHERE instr(CAST(summary AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM events WHERE instr(CAST(data AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM observations WHERE instr(CAST(text AS BLOB), :piece))
    OR EXISTS (SELECT 1 FROM observing WHERE instr(CAST(session AS BLOB), :piece) OR instr(CAST(error AS BLOB), :piece))

-- name: fingerprints
-- What earlier erasures of an owner have yet to prove.
SELECT fingerprints FROM unproven_erasures WHERE owner = :owner

-- name: add_fingerprints
INSERT INTO unproven_erasures (owner, fingerprints) VALUES (:owner, :fingerprints)
    ON CONFLICT (owner) DO UPDATE SET fingerprints = CAST(fingerprints || excluded.fingerprints AS BLOB)

-- name: drop_fingerprints
-- Unless another erasure has added to them meanwhile.
DELETE FROM unproven_erasures WHERE owner = :owner AND fingerprints = :fingerprints

-- name: hidden_messages
SELECT m.message_id FROM json_each(:ids) AS i CROSS JOIN messages AS m ON m.message_id = i.value
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.hidden = 1

-- name: restore_merged
-- Entries of other threads that were told in a merged one are current again when that one is gone.
UPDATE entries AS e SET status = 'active', valid_until = NULL, superseded_by = NULL
 WHERE agent_id = :agent AND resource_id = :resource AND status = 'superseded' AND EXISTS (
     SELECT 1 FROM revisions AS r
      WHERE r.agent_id = e.agent_id AND r.resource_id = e.resource_id AND r.item_id = e.entry_id
        AND r.action = 'merged' AND r.successor_id = e.superseded_by AND r.undone_at IS NULL)
   AND NOT EXISTS (SELECT 1 FROM entries AS n
                    WHERE n.agent_id = e.agent_id AND n.resource_id = e.resource_id AND n.entry_id = e.superseded_by)
   AND NOT EXISTS (SELECT 1 FROM entries AS n
                    WHERE n.agent_id = e.agent_id AND n.resource_id = e.resource_id
                      AND n.content_hash = e.content_hash AND n.status = 'active')

-- name: loosen_successors
UPDATE entries AS e SET superseded_by = NULL
 WHERE agent_id = :agent AND resource_id = :resource AND superseded_by IS NOT NULL AND NOT EXISTS (
     SELECT 1 FROM entries AS n
      WHERE n.agent_id = e.agent_id AND n.resource_id = e.resource_id AND n.entry_id = e.superseded_by)

-- name: loosen_quotes
-- Revisions whose words are gone keep what happened.
UPDATE revisions AS r SET message_id = NULL, start = NULL, stop = NULL, quote_hash = NULL
 WHERE agent_id = :agent AND resource_id = :resource AND message_id IS NOT NULL AND NOT EXISTS (
     SELECT 1 FROM messages AS m
      WHERE m.agent_id = r.agent_id AND m.resource_id = r.resource_id AND m.message_id = r.message_id)

-- name: read_state
SELECT value, version, author, created_at FROM layer_states
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND layer = :layer
 ORDER BY version DESC LIMIT :limit

-- name: write_state
-- Only if the newest version is the one that was seen, and only for a scope or thread that exists.
INSERT INTO layer_states (agent_id, resource_id, thread_id, layer, version, value, author, created_at)
SELECT s.agent_id, s.resource_id, :thread, :layer, :seen + 1, :value, :author, :at FROM scopes AS s
 WHERE s.agent_id = :agent AND s.resource_id = :resource
   AND (:thread = '' OR EXISTS (SELECT 1 FROM threads AS t
        WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread))
   AND :seen = (SELECT coalesce(max(l.version), 0) FROM layer_states AS l
                 WHERE l.agent_id = :agent AND l.resource_id = :resource AND l.thread_id = :thread AND l.layer = :layer)
ON CONFLICT DO NOTHING

-- name: drop_old_states
DELETE FROM layer_states
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND layer = :layer
   AND version <= :seen + 1 - :keep

-- name: ensure_scope
INSERT INTO scopes (agent_id, resource_id, change, epoch)
VALUES (:agent, :resource, 1, (SELECT 1000000 * count FROM erasures))
ON CONFLICT DO NOTHING

-- name: has_scope
-- Scope and thread, and the turn on whose behalf it is asked.
SELECT EXISTS (SELECT 1 FROM scopes WHERE agent_id = :agent AND resource_id = :resource)
   AND (:thread = '' OR EXISTS (SELECT 1 FROM threads
        WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread))
   AND (:turn IS NULL OR EXISTS (SELECT 1 FROM turns
        WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :turn_thread
          AND turn_id = :turn))

-- name: scope_states
-- All versions of what layers keep for the resource and for its threads.
SELECT thread_id, layer, version, value FROM layer_states WHERE agent_id = :agent AND resource_id = :resource

-- name: replace_state
UPDATE layer_states SET value = :value
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :kept_in AND layer = :layer AND version = :version

-- name: renew_state
-- Whoever decided on the newest version before something was taken out of it must decide again.
UPDATE layer_states SET version = version + 1
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :kept_in AND layer = :layer
   AND version = (SELECT max(l.version) FROM layer_states AS l
                   WHERE l.agent_id = :agent AND l.resource_id = :resource AND l.thread_id = :kept_in AND l.layer = :layer)

-- name: run_start
-- The last message of the thread's last finished run.
SELECT run_seq FROM threads
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: end_run
-- Only with the message that it ended with: the thread may have been erased and begun anew.
UPDATE threads SET run_seq = :last_seq
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
   AND run_seq < :last_seq
   AND EXISTS (SELECT 1 FROM messages AS m
                WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread
                  AND m.message_id = :last_message AND m.seq = :last_seq)

-- name: insert_episode
INSERT INTO episodes (agent_id, resource_id, episode_id, thread_id, summary, outcome, token_count, created_at)
VALUES (:agent, :resource, :id, :thread, :summary, :outcome, :token_count, :at)

-- name: drop_old_episodes
DELETE FROM episodes
 WHERE agent_id = :agent AND resource_id = :resource AND episode_id NOT IN (
     SELECT episode_id FROM episodes
      WHERE agent_id = :agent AND resource_id = :resource
      ORDER BY created_at DESC, episode_id DESC LIMIT :keep)

-- name: episodes
-- Not of threads of which something was forgotten since: the summary may tell it.
SELECT episode_id, summary, created_at, outcome, token_count, thread_id FROM episodes AS e
 WHERE agent_id = :agent AND resource_id = :resource
   AND (:before IS NULL OR created_at < :before)
   AND NOT EXISTS (SELECT 1 FROM messages AS m JOIN revisions AS r
                       ON r.agent_id = m.agent_id AND r.resource_id = m.resource_id AND r.item_id = m.message_id
                      AND r.kind = 'message' AND r.undone_at IS NULL AND r.created_at >= e.created_at
                    WHERE m.agent_id = e.agent_id AND m.resource_id = e.resource_id AND m.thread_id = e.thread_id
                      AND m.hidden = 1)
 ORDER BY created_at DESC, episode_id DESC LIMIT :limit

-- name: shared_episodes
-- Of all users of an agent: only where the operator has switched sharing on.
SELECT episode_id, summary, created_at, outcome, token_count, thread_id FROM episodes AS e
 WHERE agent_id = :agent AND resource_id <> ''
   AND (:before IS NULL OR created_at < :before)
   AND NOT EXISTS (SELECT 1 FROM messages AS m JOIN revisions AS r
                       ON r.agent_id = m.agent_id AND r.resource_id = m.resource_id AND r.item_id = m.message_id
                      AND r.kind = 'message' AND r.undone_at IS NULL AND r.created_at >= e.created_at
                    WHERE m.agent_id = e.agent_id AND m.resource_id = e.resource_id AND m.thread_id = e.thread_id
                      AND m.hidden = 1)
 ORDER BY created_at DESC, episode_id DESC LIMIT :limit

-- name: passages
-- Messages with those around them in their threads.
SELECT DISTINCT n.message_id, n.thread_id, n.seq, n.role, n.text, n.parts, n.metadata, n.created_at
  FROM json_each(:ids) AS i CROSS JOIN messages AS h ON h.message_id = i.value CROSS JOIN messages AS n
    ON n.agent_id = h.agent_id AND n.resource_id = h.resource_id AND n.thread_id = h.thread_id
   AND n.seq BETWEEN h.seq - :before AND h.seq + :after
 WHERE h.agent_id = :agent AND h.resource_id = :resource AND h.hidden = 0 AND n.hidden = 0
 ORDER BY n.thread_id, n.seq

-- name: erase_states
DELETE FROM layer_states
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)

-- name: erase_episodes
DELETE FROM episodes
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)

-- name: title
SELECT title FROM threads
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: add_event
-- Only for a thread that exists: what is told late must not bring back one that was erased.
INSERT INTO events (thread, position, name, data, created_at)
SELECT t.number, 1 + coalesce((SELECT max(e.position) FROM events AS e WHERE e.thread = t.number), 0), :name, :data, :at
  FROM threads AS t
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread

-- name: drop_old_events
DELETE FROM events
 WHERE thread = (SELECT t.number FROM threads AS t
                  WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread)
   AND position <= (SELECT max(e.position) FROM events AS e WHERE e.thread = events.thread) - :keep

-- name: events
SELECT e.name, e.created_at, e.data FROM threads AS t JOIN events AS e ON e.thread = t.number
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread
 ORDER BY e.position DESC LIMIT :limit

-- name: erase_events
DELETE FROM events WHERE thread IN (
    SELECT t.number FROM threads AS t
     WHERE t.agent_id = :agent AND t.resource_id = :resource AND (:thread IS NULL OR t.thread_id = :thread))

-- name: stored_json
-- By kind: in each of them other names stand for what is the same for everybody.
SELECT 'state', value FROM layer_states WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT 'event', e.data FROM threads AS t JOIN events AS e ON e.thread = t.number WHERE t.agent_id = :agent AND t.resource_id = :resource AND (:thread IS NULL OR t.thread_id = :thread)
UNION SELECT 'session', session FROM observing WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
UNION SELECT 'parts', parts FROM messages WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread) AND parts IS NOT NULL

-- name: watch_thread
-- It is observed from now on, and flushed when nobody speaks in it for a while; seldom written again.
UPDATE threads SET observe_at = coalesce(observe_at, :step), to_observe = (tokens >= coalesce(observe_at, :step)),
                   flush_at = CASE WHEN flush_at IS NULL OR flush_at < :unless OR flush_at > :latest THEN :flush_at ELSE flush_at END
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
   AND (observe_at IS NULL OR (:flush_at IS NOT NULL AND (flush_at IS NULL OR flush_at < :unless OR flush_at > :latest)))

-- name: observing_state
SELECT t.agent_id, t.resource_id, t.thread_id, t.last_seq, t.tokens, t.observe_at, t.flush_at,
       (SELECT s.change FROM scopes AS s WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id),
       EXISTS (SELECT 1 FROM turns AS u
                WHERE u.agent_id = t.agent_id AND u.resource_id = t.resource_id AND u.thread_id = t.thread_id AND u.status = 'open'),
       o.observed_seq, o.observed_tokens,
       o.active_seq, o.active_tokens, o.window_seq, o.asked_first, o.asked_last, o.log_tokens, o.ready_tokens, o.version, o.reflecting, o.reflect_at, o.reflected,
       o.session, o.session_seq, o.session_change, o.provider, o.attempts, o.due_at, o.error, o.dead, o.usage_day, o.usage_calls, o.usage_tokens
  FROM threads AS t LEFT JOIN observing AS o
    ON o.agent_id = t.agent_id AND o.resource_id = t.resource_id AND o.thread_id = t.thread_id
 WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread

-- name: observing_states
SELECT t.agent_id, t.resource_id, t.thread_id, t.last_seq, t.tokens, t.observe_at, t.flush_at,
       (SELECT s.change FROM scopes AS s WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id),
       EXISTS (SELECT 1 FROM turns AS u
                WHERE u.agent_id = t.agent_id AND u.resource_id = t.resource_id AND u.thread_id = t.thread_id AND u.status = 'open'),
       o.observed_seq, o.observed_tokens,
       o.active_seq, o.active_tokens, o.window_seq, o.asked_first, o.asked_last, o.log_tokens, o.ready_tokens, o.version, o.reflecting, o.reflect_at, o.reflected,
       o.session, o.session_seq, o.session_change, o.provider, o.attempts, o.due_at, o.error, o.dead, o.usage_day, o.usage_calls, o.usage_tokens
  FROM threads AS t LEFT JOIN observing AS o
    ON o.agent_id = t.agent_id AND o.resource_id = t.resource_id AND o.thread_id = t.thread_id
 WHERE t.agent_id = :agent AND t.resource_id = :resource
   AND t.observe_at IS NOT NULL AND (t.to_observe = 1 OR t.flush_at IS NOT NULL OR o.ready_tokens > 0)

-- name: dead_observing
SELECT t.agent_id, t.resource_id, t.thread_id, t.last_seq, t.tokens, t.observe_at, t.flush_at,
       (SELECT s.change FROM scopes AS s WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id),
       EXISTS (SELECT 1 FROM turns AS u
                WHERE u.agent_id = t.agent_id AND u.resource_id = t.resource_id AND u.thread_id = t.thread_id AND u.status = 'open'),
       o.observed_seq, o.observed_tokens,
       o.active_seq, o.active_tokens, o.window_seq, o.asked_first, o.asked_last, o.log_tokens, o.ready_tokens, o.version, o.reflecting, o.reflect_at, o.reflected,
       o.session, o.session_seq, o.session_change, o.provider, o.attempts, o.due_at, o.error, o.dead, o.usage_day, o.usage_calls, o.usage_tokens
  FROM observing AS o JOIN threads AS t
    ON t.agent_id = o.agent_id AND t.resource_id = o.resource_id AND t.thread_id = o.thread_id
 WHERE o.dead = 1 ORDER BY o.due_at DESC LIMIT :limit

-- name: window_messages
-- What is shown as it was said, newest first; without what was forgotten.
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM messages AS m
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread
   AND (m.seq > :after OR m.seq BETWEEN :asked_first AND :asked_last)
   AND (m.hidden = 0 OR (SELECT t.apart FROM threads AS t WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread))
 ORDER BY seq DESC LIMIT :limit

-- name: unobserved_messages
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM messages AS m
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread AND m.seq > :after
   AND (m.hidden = 0 OR (SELECT t.apart FROM threads AS t WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread))
 ORDER BY seq LIMIT :limit

-- name: newest_sizes
SELECT seq, coalesce(tokens, 4 + (length(text) + coalesce(length(parts), 0)) / 4) FROM messages AS m
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread
   AND (m.hidden = 0 OR (SELECT t.apart FROM threads AS t WHERE t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread))
 ORDER BY seq DESC LIMIT :limit

-- name: observation_batches
SELECT first_seq, last_seq, tokens, row_count, outcome, created_at FROM observation_batches
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND last_seq > :after
 ORDER BY last_seq

-- name: observation_log
SELECT observation_id, priority, happened_at, text, covers, status, until_at, dates, parent_id, supersedes, successor_id,
       tokens, position, seen_change, created_at FROM observations
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND status IN (SELECT value FROM json_each(:statuses))
 ORDER BY position, observation_id

-- name: dated_observations
-- Few rows speak of another day; those that are shown.
SELECT observation_id, priority, happened_at, text, covers, status, until_at, dates, parent_id, supersedes, successor_id,
       tokens, position, seen_change, created_at FROM observations
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND status = 'active' AND dates <> '[]'
 ORDER BY position, observation_id

-- name: observation_tail
SELECT * FROM (
    SELECT observation_id, priority, happened_at, text, covers, status, until_at, dates, parent_id, supersedes, successor_id,
           tokens, position, seen_change, created_at FROM observations
     WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND status IN ('ready', 'active')
     ORDER BY position DESC, observation_id DESC LIMIT :limit)
ORDER BY position, observation_id

-- name: forgotten_messages
-- By the user, and at which change of the scope; a thread that is apart has hidden messages only.
SELECT m.seq, max(r.change) FROM messages AS m JOIN revisions AS r
    ON r.agent_id = m.agent_id AND r.resource_id = m.resource_id AND r.item_id = m.message_id
   AND r.kind = 'message' AND r.undone_at IS NULL
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread AND m.hidden = 1
 GROUP BY m.seq ORDER BY m.seq

-- name: ensure_observing
INSERT INTO observing (agent_id, resource_id, thread_id)
SELECT agent_id, resource_id, thread_id FROM threads
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
ON CONFLICT DO NOTHING

-- name: move_cursor
-- Only from where it was seen. What went wrong before is forgotten.
UPDATE observing SET observed_seq = :last_seq, session = :session, session_seq = :last_seq, session_change = :change,
       attempts = 0, error = NULL, dead = 0, due_at = 0,
       observed_tokens = observed_tokens + (
           SELECT coalesce(sum(coalesce(m.tokens, 4 + (length(m.text) + coalesce(length(m.parts), 0)) / 4)), 0) FROM messages AS m
            WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread
              AND m.seq > :seen AND m.seq <= :last_seq)
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND observed_seq = :seen

-- name: insert_batch
INSERT INTO observation_batches (agent_id, resource_id, thread_id, last_seq, first_seq, tokens, row_count, outcome, created_at)
SELECT :agent, :resource, :thread, :last_seq, :seen + 1,
       coalesce(sum(coalesce(m.tokens, 4 + (length(m.text) + coalesce(length(m.parts), 0)) / 4)), 0), :rows, :outcome, :at
  FROM messages AS m
 WHERE m.agent_id = :agent AND m.resource_id = :resource AND m.thread_id = :thread AND m.seq > :seen AND m.seq <= :last_seq

-- name: insert_observation
INSERT INTO observations (agent_id, resource_id, thread_id, observation_id, position, priority, happened_at, until_at, dates, text,
                          parent_id, first_seq, last_seq, covers, status, supersedes, successor_id, tokens, seen_change, created_at)
VALUES (:agent, :resource, :thread, :id, :position, :priority, :happened_at, :until_at, :dates, :text,
        :parent, :first_seq, :last_seq, :covers, :status, :supersedes, NULL, :tokens, :change, :at)

-- name: count_observations
UPDATE observing SET
       log_tokens = (SELECT coalesce(sum(n.tokens), 0) FROM observations AS n
                      WHERE n.agent_id = :agent AND n.resource_id = :resource AND n.thread_id = :thread AND n.status = 'active'),
       ready_tokens = (SELECT coalesce(sum(n.tokens), 0) FROM observations AS n
                        WHERE n.agent_id = :agent AND n.resource_id = :resource AND n.thread_id = :thread AND n.status = 'ready'
                          AND n.supersedes = '[]')
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: next_observation
UPDATE threads AS t SET observe_at = o.observed_tokens + :step, to_observe = (t.tokens >= o.observed_tokens + :step)
  FROM observing AS o
 WHERE o.agent_id = t.agent_id AND o.resource_id = t.resource_id AND o.thread_id = t.thread_id
   AND t.agent_id = :agent AND t.resource_id = :resource AND t.thread_id = :thread

-- name: postpone_observation
-- Until so many tokens were said; what was seen of the thread must still be all there is.
UPDATE threads SET observe_at = :until, to_observe = (tokens >= :until)
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND tokens = :tokens

-- name: activate
UPDATE observing SET active_seq = :to_seq, active_tokens = :to_tokens, window_seq = :window_seq,
                     asked_first = :asked_first, asked_last = :asked_last,
                     version = version + 1, reflecting = 0
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
   AND version = :seen AND observed_seq >= :to_seq AND active_seq <= :to_seq

-- name: retire_observations
-- Those that a reflection has left out or put into other words.
UPDATE observations SET status = CASE WHEN successor_id = '' THEN 'dropped' ELSE 'superseded' END
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
   AND status = 'active' AND successor_id IS NOT NULL

-- name: activate_observations
UPDATE observations SET status = 'active'
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND status = 'ready' AND last_seq <= :to_seq

-- name: count_replaceable
SELECT count(*) FROM observations
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread
   AND status = 'active' AND successor_id IS NULL AND observation_id IN (SELECT value FROM json_each(:ids))

-- name: replace_observation
UPDATE observations SET successor_id = :successor
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND observation_id = :id

-- name: note_reflection
UPDATE observing SET reflecting = :staged, reflect_at = :reflect_at, reflected = :input,
                     attempts = 0, error = NULL, dead = 0, due_at = 0
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: request_flush
UPDATE threads SET flush_at = :at, observe_at = coalesce(observe_at, 0)
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND last_seq > 0

-- name: flushed
UPDATE threads SET flush_at = NULL
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND flush_at <= :until

-- name: note_provider
UPDATE observing SET provider = :provider
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: threads_to_observe
-- With something to observe, and nobody at it.
SELECT t.agent_id, t.resource_id, t.thread_id FROM (
    SELECT agent_id, resource_id, thread_id FROM threads WHERE to_observe = 1
    UNION SELECT agent_id, resource_id, thread_id FROM threads WHERE flush_at <= :at OR flush_at > :at_latest) AS t
  LEFT JOIN observing AS o ON o.agent_id = t.agent_id AND o.resource_id = t.resource_id AND o.thread_id = t.thread_id
 WHERE coalesce(o.dead, 0) = 0 AND (coalesce(o.due_at, 0) <= :now OR o.due_at > :latest)
   AND NOT EXISTS (SELECT 1 FROM leases AS l
                    WHERE l.agent_id = t.agent_id AND l.resource_id = t.resource_id
                      AND l.thread_id = t.thread_id AND l.task = 'observe'
                      AND l.expires_at > :clock AND l.expires_at <= :clock_latest)
 ORDER BY o.due_at NULLS FIRST, t.agent_id, t.resource_id, t.thread_id LIMIT :limit

-- name: observing_failed
UPDATE observing SET attempts = attempts + :counts, due_at = :due_at, error = :error, dead = :dead
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: count_observing
UPDATE observing SET usage_calls = CASE WHEN usage_day = :day THEN usage_calls ELSE 0 END + :calls,
                     usage_tokens = CASE WHEN usage_day = :day THEN usage_tokens ELSE 0 END + :tokens,
                     usage_day = :day
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: revive_observing
UPDATE observing SET dead = 0, attempts = 0, due_at = 0 WHERE dead = 1

-- name: reset_observing
UPDATE observing SET observed_seq = 0, observed_tokens = 0, active_seq = 0, active_tokens = 0, window_seq = 0, asked_first = 0, asked_last = 0,
       log_tokens = 0, ready_tokens = 0, version = version + 1, reflecting = 0, reflect_at = 0, reflected = '',
       session = '{}', session_seq = 0, session_change = 0, attempts = 0, due_at = 0, error = NULL, dead = 0
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread AND observed_seq > 0

-- name: reset_thread
UPDATE threads SET observe_at = 0, to_observe = 1
 WHERE agent_id = :agent AND resource_id = :resource AND thread_id = :thread

-- name: erase_observing
DELETE FROM observing
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)

-- name: erase_batches
DELETE FROM observation_batches
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)

-- name: erase_observations
DELETE FROM observations
 WHERE agent_id = :agent AND resource_id = :resource AND (:thread IS NULL OR thread_id = :thread)
