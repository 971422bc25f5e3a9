-- Every statement of the PostgreSQL store. Each names its scope; values are always bound.

-- name: enter_scope
-- Tells row-level security, where it is switched on, whose rows this transaction may see, and how long it may
-- wait for locks and be silent. All of it ends with the transaction: a pooler gives each one another session.
SELECT set_config('casenotes.agent_id', %(agent)s, true),
       set_config('casenotes.resource_id', %(resource)s, true),
       set_config('lock_timeout', %(lock_timeout)s, true),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, true)

-- name: limit_transaction
SELECT set_config('lock_timeout', %(lock_timeout)s, true),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, true)

-- name: next_change
-- Also locks the scope until commit, so that change numbers become visible in order.
INSERT INTO casenotes.scopes AS s (agent_id, resource_id, change, epoch)
VALUES (%(agent)s, %(resource)s, 1, (SELECT 1000000 * count FROM casenotes.erasures))
ON CONFLICT (agent_id, resource_id) DO UPDATE SET change = s.change + 1
RETURNING change

-- name: thread_state
SELECT last_seq, apart FROM casenotes.threads
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: insert_message
INSERT INTO casenotes.messages (agent_id, resource_id, message_id, thread_id, seq, role, text, parts,
                                metadata, created_at, change, turn_id, hidden, tokens)
VALUES (%(agent)s, %(resource)s, %(id)s, %(thread)s, %(seq)s, %(role)s, %(text)s, %(parts)s,
        %(metadata)s, %(created_at)s, %(change)s, %(turn)s, %(hidden)s, %(tokens)s)

-- name: advance_thread
INSERT INTO casenotes.threads AS t (agent_id, resource_id, thread_id, last_seq, created_at, updated_at, tokens)
VALUES (%(agent)s, %(resource)s, %(thread)s, %(last_seq)s, %(first_at)s, %(last_at)s, %(tokens)s)
ON CONFLICT (agent_id, resource_id, thread_id)
DO UPDATE SET tokens = t.tokens + excluded.tokens,
              to_observe = coalesce(t.tokens + excluded.tokens >= t.observe_at, false),
              last_seq = excluded.last_seq,
              created_at = least(t.created_at, excluded.created_at),
              updated_at = greatest(t.updated_at, excluded.updated_at)

-- name: note_parent
-- The first time that a sub-agent speaks in it; a thread in which others have spoken is not apart.
UPDATE casenotes.threads SET parent_id = %(parent)s, apart = (%(hidden)s::boolean AND NOT EXISTS (
       SELECT 1 FROM casenotes.messages AS m
        WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s AND NOT m.hidden))
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND parent_id IS NULL

-- name: ensure_parent
-- What a sub-agent fails at is noted there, even if nobody has spoken in it yet.
INSERT INTO casenotes.threads (agent_id, resource_id, thread_id, created_at, updated_at)
VALUES (%(agent)s, %(resource)s, %(parent)s, %(at)s, %(at)s)
ON CONFLICT DO NOTHING

-- name: abandon_open_turns
UPDATE casenotes.turns SET status = 'abandoned', closed_at = %(at)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND status = 'open' AND turn_id <> %(turn)s

-- name: open_turn
INSERT INTO casenotes.turns (agent_id, resource_id, thread_id, turn_id, status, opened_at, first_seq)
VALUES (%(agent)s, %(resource)s, %(thread)s, %(turn)s, 'open', %(at)s, %(first_seq)s)
ON CONFLICT DO NOTHING

-- name: close_turn
UPDATE casenotes.turns
   SET status = %(status)s, closed_at = %(at)s, pending = CASE WHEN pending IS NULL OR (status <> %(status)s AND learning = 'queued') THEN %(pending)s::text ELSE pending END,
       learning = CASE WHEN %(pending)s::text IS NOT NULL THEN coalesce(learning, 'queued')
                       WHEN learning <> 'queued' THEN learning END
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND turn_id = %(turn)s

-- name: claim_message
-- A message that is said again, because its turn failed or it was saved before any turn, belongs to the new one.
UPDATE casenotes.messages SET turn_id = %(turn)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND message_id = %(id)s
   AND (turn_id IS NULL OR turn_id IN (
        SELECT t.turn_id FROM casenotes.turns AS t
         WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s
           AND t.status <> 'success'))

-- name: shown_record
SELECT shown FROM casenotes.turns
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND turn_id = %(turn)s

-- name: message_references
-- How a record of what was found names them: by their numbers, which are short.
SELECT message_id, number FROM casenotes.messages
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND message_id = ANY(%(ids)s)

-- name: put_shown
UPDATE casenotes.turns SET shown = %(shown)s::json
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND turn_id = %(turn)s

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

-- name: recent
-- Without what was forgotten; a thread that is apart has nothing but hidden messages.
SELECT * FROM (
    SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM casenotes.messages AS m
     WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s
       AND (NOT m.hidden OR (SELECT t.apart FROM casenotes.threads AS t WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s))
     ORDER BY seq DESC LIMIT %(limit)s) AS newest
ORDER BY seq

-- name: messages_by_id
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM casenotes.messages
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND message_id = ANY(%(ids)s)

-- name: threads
-- One without a title brings the beginning of what the user said first.
SELECT thread_id, title, metadata,
       (SELECT substr(text, 1, 400) FROM casenotes.messages AS m
         WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = t.thread_id
           AND title IS NULL AND role = 'user' AND trim(text) <> '' AND NOT hidden
         ORDER BY seq LIMIT 1),
       (SELECT count(*) FROM casenotes.messages AS m
         WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = t.thread_id),
       created_at, updated_at, parent_id, apart
  FROM casenotes.threads AS t
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s
 ORDER BY created_at, thread_id

-- name: update_thread
UPDATE casenotes.threads
   SET title = coalesce(%(title)s, title), metadata = coalesce(%(metadata)s, metadata)
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: name_thread
-- Unless it has a title, and only while the turn is there that the title was made of.
UPDATE casenotes.threads SET title = %(title)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND title IS NULL
   AND EXISTS (SELECT 1 FROM casenotes.turns AS t
                WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s
                  AND t.turn_id = %(turn)s)

-- name: freshness
SELECT epoch, change FROM casenotes.scopes WHERE agent_id = %(agent)s AND resource_id = %(resource)s

-- name: changed_messages
SELECT message_id, thread_id, created_at, role, text, parts, metadata FROM casenotes.messages
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND change > %(after)s AND NOT hidden
 ORDER BY change, thread_id, seq

-- name: changed_entries
SELECT entry_id, thread_id, created_at, source, content, status, valid_until FROM casenotes.entries
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND change > %(after)s
   AND status IN ('active', 'superseded', 'quarantined')
 ORDER BY change, entry_id

-- name: changed_vectors
SELECT kind, item_id, vector FROM casenotes.vectors
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND space_id = %(space)s
   AND change > %(after)s
 ORDER BY change, item_id

-- name: lock_spaces
LOCK TABLE casenotes.spaces IN SHARE ROW EXCLUSIVE MODE

-- name: spaces
SELECT space_id, model, dimensions, normalised, active, speakers FROM casenotes.spaces ORDER BY space_id

-- name: insert_space
INSERT INTO casenotes.spaces (model, dimensions, normalised, active, speakers)
VALUES (%(model)s, %(dimensions)s, %(normalised)s, %(active)s, true)

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
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.message_id = %(id)s AND NOT m.hidden
   FOR KEY SHARE OF s
ON CONFLICT (agent_id, resource_id, space_id, kind, item_id)
DO UPDATE SET vector = excluded.vector, change = excluded.change

-- name: put_entry_vector
INSERT INTO casenotes.vectors (agent_id, resource_id, space_id, kind, item_id, vector, change)
SELECT %(agent)s, %(resource)s, s.space_id, 'entry', e.entry_id, %(vector)s, %(change)s
  FROM casenotes.entries AS e JOIN casenotes.spaces AS s ON s.space_id = %(space)s
 WHERE e.agent_id = %(agent)s AND e.resource_id = %(resource)s AND e.entry_id = %(id)s
   AND e.status NOT IN ('forgotten', 'dropped')
   FOR KEY SHARE OF s
ON CONFLICT (agent_id, resource_id, space_id, kind, item_id)
DO UPDATE SET vector = excluded.vector, change = excluded.change

