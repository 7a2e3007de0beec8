-- Acknowledges a notice by plain SQL: in the caller's transaction, in triggers, from any language.
--     CALL notify_ack(7, @result);
-- The result is what it did: 'applied' (the notice has ended as succeeded), 'dead_letter_acked' (it was a dead letter and is
-- a success now), 'already_succeeded', 'cancelled', or 'unknown' (there is no notice with this id, or it was purged).
-- It has several steps, and outside a transaction each of them commits by itself, so begin one.
-- It runs with the rights of its caller, in a trigger of its definer, which needs EXECUTE; SELECT, UPDATE and DELETE on
-- notify_msg; SELECT, INSERT, UPDATE and DELETE on notify_msg_history; INSERT on notify_audit.
SET @notify_sql_mode = @@sql_mode, sql_mode = 'TRADITIONAL';
DELIMITER //
DROP PROCEDURE IF EXISTS notify_ack
//
CREATE PROCEDURE notify_ack(IN the_id bigint, OUT result varchar(30)) MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE found_id bigint;
    DECLARE ended_id bigint;
    DECLARE free_id bigint;
    DECLARE ended smallint;
    DECLARE owner bigint;
    DECLARE the_key varchar(200) CHARACTER SET utf8mb4;
    DECLARE next_id bigint;
    DECLARE was_live bool DEFAULT false;
    DECLARE look int DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SET result = 'unknown';
    -- Two rounds, because the notice may be revived between the two looks. The locks wait for a settle in progress.
    looks: WHILE look < 2 DO
        SET look = look + 1;
        -- Without a lock at first: where there is no row, the gap would be locked, and inserts of other sessions would wait for
        -- the end of this transaction.
        SELECT id INTO found_id FROM notify_msg WHERE id = the_id;
        SET was_live = found_id IS NOT NULL;
        IF was_live THEN
            SET found_id = NULL;
            SELECT id INTO found_id FROM notify_msg WHERE id = the_id FOR UPDATE;
        END IF;
        IF found_id IS NOT NULL THEN
            -- Replaces an ended notice that has the same id (an id that was given twice). A dead letter is kept under a new id. Where there is
            -- none, a DELETE would lock the gap, too, and so would a look within the condition.
            SELECT id INTO ended_id FROM notify_msg_history WHERE id = the_id;
            IF ended_id IS NOT NULL THEN
                SELECT greatest((SELECT max(id) FROM notify_msg_history), (SELECT max(id) FROM notify_msg)) + 1 INTO free_id;
                UPDATE notify_msg_history SET id = free_id WHERE id = the_id AND status = 3;
                DELETE FROM notify_msg_history WHERE id = the_id;
            END IF;
            INSERT INTO notify_msg_history (id, def_id, param, description, errors, status, fence, failures, crashes, worker,
                last_class, last_call_time, next_call_time, create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, tag,
                max_tries, expires_at, response, parent_id, finish_time,
                end_reason)
            SELECT id, def_id, param, description, errors, 1, fence, failures, crashes, worker, NULL, last_call_time, NULL,
                   create_time, dedupe_key, dedupe_until_ended, ordering_key, trace_context, tag, max_tries, expires_at, response, parent_id,
                   UTC_TIMESTAMP(6), 'acked'
            FROM notify_msg WHERE id = the_id;
            SELECT def_id, ordering_key INTO owner, the_key FROM notify_msg WHERE id = the_id;
            DELETE FROM notify_msg WHERE id = the_id;
            -- Unblocks the next notice of its ordering key.
            IF the_key IS NOT NULL THEN
                SELECT id INTO next_id FROM notify_msg FORCE INDEX (notify_msg_order)
                WHERE def_id = owner AND ordering_key = the_key COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */
                ORDER BY def_id, ordering_key, id LIMIT 1;
                UPDATE notify_msg SET next_call_time = UTC_TIMESTAMP(6), blocked_since = NULL
                WHERE id = next_id AND blocked_since IS NOT NULL;
            END IF;
            SET result = 'applied';
            LEAVE looks;
        END IF;
        SELECT status, def_id INTO ended, owner FROM notify_msg_history WHERE id = the_id;
        -- The transaction's snapshot may be older than the end of the notice.
        IF was_live OR ended IS NOT NULL THEN
            SELECT status, def_id INTO ended, owner FROM notify_msg_history WHERE id = the_id FOR UPDATE;
        END IF;
        IF ended IS NOT NULL THEN
            IF ended = 3 THEN
                UPDATE notify_msg_history
                SET status = 1, finish_time = UTC_TIMESTAMP(6), end_reason = 'acked after it had been given up',
            error_group = NULL
                WHERE id = the_id;
                INSERT INTO notify_audit (who, act, def_id, notice_id, detail)
                VALUES (left(current_user(), 200), 'ack', owner, the_id,
                        'a late ack made a success of the dead letter');
            END IF;
            SET result = CASE ended WHEN 3 THEN 'dead_letter_acked' WHEN 6 THEN 'cancelled' ELSE 'already_succeeded' END;
            LEAVE looks;
        END IF;
    END WHILE;
END
//
DELIMITER ;
SET sql_mode = @notify_sql_mode;
