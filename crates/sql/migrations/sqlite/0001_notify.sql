-- SQLite stores any value in any column, so there are checks: a time is UTC text in the format of datetime() or strftime(),
-- with or without milliseconds, and a number is a whole number.
-- People edit definitions: durations are text ("1h"), choices are names.
CREATE TABLE notify_def (
    id                       integer PRIMARY KEY AUTOINCREMENT,
    name                     text NOT NULL CONSTRAINT notify_def_name UNIQUE
                             CONSTRAINT notify_def_name_length CHECK (length(name) BETWEEN 1 AND 200),
    handler                  text,
    description              text,
    enabled                  integer NOT NULL DEFAULT 1 CONSTRAINT notify_def_enabled CHECK (enabled IN (0, 1)),
    schedule                 text,
    schedule_missed          text NOT NULL DEFAULT 'once'
                             CONSTRAINT notify_def_schedule_missed CHECK (schedule_missed IN ('once', 'all', 'none')),
    send_window              text,
    retry_interval           text NOT NULL DEFAULT '[5s,5m,1h,1d] ~10%',
    max_retry_times          integer CONSTRAINT notify_def_max_retry_times CHECK (max_retry_times >= -1),
    max_retry_interval       text,
    retry_rules              text,
    timeout                  text NOT NULL DEFAULT '30s',
    alert_trigger_type       text NOT NULL DEFAULT 'final_failure'
                             CONSTRAINT notify_def_alert_trigger_type
                             CHECK (alert_trigger_type IN ('final_failure', 'each_failure', 'never', 'after_failures',
                                                           '0', '1', '2', '3')),
    alert_trigger_fail_times integer NOT NULL DEFAULT 3
                             CONSTRAINT notify_def_alert_trigger_fail_times CHECK (alert_trigger_fail_times >= 1),
    alert_cooldown           text NOT NULL DEFAULT '5m',
    email                    text,
    alert_to                 text,
    backlog_alert_age        text,
    dead_alert_count         integer NOT NULL DEFAULT 100
                             CONSTRAINT notify_def_dead_alert_count CHECK (dead_alert_count >= 0),
    need_confirm             integer NOT NULL DEFAULT 0 CONSTRAINT notify_def_need_confirm CHECK (need_confirm IN (0, 1)),
    max_confirm_delay        text NOT NULL DEFAULT '0',
    max_concurrency          integer NOT NULL DEFAULT 20
                             CONSTRAINT notify_def_max_concurrency CHECK (max_concurrency >= 1),
    rate_limit               text,
    max_concurrency_total    integer CONSTRAINT notify_def_max_concurrency_total CHECK (max_concurrency_total >= 1),
    breaker_failures         integer CONSTRAINT notify_def_breaker_failures CHECK (breaker_failures >= 1),
    breaker_pause            text NOT NULL DEFAULT '1m',
    keep_history             text NOT NULL DEFAULT '30d',
    handler_config           text,
    owner                    text,
    runbook                  text,
    mask                     text,
    encrypt_param            integer NOT NULL DEFAULT 0
                             CONSTRAINT notify_def_encrypt_param CHECK (encrypt_param IN (0, 1)),
    -- Of a target: the id of the definition whose notices are passed on to it, and which of them it gets.
    target_of                integer,
    target_filter            text,
    -- Written by sweepers: the last tick of the timetable, and the timetable that it belongs to.
    last_tick                text,
    tick_schedule            text,
    create_time              text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    update_time              text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    delete_time              text,
    CONSTRAINT notify_def_numbers CHECK (
        typeof(max_retry_times) IN ('integer', 'null') AND typeof(alert_trigger_fail_times) = 'integer'
        AND typeof(dead_alert_count) = 'integer' AND typeof(max_concurrency) = 'integer'
        AND typeof(max_concurrency_total) IN ('integer', 'null') AND typeof(breaker_failures) IN ('integer', 'null')
    ),
    CONSTRAINT notify_def_times CHECK (
        (create_time IS strftime('%Y-%m-%d %H:%M:%f', create_time) OR create_time IS datetime(create_time))
        AND (update_time IS strftime('%Y-%m-%d %H:%M:%f', update_time) OR update_time IS datetime(update_time))
        AND (delete_time IS strftime('%Y-%m-%d %H:%M:%f', delete_time) OR delete_time IS datetime(delete_time))
        AND (last_tick IS strftime('%Y-%m-%d %H:%M:%f', last_tick) OR last_tick IS datetime(last_tick))
    ),
    -- As long as a text of MySQL: each node reads all definitions.
    CONSTRAINT notify_def_lengths CHECK (
        length(CAST(handler AS blob)) <= 65535 AND length(CAST(description AS blob)) <= 65535
        AND length(CAST(schedule AS blob)) <= 65535 AND length(CAST(send_window AS blob)) <= 65535
        AND length(CAST(retry_interval AS blob)) <= 65535 AND length(CAST(max_retry_interval AS blob)) <= 65535
        AND length(CAST(retry_rules AS blob)) <= 65535 AND length(CAST(timeout AS blob)) <= 65535
        AND length(CAST(email AS blob)) <= 65535 AND length(CAST(alert_to AS blob)) <= 65535
        AND length(CAST(alert_cooldown AS blob)) <= 65535 AND length(CAST(backlog_alert_age AS blob)) <= 65535
        AND length(CAST(max_confirm_delay AS blob)) <= 65535 AND length(CAST(rate_limit AS blob)) <= 65535
        AND length(CAST(breaker_pause AS blob)) <= 65535 AND length(CAST(keep_history AS blob)) <= 65535
        AND length(CAST(handler_config AS blob)) <= 65535 AND length(CAST(owner AS blob)) <= 65535
        AND length(CAST(runbook AS blob)) <= 65535 AND length(CAST(mask AS blob)) <= 65535
        AND length(CAST(target_filter AS blob)) <= 65535 AND length(CAST(tick_schedule AS blob)) <= 65535
    )
);

