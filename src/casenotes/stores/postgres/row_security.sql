-- Optional second lock: PostgreSQL itself hides every row outside the scope of the transaction.
-- Run this once as the owner of the tables, then let the application connect as another role that
-- has SELECT, INSERT, UPDATE and DELETE on them. See docs/how-to/postgresql.md.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['scopes', 'threads', 'messages', 'turns', 'vectors', 'entries', 'evidence',
                                'receipts', 'leases', 'model_usage', 'revisions', 'layer_states',
                                'episodes', 'events', 'observing', 'observation_batches', 'observations'] LOOP
        EXECUTE format('ALTER TABLE casenotes.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('DROP POLICY IF EXISTS own_scope ON casenotes.%I', name);
        EXECUTE format(
            'CREATE POLICY own_scope ON casenotes.%I USING ('
            'agent_id = current_setting(''casenotes.agent_id'', true) AND '
            'resource_id = current_setting(''casenotes.resource_id'', true))', name);
    END LOOP;
END $$;
