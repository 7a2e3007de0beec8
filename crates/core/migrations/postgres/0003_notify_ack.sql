-- Confirms a notice by plain SQL: in the caller's transaction, in triggers, from any language.
--     SELECT notify_ack(7);
-- Returns what it did: 'done' (the notice has ended as succeeded), 'dead_letter_confirmed' (it had been given up, and is a
-- success now), 'already_succeeded', 'cancelled', or 'unknown' (there is none of this id, or no more).
-- It runs with the rights of its caller, who needs USAGE on the schema; SELECT, UPDATE and DELETE on notify_msg; SELECT, INSERT,
-- UPDATE and DELETE on notify_msg_history; INSERT on notify_audit.
CREATE FUNCTION notify_ack(notice_id bigint) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ended notify_msg_history;
BEGIN
    -- Twice: between the two looks it may have been revived. The locks wait for whoever settles it at this moment.
    FOR look IN 1..2 LOOP
        PERFORM 1 FROM notify_msg m WHERE m.id = notify_ack.notice_id FOR UPDATE;
        IF FOUND THEN
            -- An ended notice whose id was given once more.
            DELETE FROM notify_msg_history h WHERE h.id = notify_ack.notice_id;
            INSERT INTO notify_msg_history (id, def_id, param, description, errors, status, attempt, failures, crashes, worker,
                last_class, last_call_time, next_call_time, create_time, dedupe_key, ordering_key, trace_context, finish_time,
                end_reason)
            SELECT m.id, m.def_id, m.param, m.description, m.errors, 1, m.attempt, m.failures, m.crashes, m.worker,
                   NULL, m.last_call_time, NULL, m.create_time, m.dedupe_key, m.ordering_key, m.trace_context,
                   statement_timestamp(), 'confirmed'
            FROM notify_msg m WHERE m.id = notify_ack.notice_id;
            DELETE FROM notify_msg m WHERE m.id = notify_ack.notice_id;
            RETURN 'done';
        END IF;
        SELECT * INTO ended FROM notify_msg_history h WHERE h.id = notify_ack.notice_id FOR UPDATE;
        IF FOUND THEN
            IF ended.status = 3 THEN
                UPDATE notify_msg_history h
                SET status = 1, finish_time = statement_timestamp(), end_reason = 'confirmed after it had been given up'
                WHERE h.id = notify_ack.notice_id;
                INSERT INTO notify_audit (who, act, def_id, notice_id, detail)
                VALUES (left(current_user, 200), 'confirm', ended.def_id, ended.id,
                        'a late confirmation made a success of the dead letter');
            END IF;
            RETURN CASE ended.status WHEN 3 THEN 'dead_letter_confirmed' WHEN 6 THEN 'cancelled' ELSE 'already_succeeded' END;
        END IF;
    END LOOP;
    RETURN 'unknown';
END
$$;

-- Its tables are those beside it, as with notify_add.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION notify_ack(bigint) SET search_path = %I, pg_temp', current_schema());
END
$$;
