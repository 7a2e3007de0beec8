-- Every statement of the store on MySQL and MariaDB, as the database gets it, in the order of the source.
-- Placeholders are numbered here. The server gets `?`; a statement with a list of ids gets all values in its text.

-- stored_where
SELECT 1
FROM notify_msg
WHERE id = $2
UNION ALL
SELECT 2
FROM notify_msg_history
WHERE id = $2;

-- answerable
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', last_call_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000,
  status
FROM notify_msg
WHERE id = $2
FOR UPDATE;

-- answerable_if_free
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', last_call_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000,
  status
FROM notify_msg
WHERE id = $2
FOR UPDATE SKIP LOCKED;

-- ended
SELECT
  status,
  fence,
  def_id,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000
FROM notify_msg_history
WHERE id = $2
FOR UPDATE;

-- ended_if_free
SELECT
  status,
  fence,
  def_id,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000
FROM notify_msg_history
WHERE id = $2
FOR UPDATE SKIP LOCKED;

-- store_id
SELECT store_id
FROM notify_switch;

-- nack
UPDATE notify_msg SET
  status = 4,
  errors = $3,
  next_call_time = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
WHERE id = $2;

-- ack_late
UPDATE notify_msg_history SET
  status = 1,
  finish_time = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  end_reason = $3,
  error_group = NULL
WHERE id = $2;

-- claim_slice
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param) <= 262144 THEN param END,
  description,
  errors,
  fence + 1,
  failures,
  crashes,
  worker,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000
FROM notify_msg m FORCE INDEX (notify_msg_due)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  AND (
    m.ordering_key IS NULL
    OR NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_order)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.id < m.id
    )
    AND NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_under_way)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.under_way = m.ordering_key
    )
  )
  AND m.crashes < 2
ORDER BY m.next_call_time
LIMIT $4
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- claim_crash_looping
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param) <= 262144 THEN param END,
  description,
  errors,
  fence + 1,
  failures,
  crashes,
  worker,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000
FROM notify_msg m FORCE INDEX (notify_msg_due)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  AND (
    m.ordering_key IS NULL
    OR NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_order)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.id < m.id
    )
    AND NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_under_way)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.under_way = m.ordering_key
    )
  )
  AND m.crashes >= 2
ORDER BY m.next_call_time
LIMIT $4
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- claim_ids
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param) <= 262144 THEN param END,
  description,
  errors,
  fence + 1,
  failures,
  crashes,
  worker,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE
  m.id IN ($4)
  AND m.def_id + 0 = $2
  AND m.status + 0 = $3
  AND (
    m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) IS TRUE
  AND (
    m.ordering_key IS NULL
    OR NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_order)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.id < m.id
    )
    AND NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_under_way)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.under_way = m.ordering_key
    )
  )
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- claim_keys
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param) <= 262144 THEN param END,
  description,
  errors,
  fence + 1,
  failures,
  crashes,
  worker,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000
FROM (
  SELECT (
    SELECT o.id
    FROM notify_msg o FORCE INDEX (notify_msg_order)
    WHERE o.def_id = $2
      AND o.ordering_key = b.own_key
    ORDER BY o.def_id, o.ordering_key, o.id
    LIMIT 1
  ) AS notice_id
  FROM
    JSON_TABLE(
      $4,
      '$[*]' COLUMNS (
        own_key varchar(200) CHARACTER SET utf8mb4 COLLATE
        /*M! utf8mb4_nopad_bin */
        /*!80000 utf8mb4_0900_bin */
        PATH '$.own_key'
      )
    ) AS b
) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE
  m.def_id + 0 = $2
  AND m.status + 0 = $3
  AND (
    m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) IS TRUE
  AND (
    m.ordering_key IS NULL
    OR NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_order)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.id < m.id
    )
    AND NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_under_way)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.under_way = m.ordering_key
    )
  )
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- still_first
SELECT m.id
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE
  m.id IN ($2)
  AND (
    m.ordering_key IS NULL
    OR NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_order)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.id < m.id
    )
    AND NOT EXISTS (
      SELECT 1
      FROM notify_msg o FORCE INDEX (notify_msg_under_way)
      WHERE o.def_id = m.def_id
        AND o.ordering_key = m.ordering_key AND o.under_way = m.ordering_key
    )
  );

-- claim_picked
UPDATE notify_msg AS m FORCE INDEX (PRIMARY) SET
  status = 5,
  fence = fence + 1,
  worker = $4,
  last_call_time = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  next_call_time = TIMESTAMPADD(
    MICROSECOND,
    $5 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ),
  blocked_since = NULL
WHERE m.id IN ($3) AND m.status + 0 = $2;

-- due
SELECT
  d.id,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  (
    SELECT
      coalesce(
        TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', (m.next_call_time + INTERVAL 999 MICROSECOND)) DIV 1000,
        CASE
          WHEN m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)) THEN 0
        END
      )
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = d.id
      AND m.status = 0
    ORDER BY m.def_id, m.status, m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', (m.next_call_time + INTERVAL 999 MICROSECOND)) DIV 1000,
        CASE
          WHEN m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)) THEN 0
        END
      )
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = d.id
      AND m.status = 2
    ORDER BY m.def_id, m.status, m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', (m.next_call_time + INTERVAL 999 MICROSECOND)) DIV 1000,
        CASE
          WHEN m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)) THEN 0
        END
      )
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = d.id
      AND m.status = 5
    ORDER BY m.def_id, m.status, m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', (m.next_call_time + INTERVAL 999 MICROSECOND)) DIV 1000,
        CASE
          WHEN m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)) THEN 0
        END
      )
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = d.id
      AND m.status = 4
    ORDER BY m.def_id, m.status, m.next_call_time
    LIMIT 1
  ),
  d.tick_schedule,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', d.last_tick) DIV 1000,
  (
    SELECT
      TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', (a.due + INTERVAL 999 MICROSECOND)) DIV 1000
    FROM notify_alert a
    WHERE a.due IS NOT NULL
    ORDER BY a.due
    LIMIT 1
  )
FROM notify_def d;

-- overdue
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', last_call_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000
FROM notify_msg m FORCE INDEX (notify_msg_due)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
ORDER BY m.next_call_time
LIMIT $4;

-- claimed_by
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', last_call_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000
FROM
  (SELECT id AS owner FROM notify_def) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (notify_msg_due) ON m.def_id = b.owner
WHERE m.status = 5 AND m.worker = $2
ORDER BY m.id
LIMIT $3;

-- extendable
SELECT m.id
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (notice_id bigint PATH '$.notice_id', fence bigint PATH '$.fence', lease bigint PATH '$.lease')
  ) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE m.fence = b.fence AND m.status + 0 = 5
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- extend
UPDATE
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (notice_id bigint PATH '$.notice_id', fence bigint PATH '$.fence', lease bigint PATH '$.lease')
  ) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
SET
  next_call_time = TIMESTAMPADD(
    MICROSECOND,
    b.lease * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
WHERE true AND m.fence = b.fence AND m.status + 0 = 5;

-- count_sending
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg m FORCE INDEX (notify_msg_due)
  WHERE m.def_id = $2
    AND m.status = 5
  LIMIT $3
) AS sent;

-- time_up
SELECT
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    (
      coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)) + INTERVAL 999 MICROSECOND
    )
  ) DIV 1000;

-- param_bytes
SELECT octet_length(param)
FROM notify_msg
WHERE id = $2 AND fence = $3;

-- param_text
SELECT param
FROM notify_msg
WHERE id = $2 AND fence = $3;

-- part
SELECT
  m.id,
  CASE
    WHEN (
      m.ordering_key IS NULL
      OR NOT EXISTS (
        SELECT 1
        FROM notify_msg o FORCE INDEX (notify_msg_order)
        WHERE o.def_id = m.def_id
          AND o.ordering_key = m.ordering_key AND o.id < m.id
      )
      AND NOT EXISTS (
        SELECT 1
        FROM notify_msg o FORCE INDEX (notify_msg_under_way)
        WHERE o.def_id = m.def_id
          AND o.ordering_key = m.ordering_key AND o.under_way = m.ordering_key
      )
    ) THEN 1
    ELSE 0
  END,
  m.ordering_key