-- name: unembedded_entries
SELECT entry_id, content FROM casenotes.entries AS e
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND status NOT IN ('forgotten', 'dropped')
   AND NOT EXISTS (SELECT 1 FROM casenotes.vectors AS v
                    WHERE v.agent_id = %(agent)s AND v.resource_id = %(resource)s AND v.space_id = %(space)s
                      AND v.kind = 'entry' AND v.item_id = e.entry_id)
   AND entry_id > %(after_entry)s
 ORDER BY entry_id LIMIT %(limit)s

-- name: unembedded
SELECT message_id, thread_id, seq, role, text, parts, metadata
  FROM casenotes.messages AS m
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s
   AND (trim(text) <> '' OR parts IS NOT NULL) AND NOT hidden
   AND NOT EXISTS (SELECT 1 FROM casenotes.vectors AS v
                    WHERE v.agent_id = %(agent)s AND v.resource_id = %(resource)s
                      AND v.space_id = %(space)s AND v.kind = 'message' AND v.item_id = m.message_id)
   AND (thread_id, seq) > (%(after_thread)s, %(after_seq)s)
 ORDER BY thread_id, seq LIMIT %(limit)s

-- name: scopes
-- Those too of which only a profile or another state is kept.
SELECT s.agent_id, s.resource_id, count(DISTINCT m.thread_id), count(m.message_id),
       (SELECT count(*) FROM casenotes.entries AS e
         WHERE e.agent_id = s.agent_id AND e.resource_id = s.resource_id AND e.status NOT IN ('forgotten', 'dropped'))
  FROM casenotes.scopes AS s LEFT JOIN casenotes.messages AS m ON m.agent_id = s.agent_id AND m.resource_id = s.resource_id
 GROUP BY s.agent_id, s.resource_id
HAVING count(m.message_id) > 0
    OR EXISTS (SELECT 1 FROM casenotes.layer_states AS l WHERE l.agent_id = s.agent_id AND l.resource_id = s.resource_id)
 ORDER BY s.agent_id, s.resource_id

-- name: stats
SELECT (SELECT count(*) FROM casenotes.scopes), (SELECT count(*) FROM casenotes.threads),
       (SELECT count(*) FROM casenotes.messages), (SELECT count(*) FROM casenotes.vectors),
       (SELECT count(*) FROM casenotes.turns WHERE status = 'open'),
       (SELECT count(*) FROM casenotes.entries WHERE status = 'active'),
       (SELECT count(*) FROM casenotes.turns WHERE learning = 'queued'),
       (SELECT count(*) FROM casenotes.turns WHERE learning = 'dead'),
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE n.nspname = 'casenotes' AND c.relkind = 'r')

-- name: table_sizes
SELECT c.relname::text, pg_total_relation_size(c.oid) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = 'casenotes' AND c.relkind = 'r' ORDER BY 2 DESC, 1

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
-- Vectors of the wrong size, or of items that do not exist.
SELECT count(*) FROM casenotes.vectors AS v JOIN casenotes.spaces AS s ON s.space_id = v.space_id
 WHERE vector_dims(v.vector) <> s.dimensions
    OR (v.kind = 'message' AND NOT EXISTS (
        SELECT 1 FROM casenotes.messages AS m
         WHERE m.agent_id = v.agent_id AND m.resource_id = v.resource_id
           AND m.message_id = v.item_id))
    OR (v.kind = 'entry' AND NOT EXISTS (
        SELECT 1 FROM casenotes.entries AS e
         WHERE e.agent_id = v.agent_id AND e.resource_id = v.resource_id AND e.entry_id = v.item_id))

-- name: broken_entries
-- Verified entries whose evidence is gone.
SELECT count(*) FROM casenotes.entries AS e
 WHERE verified AND status = 'active' AND NOT EXISTS (
     SELECT 1 FROM casenotes.evidence AS q JOIN casenotes.messages AS m
         ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
      WHERE q.agent_id = e.agent_id AND q.resource_id = e.resource_id AND q.entry_id = e.entry_id)

-- name: entries_by_id
SELECT entry_id, content, source, status, verified, thread_id, message_id, created_at, last_seen_at,
       valid_until, superseded_by, origin FROM casenotes.entries
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s
   AND entry_id = ANY(%(ids)s)

-- name: evidence_of
-- The words come from the message log; positions count characters from 0.
SELECT q.entry_id, q.message_id, q.start, q.stop, substr(m.text, (q.start + 1)::int, (q.stop - q.start)::int)
  FROM casenotes.evidence AS q JOIN casenotes.messages AS m
    ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
 WHERE q.agent_id = %(agent)s AND q.resource_id = %(resource)s
   AND q.entry_id = ANY(%(ids)s)
 ORDER BY m.created_at, m.thread_id, m.seq, q.start

-- name: known_hashes
SELECT content_hash, entry_id FROM casenotes.entries
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND status IN ('active', 'quarantined')
   AND content_hash = ANY(%(hashes)s)
 ORDER BY status DESC

-- name: forgotten_sources
-- Which text was forgotten, and which messages it had been learned from.
SELECT e.content_hash, q.message_id FROM casenotes.entries AS e JOIN casenotes.evidence AS q
    ON q.agent_id = e.agent_id AND q.resource_id = e.resource_id AND q.entry_id = e.entry_id
 WHERE e.agent_id = %(agent)s AND e.resource_id = %(resource)s AND e.status = 'forgotten'
   AND e.content_hash = ANY(%(hashes)s)

-- name: entries_change
-- The change number of the newest entry.
SELECT coalesce(max(change), 0) FROM casenotes.entries WHERE agent_id = %(agent)s AND resource_id = %(resource)s

-- name: insert_entry
INSERT INTO casenotes.entries (agent_id, resource_id, entry_id, content, content_hash, source, status, verified,
                     thread_id, message_id, created_at, last_seen_at, change, origin, reflections_left,
                     valid_until, superseded_by)
VALUES (%(agent)s, %(resource)s, %(id)s, %(content)s, %(hash)s, %(source)s, %(status)s, %(verified)s,
        %(thread)s, %(message)s, %(created_at)s, %(created_at)s, %(change)s, %(origin)s, %(reflections_left)s,
        %(valid_until)s, %(superseded_by)s)

-- name: insert_evidence
INSERT INTO casenotes.evidence (agent_id, resource_id, entry_id, message_id, start, stop, quote_hash)
VALUES (%(agent)s, %(resource)s, %(entry)s, %(message)s, %(start)s, %(stop)s, %(hash)s)
ON CONFLICT DO NOTHING

-- name: see_entry_again
UPDATE casenotes.entries
   SET last_seen_at = greatest(last_seen_at, %(seen_at)s), verified = verified OR %(verified)s,
       origin = CASE WHEN %(remembered)s::boolean THEN 'remembered' ELSE origin END
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND entry_id = %(entry)s

-- name: insert_receipt
INSERT INTO casenotes.receipts (agent_id, resource_id, thread_id, turn_id, position, status, reason, detail,
                      content, source, quotes, entry_id, created_at)
VALUES (%(agent)s, %(resource)s, %(thread)s, %(turn)s, %(position)s, %(status)s, %(reason)s, %(detail)s,
        %(content)s, %(source)s, %(quotes)s, %(entry)s, %(at)s)

-- name: shown
-- In all turns of the thread, or up to one of them.
SELECT 'entry', e.value, t.turn_id
  FROM casenotes.turns AS t CROSS JOIN json_array_elements_text(t.shown -> '' -> 'entries') AS e
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s
   AND (%(turn)s::text IS NULL OR t.turn_id = %(turn)s OR t.first_seq <= (
        SELECT u.first_seq FROM casenotes.turns AS u
         WHERE u.agent_id = %(agent)s AND u.resource_id = %(resource)s AND u.thread_id = %(thread)s
           AND u.turn_id = %(turn)s))
UNION ALL
SELECT 'message', m.message_id, t.turn_id
  FROM casenotes.turns AS t CROSS JOIN json_array_elements_text(t.shown -> '' -> 'messages') AS n
  JOIN casenotes.messages AS m ON m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.number = n.value::bigint
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s
   AND (%(turn)s::text IS NULL OR t.turn_id = %(turn)s OR t.first_seq <= (
        SELECT u.first_seq FROM casenotes.turns AS u
         WHERE u.agent_id = %(agent)s AND u.resource_id = %(resource)s AND u.thread_id = %(thread)s
           AND u.turn_id = %(turn)s))