-- Only live notices, so the table stays small. Times are UTC text with milliseconds.
-- AUTOINCREMENT never uses an id twice, so a new notice cannot have the id of one in history.
-- No foreign key to notify_def, so that an edit of a definition never waits for an open business transaction.
CREATE TABLE notify_msg (
    id             integer PRIMARY KEY AUTOINCREMENT,
    def_id         integer NOT NULL,
    param          text NOT NULL,
    description    text,
    errors         text,
    status         integer NOT NULL DEFAULT 0 CONSTRAINT notify_msg_status CHECK (status IN (0, 2, 4, 5)),
    fence          integer NOT NULL DEFAULT 0,
    failures       integer NOT NULL DEFAULT 0,
    crashes        integer NOT NULL DEFAULT 0,
    worker         text,
    last_class     text,
    last_call_time text,
    next_call_time text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    create_time    text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    dedupe_key     text,
    dedupe_until_ended integer,
    ordering_key   text,
    trace_context  text,
    -- The object of the business that the notice is about, for operators: order:42.
    tag            text,
    -- The notice's own limits: its tries, instead of 1 + max_retry_times, and the time from which on it is not sent.
    max_tries      integer,
    expires_at     text,
    -- The notice that was passed on to a target as this one.
    parent_id      integer,
    -- What the receiver answered last, as JSON; see the chapter on handlers. Null: its handler reported nothing.
    response       text,
    -- Set while the notice waits behind an unfinished one of its ordering key: the time at which it was due. Then next_call_time
    -- is the time of the next look.
    blocked_since  text,
    CONSTRAINT notify_msg_keys CHECK (
        typeof(dedupe_key) IN ('text', 'null') AND typeof(ordering_key) IN ('text', 'null') AND typeof(tag) IN ('text', 'null')
        AND length(dedupe_key) BETWEEN 1 AND 200 AND length(ordering_key) BETWEEN 1 AND 200 AND length(tag) BETWEEN 1 AND 200
        AND (dedupe_until_ended IS NULL OR dedupe_until_ended IN (0, 1))
    ),
    CONSTRAINT notify_msg_texts CHECK (
        length(CAST(description AS blob)) <= 65535 AND length(CAST(trace_context AS blob)) <= 1000
    ),
    -- 9999-12-31 is the due time of a notice that waits for its ack without end.
    CONSTRAINT notify_msg_times CHECK (
        (next_call_time IS strftime('%Y-%m-%d %H:%M:%f', next_call_time) OR next_call_time IS datetime(next_call_time))
        AND (create_time IS strftime('%Y-%m-%d %H:%M:%f', create_time) OR create_time IS datetime(create_time))
        AND (expires_at IS NULL OR expires_at IS strftime('%Y-%m-%d %H:%M:%f', expires_at) OR expires_at IS datetime(expires_at))
    )
);