FROM notify_msg m FORCE INDEX (notify_msg_due)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  AND m.crashes < 2
ORDER BY m.next_call_time
LIMIT $4
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- lock_first
SELECT m.id, m.ordering_key
FROM (
  SELECT (
    SELECT o.id
    FROM notify_msg o FORCE INDEX (notify_msg_order)
    WHERE o.def_id = $2
      AND o.ordering_key = b.own_key
    ORDER BY o.def_id, o.ordering_key, o.id
    LIMIT 1
  ) AS notice_id
  FROM
    JSON_TABLE(
      $3,
      '$[*]' COLUMNS (
        own_key varchar(200) CHARACTER SET utf8mb4 COLLATE
        /*M! utf8mb4_nopad_bin */
        /*!80000 utf8mb4_0900_bin */
        PATH '$.own_key'
      )
    ) AS b
) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE true
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- block
UPDATE notify_msg AS m FORCE INDEX (PRIMARY) SET
  blocked_since = coalesce(blocked_since, next_call_time),
  next_call_time = TIMESTAMPADD(
    MICROSECOND,
    $3 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
WHERE m.id IN ($2);

-- keys_of
SELECT m.def_id, m.ordering_key
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE m.id IN ($2) AND true;

-- first_blocked
SELECT m.id
FROM (
  SELECT (
    SELECT o.id
    FROM notify_msg o FORCE INDEX (notify_msg_order)
    WHERE o.def_id = b.owner
      AND o.ordering_key = b.own_key
    ORDER BY o.def_id, o.ordering_key, o.id
    LIMIT 1
  ) AS notice_id
  FROM
    JSON_TABLE(
      $2,
      '$[*]' COLUMNS (
        owner bigint PATH '$.owner',
        own_key varchar(200) CHARACTER SET utf8mb4 COLLATE
        /*M! utf8mb4_nopad_bin */
        /*!80000 utf8mb4_0900_bin */
        PATH '$.own_key'
      )
    ) AS b
) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE m.blocked_since IS NOT NULL;

-- free
SELECT m.id
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE m.id IN ($2) AND true
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- unblock
UPDATE notify_msg AS m FORCE INDEX (PRIMARY) SET
  next_call_time = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  blocked_since = NULL
WHERE m.id IN ($2) AND m.blocked_since IS NOT NULL;

-- oldest_blocked
SELECT min(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', blocked_since) DIV 1000)
FROM (
  SELECT m.blocked_since
  FROM notify_msg m FORCE INDEX (notify_msg_due)
  WHERE m.def_id = $2
    AND m.status = 0
  ORDER BY m.def_id, m.status, m.next_call_time
  LIMIT $3
) AS blocked;

-- definition_names
SELECT name
FROM notify_def
WHERE delete_time IS NULL
ORDER BY name
LIMIT 1000;

-- definition_ids
SELECT d.id, d.name, database (), CASE WHEN d.encrypt_param THEN 1 ELSE 0 END
FROM notify_def d
JOIN
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (
      own_key varchar(200) CHARACTER SET utf8mb4 COLLATE
      /*M! utf8mb4_nopad_bin */
      /*!80000 utf8mb4_0900_bin */
      PATH '$.own_key'
    )
  ) AS b ON d.name = b.own_key
WHERE d.delete_time IS NULL;

-- insert
INSERT INTO
  notify_msg (
    def_id,
    param,
    description,
    trace_context,
    ordering_key,
    dedupe_key,
    dedupe_until_ended,
    tag,
    max_tries,
    expires_at,
    create_time,
    next_call_time
  )
VALUES (
  IF (database () = $15, $2, NULL),
  $3,
  $4,
  $5,
  $6,
  $7,
  ($8 = 1),
  $9,
  $10,
  TIMESTAMPADD(MICROSECOND, $11 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  greatest(
    coalesce(
      TIMESTAMPADD(MICROSECOND, $12 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
      TIMESTAMPADD(
        MICROSECOND,
        $13 * 1000,
        coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
      )
    ),
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
);

-- duplicates
SELECT m.id, m.def_id, m.dedupe_key, m.fence
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (
      owner bigint PATH '$.owner',
      own_key varchar(200) CHARACTER SET utf8mb4 COLLATE
      /*M! utf8mb4_nopad_bin */
      /*!80000 utf8mb4_0900_bin */
      PATH '$.own_key'
    )
  ) AS b STRAIGHT_JOIN notify_msg m ON m.def_id = b.owner
  AND m.unique_key = b.own_key;

-- lock_duplicates
SELECT m.id, m.def_id, m.dedupe_key, m.fence
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (
      owner bigint PATH '$.owner',
      own_key varchar(200) CHARACTER SET utf8mb4 COLLATE
      /*M! utf8mb4_nopad_bin */
      /*!80000 utf8mb4_0900_bin */
      PATH '$.own_key'
    )
  ) AS b STRAIGHT_JOIN notify_msg m ON m.def_id = b.owner
  AND m.unique_key = b.own_key
  /*M! LOCK IN SHARE MODE */
  /*!80000 FOR SHARE OF m */;

-- keep_skipped_key
UPDATE notify_msg_history SET
  dedupe_key = $3, dedupe_until_ended = ($4 = 1)
WHERE id = $2;

-- definition_id
SELECT
  id,
  CAST(
    coalesce(
      /*M! @@in_transaction, */
      1
    ) AS signed
  ),
  database (),
  CASE WHEN encrypt_param THEN 1 ELSE 0 END
FROM notify_def
WHERE name = $2 AND delete_time IS NULL;

-- definition_id_now
SELECT
  id,
  CAST(
    coalesce(
      /*M! @@in_transaction, */
      1
    ) AS signed
  ),
  database (),
  CASE WHEN encrypt_param THEN 1 ELSE 0 END
FROM notify_def
WHERE name = $2 AND delete_time IS NULL LOCK IN SHARE MODE;

-- id_step
SELECT CAST(@@ auto_increment_increment AS signed);

-- own_server
SELECT CAST(
  /*M! 1 + */
  0 AS signed
), database ();

-- try_limit
SELECT
  m.def_id,
  m.begun,
  m.failures,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.open_until) DIV 1000,
  m.probe,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000
FROM notify_limit m
WHERE m.def_id = $2
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- limit_now
SELECT
  m.def_id,
  m.begun,
  m.failures,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.open_until) DIV 1000,
  m.probe,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000
FROM notify_limit m
WHERE m.def_id = $2
FOR UPDATE NOWAIT;

-- has_limit
SELECT 1
FROM notify_limit
WHERE def_id = $2;

-- open_limit
INSERT IGNORE INTO notify_limit (def_id)
VALUES ($2);

-- write_limit
UPDATE notify_limit SET
  begun = $3,
  failures = $4,
  open_until = TIMESTAMPADD(MICROSECOND, $5 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  probe = $6
WHERE def_id = $2;

-- close_limit
UPDATE notify_limit SET
  failures = 0, open_until = NULL, probe = NULL
WHERE def_id = $2 AND open_until IS NOT NULL;

-- forget_limit
DELETE FROM notify_limit
WHERE def_id = $2;

-- send_limits
SELECT
  m.def_id,
  m.begun,
  m.failures,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.open_until) DIV 1000,
  m.probe,
  NULL,
  NULL,
  NULL,
  NULL
FROM notify_limit m
UNION ALL
SELECT
  0,
  NULL,
  0,
  NULL,
  NULL,
  CASE WHEN paused THEN 'everything' ELSE 'retries' END,
  who,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', since) DIV 1000,
  reason
FROM notify_switch
WHERE paused OR retries_paused;

-- lock
SELECT m.id, m.fence, b.was
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (
      notice_id bigint PATH '$.notice_id',
      fence bigint PATH '$.fence',
      was bigint PATH '$.was',
      overdue bigint PATH '$.overdue'
    )
  ) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE
  m.fence = b.fence
  AND m.status + 0 = b.was
  AND (
    b.overdue = 0
    OR m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- evict
DELETE m
FROM
  JSON_TABLE('[$2]', '$[*]' COLUMNS (notice_id bigint PATH '$')) AS b STRAIGHT_JOIN notify_msg_history m FORCE INDEX (PRIMARY) ON m.id = b.notice_id;

-- dead_with_ids
SELECT m.id, m.def_id
FROM notify_msg_history AS m FORCE INDEX (PRIMARY)
WHERE m.id IN ($2) AND m.status + 0 = 3;

-- last_id
SELECT coalesce(max(id), 0)
FROM notify_msg_history
UNION ALL
SELECT coalesce(max(id), 0)
FROM notify_msg;

-- renumber
UPDATE notify_msg_history SET
  id = $3
WHERE id = $2;

-- archive
INSERT INTO
  notify_msg_history (
    id,
    def_id,
    param,
    description,
    errors,
    status,
    fence,
    failures,
    crashes,
    worker,
    last_class,
    last_call_time,
    next_call_time,
    create_time,
    dedupe_key,
    dedupe_until_ended,
    ordering_key,
    trace_context,
    tag,
    max_tries,
    expires_at,
    response,
    parent_id,
    finish_time,
    end_reason,
    error_group
  )
SELECT
  m.id,
  m.def_id,
  m.param,
  b.new_description,
  b.new_errors,
  b.new_status,
  m.fence,
  b.new_failures,
  b.new_crashes,
  m.worker,
  b.new_class,
  m.last_call_time,
  NULL,
  m.create_time,
  m.dedupe_key,
  m.dedupe_until_ended,
  m.ordering_key,
  m.trace_context,
  m.tag,
  m.max_tries,
  m.expires_at,
  coalesce(b.new_response, m.response),
  m.parent_id,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  b.reason,
  b.new_group
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (
      notice_id bigint PATH '$.notice_id',
      new_status bigint PATH '$.new_status',
      after_ms bigint PATH '$.after_ms',
      new_failures bigint PATH '$.new_failures',
      new_crashes bigint PATH '$.new_crashes',
      new_errors longtext CHARACTER SET utf8mb4 PATH '$.new_errors',
      new_class longtext CHARACTER SET utf8mb4 PATH '$.new_class',
      new_description longtext CHARACTER SET utf8mb4 PATH '$.new_description',
      new_response longtext CHARACTER SET utf8mb4 PATH '$.new_response',
      new_group bigint PATH '$.new_group',
      reason longtext CHARACTER SET utf8mb4 PATH '$.reason'
    )
  ) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id;