-- name: turn_items
-- All that was found for one turn, by the reason for which it was left out, empty for what was shown.
SELECT 'entry', e.value, t.turn_id, r.key FROM casenotes.turns AS t CROSS JOIN json_each(t.shown) AS r
 CROSS JOIN json_array_elements_text(r.value -> 'entries') AS e
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s AND t.turn_id = %(turn)s
UNION ALL
SELECT 'message', m.message_id, t.turn_id, r.key FROM casenotes.turns AS t CROSS JOIN json_each(t.shown) AS r
 CROSS JOIN json_array_elements_text(r.value -> 'messages') AS n
  JOIN casenotes.messages AS m ON m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.number = n.value::bigint
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s AND t.turn_id = %(turn)s

-- name: receipts
SELECT status, content, source, reason, detail, quotes, entry_id FROM casenotes.receipts
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND turn_id = %(turn)s
 ORDER BY position

-- name: ledger
SELECT thread_id, turn_id, created_at, status, content, source, reason, detail, quotes, entry_id FROM casenotes.receipts
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
   AND (%(status)s::text IS NULL OR status = %(status)s)
 ORDER BY created_at DESC, thread_id, turn_id DESC, position LIMIT %(limit)s

-- name: acquire_lease
-- Only for a thread that exists: whoever works on one that was erased must not leave its name behind.
INSERT INTO casenotes.leases AS l (agent_id, resource_id, thread_id, task, owner, fence, expires_at)
SELECT t.agent_id, t.resource_id, t.thread_id, %(task)s, %(owner)s, 1,
       clock_timestamp() + make_interval(secs => %(seconds)s)
  FROM casenotes.threads AS t
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s
   FOR KEY SHARE OF t
ON CONFLICT (agent_id, resource_id, thread_id, task) DO UPDATE SET owner = excluded.owner, fence = l.fence + 1, expires_at = excluded.expires_at
    WHERE l.expires_at <= clock_timestamp() -- or a clock was wrong
       OR l.expires_at > clock_timestamp() + make_interval(secs => greatest(%(seconds)s, %(longest)s))
RETURNING fence

-- name: renew_lease
UPDATE casenotes.leases SET expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND task = %(task)s
   AND owner = %(owner)s AND fence = %(fence)s

-- name: holds_lease
SELECT 1 FROM casenotes.leases
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND task = %(task)s
   AND owner = %(owner)s AND fence = %(fence)s
   FOR UPDATE

-- name: queued_turns
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at, pending FROM casenotes.turns
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
   AND learning = 'queued'
 ORDER BY closed_at, first_seq, turn_id

-- name: due_threads
-- With a turn for one of these layers.
SELECT t.agent_id, t.resource_id, t.thread_id FROM casenotes.turns AS t
 WHERE t.learning = 'queued' AND (t.due_at <= %(now)s OR t.due_at > %(latest)s)
   AND EXISTS (SELECT 1 FROM unnest(%(layers)s::text[]) AS l (name) WHERE strpos(coalesce(t.pending, ',memory,'), ',' || l.name || ',') > 0)
   AND NOT EXISTS (SELECT 1 FROM casenotes.leases AS l
                    WHERE l.agent_id = t.agent_id AND l.resource_id = t.resource_id
                      AND l.thread_id = t.thread_id AND l.task = 'extract'
                      AND l.expires_at > clock_timestamp()
                      AND l.expires_at <= clock_timestamp() + make_interval(secs => %(longest)s))
 GROUP BY t.agent_id, t.resource_id, t.thread_id ORDER BY min(t.closed_at) LIMIT %(limit)s

-- name: times_ahead
-- How many leases, retries and flushes wait for a time that none can have: a clock was wrong when it was written.
SELECT (SELECT count(*) FROM casenotes.leases WHERE expires_at > clock_timestamp() + make_interval(secs => %(longest)s)),
       (SELECT count(*) FROM casenotes.turns WHERE learning = 'queued' AND due_at > %(latest)s),
       (SELECT count(*) FROM casenotes.observing WHERE due_at > %(latest)s),
       (SELECT count(*) FROM casenotes.threads WHERE flush_at > %(at_latest)s)

-- name: dead_turns
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at, pending FROM casenotes.turns
 WHERE learning = 'dead' ORDER BY closed_at DESC LIMIT %(limit)s

-- name: revive_turns
UPDATE casenotes.turns SET learning = 'queued', attempts = 0, due_at = 'epoch' WHERE learning = 'dead'

-- name: turn_state
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at, pending FROM casenotes.turns
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND turn_id = %(turn)s

-- name: turn_messages
-- Nothing is learned from what was forgotten meanwhile.
SELECT message_id, m.thread_id, seq, role, text, parts, metadata, created_at
  FROM casenotes.turns AS t JOIN casenotes.messages AS m
    ON m.agent_id = t.agent_id AND m.resource_id = t.resource_id AND m.thread_id = t.thread_id
   AND m.seq >= t.first_seq AND m.turn_id = t.turn_id AND NOT m.hidden
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s AND t.turn_id = %(turn)s
 ORDER BY seq

-- name: messages_before_turn
SELECT * FROM (
    SELECT message_id, m.thread_id, seq, role, text, parts, metadata, created_at
      FROM casenotes.turns AS t JOIN casenotes.messages AS m
        ON m.agent_id = t.agent_id AND m.resource_id = t.resource_id AND m.thread_id = t.thread_id
       AND m.seq < t.first_seq AND NOT m.hidden
     WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s AND t.turn_id = %(turn)s
       AND role IN ('user', 'assistant') AND trim(text) <> ''
     ORDER BY seq DESC LIMIT %(limit)s) AS newest
ORDER BY seq

-- name: turn_learned
-- By one layer; the turn is done with when no other is left. Older releases name no layers: they know one.
UPDATE casenotes.turns
   SET pending = replace(coalesce(pending, ',memory,'), ',' || %(layer)s::text || ',', ','),
       learning = CASE WHEN coalesce(pending, ',memory,') = ',' || %(layer)s::text || ',' THEN 'done' ELSE learning END,
       error = CASE WHEN coalesce(pending, ',memory,') = ',' || %(layer)s::text || ',' THEN NULL ELSE error END
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND turn_id = %(turn)s
   AND learning IN ('queued', 'dead') AND strpos(coalesce(pending, ',memory,'), ',' || %(layer)s::text || ',') > 0

-- name: turn_failed
UPDATE casenotes.turns SET attempts = attempts + %(counts)s, due_at = %(due_at)s, error = %(error)s,
                 learning = CASE WHEN %(dead)s::boolean THEN 'dead' ELSE learning END
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND turn_id = %(turn)s
   AND learning = 'queued'

-- name: usage
SELECT task, calls, input_tokens, output_tokens, cost FROM casenotes.model_usage
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND day = %(day)s ORDER BY task

-- name: add_usage
INSERT INTO casenotes.model_usage AS u (agent_id, resource_id, day, task, calls, input_tokens, output_tokens, cost)
SELECT s.agent_id, s.resource_id, %(day)s, %(task)s, %(calls)s, %(input_tokens)s, %(output_tokens)s, %(cost)s
  FROM casenotes.scopes AS s WHERE s.agent_id = %(agent)s AND s.resource_id = %(resource)s
   FOR KEY SHARE OF s
ON CONFLICT (agent_id, resource_id, day, task) DO UPDATE SET calls = u.calls + excluded.calls,
                          input_tokens = u.input_tokens + excluded.input_tokens,
                          output_tokens = u.output_tokens + excluded.output_tokens,
                          cost = u.cost + excluded.cost

-- name: touch_scope
-- The next change number of a scope that exists; a late writer must not bring back one that was erased.
UPDATE casenotes.scopes SET change = change + 1 WHERE agent_id = %(agent)s AND resource_id = %(resource)s
RETURNING change, epoch

-- name: renew_scope
-- Indexes of this scope in memory, in any process, are to be built anew.
UPDATE casenotes.scopes SET epoch = epoch + 1 WHERE agent_id = %(agent)s AND resource_id = %(resource)s

-- name: finished_turns
SELECT agent_id, resource_id, thread_id, turn_id, status, learning, attempts, error, due_at, pending FROM casenotes.turns
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND status = 'success'
 ORDER BY closed_at, thread_id, first_seq, turn_id