-- A definition and a status make a queue slice. next_call_time is the next time at which a sweeper must look at the row.
CREATE INDEX notify_msg_due ON notify_msg (def_id, status, next_call_time);

-- Only one notice of a definition has a dedupe key, until its first claim or until it has ended.
CREATE UNIQUE INDEX notify_msg_dedupe ON notify_msg (def_id, dedupe_key)
    WHERE dedupe_key IS NOT NULL AND (fence = 0 OR dedupe_until_ended);

-- Finds the notices in front of one in its ordering key. The notice under way has the first place. The index is unique, so only
-- one notice of a key is under way at a time.
CREATE UNIQUE INDEX notify_msg_order
    ON notify_msg (def_id, ordering_key, (CASE WHEN status IN (4, 5) THEN 0 ELSE id END)) WHERE ordering_key IS NOT NULL;

-- Finds the notices of a tag. Other notices have no entry.
CREATE INDEX notify_msg_tag ON notify_msg (def_id, tag) WHERE tag IS NOT NULL;

CREATE TABLE notify_msg_history (
    id             integer PRIMARY KEY,
    def_id         integer NOT NULL,
    param          text NOT NULL,
    description    text,
    errors         text,
    status         integer NOT NULL CONSTRAINT notify_msg_history_status CHECK (status IN (1, 3, 6)),
    fence          integer NOT NULL,
    failures       integer NOT NULL,
    crashes        integer NOT NULL,
    worker         text,
    last_class     text,
    last_call_time text,
    next_call_time text,
    create_time    text NOT NULL,
    dedupe_key     text,
    dedupe_until_ended integer,
    ordering_key   text,
    trace_context  text,
    tag            text,
    max_tries      integer,
    expires_at     text,
    parent_id      integer,
    response       text,
    finish_time    text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    end_reason     text,
    -- Of a dead letter the number of its group: the same definition, class and message, except for numbers, ids and quoted text.
    error_group    integer,
    -- The class of a dead letter ('-': none); null for successes and cancelled notices.
    dead_class     text GENERATED ALWAYS AS (CASE WHEN status = 3 THEN coalesce(nullif(last_class, ''), '-') END) VIRTUAL,
    CONSTRAINT notify_msg_history_times CHECK (
        (finish_time IS strftime('%Y-%m-%d %H:%M:%f', finish_time) OR finish_time IS datetime(finish_time))
    )
);

CREATE INDEX notify_msg_history_finished ON notify_msg_history (def_id, status, finish_time);

-- Ended notices by their tag and their keys. A notice without one has no entry.
CREATE INDEX notify_msg_history_tag ON notify_msg_history (def_id, tag, status, finish_time) WHERE tag IS NOT NULL;
CREATE INDEX notify_msg_history_order ON notify_msg_history (def_id, ordering_key, status, finish_time)
    WHERE ordering_key IS NOT NULL;
CREATE INDEX notify_msg_history_dedupe ON notify_msg_history (def_id, dedupe_key, status, finish_time)
    WHERE dedupe_key IS NOT NULL;

-- Dead letters by their class, newest or oldest first. It has no successes.
CREATE INDEX notify_msg_history_dead ON notify_msg_history (def_id, dead_class, finish_time) WHERE dead_class IS NOT NULL;

-- Dead letters by their group, newest or oldest first. It has no successes.
CREATE INDEX notify_msg_history_group ON notify_msg_history (def_id, error_group, finish_time)
    WHERE error_group IS NOT NULL;