-- remove
DELETE m
FROM
  JSON_TABLE('[$2]', '$[*]' COLUMNS (notice_id bigint PATH '$')) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id;

-- reschedule
UPDATE
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (
      notice_id bigint PATH '$.notice_id',
      new_status bigint PATH '$.new_status',
      after_ms bigint PATH '$.after_ms',
      new_failures bigint PATH '$.new_failures',
      new_crashes bigint PATH '$.new_crashes',
      new_errors longtext CHARACTER SET utf8mb4 PATH '$.new_errors',
      new_class longtext CHARACTER SET utf8mb4 PATH '$.new_class',
      new_description longtext CHARACTER SET utf8mb4 PATH '$.new_description',
      new_response longtext CHARACTER SET utf8mb4 PATH '$.new_response',
      new_group bigint PATH '$.new_group',
      reason longtext CHARACTER SET utf8mb4 PATH '$.reason'
    )
  ) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
SET
  status = b.new_status,
  failures = b.new_failures,
  crashes = b.new_crashes,
  errors = b.new_errors,
  last_class = b.new_class,
  description = b.new_description,
  response = coalesce(b.new_response, m.response),
  next_call_time = CASE
    WHEN b.after_ms IS NULL THEN TIMESTAMP '9999-12-31 00:00:00'
    ELSE TIMESTAMPADD(
      MICROSECOND,
      b.after_ms * 1000,
      coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
    )
  END;

-- verify
SELECT m.id, m.fence, m.status, m.failures, m.crashes, NULL
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE m.id IN ($2)
UNION ALL
SELECT m.id, m.fence, m.status, m.failures, m.crashes, m.end_reason
FROM notify_msg_history AS m FORCE INDEX (PRIMARY)
WHERE m.id IN ($2);

-- has_ended
SELECT 1
FROM notify_msg_history
WHERE id = $2;

-- pass_on
INSERT
  IGNORE INTO notify_msg (
    def_id,
    param,
    description,
    trace_context,
    tag,
    ordering_key,
    dedupe_key,
    dedupe_until_ended,
    max_tries,
    expires_at,
    parent_id,
    create_time,
    next_call_time
  )
SELECT
  b.target,
  m.param,
  m.description,
  m.trace_context,
  m.tag,
  m.ordering_key,
  m.dedupe_key,
  m.dedupe_until_ended,
  m.max_tries,
  m.expires_at,
  m.id,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (place bigint PATH '$.place', notice_id bigint PATH '$.notice_id', target bigint PATH '$.target')
  ) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE true
ORDER BY b.place;

-- pass_on_keyed
INSERT
  IGNORE INTO notify_msg (
    def_id,
    param,
    description,
    trace_context,
    tag,
    ordering_key,
    dedupe_key,
    dedupe_until_ended,
    max_tries,
    expires_at,
    parent_id,
    create_time,
    next_call_time
  )
SELECT
  b.target,
  m.param,
  m.description,
  m.trace_context,
  m.tag,
  m.ordering_key,
  m.dedupe_key,
  m.dedupe_until_ended,
  m.max_tries,
  m.expires_at,
  m.id,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (place bigint PATH '$.place', notice_id bigint PATH '$.notice_id', target bigint PATH '$.target')
  ) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE true
ORDER BY b.place;

-- keyed
SELECT m.id
FROM notify_msg m
WHERE m.id IN ($2) AND m.dedupe_key IS NOT NULL;

-- holders
SELECT b.target, t.id, CASE WHEN t.parent_id = m.id THEN 1 ELSE 0 END, t.fence
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (place bigint PATH '$.place', notice_id bigint PATH '$.notice_id', target bigint PATH '$.target')
  ) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id STRAIGHT_JOIN notify_msg t FORCE INDEX (notify_msg_dedupe) ON t.def_id = b.target
  AND t.unique_key = m.dedupe_key
  /*M! LOCK IN SHARE MODE NOWAIT */
  /*!80000 FOR SHARE OF t NOWAIT */;

-- lock_to_pass_on
SELECT id
FROM notify_msg
WHERE id = $2 AND fence = $3 AND status + 0 = 5
FOR UPDATE SKIP LOCKED;

-- families
SELECT
  d.id,
  d.target_of,
  d.target_filter,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', d.delete_time) DIV 1000
FROM notify_def d
WHERE d.id IN ($2) OR d.target_of IN ($2);

-- passing
SELECT p.targets, p.done
FROM notify_passing p
WHERE p.notice_id = $2;

-- begin_passing
INSERT INTO notify_passing (notice_id, targets, done)
VALUES ($2, $3, 0);

-- note_passing
UPDATE notify_passing SET
  done = $3, targets = $4
WHERE notice_id = $2;

-- old_passing
SELECT p.notice_id
FROM notify_passing p
WHERE
  (SELECT count(*) FROM notify_msg m WHERE m.id = p.notice_id) = 0
  AND (SELECT count(*) FROM notify_msg_history h WHERE h.id = p.notice_id) = 0
LIMIT $2;

-- forget_passing
DELETE FROM notify_passing
WHERE notice_id IN ($2);

-- insert_bare
INSERT INTO notify_msg (def_id, param)
VALUES (IF (database () = $4, $1, NULL), $2);

-- insert_known
INSERT INTO notify_msg (def_id, param)
VALUES (
  IF (
    database () = $4
    /*M! AND @@in_transaction AND @@autocommit */
,
    $1,
    NULL
  ),
  $2
);

-- archive_bare
INSERT INTO
  notify_msg_history (
    id,
    def_id,
    param,
    description,
    errors,
    status,
    fence,
    failures,
    crashes,
    worker,
    last_class,
    last_call_time,
    next_call_time,
    create_time,
    dedupe_key,
    dedupe_until_ended,
    ordering_key,
    trace_context,
    tag,
    max_tries,
    expires_at,
    response,
    parent_id,
    finish_time,
    end_reason
  )
SELECT
  m.id,
  m.def_id,
  m.param,
  NULL,
  NULL,
  1,
  m.fence,
  0,
  0,
  m.worker,
  NULL,
  m.last_call_time,
  NULL,
  m.create_time,
  m.dedupe_key,
  m.dedupe_until_ended,
  m.ordering_key,
  m.trace_context,
  m.tag,
  m.max_tries,
  m.expires_at,
  m.response,
  m.parent_id,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  NULL
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE m.id IN ($2);

-- mark_seen
INSERT INTO notify_inbox (receiver, sender, idempotency_key, first_seen)
VALUES (
  IF (
    coalesce(
      /*M! @@in_transaction, */
      1
    ) = 1,
    $2,
    NULL
  ),
  $3,
  $4,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
);

-- old_keys
SELECT
  receiver,
  sender,
  idempotency_key,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', first_seen) DIV 1000
FROM notify_inbox FORCE INDEX (notify_inbox_first_seen)
WHERE
  first_seen <= TIMESTAMPADD(
    MICROSECOND,
    - $2 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
  AND first_seen >= TIMESTAMPADD(MICROSECOND, $4 * 1000, TIMESTAMP '1970-01-01 00:00:00')
ORDER BY first_seen
LIMIT $3;

-- forget_keys
DELETE m
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (
      receiver varchar(200) CHARACTER SET utf8mb4 COLLATE
      /*M! utf8mb4_nopad_bin */
      /*!80000 utf8mb4_0900_bin */
      PATH '$.receiver',
      sender varchar(200) CHARACTER SET utf8mb4 COLLATE
      /*M! utf8mb4_nopad_bin */
      /*!80000 utf8mb4_0900_bin */
      PATH '$.sender',
      own_key varchar(200) CHARACTER SET utf8mb4 COLLATE
      /*M! utf8mb4_nopad_bin */
      /*!80000 utf8mb4_0900_bin */
      PATH '$.own_key'
    )
  ) AS b STRAIGHT_JOIN notify_inbox m FORCE INDEX (PRIMARY) ON m.receiver = b.receiver
  AND m.sender = b.sender
  AND m.idempotency_key = b.own_key
WHERE
  m.first_seen <= TIMESTAMPADD(
    MICROSECOND,
    - $3 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  );

-- open_alert
INSERT IGNORE INTO notify_alert (def_id, reason, opened, last_seen)
VALUES (
  $2,
  $3,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
);

-- lock_alert
SELECT
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.opened) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.last_notified) DIV 1000,
  a.suppressed,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.last_seen) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.due) DIV 1000,
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.silenced_until) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.acknowledged_at) DIV 1000,
  a.acknowledged_by,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000
FROM notify_alert a
WHERE a.def_id = $2 AND a.reason = $3
FOR UPDATE NOWAIT;

-- due_alerts
SELECT a.def_id, a.reason
FROM notify_alert a
WHERE
  a.due <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
ORDER BY a.due
LIMIT $2;

