-- Adds a notice by plain SQL: in the caller's transaction, in triggers, from any language.
--     SELECT notify_add('sync_to_omp', '{"dsp": 7}');
--     SELECT notify_add('remind', json_build_object('order', 7), delay => '1 hour', unique_until_ended => 'order 7');
--     SELECT notify_add('push_state', '{"order": 7}', unique_until_claimed => 'order 7');
--     SELECT notify_add('sync_order', '{"order": 7}', tag => 'order:7');
--     PERFORM notify_add('order_changed', to_jsonb(NEW));   -- in a trigger
-- The parameter is text, json or jsonb. Text and json are stored as they are written. jsonb has lost the order and the repetition of keys,
-- white space and the form of numbers before (1e2 is 100).
-- Returns the notice's id, or the id of the notice that has the same dedupe key (null where the transaction cannot see it). A key
-- is unique until the notice is claimed for its first attempt ("send the newest state"; a notice that has the key already is not
-- claimed before the caller's transaction ends), or until it has ended ("do this once").
-- It runs with the rights of its caller, which needs USAGE on the schema, SELECT on notify_def, SELECT and INSERT on notify_msg;
-- with unique_until_claimed also UPDATE on a column of notify_msg, to lock the row that has the key.
CREATE OR REPLACE FUNCTION notify_add(
    name          text,
    param         text     DEFAULT 'null',
    description   text     DEFAULT NULL,
    delay         interval DEFAULT '0',
    ordering_key  text     DEFAULT NULL,
    unique_until_claimed text DEFAULT NULL,
    unique_until_ended   text DEFAULT NULL,
    trace_context text     DEFAULT NULL,
    max_tries     integer  DEFAULT NULL,
    expires_at    timestamptz DEFAULT NULL,
    tag           text     DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    definition integer;
    encrypts   boolean;
    key        text := coalesce(notify_add.unique_until_claimed, notify_add.unique_until_ended);
    added      bigint;
    problem    text;
BEGIN
    SELECT d.id, d.encrypt_param INTO definition, encrypts FROM notify_def d WHERE d.name = notify_add.name AND d.delete_time IS NULL;
    problem := CASE
        WHEN definition IS NULL THEN 'there is no definition ' || coalesce(quote_literal(left(notify_add.name, 200)), 'null')
        WHEN notify_add.name IN ('notify.alert', 'notify.bulk', 'notify.dead_letters', 'notify.purge')
            THEN 'the definition is built in, so only solid-notify itself adds its notices'
        WHEN encrypts THEN 'the definition has encrypt_param: add its notices with the library, which encrypts them'
        WHEN length(notify_add.ordering_key) NOT BETWEEN 1 AND 200 OR length(key) NOT BETWEEN 1 AND 200
            THEN 'a key must have 1 to 200 characters'
        WHEN length(notify_add.tag) NOT BETWEEN 1 AND 200 THEN 'a tag must have 1 to 200 characters'
        WHEN notify_add.tag LIKE 'notify:%' THEN 'a tag that begins with notify: belongs to the library'
        WHEN notify_add.unique_until_claimed IS NOT NULL AND notify_add.unique_until_ended IS NOT NULL
            THEN 'a notice has one dedupe key: unique_until_claimed or unique_until_ended'
        WHEN notify_add.max_tries < 1 THEN 'max_tries must be 1 or more'
        WHEN octet_length(notify_add.description) > 65535 THEN 'a description may have 65535 bytes'
        WHEN octet_length(notify_add.trace_context) > 1000 THEN 'a trace context may have 1000 bytes'
    END;
    IF definition IS NULL AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'notify_add: %', problem USING ERRCODE = 'invalid_parameter_value',
            HINT = 'This transaction does not see a definition that is newer than its snapshot: run it again.';
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'notify_add: %', problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    LOOP
        -- A negative delay counts as zero; the longest is ten years.
        INSERT INTO notify_msg (def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended,
            max_tries, expires_at, tag, next_call_time)
        VALUES (definition, coalesce(notify_add.param, 'null')::json, notify_add.description, notify_add.trace_context,
                notify_add.ordering_key, key, CASE WHEN notify_add.unique_until_ended IS NOT NULL THEN true END,
                notify_add.max_tries, notify_add.expires_at, notify_add.tag,
                statement_timestamp() + least(greatest(coalesce(notify_add.delay, '0'), '0'), '87660 hours'))
        ON CONFLICT (def_id, dedupe_key) WHERE dedupe_key IS NOT NULL AND (fence = 0 OR dedupe_until_ended) DO NOTHING
        RETURNING id INTO added;
        EXIT WHEN added IS NOT NULL;
        IF notify_add.unique_until_ended IS NOT NULL THEN
            SELECT m.id INTO added FROM notify_msg m
            WHERE m.def_id = definition AND m.dedupe_key = key AND (m.fence = 0 OR m.dedupe_until_ended);
            EXIT;
        END IF;
        SELECT m.id INTO added FROM notify_msg m
        WHERE m.def_id = definition AND m.dedupe_key = key AND (m.fence = 0 OR m.dedupe_until_ended) FOR SHARE;
        -- No row: it was claimed meanwhile, so the key is free.
        EXIT WHEN added IS NOT NULL;
    END LOOP;
    RETURN added;
END
$$;

-- The same for json. Its parameter has no default, so that a call without one is the call of the function above. A literal, whose type is
-- unknown, is text.
CREATE OR REPLACE FUNCTION notify_add(
    name          text,
    param         json,
    description   text     DEFAULT NULL,
    delay         interval DEFAULT '0',
    ordering_key  text     DEFAULT NULL,
    unique_until_claimed text DEFAULT NULL,
    unique_until_ended   text DEFAULT NULL,
    trace_context text     DEFAULT NULL,
    max_tries     integer  DEFAULT NULL,
    expires_at    timestamptz DEFAULT NULL,
    tag           text     DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN notify_add(name, param::text, description, delay, ordering_key, unique_until_claimed, unique_until_ended, trace_context,
                      max_tries, expires_at, tag);
END
$$;

-- The same for jsonb.
CREATE OR REPLACE FUNCTION notify_add(
    name          text,
    param         jsonb,
    description   text     DEFAULT NULL,
    delay         interval DEFAULT '0',
    ordering_key  text     DEFAULT NULL,
    unique_until_claimed text DEFAULT NULL,
    unique_until_ended   text DEFAULT NULL,
    trace_context text     DEFAULT NULL,
    max_tries     integer  DEFAULT NULL,
    expires_at    timestamptz DEFAULT NULL,
    tag           text     DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN notify_add(name, param::text, description, delay, ordering_key, unique_until_claimed, unique_until_ended, trace_context,
                      max_tries, expires_at, tag);
END
$$;

-- They use the tables of their own schema, independent of the search path of the calling session or trigger. (Not FROM CURRENT: a
-- "$user" in the path would be another schema for each caller.) After renaming the schema, run this again.
DO $$
DECLARE
    of_type text;
BEGIN
    FOREACH of_type IN ARRAY ARRAY['text', 'json', 'jsonb'] LOOP
        EXECUTE format(
            'ALTER FUNCTION notify_add(text, %s, text, interval, text, text, text, text, integer, timestamptz, text) SET search_path = %I, pg_temp',
            of_type, current_schema()
        );
    END LOOP;
END
$$;
