-- Roles of the notice tables, each with the rights of one task. Run it in the database of the tables, after each migration, as a
-- superuser, or as the account that has created the tables, if that may create roles. It may run again at any time. It finds the tables by
-- the search path.
--
-- Roles belong to the server: an account with one of these names has its rights in every database where this script has run. For a
-- database of its own accounts, replace the five names in this script.
--
--     notify_owner     migrates: owns the tables, and creates new ones in their schema
--     notify_producer  adds notices, and marks idempotency keys of an inbox
--     notify_sweeper   sends, and carries out the verbs of operators; it cannot change the schema
--     notify_editor    edits definitions, and reads no notice
--     notify_reader    reads everything, parameters included; a report needs SELECT on the three views alone
--
-- Then give a role to an account:
--     CREATE ROLE shop LOGIN PASSWORD '…' IN ROLE notify_producer;
DO $$
DECLARE
    name   text;
    object record;
    here   text := (SELECT c.relnamespace::regnamespace::text FROM pg_class c WHERE c.oid = to_regclass('notify_schema'));
BEGIN
    IF here IS NULL THEN
        RAISE EXCEPTION 'the search path finds no notice tables: migrate first, or set search_path to their schema';
    END IF;
    -- For the statements below, too.
    PERFORM set_config('search_path', here, false);
    FOREACH name IN ARRAY ARRAY['notify_owner', 'notify_producer', 'notify_sweeper', 'notify_editor', 'notify_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', here, name);
    END LOOP;
    EXECUTE format('GRANT CREATE ON SCHEMA %s TO notify_owner', here);
    -- Only a member of the new owner may give it the tables, and grant rights to them in the next run.
    IF NOT pg_has_role(current_user, 'notify_owner', 'USAGE') THEN
        EXECUTE format('GRANT notify_owner TO %I', current_user);
    END IF;
    -- The owner of a table owns its indexes and sequences.
    FOR object IN
        SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name
        FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v') AND c.relname IN (
            'notify_alert', 'notify_audit', 'notify_authority', 'notify_count', 'notify_def', 'notify_def_version', 'notify_inbox', 'notify_limit',
            'notify_msg', 'notify_msg_history', 'notify_node', 'notify_passing', 'notify_schema', 'notify_series', 'notify_switch',
            'notify_pending', 'notify_done', 'notify_error')
        UNION ALL
        SELECT 'FUNCTION', p.oid::regprocedure::text
        FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace AND p.proname IN ('notify_add', 'notify_ack')
    LOOP
        EXECUTE format('ALTER %s %s OWNER TO notify_owner', object.kind, object.name);
        -- Each function of a name; PUBLIC has this right, too, unless the database takes it away.
        IF object.kind = 'FUNCTION' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO notify_sweeper', object.name);
            IF object.name NOT LIKE '%notify_ack(%' THEN
                EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO notify_producer', object.name);
            END IF;
        END IF;
    END LOOP;
END
$$;

GRANT SELECT ON notify_def TO notify_producer;
-- UPDATE on a column, because unique_until_claimed locks the row that has the key, and a lock needs it. This column decides nothing.
GRANT SELECT, UPDATE (trace_context) ON notify_msg TO notify_producer;
-- By column, and not the id: with the id of an ended bulk act a notice would have the authority of that act.
GRANT INSERT (def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended, tag, max_tries, expires_at,
              create_time, next_call_time)
    ON notify_msg TO notify_producer;
GRANT SELECT, INSERT ON notify_inbox TO notify_producer;

GRANT SELECT ON notify_schema, notify_pending, notify_done, notify_error TO notify_sweeper;
GRANT SELECT, INSERT ON notify_audit TO notify_sweeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    notify_alert, notify_authority, notify_count, notify_def, notify_def_version, notify_inbox, notify_limit, notify_msg,
    notify_msg_history, notify_node, notify_passing, notify_series, notify_switch
TO notify_sweeper;

-- `solid-notify doctor` compares the next ids with those that were given.
GRANT SELECT ON SEQUENCE notify_msg_id_seq, notify_def_id_seq, notify_audit_id_seq TO notify_sweeper, notify_reader;

GRANT SELECT ON notify_def, notify_def_version, notify_node, notify_schema, notify_switch TO notify_editor;
-- By column: who may update a table as a whole may also lock it, which stops all adds and sweepers. Not the ids, because an id that is
-- taken in advance stops the next definition, or the next entry and with it each verb.
DO $$
DECLARE
    columns text := (SELECT string_agg(quote_ident(a.attname), ', ') FROM pg_attribute a
                     WHERE a.attrelid = 'notify_def'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'id');
BEGIN
    -- What an earlier run has granted.
    REVOKE INSERT, UPDATE ON notify_def, notify_def_version, notify_audit FROM notify_editor;
    EXECUTE format('GRANT INSERT (%1$s), UPDATE (%1$s) ON notify_def TO notify_editor', columns);
    GRANT INSERT (def_id, version, time, who, act, definition) ON notify_def_version TO notify_editor;
    GRANT INSERT (time, who, act, def_id, notice_id, detail, notice_ids, first_id, last_id) ON notify_audit TO notify_editor;
END
$$;

GRANT SELECT ON
    notify_alert, notify_audit, notify_authority, notify_count, notify_def, notify_def_version, notify_inbox, notify_limit, notify_msg,
    notify_msg_history, notify_node, notify_passing, notify_schema, notify_series, notify_switch, notify_pending, notify_done, notify_error
TO notify_reader;