-- look_alert
SELECT
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.opened) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.last_notified) DIV 1000,
  a.suppressed,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.last_seen) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.due) DIV 1000,
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.silenced_until) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.acknowledged_at) DIV 1000,
  a.acknowledged_by,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  (
    SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
    WHERE m.def_id = $2
      AND m.status = 1 AND m.finish_time >= a.last_seen
    ORDER BY m.finish_time
    LIMIT 1
  ),
  CASE WHEN EXISTS (SELECT 1 FROM notify_msg m WHERE m.def_id = $2 AND m.status = 2) THEN 1 ELSE 0 END
FROM notify_alert a
WHERE a.def_id = $2 AND a.reason = $3;

-- list_alerts
SELECT
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.opened) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.last_notified) DIV 1000,
  a.suppressed,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.last_seen) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.due) DIV 1000,
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.silenced_until) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', a.acknowledged_at) DIV 1000,
  a.acknowledged_by,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  a.def_id,
  a.reason
FROM notify_alert a
ORDER BY a.def_id, a.reason
LIMIT $2;

-- write_alert
UPDATE notify_alert SET
  opened = TIMESTAMPADD(MICROSECOND, $4 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  last_notified = TIMESTAMPADD(MICROSECOND, $5 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  suppressed = $6,
  last_seen = TIMESTAMPADD(MICROSECOND, $7 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  due = TIMESTAMPADD(MICROSECOND, $8 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  notice_id = $9,
  description = $10,
  class = $11,
  message = $12,
  node = $13,
  silenced_until = TIMESTAMPADD(MICROSECOND, $14 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  acknowledged_at = TIMESTAMPADD(MICROSECOND, $15 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  acknowledged_by = $16
WHERE def_id = $2 AND reason = $3;

-- close_alert
DELETE FROM notify_alert
WHERE def_id = $2 AND reason = $3;

-- definitions
SELECT
  id,
  name,
  handler,
  description,
  CASE WHEN enabled THEN 1 ELSE 0 END,
  schedule,
  schedule_missed,
  send_window,
  retry_interval,
  max_retry_times,
  max_retry_interval,
  retry_rules,
  timeout,
  alert_trigger_type,
  alert_trigger_fail_times,
  alert_cooldown,
  email,
  alert_to,
  backlog_alert_age,
  dead_alert_count,
  CASE WHEN need_confirm THEN 1 ELSE 0 END,
  max_confirm_delay,
  max_concurrency,
  rate_limit,
  max_concurrency_total,
  breaker_failures,
  breaker_pause,
  keep_history,
  handler_config,
  owner,
  runbook,
  mask,
  CASE WHEN encrypt_param THEN 1 ELSE 0 END,
  target_of,
  target_filter,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', update_time) DIV 1000,
  coalesce(
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', delete_time) DIV 1000,
    CASE WHEN delete_time IS NOT NULL THEN 0 END
  )
FROM notify_def
ORDER BY id;

-- definition_by_name
SELECT
  id,
  name,
  handler,
  description,
  CASE WHEN enabled THEN 1 ELSE 0 END,
  schedule,
  schedule_missed,
  send_window,
  retry_interval,
  max_retry_times,
  max_retry_interval,
  retry_rules,
  timeout,
  alert_trigger_type,
  alert_trigger_fail_times,
  alert_cooldown,
  email,
  alert_to,
  backlog_alert_age,
  dead_alert_count,
  CASE WHEN need_confirm THEN 1 ELSE 0 END,
  max_confirm_delay,
  max_concurrency,
  rate_limit,
  max_concurrency_total,
  breaker_failures,
  breaker_pause,
  keep_history,
  handler_config,
  owner,
  runbook,
  mask,
  CASE WHEN encrypt_param THEN 1 ELSE 0 END,
  target_of,
  target_filter,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', update_time) DIV 1000,
  coalesce(
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', delete_time) DIV 1000,
    CASE WHEN delete_time IS NOT NULL THEN 0 END
  )
FROM notify_def
WHERE name = $2;

-- has_definition
SELECT 1
FROM notify_def
WHERE id = $2;

-- lock_definition
SELECT
  id,
  name,
  handler,
  description,
  CASE WHEN enabled THEN 1 ELSE 0 END,
  schedule,
  schedule_missed,
  send_window,
  retry_interval,
  max_retry_times,
  max_retry_interval,
  retry_rules,
  timeout,
  alert_trigger_type,
  alert_trigger_fail_times,
  alert_cooldown,
  email,
  alert_to,
  backlog_alert_age,
  dead_alert_count,
  CASE WHEN need_confirm THEN 1 ELSE 0 END,
  max_confirm_delay,
  max_concurrency,
  rate_limit,
  max_concurrency_total,
  breaker_failures,
  breaker_pause,
  keep_history,
  handler_config,
  owner,
  runbook,
  mask,
  CASE WHEN encrypt_param THEN 1 ELSE 0 END,
  target_of,
  target_filter,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', update_time) DIV 1000,
  coalesce(
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', delete_time) DIV 1000,
    CASE WHEN delete_time IS NOT NULL THEN 0 END
  )
FROM notify_def
WHERE id = $2
FOR UPDATE SKIP LOCKED;

-- create_definition
INSERT INTO
  notify_def (
    name,
    handler,
    description,
    enabled,
    schedule,
    schedule_missed,
    send_window,
    retry_interval,
    max_retry_times,
    max_retry_interval,
    retry_rules,
    timeout,
    alert_trigger_type,
    alert_trigger_fail_times,
    alert_cooldown,
    email,
    alert_to,
    backlog_alert_age,
    dead_alert_count,
    need_confirm,
    max_confirm_delay,
    max_concurrency,
    rate_limit,
    max_concurrency_total,
    breaker_failures,
    breaker_pause,
    keep_history,
    handler_config,
    owner,
    runbook,
    mask,
    encrypt_param,
    target_of,
    target_filter,
    create_time,
    update_time
  )
VALUES (
  $2,
  $3,
  $4,
  $5,
  $6,
  $7,
  $8,
  $9,
  $10,
  $11,
  $12,
  $13,
  $14,
  $15,
  $16,
  $17,
  $18,
  $19,
  $20,
  $21,
  $22,
  $23,
  $24,
  $25,
  $26,
  $27,
  $28,
  $29,
  $30,
  $31,
  $32,
  $33,
  $34,
  $35,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
);

-- replace_definition
UPDATE notify_def SET
  name = $2,
  handler = $3,
  description = $4,
  enabled = $5,
  schedule = $6,
  schedule_missed = $7,
  send_window = $8,
  retry_interval = $9,
  max_retry_times = $10,
  max_retry_interval = $11,
  retry_rules = $12,
  timeout = $13,
  alert_trigger_type = $14,
  alert_trigger_fail_times = $15,
  alert_cooldown = $16,
  email = $17,
  alert_to = $18,
  backlog_alert_age = $19,
  dead_alert_count = $20,
  need_confirm = $21,
  max_confirm_delay = $22,
  max_concurrency = $23,
  rate_limit = $24,
  max_concurrency_total = $25,
  breaker_failures = $26,
  breaker_pause = $27,
  keep_history = $28,
  handler_config = $29,
  owner = $30,
  runbook = $31,
  mask = $32,
  encrypt_param = $33,
  target_of = $34,
  target_filter = $35,
  update_time = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
WHERE id = $36;

-- delete_definition
UPDATE notify_def SET
  delete_time = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  update_time = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  handler = $3,
  name = $4
WHERE id = $2;

-- lock_tick
SELECT m.id
FROM notify_def m
WHERE m.id = $2
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- note_tick
UPDATE notify_def SET
  last_tick = TIMESTAMPADD(MICROSECOND, $6 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  tick_schedule = $3
WHERE
  id = $2
  AND enabled
  AND delete_time IS NULL
  AND (schedule = $3 OR (schedule IS NULL AND $3 IS NULL))
  AND (tick_schedule = $4 OR (tick_schedule IS NULL AND $4 IS NULL))
  AND (
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', last_tick) DIV 1000 = $5
    OR (
      TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', last_tick) DIV 1000 IS NULL
      AND $5 IS NULL
    )
  );

-- add_ticks
INSERT INTO notify_msg (def_id, param, create_time, next_call_time)
SELECT
  $2,
  b.param,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
FROM
  JSON_TABLE(
    $3,
    '$[*]' COLUMNS (place bigint PATH '$.place', param longtext CHARACTER SET utf8mb4 PATH '$.param')
  ) AS b
WHERE true
ORDER BY b.place;

-- versions
SELECT
  v.def_id,
  v.version,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', v.time) DIV 1000,
  v.who,
  v.act,
  v.definition
FROM notify_def_version v
WHERE v.def_id = $2 AND v.version <= $3
ORDER BY v.version DESC
LIMIT $4;

-- last_versions
SELECT
  v.def_id,
  v.version,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', v.time) DIV 1000,
  v.who,
  v.act,
  v.definition
FROM notify_def_version v
JOIN
  (SELECT def_id, max(version) AS version FROM notify_def_version GROUP BY def_id) AS l ON l.def_id = v.def_id
  AND l.version = v.version;

-- write_version
INSERT INTO notify_def_version (def_id, version, time, who, act, definition)
VALUES (
  $2,
  $3,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  $4,
  $5,
  $6
);

-- forget_versions
DELETE FROM notify_def_version
WHERE def_id = $2;

-- definition_by_id
SELECT
  id,
  name,
  handler,
  description,
  CASE WHEN enabled THEN 1 ELSE 0 END,
  schedule,
  schedule_missed,
  send_window,
  retry_interval,
  max_retry_times,
  max_retry_interval,
  retry_rules,
  timeout,
  alert_trigger_type,
  alert_trigger_fail_times,
  alert_cooldown,
  email,
  alert_to,
  backlog_alert_age,
  dead_alert_count,
  CASE WHEN need_confirm THEN 1 ELSE 0 END,
  max_confirm_delay,
  max_concurrency,
  rate_limit,
  max_concurrency_total,
  breaker_failures,
  breaker_pause,
  keep_history,
  handler_config,
  owner,
  runbook,
  mask,
  CASE WHEN encrypt_param THEN 1 ELSE 0 END,
  target_of,
  target_filter,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', update_time) DIV 1000,
  coalesce(
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', delete_time) DIV 1000,
    CASE WHEN delete_time IS NOT NULL THEN 0 END
  )
FROM notify_def
WHERE id = $2;

-- lock_definition_if_free
SELECT
  id,
  name,
  handler,
  description,
  CASE WHEN enabled THEN 1 ELSE 0 END,
  schedule,
  schedule_missed,
  send_window,
  retry_interval,
  max_retry_times,
  max_retry_interval,
  retry_rules,
  timeout,
  alert_trigger_type,
  alert_trigger_fail_times,
  alert_cooldown,
  email,
  alert_to,
  backlog_alert_age,
  dead_alert_count,
  CASE WHEN need_confirm THEN 1 ELSE 0 END,
  max_confirm_delay,
  max_concurrency,
  rate_limit,
  max_concurrency_total,
  breaker_failures,
  breaker_pause,
  keep_history,
  handler_config,
  owner,
  runbook,
  mask,
  CASE WHEN encrypt_param THEN 1 ELSE 0 END,
  target_of,
  target_filter,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', update_time) DIV 1000,
  coalesce(
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', delete_time) DIV 1000,
    CASE WHEN delete_time IS NOT NULL THEN 0 END
  )
FROM notify_def
WHERE id = $2
FOR UPDATE SKIP LOCKED;

-- time
SELECT
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000;

-- beat
UPDATE notify_node SET
  last_seen = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  handlers = $3,
  version = $4,
  clock_offset_ms = $5,
  refused = $6,
  stopped = $7,
  problems = $8,
  param_keys = $9
WHERE id = $2;

-- first_beat
INSERT INTO
  notify_node (
    id,
    handlers,
    version,
    clock_offset_ms,
    refused,
    stopped,
    problems,
    param_keys,
    start_time,
    last_seen
  )
VALUES (
  $2,
  $3,
  $4,
  $5,
  $6,
  $7,
  $8,
  $9,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
);

-- nodes
SELECT handlers
FROM notify_node
WHERE
  last_seen > TIMESTAMPADD(
    MICROSECOND,
    - $2 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
  AND last_seen < TIMESTAMPADD(
    MICROSECOND,
    $2 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  );

-- forget_nodes
DELETE FROM notify_node
WHERE
  NOT (
    last_seen > TIMESTAMPADD(
      MICROSECOND,
      - $2 * 1000,
      coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
    )
    AND last_seen < TIMESTAMPADD(
      MICROSECOND,
      $2 * 1000,
      coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
    )
  );

-- living_nodes
SELECT
  id,
  handlers,
  version,
  clock_offset_ms,
  refused,
  problems,
  param_keys,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', start_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', last_seen) DIV 1000
FROM notify_node
WHERE
  last_seen > TIMESTAMPADD(
    MICROSECOND,
    - $2 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
  AND last_seen < TIMESTAMPADD(
    MICROSECOND,
    $2 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
  AND NOT stopped
ORDER BY id;

-- write_series
INSERT INTO
  notify_series (
    def_id,
    minute,
    node,
    succeeded,
    awaiting_ack,
    skipped,
    failed,
    dead_letters,
    unacked,
    timed,
    duration_ms,
    duration_max_ms,
    delivery_ms,
    delivery_max_ms,
    late_max_ms
  )
SELECT
  b.owner,
  TIMESTAMPADD(MICROSECOND, b.minute_ms * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  $3,
  b.succeeded,
  b.awaiting_ack,
  b.skipped,
  b.failed,
  b.dead_letters,
  b.unacked,
  b.timed,
  b.duration_ms,
  b.duration_max_ms,
  b.delivery_ms,
  b.delivery_max_ms,
  b.late_max_ms
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (
      owner bigint PATH '$.owner',
      minute_ms bigint PATH '$.minute_ms',
      succeeded bigint PATH '$.succeeded',
      awaiting_ack bigint PATH '$.awaiting_ack',
      skipped bigint PATH '$.skipped',
      failed bigint PATH '$.failed',
      dead_letters bigint PATH '$.dead_letters',
      unacked bigint PATH '$.unacked',
      timed bigint PATH '$.timed',
      duration_ms bigint PATH '$.duration_ms',
      duration_max_ms bigint PATH '$.duration_max_ms',
      delivery_ms bigint PATH '$.delivery_ms',
      delivery_max_ms bigint PATH '$.delivery_max_ms',
      late_max_ms bigint PATH '$.late_max_ms'
    )
  ) AS b
WHERE true ON DUPLICATE KEY
UPDATE
  succeeded = greatest(notify_series.succeeded, VALUES(succeeded)),
  awaiting_ack = greatest(notify_series.awaiting_ack, VALUES(awaiting_ack)),
  skipped = greatest(notify_series.skipped, VALUES(skipped)),
  failed = greatest(notify_series.failed, VALUES(failed)),
  dead_letters = greatest(notify_series.dead_letters, VALUES(dead_letters)),
  unacked = greatest(notify_series.unacked, VALUES(unacked)),
  timed = greatest(notify_series.timed, VALUES(timed)),
  duration_ms = greatest(notify_series.duration_ms, VALUES(duration_ms)),
  duration_max_ms = greatest(notify_series.duration_max_ms, VALUES(duration_max_ms)),
  delivery_ms = greatest(notify_series.delivery_ms, VALUES(delivery_ms)),
  delivery_max_ms = greatest(notify_series.delivery_max_ms, VALUES(delivery_max_ms)),
  late_max_ms = greatest(notify_series.late_max_ms, VALUES(late_max_ms));

-- series
SELECT
  ((TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', minute) DIV 1000) - $3) DIV $5 AS step,
  CAST(sum(succeeded) AS SIGNED),
  CAST(sum(awaiting_ack) AS SIGNED),
  CAST(sum(skipped) AS SIGNED),
  CAST(sum(failed) AS SIGNED),
  CAST(sum(dead_letters) AS SIGNED),
  CAST(sum(unacked) AS SIGNED),
  CAST(sum(timed) AS SIGNED),
  CAST(sum(duration_ms) AS SIGNED),
  CAST(max(duration_max_ms) AS SIGNED),
  CAST(sum(delivery_ms) AS SIGNED),
  CAST(max(delivery_max_ms) AS SIGNED),
  CAST(max(late_max_ms) AS SIGNED)
FROM notify_series FORCE INDEX (PRIMARY)
WHERE
  def_id = $2
  AND minute >= TIMESTAMPADD(MICROSECOND, $3 * 1000, TIMESTAMP '1970-01-01 00:00:00')
  AND minute < TIMESTAMPADD(MICROSECOND, $4 * 1000, TIMESTAMP '1970-01-01 00:00:00')
GROUP BY step;

-- series_of_all
SELECT
  ((TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', minute) DIV 1000) - $3) DIV $5 AS step,
  CAST(sum(succeeded) AS SIGNED),
  CAST(sum(awaiting_ack) AS SIGNED),
  CAST(sum(skipped) AS SIGNED),
  CAST(sum(failed) AS SIGNED),
  CAST(sum(dead_letters) AS SIGNED),
  CAST(sum(unacked) AS SIGNED),
  CAST(sum(timed) AS SIGNED),
  CAST(sum(duration_ms) AS SIGNED),
  CAST(max(duration_max_ms) AS SIGNED),
  CAST(sum(delivery_ms) AS SIGNED),
  CAST(max(delivery_max_ms) AS SIGNED),
  CAST(max(late_max_ms) AS SIGNED)
FROM notify_series FORCE INDEX (notify_series_minute)
WHERE
  minute >= TIMESTAMPADD(MICROSECOND, $3 * 1000, TIMESTAMP '1970-01-01 00:00:00')
  AND minute < TIMESTAMPADD(MICROSECOND, $4 * 1000, TIMESTAMP '1970-01-01 00:00:00')
GROUP BY step;

-- purge_series
DELETE FROM notify_series
WHERE
  minute < TIMESTAMPADD(
    MICROSECOND,
    - $2 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
ORDER BY minute
LIMIT $3;

-- find
SELECT
  m.id,
  m.def_id,
  m.status,
  m.param,
  m.description,
  m.errors,
  m.fence,
  m.failures,
  m.crashes,
  m.worker,
  m.last_class,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', coalesce(m.blocked_since, m.next_call_time)) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  m.trace_context,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000,
  m.parent_id,
  m.response,
  NULL,
  NULL
FROM notify_msg m
WHERE m.id = $2
UNION ALL
SELECT
  m.id,
  m.def_id,
  m.status,
  m.param,
  m.description,
  m.errors,
  m.fence,
  m.failures,
  m.crashes,
  m.worker,
  m.last_class,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.next_call_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  m.trace_context,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000,
  m.parent_id,
  m.response,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  m.end_reason
FROM notify_msg_history m
WHERE m.id = $2;

-- lock_live
SELECT
  m.id,
  m.def_id,
  m.status,
  m.param,
  m.description,
  m.errors,
  m.fence,
  m.failures,
  m.crashes,
  m.worker,
  m.last_class,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', coalesce(m.blocked_since, m.next_call_time)) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  m.trace_context,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000,
  m.parent_id,
  m.response,
  NULL,
  NULL
FROM notify_msg m
WHERE m.id = $2
FOR UPDATE SKIP LOCKED;

-- lock_ended
SELECT
  m.id,
  m.def_id,
  m.status,
  m.param,
  m.description,
  m.errors,
  m.fence,
  m.failures,
  m.crashes,
  m.worker,
  m.last_class,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.next_call_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  m.trace_context,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000,
  m.parent_id,
  m.response,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  m.end_reason
FROM notify_msg_history m
WHERE m.id = $2
FOR UPDATE SKIP LOCKED;

-- damaged
SELECT id
FROM notify_msg
WHERE
  dedupe_key = ''
  OR ordering_key = ''
  OR tag = ''
  OR NOT coalesce(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000 >= 0, false)
  OR NOT coalesce(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', next_call_time) DIV 1000 >= 0, false)
  OR (
    expires_at IS NOT NULL
    AND NOT coalesce(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000 >= 0, false)
  )
LIMIT 1000;

-- repair
UPDATE notify_msg SET
  dedupe_key = nullif(dedupe_key, ''),
  ordering_key = nullif(ordering_key, ''),
  tag = nullif(tag, ''),
  create_time = CASE
    WHEN TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', create_time) DIV 1000 >= 0 THEN create_time
    ELSE coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  END,
  next_call_time = CASE
    WHEN TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', next_call_time) DIV 1000 >= 0 THEN next_call_time
    ELSE coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  END,
  expires_at = CASE
    WHEN TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', expires_at) DIV 1000 >= 0 THEN expires_at
    ELSE NULL
  END
WHERE id IN ($2);

-- list_ended_newest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  CAST(m.finish_time AS char(26)),
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.finish_time >= CAST($4 AS datetime(6))
  AND m.finish_time <= CAST($5 AS datetime(6))
  AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $6)
ORDER BY m.finish_time DESC, m.id DESC
LIMIT $7;

-- list_ended_oldest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  CAST(m.finish_time AS char(26)),
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.finish_time >= CAST($4 AS datetime(6))
  AND m.finish_time <= CAST($5 AS datetime(6))
  AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $6)
ORDER BY m.finish_time, m.id
LIMIT $7;

-- list_dead_newest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  CAST(m.finish_time AS char(26)),
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM notify_msg_history m FORCE INDEX (notify_msg_history_dead)
WHERE
  m.def_id = $2
  AND m.dead_class = $3
  AND m.finish_time >= CAST($4 AS datetime(6))
  AND m.finish_time <= CAST($5 AS datetime(6))
  AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $6)
ORDER BY m.finish_time DESC, m.id DESC
LIMIT $7;

-- list_dead_oldest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  CAST(m.finish_time AS char(26)),
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM notify_msg_history m FORCE INDEX (notify_msg_history_dead)
WHERE
  m.def_id = $2
  AND m.dead_class = $3
  AND m.finish_time >= CAST($4 AS datetime(6))
  AND m.finish_time <= CAST($5 AS datetime(6))
  AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $6)
ORDER BY m.finish_time, m.id
LIMIT $7;

-- list_group_newest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  CAST(m.finish_time AS char(26)),
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM notify_msg_history m FORCE INDEX (notify_msg_history_group)
WHERE
  m.def_id = $2
  AND m.error_group = $3
  AND m.finish_time >= CAST($4 AS datetime(6))
  AND m.finish_time <= CAST($5 AS datetime(6))
  AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $6)
ORDER BY m.finish_time DESC, m.id DESC
LIMIT $7;

-- list_group_oldest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  CAST(m.finish_time AS char(26)),
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM notify_msg_history m FORCE INDEX (notify_msg_history_group)
WHERE
  m.def_id = $2
  AND m.error_group = $3
  AND m.finish_time >= CAST($4 AS datetime(6))
  AND m.finish_time <= CAST($5 AS datetime(6))
  AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $6)
ORDER BY m.finish_time, m.id
LIMIT $7;

-- list_live_newest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', coalesce(m.blocked_since, m.next_call_time)) DIV 1000,
  CAST(m.next_call_time AS char(26)),
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM notify_msg m FORCE INDEX (notify_msg_due)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time >= CAST($4 AS datetime(6))
  AND (
    m.next_call_time < CAST($5 AS datetime(6))
    OR m.next_call_time = CAST($5 AS datetime(6))
    AND m.id < $6
  )
ORDER BY m.next_call_time DESC, m.id DESC
LIMIT $7;

-- list_live_oldest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', coalesce(m.blocked_since, m.next_call_time)) DIV 1000,
  CAST(m.next_call_time AS char(26)),
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM notify_msg m FORCE INDEX (notify_msg_due)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= CAST($5 AS datetime(6))
  AND (
    m.next_call_time > CAST($4 AS datetime(6))
    OR m.next_call_time = CAST($4 AS datetime(6))
    AND m.id > $6
  )
ORDER BY m.next_call_time, m.id
LIMIT $7;

-- count_ended
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.finish_time >= CAST($4 AS datetime(6))
    AND m.finish_time <= CAST($5 AS datetime(6))
  LIMIT $6
) AS counted;

-- count_dead
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m FORCE INDEX (notify_msg_history_dead)
  WHERE
    m.def_id = $2
    AND m.dead_class = $3
    AND m.finish_time >= CAST($4 AS datetime(6))
    AND m.finish_time <= CAST($5 AS datetime(6))
  LIMIT $6
) AS counted;

-- count_group
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m FORCE INDEX (notify_msg_history_group)
  WHERE
    m.def_id = $2
    AND m.error_group = $3
    AND m.finish_time >= CAST($4 AS datetime(6))
    AND m.finish_time <= CAST($5 AS datetime(6))
  LIMIT $6
) AS counted;

-- count_live
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg m FORCE INDEX (notify_msg_due)
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.next_call_time >= CAST($4 AS datetime(6))
    AND m.next_call_time <= CAST($5 AS datetime(6))
  LIMIT $6
) AS counted;

-- next_class
SELECT m.dead_class
FROM notify_msg_history m FORCE INDEX (notify_msg_history_dead)
WHERE m.def_id = $2 AND m.dead_class > $3
ORDER BY m.dead_class
LIMIT 1;

-- ahead
(
  SELECT o.id
  FROM notify_msg o FORCE INDEX (notify_msg_under_way)
  WHERE o.def_id = $2 AND o.under_way = $3 AND o.id <> $4
  LIMIT 1
)
UNION ALL
(
  SELECT o.id
  FROM notify_msg o FORCE INDEX (notify_msg_order)
  WHERE o.def_id = $2 AND o.ordering_key = $3 AND o.id < $4 AND o.id <> $4
  ORDER BY o.id
  LIMIT 1
);

-- list_narrow_ended_newest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  CAST(m.finish_time AS char(26)),
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM (
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_dead)
    WHERE
      m.def_id = $2
      AND $7 = 2
      AND m.status + 0 = $3
      AND m.dead_class = $12
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (PRIMARY)
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN ($8)
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_tag)
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_order)
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_group)
    WHERE
      m.def_id = $2
      AND $7 = 7
      AND m.status + 0 = $3
      AND m.error_group = $15
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_dedupe)
    WHERE
      m.def_id = $2
      AND $7 = 6
      AND m.status = $3
      AND m.dedupe_key = $11
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
) AS b STRAIGHT_JOIN notify_msg_history m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE true
ORDER BY m.finish_time DESC, m.id DESC;

