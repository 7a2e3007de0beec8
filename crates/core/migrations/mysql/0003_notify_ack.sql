-- Confirms a notice by plain SQL: in the caller's transaction, in triggers, from any language.
--     CALL notify_ack(7, @answer);
-- The answer is what it did: 'done' (the notice has ended as succeeded), 'dead_letter_confirmed' (it had been given up, and is
-- a success now), 'already_succeeded', 'cancelled', or 'unknown' (there is none of this id, or no more).
-- It has several steps: outside of a transaction, each is committed by itself, so begin one.
-- It runs with the rights of its caller, in a trigger of its definer, who needs EXECUTE; SELECT, UPDATE and DELETE on notify_msg;
-- SELECT, INSERT, UPDATE and DELETE on notify_msg_history; INSERT on notify_audit.
SET @notify_sql_mode = @@sql_mode, sql_mode = 'TRADITIONAL';
DELIMITER //
DROP PROCEDURE IF EXISTS notify_ack
//
CREATE PROCEDURE notify_ack(IN the_id bigint, OUT answer varchar(30)) MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE found_id bigint;
    DECLARE ended smallint;
    DECLARE owner bigint;
    DECLARE was_live bool DEFAULT false;
    DECLARE look int DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SET answer = 'unknown';
    -- Twice: between the two looks it may have been revived. The locks wait for whoever settles it at this moment.
    looks: WHILE look < 2 DO
        SET look = look + 1;
        -- Without a lock at first: where there is no row, the place where one may come would be locked, and with it
        -- everybody's next notice until this transaction ends.
        SELECT id INTO found_id FROM notify_msg WHERE id = the_id;
        SET was_live = found_id IS NOT NULL;
        IF was_live THEN
            SET found_id = NULL;
            SELECT id INTO found_id FROM notify_msg WHERE id = the_id FOR UPDATE;
        END IF;
        IF found_id IS NOT NULL THEN
            -- An ended notice whose id was given once more.
            DELETE FROM notify_msg_history WHERE id = the_id;
            INSERT INTO notify_msg_history (id, def_id, param, description, errors, status, attempt, failures, crashes, worker,
                last_class, last_call_time, next_call_time, create_time, dedupe_key, ordering_key, trace_context, finish_time,
                end_reason)
            SELECT id, def_id, param, description, errors, 1, attempt, failures, crashes, worker, NULL, last_call_time, NULL,
                   create_time, dedupe_key, ordering_key, trace_context, UTC_TIMESTAMP(6), 'confirmed'
            FROM notify_msg WHERE id = the_id;
            DELETE FROM notify_msg WHERE id = the_id;
            SET answer = 'done';
            LEAVE looks;
        END IF;
        SELECT status, def_id INTO ended, owner FROM notify_msg_history WHERE id = the_id;
        -- The snapshot of the transaction may be older than its end.
        IF was_live OR ended IS NOT NULL THEN
            SELECT status, def_id INTO ended, owner FROM notify_msg_history WHERE id = the_id FOR UPDATE;
        END IF;
        IF ended IS NOT NULL THEN
            IF ended = 3 THEN
                UPDATE notify_msg_history
                SET status = 1, finish_time = UTC_TIMESTAMP(6), end_reason = 'confirmed after it had been given up'
                WHERE id = the_id;
                INSERT INTO notify_audit (who, act, def_id, notice_id, detail)
                VALUES (left(current_user(), 200), 'confirm', owner, the_id,
                        'a late confirmation made a success of the dead letter');
            END IF;
            SET answer = CASE ended WHEN 3 THEN 'dead_letter_confirmed' WHEN 6 THEN 'cancelled' ELSE 'already_succeeded' END;
            LEAVE looks;
        END IF;
    END WHILE;
END
//
DELIMITER ;
SET sql_mode = @notify_sql_mode;
