-- Acknowledges a notice by plain SQL: in the caller's transaction, in triggers, from any language.
--     SELECT notify_ack(7);
-- Returns what it did: 'applied' (the notice has ended as succeeded), 'dead_letter_acked' (it was a dead letter and is a
-- success now), 'already_succeeded', 'cancelled', or 'unknown' (there is no notice with this id, or it was purged).
-- It runs with the rights of its caller, which needs USAGE on the schema; SELECT, UPDATE and DELETE on notify_msg; SELECT,
-- INSERT, UPDATE and DELETE on notify_msg_history; INSERT on notify_audit.
CREATE OR REPLACE FUNCTION notify_ack(notice_id bigint) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ended notify_msg_history;
    gone notify_msg;
BEGIN
    -- Two rounds, because the notice may be revived between the two looks. The locks wait for a settle in progress.
    FOR look IN 1..2 LOOP
        PERFORM 1 FROM notify_msg m WHERE m.id = notify_ack.notice_id FOR UPDATE;
        IF FOUND THEN
            -- Replaces an ended notice that has the same id (an id that was given twice). A dead letter is kept under a new id.
            UPDATE notify_msg_history h
            SET id = greatest((SELECT max(id) FROM notify_msg_history), (SELECT max(id) FROM notify_msg)) + 1
            WHERE h.id = notify_ack.notice_id AND h.status = 3;
            DELETE FROM notify_msg_history h WHERE h.id = notify_ack.notice_id;
            INSERT INTO notify_msg_history (id, def_id, param, description, errors, status, fence, failures, crashes, worker,
                last_class, last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, tag,
                max_tries, expires_at, response, parent_id, finish_time, end_reason)
            SELECT m.id, m.def_id, m.param, m.description, m.errors, 1, m.fence, m.failures, m.crashes, m.worker,
                   NULL, m.last_call_time, NULL, m.create_time, m.dedupe_key, m.dedupe_until_ended, m.ordering_key, m.trace_context, m.tag,
                   m.max_tries, m.expires_at, m.response, m.parent_id, statement_timestamp(), 'acked'
            FROM notify_msg m WHERE m.id = notify_ack.notice_id;
            DELETE FROM notify_msg m WHERE m.id = notify_ack.notice_id RETURNING * INTO gone;
            -- Unblocks the next notice of its ordering key.
            IF gone.ordering_key IS NOT NULL THEN
                UPDATE notify_msg n SET next_call_time = statement_timestamp(), blocked_since = NULL
                WHERE n.blocked_since IS NOT NULL AND n.id = (
                    SELECT o.id FROM notify_msg o WHERE o.def_id = gone.def_id AND o.ordering_key = gone.ordering_key
                    ORDER BY (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END) LIMIT 1);
            END IF;
            RETURN 'applied';
        END IF;
        SELECT * INTO ended FROM notify_msg_history h WHERE h.id = notify_ack.notice_id FOR UPDATE;
        IF FOUND THEN
            IF ended.status = 3 THEN
                UPDATE notify_msg_history h
                SET status = 1, finish_time = statement_timestamp(), end_reason = 'acked after it had been given up',
            error_group = NULL
                WHERE h.id = notify_ack.notice_id;
                INSERT INTO notify_audit (who, act, def_id, notice_id, detail)
                VALUES (left(current_user, 200), 'ack', ended.def_id, ended.id,
                        'a late ack made a success of the dead letter');
            END IF;
            RETURN CASE ended.status WHEN 3 THEN 'dead_letter_acked' WHEN 6 THEN 'cancelled' ELSE 'already_succeeded' END;
        END IF;
    END LOOP;
    RETURN 'unknown';
END
$$;

-- It uses the tables of its own schema, as notify_add does.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION notify_ack(bigint) SET search_path = %I, pg_temp', current_schema());
END
$$;
