-- Confirms a notice by plain SQL: in the caller's transaction, in triggers, from any language. SQLite has no functions of its
-- own, so it is an INSERT into a view. It gives no answer: the notice has then ended as succeeded, whether it was live or had
-- been given up (a dead letter). One that had succeeded or was cancelled stays as it is, and an unknown id changes nothing.
--     INSERT INTO notify_ack (id) VALUES (7);
CREATE VIEW notify_ack (id) AS SELECT NULL WHERE false;

CREATE TRIGGER notify_ack_insert INSTEAD OF INSERT ON notify_ack
BEGIN
    -- A dead letter first: what follows makes no more of them.
    INSERT INTO notify_audit (who, act, def_id, notice_id, detail)
    SELECT 'plain SQL', 'confirm', def_id, id, 'a late confirmation made a success of the dead letter'
    FROM notify_msg_history WHERE id = NEW.id AND status = 3;
    UPDATE notify_msg_history
    SET status = 1, finish_time = strftime('%Y-%m-%d %H:%M:%f', 'now'), end_reason = 'confirmed after it had been given up'
    WHERE id = NEW.id AND status = 3;
    -- An ended notice whose id was given once more.
    DELETE FROM notify_msg_history WHERE id = NEW.id AND EXISTS (SELECT 1 FROM notify_msg WHERE id = NEW.id);
    INSERT INTO notify_msg_history (id, def_id, param, description, errors, status, attempt, failures, crashes, worker,
        last_class, last_call_time, next_call_time, create_time, dedupe_key, ordering_key, trace_context, finish_time,
        end_reason)
    SELECT id, def_id, param, description, errors, 1, attempt, failures, crashes, worker, NULL, last_call_time, NULL,
           create_time, dedupe_key, ordering_key, trace_context, strftime('%Y-%m-%d %H:%M:%f', 'now'), 'confirmed'
    FROM notify_msg WHERE id = NEW.id;
    DELETE FROM notify_msg WHERE id = NEW.id;
END;