-- list_narrow_ended_oldest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000,
  CAST(m.finish_time AS char(26)),
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM (
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_dead)
    WHERE
      m.def_id = $2
      AND $7 = 2
      AND m.status + 0 = $3
      AND m.dead_class = $12
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (PRIMARY)
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN ($8)
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_tag)
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_order)
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_group)
    WHERE
      m.def_id = $2
      AND $7 = 7
      AND m.status + 0 = $3
      AND m.error_group = $15
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_dedupe)
    WHERE
      m.def_id = $2
      AND $7 = 6
      AND m.status = $3
      AND m.dedupe_key = $11
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
      AND (m.finish_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
) AS b STRAIGHT_JOIN notify_msg_history m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE true
ORDER BY m.finish_time, m.id;

-- list_narrow_live_newest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', coalesce(m.blocked_since, m.next_call_time)) DIV 1000,
  CAST(m.next_call_time AS char(26)),
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM (
  (
    SELECT m.id AS notice_id
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND (
        m.next_call_time < CAST($5 AS datetime(6))
        OR m.next_call_time = CAST($5 AS datetime(6))
        AND m.id < $16
      )
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg m FORCE INDEX (PRIMARY)
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN ($8)
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
      AND (m.next_call_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg m FORCE INDEX (notify_msg_tag)
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status + 0 = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
      AND (m.next_call_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg m FORCE INDEX (notify_msg_order)
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status + 0 = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
      AND (m.next_call_time < CAST($5 AS datetime(6)) OR m.id < $16)
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE true
ORDER BY m.next_call_time DESC, m.id DESC;

-- list_narrow_live_oldest
SELECT
  m.id,
  m.def_id,
  m.status,
  m.fence,
  m.failures,
  m.crashes,
  m.last_class,
  substr(m.description, 1, 200),
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.create_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', coalesce(m.blocked_since, m.next_call_time)) DIV 1000,
  CAST(m.next_call_time AS char(26)),
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000,
  m.max_tries,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000
FROM (
  (
    SELECT m.id AS notice_id
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time <= CAST($5 AS datetime(6))
      AND (
        m.next_call_time > CAST($4 AS datetime(6))
        OR m.next_call_time = CAST($4 AS datetime(6))
        AND m.id > $16
      )
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg m FORCE INDEX (PRIMARY)
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN ($8)
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
      AND (m.next_call_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg m FORCE INDEX (notify_msg_tag)
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status + 0 = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
      AND (m.next_call_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM notify_msg m FORCE INDEX (notify_msg_order)
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status + 0 = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
      AND (m.next_call_time > CAST($4 AS datetime(6)) OR m.id > $16)
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE true
ORDER BY m.next_call_time, m.id;

-- count_narrow_ended
SELECT count(*)
FROM (
  (
    SELECT 1 AS one
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_dead)
    WHERE
      m.def_id = $2
      AND $7 = 2
      AND m.status + 0 = $3
      AND m.dead_class = $12
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg_history m FORCE INDEX (PRIMARY)
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN ($8)
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_tag)
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_order)
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_group)
    WHERE
      m.def_id = $2
      AND $7 = 7
      AND m.status + 0 = $3
      AND m.error_group = $15
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_dedupe)
    WHERE
      m.def_id = $2
      AND $7 = 6
      AND m.status = $3
      AND m.dedupe_key = $11
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR locate(
          CAST($13 AS binary),
          CAST(
            CASE
              WHEN JSON_VALID(m.errors) THEN JSON_UNQUOTE(JSON_EXTRACT(m.errors, CONCAT('$[', GREATEST(JSON_LENGTH(m.errors), 1) - 1, '].message')))
            END AS binary
          )
        ) > 0
        OR ($14 = 1 AND locate(CAST($13 AS binary), CAST(m.param AS binary)) > 0)
      )
      AND m.finish_time >= CAST($4 AS datetime(6))
      AND m.finish_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
) AS counted;

-- count_narrow_live
SELECT count(*)
FROM (
  (
    SELECT 1 AS one
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg m FORCE INDEX (PRIMARY)
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN ($8)
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg m FORCE INDEX (notify_msg_tag)
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status + 0 = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg m FORCE INDEX (notify_msg_order)
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status + 0 = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= CAST($4 AS datetime(6))
      AND m.next_call_time <= CAST($5 AS datetime(6))
    LIMIT $6
  )
) AS counted;

-- groups
SELECT
  g.error_group,
  g.dead,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', g.first_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', g.last_time) DIV 1000,
  m.id,
  m.last_class,
  m.errors,
  m.end_reason
FROM (
  SELECT
    m.error_group,
    count(*) AS dead,
    min(m.finish_time) AS first_time,
    max(m.finish_time) AS last_time,
    max(m.id) AS example
  FROM notify_msg_history m FORCE INDEX (notify_msg_history_group)
  WHERE
    m.def_id = $2
    AND m.error_group IS NOT NULL
    AND m.finish_time >= CAST($3 AS datetime(6))
    AND m.finish_time <= CAST($4 AS datetime(6))
  GROUP BY m.error_group
  ORDER BY dead DESC, m.error_group
  LIMIT $5
) AS g STRAIGHT_JOIN notify_msg_history m FORCE INDEX (PRIMARY) ON m.id = g.example
WHERE true
ORDER BY g.dead DESC, g.error_group;

-- read_counts
SELECT
  d.id,
  d.name,
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', c.taken_at) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', c.next_time) DIV 1000,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', c.oldest_due) DIV 1000,
  c.not_sent,
  c.failed,
  c.sending,
  c.awaiting_ack,
  c.dead_letters,
  c.cancelled,
  c.recently_succeeded
FROM notify_def d
LEFT JOIN notify_count c ON c.def_id = d.id
ORDER BY d.name;

-- claim_count
UPDATE notify_count SET
  next_time = TIMESTAMPADD(
    MICROSECOND,
    $3 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
WHERE
  def_id = $2
  AND next_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6));

