-- Acknowledges a notice by plain SQL: in the caller's transaction, in triggers, from any language. SQLite has no
-- stored functions, so it is an INSERT into a view. It returns nothing. A live notice or a dead letter has then ended as
-- succeeded. A notice that had succeeded or was cancelled stays as it is, and an unknown id changes nothing.
--     INSERT INTO notify_ack (id) VALUES (7);
DROP VIEW IF EXISTS notify_ack;
CREATE VIEW notify_ack (id) AS SELECT NULL WHERE false;

CREATE TRIGGER notify_ack_insert INSTEAD OF INSERT ON notify_ack
BEGIN
    -- An id that was given twice: the ack is of the live notice, and a dead letter with this id is kept under a new one.
    UPDATE notify_msg_history
    SET id = max((SELECT max(id) FROM notify_msg_history), (SELECT max(id) FROM notify_msg)) + 1
    WHERE id = NEW.id AND status = 3 AND EXISTS (SELECT 1 FROM notify_msg WHERE id = NEW.id);
    -- Dead letters first, because the following statements create no more of them.
    INSERT INTO notify_audit (who, act, def_id, notice_id, detail)
    SELECT 'plain SQL', 'ack', def_id, id, 'a late ack made a success of the dead letter'
    FROM notify_msg_history WHERE id = NEW.id AND status = 3;
    UPDATE notify_msg_history
    SET status = 1, finish_time = strftime('%Y-%m-%d %H:%M:%f', 'now'), end_reason = 'acked after it had been given up',
            error_group = NULL
    WHERE id = NEW.id AND status = 3;
    -- Deletes another ended notice that has the same id.
    DELETE FROM notify_msg_history WHERE id = NEW.id AND EXISTS (SELECT 1 FROM notify_msg WHERE id = NEW.id);
    INSERT INTO notify_msg_history (id, def_id, param, description, errors, status, fence, failures, crashes, worker,
        last_class, last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, tag,
        max_tries, expires_at, response, parent_id, finish_time, end_reason)
    SELECT id, def_id, param, description, errors, 1, fence, failures, crashes, worker, NULL, last_call_time, NULL,
           create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, tag, max_tries, expires_at, response, parent_id,
           strftime('%Y-%m-%d %H:%M:%f', 'now'), 'acked'
    FROM notify_msg WHERE id = NEW.id;
    -- Unblocks the next notice of its ordering key.
    UPDATE notify_msg SET next_call_time = strftime('%Y-%m-%d %H:%M:%f', 'now'), blocked_since = NULL
    WHERE blocked_since IS NOT NULL AND id = (
        SELECT o.id FROM notify_msg o JOIN notify_msg m ON o.def_id = m.def_id AND o.ordering_key = m.ordering_key
        WHERE m.id = NEW.id AND o.id <> m.id
        ORDER BY (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END) LIMIT 1);
    DELETE FROM notify_msg WHERE id = NEW.id;
END;