-- name: revise_entry
-- Notes an entry as it is before it is changed; nothing if it is not as expected.
INSERT INTO casenotes.revisions (agent_id, resource_id, revision_id, kind, item_id, action, actor, status_before,
                       valid_until_before, superseded_by_before, successor_id, message_id, start, stop,
                       quote_hash, detail, created_at, change)
SELECT e.agent_id, e.resource_id, %(revision)s, 'entry', e.entry_id, %(action)s, %(actor)s, e.status,
       e.valid_until, e.superseded_by, %(successor)s, %(message)s, %(start)s, %(stop)s, %(hash)s, %(detail)s, %(at)s, %(change)s
  FROM casenotes.entries AS e
 WHERE e.agent_id = %(agent)s AND e.resource_id = %(resource)s AND e.entry_id = %(id)s AND e.status = %(before)s

-- name: change_entry
UPDATE casenotes.entries SET status = %(after)s, valid_until = %(valid_until)s, superseded_by = %(superseded_by)s, change = %(change)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND entry_id = %(id)s

-- name: revise_message
INSERT INTO casenotes.revisions (agent_id, resource_id, revision_id, kind, item_id, action, actor, detail, created_at, change)
SELECT m.agent_id, m.resource_id, %(revision)s, 'message', m.message_id, %(action)s, %(actor)s, %(detail)s, %(at)s, %(change)s
  FROM casenotes.messages AS m
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.message_id = %(id)s

-- name: hide_message
UPDATE casenotes.messages SET hidden = true
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND message_id = %(id)s

-- name: note_added
INSERT INTO casenotes.revisions (agent_id, resource_id, revision_id, kind, item_id, action, actor, detail, created_at, change)
VALUES (%(agent)s, %(resource)s, %(revision)s, 'entry', %(id)s, 'added', %(actor)s, '', %(at)s, %(change)s)

-- name: drop_item_vectors
DELETE FROM casenotes.vectors
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND kind = %(kind)s AND item_id = %(id)s

-- name: append_receipt
INSERT INTO casenotes.receipts (agent_id, resource_id, thread_id, turn_id, position, status, reason, detail,
                      content, source, quotes, entry_id, created_at)
SELECT %(agent)s, %(resource)s, %(thread)s, %(turn)s, coalesce(max(position), -1) + 1, %(status)s, %(reason)s, %(detail)s,
       %(content)s, %(source)s, %(quotes)s, %(entry)s, %(at)s::timestamptz
  FROM casenotes.receipts
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND turn_id = %(turn)s

-- name: revision_items
SELECT kind, item_id, action FROM casenotes.revisions
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND revision_id = %(revision)s AND undone_at IS NULL

-- name: later_revisions
-- Revisions that stand on one: they must be undone first.
SELECT DISTINCT later.revision_id FROM casenotes.revisions AS first JOIN casenotes.revisions AS later
    ON later.agent_id = first.agent_id AND later.resource_id = first.resource_id
   AND later.kind = first.kind AND later.item_id = first.item_id AND later.change > first.change
 WHERE first.agent_id = %(agent)s AND first.resource_id = %(resource)s AND first.revision_id = %(revision)s
   AND later.undone_at IS NULL

-- name: restore_entries
UPDATE casenotes.entries AS e SET status = r.status_before, valid_until = r.valid_until_before,
                        superseded_by = r.superseded_by_before, change = %(change)s
  FROM casenotes.revisions AS r
 WHERE r.agent_id = e.agent_id AND r.resource_id = e.resource_id AND r.item_id = e.entry_id AND r.kind = 'entry'
   AND r.status_before IS NOT NULL AND r.revision_id = %(revision)s
   AND e.agent_id = %(agent)s AND e.resource_id = %(resource)s

-- name: drop_added
UPDATE casenotes.entries AS e SET status = 'dropped', change = %(change)s
  FROM casenotes.revisions AS r
 WHERE r.agent_id = e.agent_id AND r.resource_id = e.resource_id AND r.item_id = e.entry_id AND r.kind = 'entry'
   AND r.action = 'added' AND r.revision_id = %(revision)s
   AND e.agent_id = %(agent)s AND e.resource_id = %(resource)s

-- name: show_messages
UPDATE casenotes.messages AS m SET hidden = (SELECT t.apart FROM casenotes.threads AS t
       WHERE t.agent_id = m.agent_id AND t.resource_id = m.resource_id AND t.thread_id = m.thread_id)
  FROM casenotes.revisions AS r
 WHERE r.agent_id = m.agent_id AND r.resource_id = m.resource_id AND r.item_id = m.message_id
   AND r.kind = 'message' AND r.revision_id = %(revision)s AND m.agent_id = %(agent)s AND m.resource_id = %(resource)s

-- name: mark_undone
UPDATE casenotes.revisions SET undone_at = %(at)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND revision_id = %(revision)s

-- name: history
SELECT r.revision_id, r.kind, r.item_id, r.action, r.actor, r.created_at, r.successor_id, r.detail, r.undone_at,
       r.message_id, r.start, r.stop, substr(m.text, (r.start + 1)::int, (r.stop - r.start)::int)
  FROM casenotes.revisions AS r LEFT JOIN casenotes.messages AS m
    ON m.agent_id = r.agent_id AND m.resource_id = r.resource_id AND m.message_id = r.message_id
 WHERE r.agent_id = %(agent)s AND r.resource_id = %(resource)s AND (r.item_id = ANY(%(ids)s) OR r.successor_id = ANY(%(ids)s))
 ORDER BY r.change, r.revision_id, r.kind, r.item_id

-- name: conflicts
SELECT r.item_id, r.successor_id FROM casenotes.revisions AS r
  JOIN casenotes.entries AS a ON a.agent_id = r.agent_id AND a.resource_id = r.resource_id AND a.entry_id = r.item_id
  JOIN casenotes.entries AS b ON b.agent_id = r.agent_id AND b.resource_id = r.resource_id AND b.entry_id = r.successor_id
 WHERE r.agent_id = %(agent)s AND r.resource_id = %(resource)s AND r.action = 'conflicting' AND r.undone_at IS NULL
   AND a.status = 'active' AND b.status = 'active' AND (r.item_id = ANY(%(ids)s) OR r.successor_id = ANY(%(ids)s))

-- name: entries_page
SELECT entry_id FROM casenotes.entries
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND status = ANY(%(statuses)s) AND entry_id > %(after)s
 ORDER BY entry_id LIMIT %(limit)s

-- name: evidence_rows
SELECT entry_id, message_id, start, stop, quote_hash FROM casenotes.evidence
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND entry_id = ANY(%(ids)s)
 ORDER BY entry_id, message_id, start

-- name: quoting_messages
SELECT DISTINCT entry_id FROM casenotes.evidence
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND message_id = ANY(%(ids)s)
 ORDER BY entry_id

-- name: quoting_thread
SELECT DISTINCT q.entry_id FROM casenotes.evidence AS q JOIN casenotes.messages AS m
    ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s
 ORDER BY q.entry_id

-- name: never_shown
SELECT entry_id FROM casenotes.entries
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND status = 'active' AND entry_id NOT IN (
     SELECT e.value FROM casenotes.turns AS t CROSS JOIN json_array_elements_text(t.shown -> '' -> 'entries') AS e
      WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s)
 ORDER BY entry_id

-- name: entry_owner
SELECT agent_id, resource_id FROM casenotes.entries WHERE entry_id = %(entry)s LIMIT 1

-- name: receipts_of_entry
SELECT thread_id, turn_id, created_at, status, content, source, reason, detail, quotes, entry_id FROM casenotes.receipts
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND entry_id = %(entry)s
 ORDER BY created_at, thread_id, turn_id, position

-- name: take_to_reflect
UPDATE casenotes.entries SET reflections_left = reflections_left - 1
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND entry_id IN (
     SELECT entry_id FROM casenotes.entries
      WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND reflections_left > 0 AND status = 'active'
      ORDER BY created_at DESC, entry_id DESC LIMIT %(limit)s)
RETURNING entry_id

-- name: reflected
UPDATE casenotes.entries SET reflections_left = 0
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND entry_id = ANY(%(ids)s)