-- open_count
INSERT IGNORE INTO notify_count (def_id, next_time)
VALUES (
  $2,
  TIMESTAMPADD(
    MICROSECOND,
    $3 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
);

-- take_count
SELECT
  TIMESTAMPDIFF(
    MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00',
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ) DIV 1000,
  (
    SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.next_call_time) DIV 1000
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = $2
      AND m.status = 0
    ORDER BY m.def_id, m.status, m.next_call_time
    LIMIT 1
  ),
  (
    SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.next_call_time) DIV 1000
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = $2
      AND m.status = 2
    ORDER BY m.def_id, m.status, m.next_call_time
    LIMIT 1
  ),
  (
    SELECT count(*)
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = $2
      AND m.status = 0
  ),
  (
    SELECT count(*)
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = $2
      AND m.status = 2
  ),
  (
    SELECT count(*)
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = $2
      AND m.status = 5
  ),
  (
    SELECT count(*)
    FROM notify_msg m FORCE INDEX (notify_msg_due)
    WHERE m.def_id = $2
      AND m.status = 4
  ),
  (
    SELECT count(*)
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
    WHERE m.def_id = $2
      AND m.status = 3
  ),
  (
    SELECT count(*)
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
    WHERE m.def_id = $2
      AND m.status = 6
  ),
  (
    SELECT count(*)
    FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
    WHERE
      m.def_id = $2
      AND m.status = 1
      AND m.finish_time > TIMESTAMPADD(
        MICROSECOND,
        - $3 * 1000,
        coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
      )
  );

