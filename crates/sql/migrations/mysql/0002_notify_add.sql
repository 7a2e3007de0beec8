-- Adds a notice by plain SQL: in the caller's transaction, in triggers, from any language.
--     CALL notify_add('sync_to_omp', '{"dsp": 7}');
--     CALL notify_add_with('remind', '{"order": 7}', NULL, 3600, NULL, NULL, 'order 7', NULL, NULL, NULL, 'order:7', @id);
--     CALL notify_add('order_changed', json_object('id', NEW.id));   -- in a trigger
-- The second one takes all properties of a notice (procedures have no defaults here), the delay in seconds,
-- the expiry (the tenth argument) in UTC, the tag (the eleventh). It returns the id
-- of the notice, or of the one that has the same dedupe key (null where the transaction cannot see it). A key is unique until the
-- notice is claimed for its first attempt (the sixth argument: "send the newest state"; a notice that has the key already is not
-- claimed before the caller's transaction ends), or until it has ended (the seventh: "do this once").
-- They run with the rights of their caller, in a trigger of its definer, which needs EXECUTE on both, SELECT on notify_def,
-- SELECT and INSERT on notify_msg. The account that migrates needs CREATE ROUTINE.
-- A CALL locks nothing of notify_def, unless the transaction is SERIALIZABLE or older than the definition. A trigger locks the
-- definition's row where the server writes a binary log in the format MIXED or STATEMENT. Above READ COMMITTED it also locks the
-- gap before the name. An edit of the definition, or a new one with the next name, then waits for the transaction. In the
-- format ROW a trigger locks nothing.
-- Each statement commits by itself. DROP … IF EXISTS lets the next run continue after one that was cut short. A procedure keeps
-- the sql_mode in which it was created, independent of its caller's.
SET @notify_sql_mode = @@sql_mode, sql_mode = 'TRADITIONAL';
DELIMITER //
DROP PROCEDURE IF EXISTS notify_add_with
//
-- The parameters are longer than the columns, so that a text that is too long is refused here and not cut off in a lax sql_mode.
CREATE PROCEDURE notify_add_with(
    IN  the_name          longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    IN  the_param         longtext CHARACTER SET utf8mb4,
    IN  the_description   longtext CHARACTER SET utf8mb4,
    IN  the_delay         double,
    IN  the_ordering_key  longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    IN  unique_until_claimed longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    IN  unique_until_ended   longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    IN  the_trace_context longtext CHARACTER SET utf8mb4,
    IN  the_max_tries     integer,
    IN  the_expiry        datetime(6),
    IN  the_tag           longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    OUT the_id            bigint
) MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    -- The caller's LAST_INSERT_ID() is restored at the end.
    DECLARE last_id bigint unsigned DEFAULT LAST_INSERT_ID();
    DECLARE definition bigint;
    DECLARE encrypts bool;
    DECLARE is_duplicate bool;
    DECLARE the_key longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */
        DEFAULT coalesce(unique_until_claimed, unique_until_ended);
    DECLARE problem longtext CHARACTER SET utf8mb4;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT id, encrypt_param INTO definition, encrypts FROM notify_def WHERE name = the_name AND delete_time IS NULL;
    IF definition IS NULL THEN
        -- The caller's snapshot may be older than the definition.
        SELECT id, encrypt_param INTO definition, encrypts FROM notify_def WHERE name = the_name AND delete_time IS NULL
            /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */;
    END IF;
    SET problem = CASE
        WHEN definition IS NULL THEN concat('there is no definition ', quote(the_name))
        WHEN the_name IN ('notify.alert', 'notify.bulk', 'notify.dead_letters', 'notify.purge')
            THEN 'the definition is built in, so only solid-notify itself adds its notices'
        WHEN encrypts THEN 'the definition has encrypt_param: add its notices with the library, which encrypts them'
        WHEN NOT json_valid(coalesce(the_param, 'null')) THEN 'the parameter is not JSON'
        WHEN char_length(the_ordering_key) NOT BETWEEN 1 AND 200 OR char_length(the_key) NOT BETWEEN 1 AND 200
            THEN 'a key must have 1 to 200 characters'
        WHEN char_length(the_tag) NOT BETWEEN 1 AND 200 THEN 'a tag must have 1 to 200 characters'
        WHEN the_tag LIKE 'notify:%' THEN 'a tag that begins with notify: belongs to the library'
        WHEN unique_until_claimed IS NOT NULL AND unique_until_ended IS NOT NULL
            THEN 'a notice has one dedupe key, unique until claimed or until ended'
        WHEN the_max_tries < 1 THEN 'max_tries must be 1 or more'
        WHEN length(the_description) > 65535 THEN 'a description may have 65535 bytes'
        WHEN length(the_trace_context) > 1000 THEN 'a trace context may have 1000 bytes'
    END;
    IF problem IS NOT NULL THEN
        -- A message has at most 128 characters.
        SET problem = left(concat('notify_add: ', problem), 128);
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = problem;
    END IF;
    -- Searches for a duplicate first, because an insert that fails for one keeps it locked until the transaction ends.
    IF the_key IS NOT NULL THEN
        SELECT id INTO the_id FROM notify_msg WHERE def_id = definition AND unique_key = the_key;
    END IF;
    SET is_duplicate = the_id IS NOT NULL;
    adding: LOOP
        IF is_duplicate THEN
            -- This transaction sees the duplicate, unless its snapshot is older.
            IF unique_until_claimed IS NULL THEN
                SELECT id INTO the_id FROM notify_msg WHERE def_id = definition AND unique_key = the_key;
                LEAVE adding;
            END IF;
            -- The lock keeps claims from it until this transaction ends. The attempt is read because a read of the index alone
            -- locks only the index.
            SET the_id = NULL;
            SELECT CASE WHEN fence >= 0 THEN id END INTO the_id FROM notify_msg
                WHERE def_id = definition AND unique_key = the_key LOCK IN SHARE MODE;
            IF the_id IS NOT NULL THEN
                LEAVE adding;
            END IF;
            -- It was claimed meanwhile, so the key is free.
            SET is_duplicate = false;
        END IF;
        BEGIN
            DECLARE CONTINUE HANDLER FOR 1062
            BEGIN
                IF the_key IS NULL THEN
                    RESIGNAL;
                END IF;
                SET is_duplicate = true;
            END;
            -- A negative delay counts as zero; the longest is ten years.
            INSERT INTO notify_msg (def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended,
                max_tries, expires_at, tag, next_call_time)
            VALUES (definition, coalesce(the_param, 'null'), the_description, the_trace_context, the_ordering_key, the_key,
                    CASE WHEN unique_until_ended IS NOT NULL THEN true END, the_max_tries, the_expiry, the_tag,
                    TIMESTAMPADD(
                        MICROSECOND,
                        CAST(least(greatest(coalesce(the_delay, 0), 0), 315576000) * 1000000 AS signed),
                        UTC_TIMESTAMP(6)
                    ));
        END;
        IF NOT is_duplicate THEN
            SET the_id = LAST_INSERT_ID();
            LEAVE adding;
        END IF;
    END LOOP;
    DO LAST_INSERT_ID(last_id);
END
//
DROP PROCEDURE IF EXISTS notify_add
//
CREATE PROCEDURE notify_add(
    IN the_name  longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    IN the_param longtext CHARACTER SET utf8mb4
) MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE the_id bigint;
    CALL notify_add_with(the_name, the_param, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, the_id);
END
//
DELIMITER ;
SET sql_mode = @notify_sql_mode;
