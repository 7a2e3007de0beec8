-- Adds a notice by plain SQL: in the caller's transaction, in triggers, from any language. SQLite has no functions of its
-- own, so it is an INSERT into a view; what is not named is null. The delay is in seconds. It gives no id.
--     INSERT INTO notify_add (name, param) VALUES ('sync_to_omp', '{"dsp": 7}');
--     INSERT INTO notify_add (name, param, delay, dedupe_key) VALUES ('remind', json_object('order', 7), 3600, 'order 7');
CREATE VIEW notify_add (name, param, description, delay, ordering_key, dedupe_key, trace_context) AS
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE false;

-- The checks of the table would do for most of this. But where the statement of the caller says OR IGNORE, this is ignored: a
-- notice would be lost without a word. RAISE is not.
CREATE TRIGGER notify_add_insert INSTEAD OF INSERT ON notify_add
BEGIN
    SELECT RAISE(ABORT, 'notify_add: there is no definition of this name')
    WHERE NOT EXISTS (SELECT 1 FROM notify_def WHERE name = NEW.name AND delete_time IS NULL);
    SELECT RAISE(ABORT, 'notify_add: the parameter is not JSON')
    WHERE typeof(NEW.param) = 'blob' OR NOT json_valid(coalesce(NEW.param, 'null'));
    SELECT RAISE(ABORT, 'notify_add: the delay is not a number of seconds')
    WHERE typeof(NEW.delay) NOT IN ('integer', 'real', 'null');
    SELECT RAISE(ABORT, 'notify_add: a key must have 1 to 200 characters')
    WHERE 'blob' IN (typeof(NEW.ordering_key), typeof(NEW.dedupe_key))
       OR length(NEW.ordering_key) NOT BETWEEN 1 AND 200 OR length(NEW.dedupe_key) NOT BETWEEN 1 AND 200;
    SELECT RAISE(ABORT, 'notify_add: a description may have 65536 bytes')
    WHERE length(CAST(NEW.description AS blob)) > 65536;
    SELECT RAISE(ABORT, 'notify_add: a trace context may have 1000 bytes')
    WHERE length(CAST(NEW.trace_context AS blob)) > 1000;
    -- A duplicate is left out by a condition, since OR REPLACE would replace it. A delay below zero is none, and the longest
    -- has ten years.
    INSERT INTO notify_msg (def_id, param, description, trace_context, ordering_key, dedupe_key, next_call_time)
    SELECT d.id, coalesce(NEW.param, 'null'), NEW.description, NEW.trace_context, NEW.ordering_key, NEW.dedupe_key,
           strftime('%Y-%m-%d %H:%M:%f', 'now', printf('%+.3f seconds', min(max(coalesce(NEW.delay, 0), 0), 315576000)))
    FROM notify_def d
    WHERE d.name = NEW.name AND d.delete_time IS NULL
      AND NOT EXISTS (SELECT 1 FROM notify_msg m WHERE m.def_id = d.id AND m.dedupe_key = NEW.dedupe_key);
END;