-- name: erase_entries
-- Those whose text came from the thread, or that nothing else supports; all without a thread.
DELETE FROM casenotes.entries AS e
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s OR EXISTS (
     SELECT 1 FROM casenotes.evidence AS q JOIN casenotes.messages AS m
         ON m.agent_id = q.agent_id AND m.resource_id = q.resource_id AND m.message_id = q.message_id
      WHERE q.agent_id = e.agent_id AND q.resource_id = e.resource_id AND q.entry_id = e.entry_id
        AND m.thread_id = %(thread)s
        AND (e.origin = 'merged' OR NOT EXISTS (
            SELECT 1 FROM casenotes.evidence AS q2 JOIN casenotes.messages AS m2
                ON m2.agent_id = q2.agent_id AND m2.resource_id = q2.resource_id AND m2.message_id = q2.message_id
             WHERE q2.agent_id = e.agent_id AND q2.resource_id = e.resource_id AND q2.entry_id = e.entry_id
               AND m2.thread_id <> %(thread)s))))

-- name: erase_threads
DELETE FROM casenotes.threads
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: erase_messages
DELETE FROM casenotes.messages
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: erase_turns
DELETE FROM casenotes.turns
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: erase_receipts
-- Also in other threads those of entries that are gone, and what the reflector wanted to do with any of them.
DELETE FROM casenotes.receipts AS r
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s
     OR (entry_id IS NULL AND source = 'reflector')
     OR (entry_id IS NOT NULL AND NOT EXISTS (
         SELECT 1 FROM casenotes.entries AS e
          WHERE e.agent_id = r.agent_id AND e.resource_id = r.resource_id AND e.entry_id = r.entry_id)))

-- name: erase_leases
DELETE FROM casenotes.leases
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: erase_evidence
-- Here and below: what no longer has its item.
DELETE FROM casenotes.evidence AS q
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (
     NOT EXISTS (SELECT 1 FROM casenotes.messages AS m WHERE m.agent_id = q.agent_id AND m.resource_id = q.resource_id
                    AND m.message_id = q.message_id)
     OR NOT EXISTS (SELECT 1 FROM casenotes.entries AS e WHERE e.agent_id = q.agent_id AND e.resource_id = q.resource_id
                       AND e.entry_id = q.entry_id))

-- name: erase_vectors
DELETE FROM casenotes.vectors AS v
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (
     (kind = 'message' AND NOT EXISTS (SELECT 1 FROM casenotes.messages AS m
         WHERE m.agent_id = v.agent_id AND m.resource_id = v.resource_id AND m.message_id = v.item_id))
     OR (kind = 'entry' AND NOT EXISTS (SELECT 1 FROM casenotes.entries AS e
         WHERE e.agent_id = v.agent_id AND e.resource_id = v.resource_id AND e.entry_id = v.item_id)))

-- name: erase_shown
-- What turns of other threads had found of it.
UPDATE casenotes.turns AS t SET shown = (
    SELECT json_object_agg(r.key, json_build_object(
        'entries', (SELECT coalesce(json_agg(e.value), '[]') FROM json_array_elements_text(r.value -> 'entries') AS e
             WHERE EXISTS (SELECT 1 FROM casenotes.entries AS n
                 WHERE n.agent_id = %(agent)s AND n.resource_id = %(resource)s AND n.entry_id = e.value)),
        'messages', (SELECT coalesce(json_agg(m.value), '[]') FROM json_array_elements(r.value -> 'messages') AS m
             WHERE EXISTS (SELECT 1 FROM casenotes.messages AS n
                 WHERE n.agent_id = %(agent)s AND n.resource_id = %(resource)s AND n.number = m.value::text::bigint))))
      FROM json_each(t.shown) AS r)
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND EXISTS (
    SELECT 1 FROM json_each(t.shown) AS r
     WHERE EXISTS (SELECT 1 FROM json_array_elements_text(r.value -> 'messages') AS m
            WHERE NOT EXISTS (SELECT 1 FROM casenotes.messages AS n
                WHERE n.agent_id = %(agent)s AND n.resource_id = %(resource)s AND n.number = m.value::bigint))
        OR EXISTS (SELECT 1 FROM json_array_elements_text(r.value -> 'entries') AS e
            WHERE NOT EXISTS (SELECT 1 FROM casenotes.entries AS n
                WHERE n.agent_id = %(agent)s AND n.resource_id = %(resource)s AND n.entry_id = e.value)))

-- name: erase_revisions
DELETE FROM casenotes.revisions AS r
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (
     (kind = 'message' AND NOT EXISTS (SELECT 1 FROM casenotes.messages AS m
         WHERE m.agent_id = r.agent_id AND m.resource_id = r.resource_id AND m.message_id = r.item_id))
     OR (kind = 'entry' AND NOT EXISTS (SELECT 1 FROM casenotes.entries AS e
         WHERE e.agent_id = r.agent_id AND e.resource_id = r.resource_id AND e.entry_id = r.item_id)))

-- name: erase_usage
DELETE FROM casenotes.model_usage WHERE agent_id = %(agent)s AND resource_id = %(resource)s

-- name: erase_scope
DELETE FROM casenotes.scopes WHERE agent_id = %(agent)s AND resource_id = %(resource)s

-- name: count_erasure
UPDATE casenotes.erasures SET count = count + 1

-- name: stored_texts
-- Everything that people or models wrote, and the ids they gave.
SELECT text FROM casenotes.messages WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT metadata FROM casenotes.messages WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT message_id FROM casenotes.messages WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT thread_id FROM casenotes.threads WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT title FROM casenotes.threads WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT metadata FROM casenotes.threads WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT error FROM casenotes.turns WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT content FROM casenotes.receipts WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT quotes FROM casenotes.receipts WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT detail FROM casenotes.receipts WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT content FROM casenotes.entries WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT detail FROM casenotes.revisions WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND %(thread)s::text IS NULL
UNION SELECT summary FROM casenotes.episodes WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT text FROM casenotes.observations WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT error FROM casenotes.observing WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT resource_id FROM casenotes.scopes WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND %(thread)s::text IS NULL

-- name: fingerprints
-- What earlier erasures of an owner have yet to prove.
SELECT fingerprints FROM casenotes.unproven_erasures WHERE owner = %(owner)s

-- name: add_fingerprints
INSERT INTO casenotes.unproven_erasures AS e (owner, fingerprints) VALUES (%(owner)s, %(fingerprints)s)
    ON CONFLICT (owner) DO UPDATE SET fingerprints = e.fingerprints || excluded.fingerprints

-- name: drop_fingerprints
-- Unless another erasure has added to them meanwhile.
DELETE FROM casenotes.unproven_erasures WHERE owner = %(owner)s AND fingerprints = %(fingerprints)s

-- name: hold_scope
-- Whoever writes to the scope waits, and then finds it as it is after the erasure.
SELECT 1 FROM casenotes.scopes WHERE agent_id = %(agent)s AND resource_id = %(resource)s FOR UPDATE

-- name: share_scope
-- Waits for an erasure and is waited for by one; writers do not wait for each other.
SELECT 1 FROM casenotes.scopes WHERE agent_id = %(agent)s AND resource_id = %(resource)s FOR KEY SHARE

-- name: stored_vectors
-- But not those that others have as well, for the same words.
SELECT vector FROM casenotes.vectors AS v
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR item_id IN (
     SELECT message_id FROM casenotes.messages AS m
      WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s))
EXCEPT
SELECT vector FROM casenotes.vectors AS v
 WHERE NOT (agent_id = %(agent)s AND resource_id = %(resource)s) OR (%(thread)s::text IS NOT NULL AND item_id NOT IN (
     SELECT message_id FROM casenotes.messages AS m
      WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s))