-- write_count
UPDATE notify_count SET
  not_sent = $3,
  failed = $4,
  sending = $5,
  awaiting_ack = $6,
  dead_letters = $7,
  cancelled = $8,
  recently_succeeded = $9,
  oldest_due = TIMESTAMPADD(MICROSECOND, $10 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  taken_at = TIMESTAMPADD(MICROSECOND, $11 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
  next_time = TIMESTAMPADD(
    MICROSECOND,
    $12 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
WHERE def_id = $2;

-- forget_count
DELETE FROM notify_count
WHERE def_id = $2;

-- retry_groups
SELECT failures, crashes, last_class, max_tries, wait, expires_after, due, count(*)
FROM (
  SELECT
    m.failures,
    m.crashes,
    m.last_class,
    m.max_tries,
    (
      (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.next_call_time) DIV 1000) - (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000)
    ) DIV 1000 AS wait,
    (
      (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.expires_at) DIV 1000) - (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.last_call_time) DIV 1000) + 999
    ) DIV 1000 AS expires_after,
    CASE
      WHEN m.next_call_time <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)) THEN 1
      ELSE 0
    END AS due
  FROM notify_msg m FORCE INDEX (notify_msg_due)
  WHERE m.def_id = $2
    AND m.status = 2
  LIMIT $3
) AS waiting
GROUP BY failures, crashes, last_class, max_tries, wait, expires_after, due;

-- lock_to_revive
SELECT m.id, m.def_id, CASE WHEN m.fence = 0 OR m.dedupe_until_ended THEN m.dedupe_key END
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (notice_id bigint PATH '$.notice_id', fence bigint PATH '$.fence', was bigint PATH '$.was')
  ) AS b STRAIGHT_JOIN notify_msg_history m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE
  m.fence = b.fence
  AND m.status + 0 = b.was
  AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id)
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- lock_act
SELECT id
FROM notify_msg
WHERE id = $2 AND fence = $3 AND status + 0 = 5
FOR UPDATE SKIP LOCKED;

-- lock_to_purge
SELECT m.id, m.failures, m.crashes, m.last_class, CASE WHEN m.status <> 1 THEN m.errors END, m.end_reason
FROM
  JSON_TABLE(
    $2,
    '$[*]' COLUMNS (notice_id bigint PATH '$.notice_id', fence bigint PATH '$.fence', was bigint PATH '$.was')
  ) AS b STRAIGHT_JOIN notify_msg_history m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE
  m.fence = b.fence
  AND m.status + 0 = b.was
  AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id)
FOR UPDATE
/*!80000 OF m */
SKIP LOCKED;

