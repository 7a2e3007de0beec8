-- For MySQL 8 and MariaDB 10.6. The server's default character set may be latin1, so every table sets utf8mb4.
-- Names and keys compare byte by byte and without padding ('a' is not 'a '). The collation has another name on
-- each server, so there are two executable comments. Times are UTC in every time zone of the session.
-- Each statement commits by itself. IF NOT EXISTS lets the next run continue after one that was cut short.
-- The checks refuse '0000-00-00' and similar values, which a lax sql_mode accepts and which are not times.
-- People edit definitions: durations are text ("1h"), choices are names.
CREATE TABLE IF NOT EXISTS notify_def (
    id                       bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name                     varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    handler                  varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    description              text,
    enabled                  tinyint(1) NOT NULL DEFAULT 1,
    schedule                 varchar(1000) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    schedule_missed          varchar(30) NOT NULL DEFAULT 'once',
    send_window              varchar(1000),
    retry_interval           varchar(1000) NOT NULL DEFAULT '[5s,5m,1h,1d] ~10%',
    max_retry_times          integer,
    max_retry_interval       varchar(100),
    retry_rules              text,
    timeout                  varchar(100) NOT NULL DEFAULT '30s',
    alert_trigger_type       varchar(30) NOT NULL DEFAULT 'final_failure',
    alert_trigger_fail_times integer NOT NULL DEFAULT 3,
    alert_cooldown           varchar(100) NOT NULL DEFAULT '5m',
    email                    text,
    alert_to                 text,
    backlog_alert_age        varchar(100),
    dead_alert_count         integer NOT NULL DEFAULT 100,
    need_confirm             tinyint(1) NOT NULL DEFAULT 0,
    max_confirm_delay        varchar(100) NOT NULL DEFAULT '0',
    max_concurrency          integer NOT NULL DEFAULT 20,
    rate_limit               varchar(100),
    max_concurrency_total    integer,
    breaker_failures         integer,
    breaker_pause            varchar(100) NOT NULL DEFAULT '1m',
    keep_history             varchar(100) NOT NULL DEFAULT '30d',
    handler_config           text,
    owner                    text,
    runbook                  text,
    mask                     text,
    encrypt_param            tinyint(1) NOT NULL DEFAULT 0,
    -- Of a target: the id of the definition whose notices are passed on to it, and which of them it gets.
    target_of                bigint,
    target_filter            text,
    -- Written by sweepers: the last tick of the timetable, and the timetable that it belongs to.
    last_tick                datetime(6),
    tick_schedule            varchar(1000) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    create_time              datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    update_time              datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    delete_time              datetime(6),
    UNIQUE KEY notify_def_name (name),
    CONSTRAINT notify_def_name_length CHECK (char_length(name) BETWEEN 1 AND 200),
    CONSTRAINT notify_def_enabled CHECK (enabled IN (0, 1)),
    CONSTRAINT notify_def_schedule_missed CHECK (schedule_missed IN ('once', 'all', 'none')),
    CONSTRAINT notify_def_max_retry_times CHECK (max_retry_times >= -1),
    CONSTRAINT notify_def_alert_trigger_type
        CHECK (alert_trigger_type IN ('final_failure', 'each_failure', 'never', 'after_failures', '0', '1', '2', '3')),
    CONSTRAINT notify_def_alert_trigger_fail_times CHECK (alert_trigger_fail_times >= 1),
    CONSTRAINT notify_def_dead_alert_count CHECK (dead_alert_count >= 0),
    CONSTRAINT notify_def_need_confirm CHECK (need_confirm IN (0, 1)),
    CONSTRAINT notify_def_encrypt_param CHECK (encrypt_param IN (0, 1)),
    CONSTRAINT notify_def_max_concurrency CHECK (max_concurrency >= 1),
    CONSTRAINT notify_def_max_concurrency_total CHECK (max_concurrency_total >= 1),
    CONSTRAINT notify_def_breaker_failures CHECK (breaker_failures >= 1),
    CONSTRAINT notify_def_times
        CHECK (create_time >= '1970-01-01' AND update_time >= '1970-01-01' AND delete_time >= '1970-01-01'
               AND last_tick >= '1970-01-01')
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Only live notices, so the table stays small. LONGTEXT and not JSON, so that the parameter keeps its bytes.
-- No foreign key to notify_def, so that an edit of a definition never waits for an open business transaction.
CREATE TABLE IF NOT EXISTS notify_msg (
    id             bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    def_id         bigint NOT NULL,
    param          longtext NOT NULL,
    description    text,
    errors         longtext,
    status         smallint NOT NULL DEFAULT 0,
    fence          integer NOT NULL DEFAULT 0,
    failures       integer NOT NULL DEFAULT 0,
    crashes        integer NOT NULL DEFAULT 0,
    worker         varchar(200),
    last_class     varchar(30),
    last_call_time datetime(6),
    next_call_time datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    create_time    datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    dedupe_key     varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    dedupe_until_ended bool,
    ordering_key   varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    trace_context  varchar(1000),
    -- The object of the business that the notice is about, for operators: order:42.
    tag            varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    -- The notice's own limits: its tries, instead of 1 + max_retry_times, and the time from which on it is not sent.
    max_tries      integer,
    expires_at     datetime(6),
    -- The notice that was passed on to a target as this one.
    parent_id      bigint,
    -- What the receiver answered last, as JSON; see the chapter on handlers. Null: its handler reported nothing.
    response       longtext,
    -- Set while the notice waits behind an unfinished one of its ordering key: the time at which it was due. Then next_call_time
    -- is the time of the next look.
    blocked_since  datetime(6),
    -- The ordering key while the notice is under way, else null. MySQL has no partial indexes, but nulls are not duplicates.
    under_way      varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */
                   GENERATED ALWAYS AS (CASE WHEN status IN (4, 5) THEN ordering_key END) STORED,
    -- The dedupe key while the notice has it (until its first claim, or until it has ended), else null.
    unique_key     varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */
                   GENERATED ALWAYS AS (CASE WHEN fence = 0 OR dedupe_until_ended THEN dedupe_key END) STORED,
    CONSTRAINT notify_msg_keys CHECK (char_length(dedupe_key) >= 1 AND char_length(ordering_key) >= 1 AND char_length(tag) >= 1),
    CONSTRAINT notify_msg_status CHECK (status IN (0, 2, 4, 5)),
    -- 9999-12-31 is the due time of a notice that waits for its ack without end.
    CONSTRAINT notify_msg_times CHECK (next_call_time >= '1970-01-01' AND create_time >= '1970-01-01'),
    -- A definition and a status make a queue slice. next_call_time is the next time at which a sweeper must look at the row.
    KEY notify_msg_due (def_id, status, next_call_time),
    -- Only one notice of a definition has a dedupe key.
    UNIQUE KEY notify_msg_dedupe (def_id, unique_key),
    -- Finds the notices in front of one in its ordering key. (Not a unique index: in those the id is not part of the order.)
    KEY notify_msg_order (def_id, ordering_key, id),
    -- Finds the notices of a tag.
    KEY notify_msg_tag (def_id, tag),
    -- Only one notice of an ordering key is under way at a time.
    UNIQUE KEY notify_msg_under_way (def_id, under_way)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS notify_msg_history (
    id             bigint NOT NULL PRIMARY KEY,
    def_id         bigint NOT NULL,
    param          longtext NOT NULL,
    description    longtext,
    errors         longtext,
    status         smallint NOT NULL,
    fence          integer NOT NULL,
    failures       integer NOT NULL,
    crashes        integer NOT NULL,
    worker         varchar(200),
    last_class     varchar(30),
    last_call_time datetime(6),
    next_call_time datetime(6),
    create_time    datetime(6) NOT NULL,
    dedupe_key     varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    dedupe_until_ended bool,
    ordering_key   varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    trace_context  varchar(1000),
    tag            varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    max_tries      integer,
    expires_at     datetime(6),
    parent_id      bigint,
    response       longtext,
    finish_time    datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    end_reason     text,
    -- Of a dead letter the number of its group: the same definition, class and message, except for numbers, ids and quoted text.
    error_group    bigint,
    -- The class of a dead letter ('-': none); null for successes and cancelled notices.
    dead_class     varchar(30) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */
                   GENERATED ALWAYS AS (CASE WHEN status = 3 THEN coalesce(nullif(last_class, ''), '-') END) STORED,
    CONSTRAINT notify_msg_history_status CHECK (status IN (1, 3, 6)),
    CONSTRAINT notify_msg_history_times CHECK (finish_time >= '1970-01-01'),
    KEY notify_msg_history_finished (def_id, status, finish_time),
    -- Dead letters by their class, newest or oldest first. MySQL has no partial indexes, so a success has an entry too, which
    -- costs about a hundredth of sending it.
    KEY notify_msg_history_dead (def_id, dead_class, finish_time),
    -- Ended notices by their tag and their keys.
    KEY notify_msg_history_tag (def_id, tag, status, finish_time),
    KEY notify_msg_history_order (def_id, ordering_key, status, finish_time),
    KEY notify_msg_history_dedupe (def_id, dedupe_key, status, finish_time),
    -- Dead letters by their group, newest or oldest first.
    KEY notify_msg_history_group (def_id, error_group, finish_time)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS notify_node (
    id              varchar(200) NOT NULL PRIMARY KEY,
    handlers        longtext NOT NULL,
    version         varchar(100) NOT NULL DEFAULT '',
    clock_offset_ms bigint NOT NULL DEFAULT 0,
    -- The definitions whose handler_config its handlers refuse, as JSON; null: none.
    refused         longtext,
    -- Why it does not send, and which of its attempts cannot be cancelled, as JSON; null: all is well.
    problems        longtext,
    -- The ids of the keys by which it decrypts parameters, as JSON; null: none.
    param_keys      longtext,
    -- It was shut down. Its handlers count as living for three minutes, so that a restart raises no alarm.
    stopped         boolean NOT NULL DEFAULT false,
    start_time      datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    last_seen       datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- The open alerts, by definition and reason, with the cool-down that all nodes share.
CREATE TABLE IF NOT EXISTS notify_alert (
    def_id        bigint NOT NULL,
    reason        varchar(100) NOT NULL,
    opened        datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    last_notified datetime(6),
    suppressed    bigint NOT NULL DEFAULT 0,
    last_seen     datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    -- When a node has to look at it again: a digest or the end may be reported then.
    due           datetime(6),
    -- Of the last alarm.
    notice_id     bigint,
    description   longtext,
    class         varchar(30),
    message       longtext,
    node          varchar(200),
    -- By operators: until when no alert is sent, and who takes care of it since when. A silence needs no open alert.
    silenced_until  datetime(6),
    acknowledged_at datetime(6),
    acknowledged_by varchar(200),
    PRIMARY KEY (def_id, reason),
    KEY notify_alert_due (due)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- The versions of the rows of notify_def, each a JSON object of the editable columns (and "deleted": true), with its author.
CREATE TABLE IF NOT EXISTS notify_def_version (
    def_id     bigint NOT NULL,
    version    bigint NOT NULL,
    time       datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    who        varchar(200) NOT NULL,
    act        varchar(100) NOT NULL,
    definition longtext NOT NULL,
    PRIMARY KEY (def_id, version)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- The state of cluster-wide limits: one row for each definition that has one. A claim locks it. `UPDATE notify_limit SET
-- open_until = NULL, failures = 0` closes a circuit by hand.
CREATE TABLE IF NOT EXISTS notify_limit (
    def_id     bigint NOT NULL PRIMARY KEY,
    -- Attempts that began recently: a JSON list of [milliseconds since 1970, number of attempts].
    begun      longtext,
    -- Failures in a row.
    failures   bigint NOT NULL DEFAULT 0,
    -- Not null: the circuit is open. From this time on a probe may be sent.
    open_until datetime(6),
    -- The id of the notice that is the probe.
    probe      bigint
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- What lets a notice of a built-in definition act (a bulk act, a purge, an alert): written with it, by an account that may write here. A
-- notice that a producer inserts by itself has none.
CREATE TABLE IF NOT EXISTS notify_authority (
    notice_id bigint NOT NULL PRIMARY KEY,
    def_id    bigint NOT NULL,
    -- The operator.
    who       varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    act       varchar(100) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    -- The fence of the last claim that has used it.
    fence     integer NOT NULL DEFAULT 0,
    -- The order of a bulk act, as JSON.
    detail    longtext
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- How far a notice is that is passed on to its targets in parts: their ids, as the first part found them, and how many of them have it. `5=17`:
-- the target 5 kept its notice 17, which has the dedupe key.
CREATE TABLE IF NOT EXISTS notify_passing (
    notice_id bigint NOT NULL PRIMARY KEY,
    targets   longtext NOT NULL,
    done      integer NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- The switch that pauses all sending: `UPDATE notify_switch SET paused = 1, who = '…', since = UTC_TIMESTAMP(), reason = '…'`.
-- `retries_paused = 1` instead of `paused` pauses the retries of all definitions, and first attempts go on.
CREATE TABLE IF NOT EXISTS notify_switch (
    id     smallint NOT NULL DEFAULT 1 PRIMARY KEY,
    paused tinyint(1) NOT NULL DEFAULT 0,
    retries_paused tinyint(1) NOT NULL DEFAULT 0,
    who    varchar(200),
    since  datetime(6),
    reason text,
    -- A random number of this database. Ack tokens contain it.
    store_id bigint NOT NULL DEFAULT (CAST(CONV(SUBSTRING(SHA2(UUID(), 256), 1, 15), 16, 10) AS signed)),
    CONSTRAINT notify_switch_one CHECK (id = 1),
    CONSTRAINT notify_switch_paused CHECK (paused IN (0, 1) AND retries_paused IN (0, 1))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

INSERT IGNORE INTO notify_switch (id) VALUES (1);

-- A snapshot of the number of notices of each definition. A node that moves next_time on takes it.
CREATE TABLE IF NOT EXISTS notify_count (
    def_id             bigint NOT NULL PRIMARY KEY,
    not_sent           bigint NOT NULL DEFAULT 0,
    failed             bigint NOT NULL DEFAULT 0,
    sending            bigint NOT NULL DEFAULT 0,
    awaiting_ack   bigint NOT NULL DEFAULT 0,
    dead_letters       bigint NOT NULL DEFAULT 0,
    cancelled          bigint NOT NULL DEFAULT 0,
    recently_succeeded bigint NOT NULL DEFAULT 0,
    -- The earliest due time of first sends and retries; null: none is due.
    oldest_due         datetime(6),
    -- Null: not counted yet.
    taken_at           datetime(6),
    next_time          datetime(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- The idempotency keys that receivers have seen, of each sender. notify.purge deletes old ones.
CREATE TABLE IF NOT EXISTS notify_inbox (
    receiver        varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    sender          varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    idempotency_key varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    first_seen      datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (receiver, sender, idempotency_key),
    -- Finds the old ones.
    KEY notify_inbox_first_seen (first_seen)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Counts and durations of attempts by definition, minute and node; see the chapter on observing. A node replaces its own rows. notify.purge
-- deletes old ones.
CREATE TABLE IF NOT EXISTS notify_series (
    def_id          bigint NOT NULL,
    minute          datetime(6) NOT NULL,
    node            varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    succeeded       bigint NOT NULL DEFAULT 0,
    awaiting_ack    bigint NOT NULL DEFAULT 0,
    skipped         bigint NOT NULL DEFAULT 0,
    failed          bigint NOT NULL DEFAULT 0,
    dead_letters    bigint NOT NULL DEFAULT 0,
    unacked         bigint NOT NULL DEFAULT 0,
    timed           bigint NOT NULL DEFAULT 0,
    duration_ms     bigint NOT NULL DEFAULT 0,
    duration_max_ms bigint NOT NULL DEFAULT 0,
    delivery_ms     bigint NOT NULL DEFAULT 0,
    delivery_max_ms bigint NOT NULL DEFAULT 0,
    late_max_ms     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (def_id, minute, node),
    -- Finds the minutes of all definitions, and the old ones.
    KEY notify_series_minute (minute)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS notify_audit (
    id        bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    time      datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    who       varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    act       varchar(100) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    def_id    bigint,
    notice_id bigint,
    detail    longtext,
    -- The notices that a step of a bulk verb changed: ,7,8,12, (null for other actions), and the first and the last of them.
    notice_ids longtext,
    first_id  bigint,
    last_id   bigint,
    KEY notify_audit_time (time, id),
    KEY notify_audit_definition (def_id, time, id),
    KEY notify_audit_notice (notice_id, time, id),
    KEY notify_audit_who (who, time, id),
    KEY notify_audit_act (act, time, id),
    -- Finds the steps that may have changed a notice.
    KEY notify_audit_steps (last_id, first_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
