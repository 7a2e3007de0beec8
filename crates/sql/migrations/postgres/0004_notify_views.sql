-- Views for people and reports: what waits, what has ended, what finally failed. They leave out the parameter, which may have
-- personal data, so an account that reads them needs no right to read it. last_error is the message of the last failed attempt,
-- response_status what its receiver answered last. The body of a response is left out, too.
-- retry_times counts the retries that a notice had, with the one that runs or that it waits for: each used try leads to one, except the
-- last of a dead letter. update_time is when it ended, else when its last attempt began, else when it was added.
-- The definition is null if its row was deleted by SQL.

-- Live notices. next_call_time is when a sweeper must look at it: the time of the send or retry, the end of the lease of one that is
-- being sent, the end of the wait for an ack.
CREATE OR REPLACE VIEW notify_pending AS
    SELECT m.id, d.name AS definition, m.def_id,
           CASE m.status WHEN 0 THEN 'not sent' WHEN 2 THEN 'failed' WHEN 4 THEN 'awaiting ack' ELSE 'being sent' END AS status,
           m.next_call_time,
           m.failures, m.crashes, m.failures + m.crashes AS retry_times, m.last_class, m.errors -> -1 ->> 'message' AS last_error,
           m.response ->> 'status' AS response_status,
           m.description, m.ordering_key, m.dedupe_key, m.tag, m.worker, m.create_time, m.last_call_time,
           coalesce(m.last_call_time, m.create_time) AS update_time,
           m.max_tries, m.expires_at
    FROM notify_msg m LEFT JOIN notify_def d ON d.id = m.def_id;

-- Succeeded and cancelled notices, as long as history keeps them.
CREATE OR REPLACE VIEW notify_done AS
    SELECT m.id, d.name AS definition, m.def_id,
           CASE m.status WHEN 1 THEN 'succeeded' ELSE 'cancelled' END AS status,
           m.finish_time, m.end_reason,
           m.failures, m.crashes, m.failures + m.crashes AS retry_times, m.last_class, m.errors -> -1 ->> 'message' AS last_error,
           m.response ->> 'status' AS response_status,
           m.description, m.ordering_key, m.dedupe_key, m.tag, m.worker, m.create_time, m.last_call_time,
           m.finish_time AS update_time
    FROM notify_msg_history m LEFT JOIN notify_def d ON d.id = m.def_id
    WHERE m.status IN (1, 6);

-- Dead letters.
CREATE OR REPLACE VIEW notify_error AS
    SELECT m.id, d.name AS definition, m.def_id,
           'dead letter' AS status,
           m.finish_time, m.end_reason,
           m.failures, m.crashes, CASE WHEN m.failures + m.crashes > 0 THEN m.failures + m.crashes - 1 ELSE 0 END AS retry_times, m.last_class, m.errors -> -1 ->> 'message' AS last_error,
           m.response ->> 'status' AS response_status,
           m.description, m.ordering_key, m.dedupe_key, m.tag, m.worker, m.create_time, m.last_call_time,
           m.finish_time AS update_time
    FROM notify_msg_history m LEFT JOIN notify_def d ON d.id = m.def_id
    WHERE m.status = 3;
