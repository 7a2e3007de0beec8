-- Adds a notice by plain SQL: in the caller's transaction, in triggers, from any language. SQLite has no stored
-- functions, so it is an INSERT into a view. Columns without a value are null. The delay is in seconds, expires_at in UTC ('2027-01-31 12:00:00').
-- It returns no id.
--     INSERT INTO notify_add (name, param) VALUES ('sync_to_omp', '{"dsp": 7}');
--     INSERT INTO notify_add (name, param, delay, unique_until_ended) VALUES ('remind', json_object('order', 7), 3600, 'order 7');
--     INSERT INTO notify_add (name, param, tag) VALUES ('sync_order', '{"order": 7}', 'order:7');
-- A dedupe key is unique until the notice is claimed for its first attempt (unique_until_claimed: "send the newest state"), or
-- until it has ended (unique_until_ended: "do this once").
DROP VIEW IF EXISTS notify_add;
CREATE VIEW notify_add
    (name, param, description, delay, ordering_key, unique_until_claimed, unique_until_ended, trace_context, max_tries,
     expires_at, tag) AS
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE false;

-- The table's checks cover most of this. But a caller's OR IGNORE also ignores a failed check, and the notice would be lost
-- without an error. It does not ignore RAISE.
CREATE TRIGGER notify_add_insert INSTEAD OF INSERT ON notify_add
BEGIN
    SELECT RAISE(ABORT, 'notify_add: there is no definition of this name')
    WHERE NOT EXISTS (SELECT 1 FROM notify_def WHERE name = NEW.name AND delete_time IS NULL);
    SELECT RAISE(ABORT, 'notify_add: the definition is built in, so only solid-notify itself adds its notices')
    WHERE NEW.name IN ('notify.alert', 'notify.bulk', 'notify.dead_letters', 'notify.purge');
    SELECT RAISE(ABORT, 'notify_add: the definition has encrypt_param: add its notices with the library, which encrypts them')
    WHERE EXISTS (SELECT 1 FROM notify_def WHERE name = NEW.name AND delete_time IS NULL AND encrypt_param);
    SELECT RAISE(ABORT, 'notify_add: the parameter is not JSON')
    WHERE typeof(NEW.param) = 'blob' OR NOT json_valid(coalesce(NEW.param, 'null'));
    SELECT RAISE(ABORT, 'notify_add: the delay is not a number of seconds')
    WHERE typeof(NEW.delay) NOT IN ('integer', 'real', 'null');
    SELECT RAISE(ABORT, 'notify_add: a key must have 1 to 200 characters')
    WHERE 'blob' IN (typeof(NEW.ordering_key), typeof(NEW.unique_until_claimed), typeof(NEW.unique_until_ended))
       OR length(NEW.ordering_key) NOT BETWEEN 1 AND 200 OR length(NEW.unique_until_claimed) NOT BETWEEN 1 AND 200
       OR length(NEW.unique_until_ended) NOT BETWEEN 1 AND 200;
    SELECT RAISE(ABORT, 'notify_add: a tag must have 1 to 200 characters')
    WHERE typeof(NEW.tag) = 'blob' OR length(NEW.tag) NOT BETWEEN 1 AND 200;
    SELECT RAISE(ABORT, 'notify_add: a tag that begins with notify: belongs to the library')
    WHERE substr(NEW.tag, 1, 7) = 'notify:';
    SELECT RAISE(ABORT, 'notify_add: a notice has one dedupe key: unique_until_claimed or unique_until_ended')
    WHERE NEW.unique_until_claimed IS NOT NULL AND NEW.unique_until_ended IS NOT NULL;
    SELECT RAISE(ABORT, 'notify_add: a description may have 65535 bytes')
    WHERE length(CAST(NEW.description AS blob)) > 65535;
    SELECT RAISE(ABORT, 'notify_add: a trace context may have 1000 bytes')
    WHERE length(CAST(NEW.trace_context AS blob)) > 1000;
    SELECT RAISE(ABORT, 'notify_add: max_tries must be a whole number, 1 or more')
    WHERE typeof(NEW.max_tries) NOT IN ('integer', 'null') OR NEW.max_tries < 1;
    SELECT RAISE(ABORT, 'notify_add: expires_at must be a time such as 2027-01-31 12:00:00')
    WHERE NEW.expires_at IS NOT NULL AND datetime(NEW.expires_at) IS NULL;
    -- A condition skips a duplicate, because a caller's OR REPLACE would replace it. A negative delay counts as zero; the longest
    -- is ten years.
    INSERT INTO notify_msg (def_id, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended,
        max_tries, expires_at, tag, next_call_time)
    SELECT d.id, coalesce(NEW.param, 'null'), NEW.description, NEW.trace_context, NEW.ordering_key,
           coalesce(NEW.unique_until_claimed, NEW.unique_until_ended), CASE WHEN NEW.unique_until_ended IS NOT NULL THEN 1 END,
           NEW.max_tries, strftime('%Y-%m-%d %H:%M:%f', NEW.expires_at), NEW.tag,
           strftime('%Y-%m-%d %H:%M:%f', 'now', printf('%+.3f seconds', min(max(coalesce(NEW.delay, 0), 0), 315576000)))
    FROM notify_def d
    WHERE d.name = NEW.name AND d.delete_time IS NULL
      AND NOT EXISTS (
          SELECT 1 FROM notify_msg m
          WHERE m.def_id = d.id AND m.dedupe_key = coalesce(NEW.unique_until_claimed, NEW.unique_until_ended)
            AND (m.fence = 0 OR m.dedupe_until_ended)
      );
END;
