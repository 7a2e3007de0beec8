-- For MySQL 8 and MariaDB 10.6. The server's default character set may be latin1, so every table says utf8mb4.
-- Names and keys compare byte by byte and without padding ('a' is not 'a '): the collation has another name on
-- each server, hence the two executable comments. Times are UTC whatever the session's time zone is.
-- Each statement is committed by itself, so a run that was cut short is taken up: IF NOT EXISTS.
-- '0000-00-00' and the like, which a lax sql_mode lets in, are no times: hence the checks.
-- Definitions are written by people: durations are text ("1h"), choices are named.
CREATE TABLE IF NOT EXISTS notify_def (
    id                       bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name                     varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */ NOT NULL,
    handler                  varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    description              text,
    enabled                  tinyint(1) NOT NULL DEFAULT 1,
    retry_interval           varchar(1000) NOT NULL DEFAULT '[5s,5m,1h,1d]',
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
    dead_alert_count         integer,
    need_confirm             tinyint(1) NOT NULL DEFAULT 0,
    max_confirm_delay        varchar(100) NOT NULL DEFAULT '0',
    max_concurrency          integer NOT NULL DEFAULT 20,
    keep_history             varchar(100) NOT NULL DEFAULT '30d',
    handler_config           text,
    create_time              datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    update_time              datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    delete_time              datetime(6),
    UNIQUE KEY notify_def_name (name),
    CONSTRAINT notify_def_name_length CHECK (char_length(name) BETWEEN 1 AND 200),
    CONSTRAINT notify_def_enabled CHECK (enabled IN (0, 1)),
    CONSTRAINT notify_def_max_retry_times CHECK (max_retry_times >= -1),
    CONSTRAINT notify_def_alert_trigger_type
        CHECK (alert_trigger_type IN ('final_failure', 'each_failure', 'never', 'after_failures')),
    CONSTRAINT notify_def_alert_trigger_fail_times CHECK (alert_trigger_fail_times >= 1),
    CONSTRAINT notify_def_need_confirm CHECK (need_confirm IN (0, 1)),
    CONSTRAINT notify_def_max_concurrency CHECK (max_concurrency >= 1),
    CONSTRAINT notify_def_times
        CHECK (create_time >= '1970-01-01' AND update_time >= '1970-01-01' AND delete_time >= '1970-01-01')
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- Live notices only: narrow and short-lived. LONGTEXT, not JSON: the parameter keeps its bytes.
-- No foreign key to notify_def: an edit of a definition never waits for an open business transaction.
CREATE TABLE IF NOT EXISTS notify_msg (
    id             bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    def_id         bigint NOT NULL,
    param          longtext NOT NULL,
    description    longtext,
    errors         longtext,
    status         smallint NOT NULL DEFAULT 0,
    attempt        integer NOT NULL DEFAULT 0,
    failures       integer NOT NULL DEFAULT 0,
    crashes        integer NOT NULL DEFAULT 0,
    worker         varchar(200),
    last_class     varchar(30),
    last_call_time datetime(6),
    next_call_time datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    create_time    datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    dedupe_key     varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    ordering_key   varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    trace_context  varchar(1000),
    -- The ordering key while the notice is under way. There are no partial indexes here, but nulls are no duplicates.
    under_way      varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */
                   GENERATED ALWAYS AS (CASE WHEN status IN (4, 5) THEN ordering_key END) STORED,
    CONSTRAINT notify_msg_keys CHECK (char_length(dedupe_key) >= 1 AND char_length(ordering_key) >= 1),
    CONSTRAINT notify_msg_status CHECK (status IN (0, 2, 4, 5)),
    -- 9999-12-31 is the deadline of a confirmation that is waited for without end.
    CONSTRAINT notify_msg_times CHECK (next_call_time >= '1970-01-01' AND create_time >= '1970-01-01'),
    -- Status is the lane, next_call_time the moment at which somebody must look at the row.
    KEY notify_msg_due (def_id, status, next_call_time),
    -- A dedupe key is given once among the live notices of a definition.
    UNIQUE KEY notify_msg_dedupe (def_id, dedupe_key),
    -- Finds what stands before a notice of its ordering key. (No unique index could: in those the id is not part of the order.)
    KEY notify_msg_order (def_id, ordering_key, id),
    -- Of an ordering key one notice is under way at a time, whoever claims.
    UNIQUE KEY notify_msg_under_way (def_id, under_way)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS notify_msg_history (
    id             bigint NOT NULL PRIMARY KEY,
    def_id         bigint NOT NULL,
    param          longtext NOT NULL,
    description    longtext,
    errors         longtext,
    status         smallint NOT NULL,
    attempt        integer NOT NULL,
    failures       integer NOT NULL,
    crashes        integer NOT NULL,
    worker         varchar(200),
    last_class     varchar(30),
    last_call_time datetime(6),
    next_call_time datetime(6),
    create_time    datetime(6) NOT NULL,
    dedupe_key     varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    ordering_key   varchar(200) COLLATE /*M! utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */,
    trace_context  varchar(1000),
    finish_time    datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    end_reason     text,
    CONSTRAINT notify_msg_history_status CHECK (status IN (1, 3, 6)),
    CONSTRAINT notify_msg_history_times CHECK (finish_time >= '1970-01-01'),
    KEY notify_msg_history_finished (def_id, status, finish_time)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS notify_node (
    id              varchar(200) NOT NULL PRIMARY KEY,
    handlers        longtext NOT NULL,
    clock_offset_ms bigint NOT NULL DEFAULT 0,
    start_time      datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    last_seen       datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS notify_alert (
    def_id        bigint NOT NULL,
    reason        varchar(100) NOT NULL,
    opened        datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    last_notified datetime(6),
    held_back     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (def_id, reason)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS notify_audit (
    id        bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    time      datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    who       varchar(200) NOT NULL,
    act       varchar(100) NOT NULL,
    def_id    bigint,
    notice_id bigint,
    detail    longtext
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