-- name: is_live
-- Whether some row contains these bytes with good reason.
SELECT EXISTS (SELECT 1 FROM casenotes.messages
                WHERE position(%(piece)s::bytea IN convert_to(
                    concat_ws(chr(10), text, parts, metadata, message_id, thread_id, resource_id), 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.threads
                WHERE position(%(piece)s::bytea IN convert_to(concat_ws(chr(10), title, metadata), 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.turns WHERE position(%(piece)s::bytea IN convert_to(error, 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.entries WHERE position(%(piece)s::bytea IN convert_to(content, 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.receipts
                WHERE position(%(piece)s::bytea IN convert_to(concat_ws(chr(10), content, quotes, detail), 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.revisions WHERE position(%(piece)s::bytea IN convert_to(detail, 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.layer_states
                WHERE position(%(piece)s::bytea IN convert_to(concat_ws(chr(10), value, author), 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.episodes WHERE position(%(piece)s::bytea IN convert_to(summary, 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.events WHERE position(%(piece)s::bytea IN convert_to(data, 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.observations WHERE position(%(piece)s::bytea IN convert_to(text, 'UTF8')) > 0)
    OR EXISTS (SELECT 1 FROM casenotes.observing
                WHERE position(%(piece)s::bytea IN convert_to(concat_ws(chr(10), session, error), 'UTF8')) > 0)

-- name: data_directory
-- And the name that this database has there. Only those may know it who may read all settings.
SELECT CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE') THEN current_setting('data_directory') END,
       (SELECT oid::text FROM pg_catalog.pg_database WHERE datname = current_database())

-- name: hidden_messages
SELECT message_id FROM casenotes.messages
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND message_id = ANY(%(ids)s) AND hidden

-- name: restore_merged
-- Entries of other threads that were told in a merged one are current again when that one is gone.
UPDATE casenotes.entries AS e SET status = 'active', valid_until = NULL, superseded_by = NULL
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND status = 'superseded' AND EXISTS (
     SELECT 1 FROM casenotes.revisions AS r
      WHERE r.agent_id = e.agent_id AND r.resource_id = e.resource_id AND r.item_id = e.entry_id
        AND r.action = 'merged' AND r.successor_id = e.superseded_by AND r.undone_at IS NULL)
   AND NOT EXISTS (SELECT 1 FROM casenotes.entries AS n
                    WHERE n.agent_id = e.agent_id AND n.resource_id = e.resource_id AND n.entry_id = e.superseded_by)
   AND NOT EXISTS (SELECT 1 FROM casenotes.entries AS n
                    WHERE n.agent_id = e.agent_id AND n.resource_id = e.resource_id
                      AND n.content_hash = e.content_hash AND n.status = 'active')

-- name: loosen_successors
UPDATE casenotes.entries AS e SET superseded_by = NULL
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND superseded_by IS NOT NULL AND NOT EXISTS (
     SELECT 1 FROM casenotes.entries AS n
      WHERE n.agent_id = e.agent_id AND n.resource_id = e.resource_id AND n.entry_id = e.superseded_by)

-- name: loosen_quotes
-- Revisions whose words are gone keep what happened.
UPDATE casenotes.revisions AS r SET message_id = NULL, start = NULL, stop = NULL, quote_hash = NULL
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND message_id IS NOT NULL AND NOT EXISTS (
     SELECT 1 FROM casenotes.messages AS m
      WHERE m.agent_id = r.agent_id AND m.resource_id = r.resource_id AND m.message_id = r.message_id)

-- name: read_state
SELECT value, version, author, created_at FROM casenotes.layer_states
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND layer = %(layer)s
 ORDER BY version DESC LIMIT %(limit)s

-- name: write_state
-- Only if the newest version is the one that was seen, and only for a scope or thread that exists.
INSERT INTO casenotes.layer_states (agent_id, resource_id, thread_id, layer, version, value, author, created_at)
SELECT s.agent_id, s.resource_id, %(thread)s::text, %(layer)s::text, %(seen)s::bigint + 1, %(value)s::text, %(author)s::text, %(at)s::timestamptz FROM casenotes.scopes AS s
 WHERE s.agent_id = %(agent)s AND s.resource_id = %(resource)s
   AND (%(thread)s::text = '' OR EXISTS (SELECT 1 FROM casenotes.threads AS t
        WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s))
   AND %(seen)s::bigint = (SELECT coalesce(max(l.version), 0) FROM casenotes.layer_states AS l
                 WHERE l.agent_id = %(agent)s AND l.resource_id = %(resource)s AND l.thread_id = %(thread)s AND l.layer = %(layer)s)
ON CONFLICT DO NOTHING

-- name: drop_old_states
DELETE FROM casenotes.layer_states
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND layer = %(layer)s
   AND version <= %(seen)s::bigint + 1 - %(keep)s::bigint

-- name: ensure_scope
INSERT INTO casenotes.scopes (agent_id, resource_id, change, epoch)
VALUES (%(agent)s, %(resource)s, 1, (SELECT 1000000 * count FROM casenotes.erasures))
ON CONFLICT (agent_id, resource_id) DO NOTHING

-- name: has_scope
-- Scope and thread, and the turn on whose behalf it is asked.
SELECT EXISTS (SELECT 1 FROM casenotes.scopes WHERE agent_id = %(agent)s AND resource_id = %(resource)s)
   AND (%(thread)s::text = '' OR EXISTS (SELECT 1 FROM casenotes.threads
        WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s))
   AND (%(turn)s::text IS NULL OR EXISTS (SELECT 1 FROM casenotes.turns
        WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(turn_thread)s
          AND turn_id = %(turn)s))

-- name: scope_states
-- All versions of what layers keep for the resource and for its threads.
SELECT thread_id, layer, version, value FROM casenotes.layer_states WHERE agent_id = %(agent)s AND resource_id = %(resource)s

-- name: replace_state
UPDATE casenotes.layer_states SET value = %(value)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(kept_in)s AND layer = %(layer)s AND version = %(version)s

-- name: renew_state
-- Whoever decided on the newest version before something was taken out of it must decide again.
UPDATE casenotes.layer_states SET version = version + 1
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(kept_in)s AND layer = %(layer)s
   AND version = (SELECT max(l.version) FROM casenotes.layer_states AS l
                   WHERE l.agent_id = %(agent)s AND l.resource_id = %(resource)s AND l.thread_id = %(kept_in)s AND l.layer = %(layer)s)

-- name: run_start
-- The last message of the thread's last finished run.
SELECT run_seq FROM casenotes.threads
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: end_run
-- Only with the message that it ended with: the thread may have been erased and begun anew.
UPDATE casenotes.threads SET run_seq = %(last_seq)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND run_seq < %(last_seq)s
   AND EXISTS (SELECT 1 FROM casenotes.messages AS m
                WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s
                  AND m.message_id = %(last_message)s AND m.seq = %(last_seq)s)

-- name: insert_episode
INSERT INTO casenotes.episodes (agent_id, resource_id, episode_id, thread_id, summary, outcome, token_count, created_at)
VALUES (%(agent)s, %(resource)s, %(id)s, %(thread)s, %(summary)s, %(outcome)s, %(token_count)s, %(at)s)

-- name: drop_old_episodes
DELETE FROM casenotes.episodes
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND episode_id NOT IN (
     SELECT episode_id FROM casenotes.episodes
      WHERE agent_id = %(agent)s AND resource_id = %(resource)s
      ORDER BY created_at DESC, episode_id DESC LIMIT %(keep)s)

-- name: episodes
-- Not of threads of which something was forgotten since: the summary may tell it.
SELECT episode_id, summary, created_at, outcome, token_count, thread_id FROM casenotes.episodes AS e
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s
   AND (%(before)s::timestamptz IS NULL OR created_at < %(before)s)
   AND NOT EXISTS (SELECT 1 FROM casenotes.messages AS m JOIN casenotes.revisions AS r
                       ON r.agent_id = m.agent_id AND r.resource_id = m.resource_id AND r.item_id = m.message_id
                      AND r.kind = 'message' AND r.undone_at IS NULL AND r.created_at >= e.created_at
                    WHERE m.agent_id = e.agent_id AND m.resource_id = e.resource_id AND m.thread_id = e.thread_id
                      AND m.hidden)
 ORDER BY created_at DESC, episode_id DESC LIMIT %(limit)s

-- name: shared_episodes
-- Of all users of an agent: only where the operator has switched sharing on.
SELECT episode_id, summary, created_at, outcome, token_count, thread_id FROM casenotes.episodes AS e
 WHERE agent_id = %(agent)s AND resource_id <> ''
   AND (%(before)s::timestamptz IS NULL OR created_at < %(before)s)
   AND NOT EXISTS (SELECT 1 FROM casenotes.messages AS m JOIN casenotes.revisions AS r
                       ON r.agent_id = m.agent_id AND r.resource_id = m.resource_id AND r.item_id = m.message_id
                      AND r.kind = 'message' AND r.undone_at IS NULL AND r.created_at >= e.created_at
                    WHERE m.agent_id = e.agent_id AND m.resource_id = e.resource_id AND m.thread_id = e.thread_id
                      AND m.hidden)
 ORDER BY created_at DESC, episode_id DESC LIMIT %(limit)s

-- name: passages
-- Messages with those around them in their threads.
SELECT DISTINCT n.message_id, n.thread_id, n.seq, n.role, n.text, n.parts, n.metadata, n.created_at
  FROM casenotes.messages AS h JOIN casenotes.messages AS n
    ON n.agent_id = h.agent_id AND n.resource_id = h.resource_id AND n.thread_id = h.thread_id
   AND n.seq BETWEEN h.seq - %(before)s::bigint AND h.seq + %(after)s::bigint
 WHERE h.agent_id = %(agent)s AND h.resource_id = %(resource)s AND h.message_id = ANY(%(ids)s)
   AND NOT h.hidden AND NOT n.hidden
 ORDER BY n.thread_id, n.seq

-- name: erase_states
DELETE FROM casenotes.layer_states
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: erase_episodes
DELETE FROM casenotes.episodes
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: title
SELECT title FROM casenotes.threads
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: add_event
-- Only for a thread that exists: what is told late must not bring back one that was erased.
INSERT INTO casenotes.events (agent_id, resource_id, thread_id, name, data, created_at)
SELECT t.agent_id, t.resource_id, t.thread_id, %(name)s::text, %(data)s::text, %(at)s::timestamptz
  FROM casenotes.threads AS t
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s

-- name: drop_old_events
DELETE FROM casenotes.events
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND position <= (SELECT e.position FROM casenotes.events AS e
                     WHERE e.agent_id = %(agent)s AND e.resource_id = %(resource)s AND e.thread_id = %(thread)s
                     ORDER BY e.position DESC OFFSET %(keep)s::bigint LIMIT 1)

-- name: events
SELECT name, created_at, data FROM casenotes.events
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
 ORDER BY position DESC LIMIT %(limit)s

-- name: erase_events
DELETE FROM casenotes.events
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: stored_json
-- By kind: in each of them other names stand for what is the same for everybody.
SELECT 'state', value FROM casenotes.layer_states WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT 'event', data FROM casenotes.events WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT 'session', session FROM casenotes.observing WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
UNION SELECT 'parts', parts FROM casenotes.messages WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s) AND parts IS NOT NULL

-- name: watch_thread
-- It is observed from now on, and flushed when nobody speaks in it for a while; seldom written again.
UPDATE casenotes.threads SET observe_at = coalesce(observe_at, %(step)s), to_observe = (tokens >= coalesce(observe_at, %(step)s)),
                   flush_at = CASE WHEN flush_at IS NULL OR flush_at < %(unless)s::timestamptz OR flush_at > %(latest)s::timestamptz THEN %(flush_at)s::timestamptz ELSE flush_at END
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND (observe_at IS NULL OR (%(flush_at)s::timestamptz IS NOT NULL AND (flush_at IS NULL OR flush_at < %(unless)s::timestamptz
        OR flush_at > %(latest)s::timestamptz)))

-- name: observing_state
SELECT t.agent_id, t.resource_id, t.thread_id, t.last_seq, t.tokens, t.observe_at, t.flush_at,
       (SELECT s.change FROM casenotes.scopes AS s WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id),
       EXISTS (SELECT 1 FROM casenotes.turns AS u
                WHERE u.agent_id = t.agent_id AND u.resource_id = t.resource_id AND u.thread_id = t.thread_id AND u.status = 'open'),
       o.observed_seq, o.observed_tokens,
       o.active_seq, o.active_tokens, o.window_seq, o.asked_first, o.asked_last, o.log_tokens, o.ready_tokens, o.version, o.reflecting, o.reflect_at, o.reflected,
       o.session, o.session_seq, o.session_change, o.provider, o.attempts, o.due_at, o.error, o.dead, o.usage_day, o.usage_calls, o.usage_tokens
  FROM casenotes.threads AS t LEFT JOIN casenotes.observing AS o
    ON o.agent_id = t.agent_id AND o.resource_id = t.resource_id AND o.thread_id = t.thread_id
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s

-- name: observing_states
SELECT t.agent_id, t.resource_id, t.thread_id, t.last_seq, t.tokens, t.observe_at, t.flush_at,
       (SELECT s.change FROM casenotes.scopes AS s WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id),
       EXISTS (SELECT 1 FROM casenotes.turns AS u
                WHERE u.agent_id = t.agent_id AND u.resource_id = t.resource_id AND u.thread_id = t.thread_id AND u.status = 'open'),
       o.observed_seq, o.observed_tokens,
       o.active_seq, o.active_tokens, o.window_seq, o.asked_first, o.asked_last, o.log_tokens, o.ready_tokens, o.version, o.reflecting, o.reflect_at, o.reflected,
       o.session, o.session_seq, o.session_change, o.provider, o.attempts, o.due_at, o.error, o.dead, o.usage_day, o.usage_calls, o.usage_tokens
  FROM casenotes.threads AS t LEFT JOIN casenotes.observing AS o
    ON o.agent_id = t.agent_id AND o.resource_id = t.resource_id AND o.thread_id = t.thread_id
 WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s
   AND t.observe_at IS NOT NULL AND (t.to_observe OR t.flush_at IS NOT NULL OR o.ready_tokens > 0)

-- name: dead_observing
SELECT t.agent_id, t.resource_id, t.thread_id, t.last_seq, t.tokens, t.observe_at, t.flush_at,
       (SELECT s.change FROM casenotes.scopes AS s WHERE s.agent_id = t.agent_id AND s.resource_id = t.resource_id),
       EXISTS (SELECT 1 FROM casenotes.turns AS u
                WHERE u.agent_id = t.agent_id AND u.resource_id = t.resource_id AND u.thread_id = t.thread_id AND u.status = 'open'),
       o.observed_seq, o.observed_tokens,
       o.active_seq, o.active_tokens, o.window_seq, o.asked_first, o.asked_last, o.log_tokens, o.ready_tokens, o.version, o.reflecting, o.reflect_at, o.reflected,
       o.session, o.session_seq, o.session_change, o.provider, o.attempts, o.due_at, o.error, o.dead, o.usage_day, o.usage_calls, o.usage_tokens
  FROM casenotes.observing AS o JOIN casenotes.threads AS t
    ON t.agent_id = o.agent_id AND t.resource_id = o.resource_id AND t.thread_id = o.thread_id
 WHERE o.dead ORDER BY o.due_at DESC LIMIT %(limit)s

-- name: window_messages
-- What is shown as it was said, newest first; without what was forgotten.
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM casenotes.messages AS m
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s
   AND (m.seq > %(after)s OR m.seq BETWEEN %(asked_first)s AND %(asked_last)s)
   AND (NOT m.hidden OR (SELECT t.apart FROM casenotes.threads AS t WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s))
 ORDER BY seq DESC LIMIT %(limit)s

-- name: unobserved_messages
SELECT message_id, thread_id, seq, role, text, parts, metadata, created_at FROM casenotes.messages AS m
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s AND m.seq > %(after)s
   AND (NOT m.hidden OR (SELECT t.apart FROM casenotes.threads AS t WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s))
 ORDER BY seq LIMIT %(limit)s

-- name: newest_sizes
SELECT seq, coalesce(tokens, 4 + (length(text) + coalesce(length(parts), 0)) / 4) FROM casenotes.messages AS m
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s
   AND (NOT m.hidden OR (SELECT t.apart FROM casenotes.threads AS t WHERE t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s))
 ORDER BY seq DESC LIMIT %(limit)s

-- name: observation_batches
SELECT first_seq, last_seq, tokens, row_count, outcome, created_at FROM casenotes.observation_batches
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND last_seq > %(after)s
 ORDER BY last_seq

-- name: observation_log
SELECT observation_id, priority, happened_at, text, covers, status, until_at, dates, parent_id, supersedes, successor_id,
       tokens, position, seen_change, created_at FROM casenotes.observations
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND status = ANY(%(statuses)s)
 ORDER BY position, observation_id

-- name: dated_observations
-- Few rows speak of another day; those that are shown.
SELECT observation_id, priority, happened_at, text, covers, status, until_at, dates, parent_id, supersedes, successor_id,
       tokens, position, seen_change, created_at FROM casenotes.observations
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND status = 'active' AND dates <> '[]'
 ORDER BY position, observation_id

-- name: observation_tail
SELECT * FROM (
    SELECT observation_id, priority, happened_at, text, covers, status, until_at, dates, parent_id, supersedes, successor_id,
           tokens, position, seen_change, created_at FROM casenotes.observations
     WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND status IN ('ready', 'active')
     ORDER BY position DESC, observation_id DESC LIMIT %(limit)s) AS newest
ORDER BY position, observation_id

-- name: forgotten_messages
-- By the user, and at which change of the scope; a thread that is apart has hidden messages only.
SELECT m.seq, max(r.change) FROM casenotes.messages AS m JOIN casenotes.revisions AS r
    ON r.agent_id = m.agent_id AND r.resource_id = m.resource_id AND r.item_id = m.message_id
   AND r.kind = 'message' AND r.undone_at IS NULL
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s AND m.hidden
 GROUP BY m.seq ORDER BY m.seq

-- name: ensure_observing
INSERT INTO casenotes.observing (agent_id, resource_id, thread_id)
SELECT agent_id, resource_id, thread_id FROM casenotes.threads
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
ON CONFLICT DO NOTHING

-- name: move_cursor
-- Only from where it was seen. What went wrong before is forgotten.
UPDATE casenotes.observing SET observed_seq = %(last_seq)s, session = %(session)s, session_seq = %(last_seq)s, session_change = %(change)s,
       attempts = 0, error = NULL, dead = false, due_at = 'epoch',
       observed_tokens = observed_tokens + (
           SELECT coalesce(sum(coalesce(m.tokens, 4 + (length(m.text) + coalesce(length(m.parts), 0)) / 4)), 0) FROM casenotes.messages AS m
            WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s
              AND m.seq > %(seen)s AND m.seq <= %(last_seq)s)
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND observed_seq = %(seen)s

-- name: insert_batch
INSERT INTO casenotes.observation_batches (agent_id, resource_id, thread_id, last_seq, first_seq, tokens, row_count, outcome, created_at)
SELECT %(agent)s, %(resource)s, %(thread)s, %(last_seq)s, %(seen)s + 1,
       coalesce(sum(coalesce(m.tokens, 4 + (length(m.text) + coalesce(length(m.parts), 0)) / 4)), 0), %(rows)s, %(outcome)s, %(at)s
  FROM casenotes.messages AS m
 WHERE m.agent_id = %(agent)s AND m.resource_id = %(resource)s AND m.thread_id = %(thread)s AND m.seq > %(seen)s AND m.seq <= %(last_seq)s

-- name: insert_observation
INSERT INTO casenotes.observations (agent_id, resource_id, thread_id, observation_id, position, priority, happened_at, until_at, dates, text,
                          parent_id, first_seq, last_seq, covers, status, supersedes, successor_id, tokens, seen_change, created_at)
VALUES (%(agent)s, %(resource)s, %(thread)s, %(id)s, %(position)s, %(priority)s, %(happened_at)s, %(until_at)s, %(dates)s, %(text)s,
        %(parent)s, %(first_seq)s, %(last_seq)s, %(covers)s, %(status)s, %(supersedes)s, NULL, %(tokens)s, %(change)s, %(at)s)

-- name: count_observations
UPDATE casenotes.observing SET
       log_tokens = (SELECT coalesce(sum(n.tokens), 0) FROM casenotes.observations AS n
                      WHERE n.agent_id = %(agent)s AND n.resource_id = %(resource)s AND n.thread_id = %(thread)s AND n.status = 'active'),
       ready_tokens = (SELECT coalesce(sum(n.tokens), 0) FROM casenotes.observations AS n
                        WHERE n.agent_id = %(agent)s AND n.resource_id = %(resource)s AND n.thread_id = %(thread)s AND n.status = 'ready'
                          AND n.supersedes = '[]')
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: next_observation
UPDATE casenotes.threads AS t SET observe_at = o.observed_tokens + %(step)s, to_observe = (t.tokens >= o.observed_tokens + %(step)s)
  FROM casenotes.observing AS o
 WHERE o.agent_id = t.agent_id AND o.resource_id = t.resource_id AND o.thread_id = t.thread_id
   AND t.agent_id = %(agent)s AND t.resource_id = %(resource)s AND t.thread_id = %(thread)s

-- name: postpone_observation
-- Until so many tokens were said; what was seen of the thread must still be all there is.
UPDATE casenotes.threads SET observe_at = %(until)s, to_observe = (tokens >= %(until)s)
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND tokens = %(tokens)s

-- name: activate
UPDATE casenotes.observing SET active_seq = %(to_seq)s, active_tokens = %(to_tokens)s, window_seq = %(window_seq)s,
                     asked_first = %(asked_first)s, asked_last = %(asked_last)s,
                     version = version + 1, reflecting = false
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND version = %(seen)s AND observed_seq >= %(to_seq)s AND active_seq <= %(to_seq)s

-- name: retire_observations
-- Those that a reflection has left out or put into other words.
UPDATE casenotes.observations SET status = CASE WHEN successor_id = '' THEN 'dropped' ELSE 'superseded' END
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND status = 'active' AND successor_id IS NOT NULL

-- name: activate_observations
UPDATE casenotes.observations SET status = 'active'
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND status = 'ready' AND last_seq <= %(to_seq)s

-- name: count_replaceable
SELECT count(*) FROM casenotes.observations
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s
   AND status = 'active' AND successor_id IS NULL AND observation_id = ANY(%(ids)s)

-- name: replace_observation
UPDATE casenotes.observations SET successor_id = %(successor)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND observation_id = %(id)s

-- name: note_reflection
UPDATE casenotes.observing SET reflecting = %(staged)s, reflect_at = %(reflect_at)s, reflected = %(input)s,
                     attempts = 0, error = NULL, dead = false, due_at = 'epoch'
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: request_flush
UPDATE casenotes.threads SET flush_at = %(at)s, observe_at = coalesce(observe_at, 0)
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND last_seq > 0

-- name: flushed
UPDATE casenotes.threads SET flush_at = NULL
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND flush_at <= %(until)s

-- name: note_provider
UPDATE casenotes.observing SET provider = %(provider)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: threads_to_observe
-- With something to observe, and nobody at it.
SELECT t.agent_id, t.resource_id, t.thread_id FROM (
    SELECT agent_id, resource_id, thread_id FROM casenotes.threads WHERE to_observe
    UNION SELECT agent_id, resource_id, thread_id FROM casenotes.threads
           WHERE flush_at <= %(at)s OR flush_at > %(at_latest)s) AS t
  LEFT JOIN casenotes.observing AS o ON o.agent_id = t.agent_id AND o.resource_id = t.resource_id AND o.thread_id = t.thread_id
 WHERE NOT coalesce(o.dead, false) AND (coalesce(o.due_at, 'epoch') <= %(now)s OR o.due_at > %(latest)s)
   AND NOT EXISTS (SELECT 1 FROM casenotes.leases AS l
                    WHERE l.agent_id = t.agent_id AND l.resource_id = t.resource_id
                      AND l.thread_id = t.thread_id AND l.task = 'observe'
                      AND l.expires_at > clock_timestamp()
                      AND l.expires_at <= clock_timestamp() + make_interval(secs => %(longest)s))
 ORDER BY o.due_at NULLS FIRST, t.agent_id, t.resource_id, t.thread_id LIMIT %(limit)s

-- name: observing_failed
UPDATE casenotes.observing SET attempts = attempts + %(counts)s, due_at = %(due_at)s, error = %(error)s, dead = %(dead)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: count_observing
UPDATE casenotes.observing SET usage_calls = CASE WHEN usage_day = %(day)s THEN usage_calls ELSE 0 END + %(calls)s,
                     usage_tokens = CASE WHEN usage_day = %(day)s THEN usage_tokens ELSE 0 END + %(tokens)s,
                     usage_day = %(day)s
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: revive_observing
UPDATE casenotes.observing SET dead = false, attempts = 0, due_at = 'epoch' WHERE dead

-- name: reset_observing
UPDATE casenotes.observing SET observed_seq = 0, observed_tokens = 0, active_seq = 0, active_tokens = 0, window_seq = 0, asked_first = 0, asked_last = 0,
       log_tokens = 0, ready_tokens = 0, version = version + 1, reflecting = false, reflect_at = 0, reflected = '',
       session = '{}', session_seq = 0, session_change = 0, attempts = 0, due_at = 'epoch', error = NULL, dead = false
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s AND observed_seq > 0

-- name: reset_thread
UPDATE casenotes.threads SET observe_at = 0, to_observe = true
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND thread_id = %(thread)s

-- name: erase_observing
DELETE FROM casenotes.observing
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: erase_batches
DELETE FROM casenotes.observation_batches
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)

-- name: erase_observations
DELETE FROM casenotes.observations
 WHERE agent_id = %(agent)s AND resource_id = %(resource)s AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
