-- Adds a notice by plain SQL: in the caller's transaction, in triggers, from any language.
--     SELECT notify_add('sync_to_omp', '{"dsp": 7}');
--     SELECT notify_add('remind', json_build_object('order', 7), delay => '1 hour', dedupe_key => 'order 7');
--     PERFORM notify_add('order_changed', to_json(NEW));   -- in a trigger
-- Returns the notice's id, or that of the live one that has the same dedupe key (null where the transaction cannot see it).
-- It runs with the rights of its caller, who needs USAGE on the schema, SELECT on notify_def, SELECT and INSERT on notify_msg.
CREATE FUNCTION notify_add(
    name          text,
    param         json     DEFAULT 'null',
    description   text     DEFAULT NULL,
    delay         interval DEFAULT '0',
    ordering_key  text     DEFAULT NULL,
    dedupe_key    text     DEFAULT NULL,
    trace_context text     DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    definition bigint;
    added      bigint;
    problem    text;
BEGIN
    SELECT d.id INTO definition FROM notify_def d WHERE d.name = notify_add.name AND d.delete_time IS NULL;
    problem := CASE
        WHEN definition IS NULL THEN 'there is no definition ' || coalesce(quote_literal(left(notify_add.name, 200)), 'null')
        WHEN length(notify_add.ordering_key) NOT BETWEEN 1 AND 200 OR length(notify_add.dedupe_key) NOT BETWEEN 1 AND 200
            THEN 'a key must have 1 to 200 characters'
        WHEN octet_length(notify_add.description) > 65536 THEN 'a description may have 65536 bytes'
        WHEN octet_length(notify_add.trace_context) > 1000 THEN 'a trace context may have 1000 bytes'
    END;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'notify_add: %', problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- A delay below zero is none, and the longest has ten years.
    INSERT INTO notify_msg (def_id, param, description, trace_context, ordering_key, dedupe_key, next_call_time)
    VALUES (definition, coalesce(notify_add.param, 'null'), notify_add.description, notify_add.trace_context,
            notify_add.ordering_key, notify_add.dedupe_key,
            statement_timestamp() + least(greatest(coalesce(notify_add.delay, '0'), '0'), '87660 hours'))
    ON CONFLICT (def_id, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
    RETURNING id INTO added;
    IF added IS NULL THEN
        SELECT m.id INTO added FROM notify_msg m
        WHERE m.def_id = definition AND m.dedupe_key = notify_add.dedupe_key;
    END IF;
    RETURN added;
END
$$;

-- Its tables are those beside it, whatever the path of the session or trigger that calls it. (Not FROM CURRENT: a "$user" in
-- the path would mean another schema for each caller.) A schema that is renamed needs this once more.
DO $$
BEGIN
    EXECUTE format(
        'ALTER FUNCTION notify_add(text, json, text, interval, text, text, text) SET search_path = %I, pg_temp',
        current_schema()
    );
END
$$;