CREATE TABLE notify_node (
    id              text PRIMARY KEY,
    handlers        text NOT NULL,
    version         text NOT NULL DEFAULT '',
    clock_offset_ms integer NOT NULL DEFAULT 0,
    -- The definitions whose handler_config its handlers refuse, as JSON; null: none.
    refused         text,
    -- Why it does not send, and which of its attempts cannot be cancelled, as JSON; null: all is well.
    problems        text,
    -- The ids of the keys by which it decrypts parameters, as JSON; null: none.
    param_keys      text,
    -- It was shut down. Its handlers count as living for three minutes, so that a restart raises no alarm.
    stopped         boolean NOT NULL DEFAULT false,
    start_time      text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    last_seen       text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

-- The open alerts, by definition and reason, with the cool-down that all nodes share.
CREATE TABLE notify_alert (
    def_id        integer NOT NULL,
    reason        text NOT NULL,
    opened        text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    last_notified text,
    suppressed    integer NOT NULL DEFAULT 0,
    last_seen     text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    -- When a node has to look at it again: a digest or the end may be reported then.
    due           text,
    -- Of the last alarm.
    notice_id     integer,
    description   text,
    class         text,
    message       text,
    node          text,
    -- By operators: until when no alert is sent, and who takes care of it since when. A silence needs no open alert.
    silenced_until  text,
    acknowledged_at text,
    acknowledged_by text,
    PRIMARY KEY (def_id, reason)
);
CREATE INDEX notify_alert_due ON notify_alert (due) WHERE due IS NOT NULL;

-- The versions of the rows of notify_def, each a JSON object of the editable columns (and "deleted": true), with its author.
CREATE TABLE notify_def_version (
    def_id     integer NOT NULL,
    version    integer NOT NULL,
    time       text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    who        text NOT NULL,
    act        text NOT NULL,
    definition text NOT NULL,
    PRIMARY KEY (def_id, version),
    CONSTRAINT notify_def_version_types CHECK (
        typeof(def_id) = 'integer' AND typeof(version) = 'integer' AND typeof(definition) = 'text'
    )
);

-- The state of cluster-wide limits: one row for each definition that has one. A claim locks it. `UPDATE notify_limit SET
-- open_until = NULL, failures = 0` closes a circuit by hand.
CREATE TABLE notify_limit (
    def_id     integer PRIMARY KEY,
    -- Attempts that began recently: a JSON list of [milliseconds since 1970, number of attempts].
    begun      text,
    -- Failures in a row.
    failures   integer NOT NULL DEFAULT 0 CONSTRAINT notify_limit_failures CHECK (typeof(failures) = 'integer'),
    -- Not null: the circuit is open. From this time on a probe may be sent.
    open_until text CONSTRAINT notify_limit_open_until CHECK (
        open_until IS strftime('%Y-%m-%d %H:%M:%f', open_until) OR open_until IS datetime(open_until)
    ),
    -- The id of the notice that is the probe.
    probe      integer CONSTRAINT notify_limit_probe CHECK (typeof(probe) IN ('integer', 'null'))
);

-- What lets a notice of a built-in definition act (a bulk act, a purge, an alert): written with it, by an account that may write here. A
-- notice that a producer inserts by itself has none.
CREATE TABLE notify_authority (
    notice_id integer PRIMARY KEY,
    def_id    integer NOT NULL,
    -- The operator.
    who       text NOT NULL,
    act       text NOT NULL,
    -- The fence of the last claim that has used it.
    fence     integer NOT NULL DEFAULT 0,
    -- The order of a bulk act, as JSON.
    detail    text
);

-- How far a notice is that is passed on to its targets in parts: their ids, as the first part found them, and how many of them have it. `5=17`:
-- the target 5 kept its notice 17, which has the dedupe key.
CREATE TABLE notify_passing (
    notice_id integer PRIMARY KEY,
    targets   text NOT NULL,
    done      integer NOT NULL
);

-- The switch that pauses all sending: `UPDATE notify_switch SET paused = 1, who = '…', since = datetime(), reason = '…'`.
-- `retries_paused = 1` instead of `paused` pauses the retries of all definitions, and first attempts go on.
CREATE TABLE notify_switch (
    id     integer PRIMARY KEY DEFAULT 1 CONSTRAINT notify_switch_one CHECK (id = 1),
    paused integer NOT NULL DEFAULT 0 CONSTRAINT notify_switch_paused CHECK (paused IN (0, 1)),
    retries_paused integer NOT NULL DEFAULT 0 CONSTRAINT notify_switch_retries CHECK (retries_paused IN (0, 1)),
    who    text,
    since  text,
    reason text,
    -- A random number of this database. Ack tokens contain it.
    store_id integer NOT NULL DEFAULT (random())
);

INSERT INTO notify_switch (id) VALUES (1);

-- A snapshot of the number of notices of each definition. A node that moves next_time on takes it.
CREATE TABLE notify_count (
    def_id             integer NOT NULL PRIMARY KEY,
    not_sent           integer NOT NULL DEFAULT 0,
    failed             integer NOT NULL DEFAULT 0,
    sending            integer NOT NULL DEFAULT 0,
    awaiting_ack   integer NOT NULL DEFAULT 0,
    dead_letters       integer NOT NULL DEFAULT 0,
    cancelled          integer NOT NULL DEFAULT 0,
    recently_succeeded integer NOT NULL DEFAULT 0,
    -- The earliest due time of first sends and retries; null: none is due.
    oldest_due         text,
    -- Null: not counted yet.
    taken_at           text,
    next_time          text NOT NULL,
    CONSTRAINT notify_count_numbers CHECK (
        typeof(not_sent) = 'integer' AND typeof(failed) = 'integer' AND typeof(sending) = 'integer'
        AND typeof(awaiting_ack) = 'integer' AND typeof(dead_letters) = 'integer' AND typeof(cancelled) = 'integer'
        AND typeof(recently_succeeded) = 'integer'
    ),
    CONSTRAINT notify_count_times CHECK (
        next_time IS strftime('%Y-%m-%d %H:%M:%f', next_time) OR next_time IS datetime(next_time)
    )
);

-- The idempotency keys that receivers have seen, of each sender. notify.purge deletes old ones.
CREATE TABLE notify_inbox (
    receiver        text NOT NULL,
    sender          text NOT NULL,
    idempotency_key text NOT NULL,
    first_seen      text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    PRIMARY KEY (receiver, sender, idempotency_key),
    CONSTRAINT notify_inbox_keys CHECK (
        typeof(receiver) = 'text' AND typeof(sender) = 'text' AND typeof(idempotency_key) = 'text'
    ),
    CONSTRAINT notify_inbox_first_seen CHECK (
        first_seen IS strftime('%Y-%m-%d %H:%M:%f', first_seen) OR first_seen IS datetime(first_seen)
    )
);

-- Finds the old ones.
CREATE INDEX notify_inbox_first_seen ON notify_inbox (first_seen);

-- Counts and durations of attempts by definition, minute and node; see the chapter on observing. A node replaces its own rows. notify.purge
-- deletes old ones.
CREATE TABLE notify_series (
    def_id          integer NOT NULL,
    minute          text NOT NULL,
    node            text NOT NULL,
    succeeded       integer NOT NULL DEFAULT 0,
    awaiting_ack    integer NOT NULL DEFAULT 0,
    skipped         integer NOT NULL DEFAULT 0,
    failed          integer NOT NULL DEFAULT 0,
    dead_letters    integer NOT NULL DEFAULT 0,
    unacked         integer NOT NULL DEFAULT 0,
    timed           integer NOT NULL DEFAULT 0,
    duration_ms     integer NOT NULL DEFAULT 0,
    duration_max_ms integer NOT NULL DEFAULT 0,
    delivery_ms     integer NOT NULL DEFAULT 0,
    delivery_max_ms integer NOT NULL DEFAULT 0,
    late_max_ms     integer NOT NULL DEFAULT 0,
    PRIMARY KEY (def_id, minute, node)
);

-- Finds the minutes of all definitions, and the old ones.
CREATE INDEX notify_series_minute ON notify_series (minute);

CREATE TABLE notify_audit (
    id        integer PRIMARY KEY AUTOINCREMENT,
    time      text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    who       text NOT NULL,
    act       text NOT NULL,
    def_id    integer,
    notice_id integer,
    detail    text,
    -- The notices that a step of a bulk verb changed: ,7,8,12, (null for other actions), and the first and the last of them.
    notice_ids text,
    first_id  integer,
    last_id   integer
);

CREATE INDEX notify_audit_time ON notify_audit (time, id);
CREATE INDEX notify_audit_definition ON notify_audit (def_id, time, id);
CREATE INDEX notify_audit_notice ON notify_audit (notice_id, time, id) WHERE notice_id IS NOT NULL;
CREATE INDEX notify_audit_who ON notify_audit (who, time, id);
CREATE INDEX notify_audit_act ON notify_audit (act, time, id);
-- Finds the steps that may have changed a notice.
CREATE INDEX notify_audit_steps ON notify_audit (last_id, first_id) WHERE last_id IS NOT NULL;