-- revive
INSERT INTO
  notify_msg (
    id,
    def_id,
    param,
    description,
    errors,
    status,
    fence,
    failures,
    crashes,
    worker,
    last_class,
    last_call_time,
    next_call_time,
    create_time,
    dedupe_key,
    dedupe_until_ended,
    ordering_key,
    trace_context,
    tag,
    max_tries,
    expires_at,
    response,
    parent_id
  )
SELECT
  m.id,
  m.def_id,
  m.param,
  m.description,
  m.errors,
  CASE WHEN m.fence > 0 THEN 2 ELSE 0 END,
  m.fence,
  0,
  0,
  m.worker,
  m.last_class,
  m.last_call_time,
  greatest(
    TIMESTAMPADD(MICROSECOND, b.due * 1000, TIMESTAMP '1970-01-01 00:00:00'),
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ),
  m.create_time,
  m.dedupe_key,
  m.dedupe_until_ended,
  m.ordering_key,
  m.trace_context,
  m.tag,
  m.max_tries,
  CASE
    WHEN m.expires_at > greatest(
      TIMESTAMPADD(MICROSECOND, b.due * 1000, TIMESTAMP '1970-01-01 00:00:00'),
      coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
    ) THEN m.expires_at
  END,
  m.response,
  m.parent_id
FROM
  JSON_TABLE($2, '$[*]' COLUMNS (notice_id bigint PATH '$.notice_id', due bigint PATH '$.due')) AS b STRAIGHT_JOIN notify_msg_history m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE true;

-- cancel
INSERT INTO
  notify_msg_history (
    id,
    def_id,
    param,
    description,
    errors,
    status,
    fence,
    failures,
    crashes,
    worker,
    last_class,
    last_call_time,
    next_call_time,
    create_time,
    dedupe_key,
    dedupe_until_ended,
    ordering_key,
    trace_context,
    tag,
    max_tries,
    expires_at,
    response,
    parent_id,
    finish_time,
    end_reason
  )
SELECT
  m.id,
  m.def_id,
  m.param,
  m.description,
  m.errors,
  6,
  m.fence,
  m.failures,
  m.crashes,
  m.worker,
  m.last_class,
  m.last_call_time,
  NULL,
  m.create_time,
  m.dedupe_key,
  m.dedupe_until_ended,
  m.ordering_key,
  m.trace_context,
  m.tag,
  m.max_tries,
  m.expires_at,
  m.response,
  m.parent_id,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  $3
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE m.id IN ($2) AND true;

-- retime
UPDATE notify_msg SET
  next_call_time = greatest(
    TIMESTAMPADD(MICROSECOND, $3 * 1000, TIMESTAMP '1970-01-01 00:00:00'),
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ),
  blocked_since = NULL
WHERE id = $2;

-- retime_step
UPDATE
  JSON_TABLE($2, '$[*]' COLUMNS (notice_id bigint PATH '$.notice_id', due bigint PATH '$.due')) AS b STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
SET
  next_call_time = greatest(
    TIMESTAMPADD(MICROSECOND, b.due * 1000, TIMESTAMP '1970-01-01 00:00:00'),
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  ),
  blocked_since = NULL
WHERE true;

-- recount
UPDATE notify_msg SET
  failures = $3,
  crashes = $4,
  next_call_time = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  blocked_since = NULL
WHERE id = $2;

-- rewrite
UPDATE notify_msg SET
  param = $3
WHERE id = $2;

-- rewrite_errors
UPDATE notify_msg SET
  errors = $3
WHERE id = $2;

-- add_own
INSERT INTO notify_msg (def_id, param, tag, create_time, next_call_time)
VALUES (
  $2,
  $3,
  $4,
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
);

-- write_authority
INSERT INTO notify_authority (notice_id, def_id, who, act, detail)
VALUES ($2, $3, $4, $5, $6);

-- read_authority
SELECT a.who, a.act, a.detail
FROM notify_authority a
WHERE a.notice_id = $2;

-- use_authority
UPDATE notify_authority SET
  fence = $4
WHERE notice_id = $2 AND def_id = $3 AND fence < $4;

-- is_ended
SELECT count(*)
FROM notify_msg_history
WHERE id = $2;

-- old_authorities
SELECT a.notice_id
FROM notify_authority a
WHERE
  (SELECT count(*) FROM notify_msg m WHERE m.id = a.notice_id) = 0
  AND (SELECT count(*) FROM notify_msg_history h WHERE h.id = a.notice_id) = 0
LIMIT $2;

-- forget_authorities
DELETE FROM notify_authority
WHERE notice_id IN ($2);

-- note_progress
UPDATE notify_msg SET
  param = $4
WHERE id = $2 AND fence = $3 AND status + 0 = 5;

-- purgeable
SELECT m.id, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', m.finish_time) DIV 1000
FROM notify_msg_history m FORCE INDEX (notify_msg_history_finished)
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.finish_time <= TIMESTAMPADD(
    MICROSECOND,
    - $4 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
  AND m.finish_time >= TIMESTAMPADD(MICROSECOND, $6 * 1000, TIMESTAMP '1970-01-01 00:00:00')
ORDER BY m.finish_time
LIMIT $5;

-- lock_purgeable
SELECT m.id, m.failures, m.crashes, m.last_class, CASE WHEN m.status <> 1 THEN m.errors END, m.end_reason
FROM notify_msg_history AS m FORCE INDEX (PRIMARY)
WHERE
  m.id IN ($2)
  AND m.status + 0 = $3
  AND TIMESTAMPADD(MICROSECOND, $4 * 1000, m.finish_time) <= coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
FOR UPDATE;

-- purge_definition
DELETE FROM notify_def
WHERE
  id = $2
  AND delete_time <= TIMESTAMPADD(
    MICROSECOND,
    - $3 * 1000,
    coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6))
  )
  AND NOT EXISTS (SELECT 1 FROM notify_msg WHERE def_id = $2)
  AND NOT EXISTS (SELECT 1 FROM notify_msg_history WHERE def_id = $2)
  AND NOT EXISTS (SELECT 1 FROM (SELECT target_of FROM notify_def) t WHERE t.target_of = $2);

-- open_switch
INSERT IGNORE INTO notify_switch (id)
VALUES (1);

-- turn_switch
UPDATE notify_switch SET
  paused = $2,
  retries_paused = $5,
  who = $3,
  since = coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  reason = $4
WHERE paused <> $2 OR (NOT paused AND retries_paused <> $5);

-- audit
SELECT
  e.id,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', e.time) DIV 1000,
  CAST(e.time AS char(26)),
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e FORCE INDEX (notify_audit_time)
WHERE
  $2 = 0
  AND e.time >= CAST($3 AS datetime(6))
  AND e.time <= CAST($4 AS datetime(6))
  AND (e.time < CAST($4 AS datetime(6)) OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_definition
SELECT
  e.id,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', e.time) DIV 1000,
  CAST(e.time AS char(26)),
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e FORCE INDEX (notify_audit_definition)
WHERE
  e.def_id = $2
  AND e.time >= CAST($3 AS datetime(6))
  AND e.time <= CAST($4 AS datetime(6))
  AND (e.time < CAST($4 AS datetime(6)) OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_notice
SELECT
  e.id,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', e.time) DIV 1000,
  CAST(e.time AS char(26)),
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e FORCE INDEX (notify_audit_notice)
WHERE
  e.notice_id = $2
  AND e.time >= CAST($3 AS datetime(6))
  AND e.time <= CAST($4 AS datetime(6))
  AND (e.time < CAST($4 AS datetime(6)) OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_steps
SELECT
  e.id,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', e.time) DIV 1000,
  CAST(e.time AS char(26)),
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e FORCE INDEX (notify_audit_steps)
WHERE
  e.last_id >= $2
  AND e.first_id <= $2
  AND e.notice_ids LIKE $7
  AND coalesce(e.time, e.time) >= CAST($3 AS datetime(6))
  AND coalesce(e.time, e.time) <= CAST($4 AS datetime(6))
  AND (coalesce(e.time, e.time) < CAST($4 AS datetime(6)) OR e.id < $5)
ORDER BY coalesce(e.time, e.time) DESC, e.id DESC
LIMIT $6;

-- audit_by_who
SELECT
  e.id,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', e.time) DIV 1000,
  CAST(e.time AS char(26)),
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e FORCE INDEX (notify_audit_who)
WHERE
  e.who = $2
  AND e.time >= CAST($3 AS datetime(6))
  AND e.time <= CAST($4 AS datetime(6))
  AND (e.time < CAST($4 AS datetime(6)) OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_by_act
SELECT
  e.id,
  TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', e.time) DIV 1000,
  CAST(e.time AS char(26)),
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e FORCE INDEX (notify_audit_act)
WHERE
  e.act = $2
  AND e.time >= CAST($3 AS datetime(6))
  AND e.time <= CAST($4 AS datetime(6))
  AND (e.time < CAST($4 AS datetime(6)) OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- write_audit
INSERT INTO notify_audit (time, who, act, def_id, notice_id, detail, notice_ids, first_id, last_id)
VALUES (
  coalesce(TIMESTAMPADD(MICROSECOND, $1 * 1000, TIMESTAMP '1970-01-01 00:00:00'), UTC_TIMESTAMP(6)),
  $2,
  $3,
  $4,
  $5,
  $6,
  $7,
  $8,
  $9
);
