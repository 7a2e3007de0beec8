-- Adds a notice by plain SQL: in the caller's transaction, in triggers, from any language.
--     CALL notify_add('sync_to_omp', '{"dsp": 7}');
--     CALL notify_add_with('remind', '{"order": 7}', NULL, 3600, NULL, 'order 7', NULL, @id);
--     CALL notify_add('order_changed', json_object('id', NEW.id));   -- in a trigger
-- The second takes all that can be said of a notice (there are no defaults here), its delay in seconds, and gives its id, or
-- that of the live one that has the same dedupe key (null where the transaction cannot see it).
-- They run with the rights of their caller, in a trigger of its definer, who needs EXECUTE on both, SELECT on notify_def,
-- SELECT and INSERT on notify_msg. Who migrates needs CREATE ROUTINE.
-- A CALL locks nothing of notify_def, unless the transaction is SERIALIZABLE or older than the definition. A trigger locks the
-- row of the definition where the server writes a binary log in the format MIXED or STATEMENT, and unless it is READ COMMITTED
-- the gap before its name: an edit of it, or a new definition with the name next to it, then waits for the transaction. In the
-- format ROW it locks nothing.
-- Each statement is committed by itself, so a run that was cut short is taken up: DROP … IF EXISTS. A procedure keeps the
-- sql_mode that it was made in, whatever its caller's is.
SET @notify_sql_mode = @@sql_mode, sql_mode = 'TRADITIONAL';
DELIMITER //
DROP PROCEDURE IF EXISTS notify_add_with
//
-- The texts are longer than the columns: what does not fit is refused here, not cut as the sql_mode of the caller may have it.
CREATE PROCEDURE notify_add_with(
    IN  the_name          longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    IN  the_param         longtext CHARACTER SET utf8mb4,
    IN  the_description   longtext CHARACTER SET utf8mb4,
    IN  the_delay         double,
    IN  the_ordering_key  longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    IN  the_dedupe_key    longtext CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    IN  the_trace_context longtext CHARACTER SET utf8mb4,
    OUT the_id            bigint
) MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    -- The caller's own last insert is still that after this.
    DECLARE last_id bigint unsigned DEFAULT LAST_INSERT_ID();
    DECLARE definition bigint;
    DECLARE problem longtext CHARACTER SET utf8mb4;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT id INTO definition FROM notify_def WHERE name = the_name AND delete_time IS NULL;
    IF definition IS NULL THEN
        -- The caller's snapshot may be older than the definition.
        SELECT id INTO definition FROM notify_def WHERE name = the_name AND delete_time IS NULL
            /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */;
    END IF;
    SET problem = CASE
        WHEN definition IS NULL THEN concat('there is no definition ', quote(the_name))
        WHEN NOT json_valid(coalesce(the_param, 'null')) THEN 'the parameter is not JSON'
        WHEN char_length(the_ordering_key) NOT BETWEEN 1 AND 200 OR char_length(the_dedupe_key) NOT BETWEEN 1 AND 200
            THEN 'a key must have 1 to 200 characters'
        WHEN length(the_description) > 65536 THEN 'a description may have 65536 bytes'
        WHEN length(the_trace_context) > 1000 THEN 'a trace context may have 1000 bytes'
    END;
    IF problem IS NOT NULL THEN
        -- The longest message.
        SET problem = left(concat('notify_add: ', problem), 128);
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = problem;
    END IF;
    -- A duplicate is looked for first: an insert that fails for one keeps it locked until the transaction ends.
    IF the_dedupe_key IS NOT NULL THEN
        SELECT id INTO the_id FROM notify_msg WHERE def_id = definition AND dedupe_key = the_dedupe_key;
    END IF;
    IF the_id IS NULL THEN
        BEGIN
            DECLARE is_duplicate bool DEFAULT false;
            DECLARE CONTINUE HANDLER FOR 1062
            BEGIN
                IF the_dedupe_key IS NULL THEN
                    RESIGNAL;
                END IF;
                SET is_duplicate = true;
            END;
            -- A delay below zero is none, and the longest has ten years.
            INSERT INTO notify_msg (def_id, param, description, trace_context, ordering_key, dedupe_key, next_call_time)
            VALUES (definition, coalesce(the_param, 'null'), the_description, the_trace_context, the_ordering_key, the_dedupe_key,
                    TIMESTAMPADD(
                        MICROSECOND,
                        CAST(least(greatest(coalesce(the_delay, 0), 0), 315576000) * 1000000 AS signed),
                        UTC_TIMESTAMP(6)
                    ));
            IF is_duplicate THEN
                -- Somebody was faster. This transaction sees it, unless its snapshot is older.
                SELECT id INTO the_id FROM notify_msg WHERE def_id = definition AND dedupe_key = the_dedupe_key;
            ELSE
                SET the_id = LAST_INSERT_ID();
            END IF;
        END;
    END IF;
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
    CALL notify_add_with(the_name, the_param, NULL, NULL, NULL, NULL, NULL, the_id);
END
//
DELIMITER ;
SET sql_mode = @notify_sql_mode;
