-- Every statement of the store on SQLite, as the database gets it, in the order of the source.

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
  CASE WHEN length(CAST(param AS blob)) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  CAST(round(unixepoch(last_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  trace_context,
  ordering_key,
  tag,
  max_tries,
  CAST(round(unixepoch(expires_at, 'subsec') * 1000) AS integer),
  status
FROM notify_msg
WHERE id = $2;

-- answerable_if_free
SELECT
  id,
  def_id,
  CASE WHEN length(CAST(param AS blob)) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  CAST(round(unixepoch(last_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  trace_context,
  ordering_key,
  tag,
  max_tries,
  CAST(round(unixepoch(expires_at, 'subsec') * 1000) AS integer),
  status
FROM notify_msg
WHERE id = $2;

-- ended
SELECT status, fence, def_id, CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer)
FROM notify_msg_history
WHERE id = $2;

-- ended_if_free
SELECT status, fence, def_id, CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer)
FROM notify_msg_history
WHERE id = $2;

-- store_id
SELECT store_id
FROM notify_switch;

-- nack
UPDATE notify_msg SET
  status = 4,
  errors = $3,
  next_call_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
WHERE id = $2;

-- ack_late
UPDATE notify_msg_history SET
  status = 1,
  finish_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  end_reason = $3,
  error_group = NULL
WHERE id = $2;

-- claim_slice
WITH
due AS MATERIALIZED (
  SELECT m.id
  FROM notify_msg m
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
    AND (
      m.ordering_key IS NULL
      OR NOT EXISTS (
        SELECT 1
        FROM notify_msg o
        WHERE
          o.def_id = m.def_id
          AND o.ordering_key = m.ordering_key
          AND (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END) < m.id
      )
    )
    AND m.crashes < 2
  ORDER BY m.next_call_time
  LIMIT $4
)
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  next_call_time = strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($6) / 1000.0)
  ),
  blocked_since = NULL
WHERE m.id IN (SELECT id FROM due) AND m.status + 0 = $3
RETURNING
  id,
  def_id,
  CASE WHEN length(CAST(param AS blob)) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  CAST(round(unixepoch(last_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  trace_context,
  ordering_key,
  tag,
  max_tries,
  CAST(round(unixepoch(expires_at, 'subsec') * 1000) AS integer);

-- claim_crash_looping
WITH
due AS MATERIALIZED (
  SELECT m.id
  FROM notify_msg m
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
    AND (
      m.ordering_key IS NULL
      OR NOT EXISTS (
        SELECT 1
        FROM notify_msg o
        WHERE
          o.def_id = m.def_id
          AND o.ordering_key = m.ordering_key
          AND (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END) < m.id
      )
    )
    AND m.crashes >= 2
  ORDER BY m.next_call_time
  LIMIT $4
)
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  next_call_time = strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($6) / 1000.0)
  ),
  blocked_since = NULL
WHERE m.id IN (SELECT id FROM due) AND m.status + 0 = $3
RETURNING
  id,
  def_id,
  CASE WHEN length(CAST(param AS blob)) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  CAST(round(unixepoch(last_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  trace_context,
  ordering_key,
  tag,
  max_tries,
  CAST(round(unixepoch(expires_at, 'subsec') * 1000) AS integer);

-- claim_ids
WITH
due AS MATERIALIZED (
  SELECT m.id
  FROM notify_msg AS m
  WHERE
    m.id IN (SELECT value FROM json_each($4))
    AND m.def_id + 0 = $2
    AND m.status + 0 = $3
    AND (
      m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
    ) IS TRUE
    AND (
      m.ordering_key IS NULL
      OR NOT EXISTS (
        SELECT 1
        FROM notify_msg o
        WHERE
          o.def_id = m.def_id
          AND o.ordering_key = m.ordering_key
          AND (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END) < m.id
      )
    )
)
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  next_call_time = strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($6) / 1000.0)
  ),
  blocked_since = NULL
WHERE m.id IN (SELECT id FROM due) AND m.status + 0 = $3
RETURNING
  id,
  def_id,
  CASE WHEN length(CAST(param AS blob)) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  CAST(round(unixepoch(last_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  trace_context,
  ordering_key,
  tag,
  max_tries,
  CAST(round(unixepoch(expires_at, 'subsec') * 1000) AS integer);

-- claim_keys
WITH
due AS MATERIALIZED (
  SELECT m.id
  FROM (
    SELECT (
      SELECT o.id
      FROM notify_msg o
      WHERE o.def_id = $2
        AND o.ordering_key = b.own_key
      ORDER BY (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END)
      LIMIT 1
    ) AS notice_id
    FROM (SELECT value ->> 'own_key' AS own_key FROM json_each($4)) AS b
  ) AS b
  CROSS JOIN notify_msg m ON m.id = b.notice_id
  WHERE
    m.def_id + 0 = $2
    AND m.status + 0 = $3
    AND (
      m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
    ) IS TRUE
    AND (
      m.ordering_key IS NULL
      OR NOT EXISTS (
        SELECT 1
        FROM notify_msg o
        WHERE
          o.def_id = m.def_id
          AND o.ordering_key = m.ordering_key
          AND (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END) < m.id
      )
    )
)
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  next_call_time = strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($6) / 1000.0)
  ),
  blocked_since = NULL
WHERE m.id IN (SELECT id FROM due) AND m.status + 0 = $3
RETURNING
  id,
  def_id,
  CASE WHEN length(CAST(param AS blob)) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  CAST(round(unixepoch(last_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  trace_context,
  ordering_key,
  tag,
  max_tries,
  CAST(round(unixepoch(expires_at, 'subsec') * 1000) AS integer);

-- due
SELECT
  d.id,
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  ),
  (
    SELECT
      coalesce(
        CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer),
        CASE
          WHEN m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')) THEN 0
        END
      )
    FROM notify_msg m
    WHERE m.def_id = d.id
      AND m.status = 0
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer),
        CASE
          WHEN m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')) THEN 0
        END
      )
    FROM notify_msg m
    WHERE m.def_id = d.id
      AND m.status = 2
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer),
        CASE
          WHEN m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')) THEN 0
        END
      )
    FROM notify_msg m
    WHERE m.def_id = d.id
      AND m.status = 5
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer),
        CASE
          WHEN m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')) THEN 0
        END
      )
    FROM notify_msg m
    WHERE m.def_id = d.id
      AND m.status = 4
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  d.tick_schedule,
  CAST(round(unixepoch(d.last_tick, 'subsec') * 1000) AS integer),
  (
    SELECT CAST(round(unixepoch(a.due, 'subsec') * 1000) AS integer)
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
  CASE WHEN length(CAST(param AS blob)) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  CAST(round(unixepoch(last_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  trace_context,
  ordering_key,
  tag,
  max_tries,
  CAST(round(unixepoch(expires_at, 'subsec') * 1000) AS integer)
FROM notify_msg m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
ORDER BY m.next_call_time
LIMIT $4;

-- claimed_by
SELECT
  id,
  def_id,
  CASE WHEN length(CAST(param AS blob)) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  CAST(round(unixepoch(last_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  trace_context,
  ordering_key,
  tag,
  max_tries,
  CAST(round(unixepoch(expires_at, 'subsec') * 1000) AS integer)
FROM (SELECT id AS owner FROM notify_def) AS b
CROSS JOIN notify_msg m ON m.def_id = b.owner
WHERE m.status = 5 AND m.worker = $2
ORDER BY m.id
LIMIT $3;

-- extendable
SELECT m.id
FROM (
  SELECT value ->> 'notice_id' AS notice_id, value ->> 'fence' AS fence, value ->> 'lease' AS lease
  FROM json_each($2)
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
WHERE m.fence = b.fence AND m.status + 0 = 5;

-- extend
UPDATE notify_msg AS m SET
  next_call_time = strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', (b.lease) / 1000.0)
  )
FROM (
  SELECT value ->> 'notice_id' AS notice_id, value ->> 'fence' AS fence, value ->> 'lease' AS lease
  FROM json_each($2)
) AS b
WHERE
  m.id = b.notice_id
  AND m.id IN (
    SELECT b.notice_id
    FROM (
      SELECT value ->> 'notice_id' AS notice_id, value ->> 'fence' AS fence, value ->> 'lease' AS lease
      FROM json_each($2)
    ) AS b
  )
  AND m.fence = b.fence
  AND m.status + 0 = 5;

-- count_sending
SELECT count(*)
FROM (SELECT 1 AS one FROM notify_msg m WHERE m.def_id = $2 AND m.status = 5 LIMIT $3) AS sent;

-- time_up
SELECT
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  );

-- param_bytes
SELECT length(CAST(param AS blob))
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
        FROM notify_msg o
        WHERE
          o.def_id = m.def_id
          AND o.ordering_key = m.ordering_key
          AND (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END) < m.id
      )
    ) THEN 1
    ELSE 0
  END,
  m.ordering_key
FROM notify_msg m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  AND m.crashes < 2
ORDER BY m.next_call_time
LIMIT $4;

-- lock_first
SELECT m.id, m.ordering_key
FROM (
  SELECT (
    SELECT o.id
    FROM notify_msg o
    WHERE o.def_id = $2
      AND o.ordering_key = b.own_key
    ORDER BY (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END)
    LIMIT 1
  ) AS notice_id
  FROM (SELECT value ->> 'own_key' AS own_key FROM json_each($3)) AS b
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
WHERE true;

-- block
UPDATE notify_msg AS m SET
  blocked_since = coalesce(blocked_since, next_call_time),
  next_call_time = strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($3) / 1000.0)
  )
WHERE m.id IN (SELECT value FROM json_each($2));

-- keys_of
SELECT m.def_id, m.ordering_key
FROM notify_msg AS m
WHERE m.id IN (SELECT value FROM json_each($2)) AND true;

-- first_blocked
SELECT m.id
FROM (
  SELECT (
    SELECT o.id
    FROM notify_msg o
    WHERE o.def_id = b.owner
      AND o.ordering_key = b.own_key
    ORDER BY (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END)
    LIMIT 1
  ) AS notice_id
  FROM (SELECT value ->> 'owner' AS owner, value ->> 'own_key' AS own_key FROM json_each($2)) AS b
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
WHERE m.blocked_since IS NOT NULL;

-- free
SELECT m.id
FROM notify_msg AS m
WHERE m.id IN (SELECT value FROM json_each($2)) AND true;

-- unblock
UPDATE notify_msg AS m SET
  next_call_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  blocked_since = NULL
WHERE m.id IN (SELECT value FROM json_each($2)) AND m.blocked_since IS NOT NULL;

-- oldest_blocked
SELECT min(CAST(round(unixepoch(blocked_since, 'subsec') * 1000) AS integer))
FROM (
  SELECT m.blocked_since
  FROM notify_msg m
  WHERE m.def_id = $2
    AND m.status = 0
  ORDER BY m.next_call_time
  LIMIT $3
) AS blocked;

-- definition_names
SELECT name
FROM notify_def
WHERE delete_time IS NULL
ORDER BY name
LIMIT 1000;

-- definition_ids
SELECT d.id, d.name, '', CASE WHEN d.encrypt_param THEN 1 ELSE 0 END
FROM notify_def d
JOIN (SELECT value ->> 'own_key' AS own_key FROM json_each($2)) AS b ON d.name = b.own_key
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
SELECT
  d.id,
  $3,
  $4,
  $5,
  $6,
  $7,
  ($8 = 1),
  $9,
  $10,
  strftime('%Y-%m-%d %H:%M:%f', $11 / 1000.0, 'unixepoch'),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  max(
    coalesce(
      strftime('%Y-%m-%d %H:%M:%f', $12 / 1000.0, 'unixepoch'),
      strftime(
        '%Y-%m-%d %H:%M:%f',
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        printf('%+.3f seconds', ($13) / 1000.0)
      )
    ),
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  )
FROM notify_def d
WHERE d.name = $2 AND d.delete_time IS NULL AND (NOT d.encrypt_param OR d.id = $14)
RETURNING id, def_id, dedupe_key;

-- duplicates
SELECT m.id, m.def_id, m.dedupe_key, m.fence
FROM (SELECT value ->> 'owner' AS owner, value ->> 'own_key' AS own_key FROM json_each($2)) AS b
CROSS JOIN
  notify_msg m ON m.def_id = b.owner
  AND m.dedupe_key = b.own_key
  AND (m.fence = 0 OR m.dedupe_until_ended);

-- lock_duplicates
SELECT m.id, m.def_id, m.dedupe_key, m.fence
FROM (SELECT value ->> 'owner' AS owner, value ->> 'own_key' AS own_key FROM json_each($2)) AS b
CROSS JOIN
  notify_msg m ON m.def_id = b.owner
  AND m.dedupe_key = b.own_key
  AND (m.fence = 0 OR m.dedupe_until_ended);

-- keep_skipped_key
UPDATE notify_msg_history SET
  dedupe_key = $3, dedupe_until_ended = ($4 = 1)
WHERE id = $2;

-- insert_keyed
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
SELECT
  d.id,
  $3,
  $4,
  $5,
  $6,
  $7,
  ($8 = 1),
  $9,
  $10,
  strftime('%Y-%m-%d %H:%M:%f', $11 / 1000.0, 'unixepoch'),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  max(
    coalesce(
      strftime('%Y-%m-%d %H:%M:%f', $12 / 1000.0, 'unixepoch'),
      strftime(
        '%Y-%m-%d %H:%M:%f',
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        printf('%+.3f seconds', ($13) / 1000.0)
      )
    ),
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  )
FROM notify_def d
WHERE d.name = $2 AND d.delete_time IS NULL AND (NOT d.encrypt_param OR d.id = $14)
ON CONFLICT (def_id, dedupe_key)
WHERE dedupe_key IS NOT NULL AND (fence = 0 OR dedupe_until_ended) DO NOTHING
RETURNING id, def_id, dedupe_key;

-- insert_many
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
SELECT
  b.owner,
  b.param,
  b.description,
  b.trace_context,
  b.ordering_key,
  b.dedupe_key,
  (b.until_ended = 1),
  b.tag,
  b.max_tries,
  strftime('%Y-%m-%d %H:%M:%f', b.expires_at / 1000.0, 'unixepoch'),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  max(
    coalesce(
      strftime('%Y-%m-%d %H:%M:%f', b.send_at / 1000.0, 'unixepoch'),
      strftime(
        '%Y-%m-%d %H:%M:%f',
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        printf('%+.3f seconds', (b.delay) / 1000.0)
      )
    ),
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  )
FROM (
  SELECT
    value ->> 'place' AS place,
    value ->> 'owner' AS owner,
    value ->> 'param' AS param,
    value ->> 'description' AS description,
    value ->> 'trace_context' AS trace_context,
    value ->> 'ordering_key' AS ordering_key,
    value ->> 'dedupe_key' AS dedupe_key,
    value ->> 'until_ended' AS until_ended,
    value ->> 'tag' AS tag,
    value ->> 'max_tries' AS max_tries,
    value ->> 'expires_at' AS expires_at,
    value ->> 'send_at' AS send_at,
    value ->> 'delay' AS delay
  FROM json_each($2)
) AS b
WHERE true
ORDER BY b.place
RETURNING id, def_id, dedupe_key;

-- insert_many_keyed
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
SELECT
  b.owner,
  b.param,
  b.description,
  b.trace_context,
  b.ordering_key,
  b.dedupe_key,
  (b.until_ended = 1),
  b.tag,
  b.max_tries,
  strftime('%Y-%m-%d %H:%M:%f', b.expires_at / 1000.0, 'unixepoch'),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  max(
    coalesce(
      strftime('%Y-%m-%d %H:%M:%f', b.send_at / 1000.0, 'unixepoch'),
      strftime(
        '%Y-%m-%d %H:%M:%f',
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        printf('%+.3f seconds', (b.delay) / 1000.0)
      )
    ),
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  )
FROM (
  SELECT
    value ->> 'place' AS place,
    value ->> 'owner' AS owner,
    value ->> 'param' AS param,
    value ->> 'description' AS description,
    value ->> 'trace_context' AS trace_context,
    value ->> 'ordering_key' AS ordering_key,
    value ->> 'dedupe_key' AS dedupe_key,
    value ->> 'until_ended' AS until_ended,
    value ->> 'tag' AS tag,
    value ->> 'max_tries' AS max_tries,
    value ->> 'expires_at' AS expires_at,
    value ->> 'send_at' AS send_at,
    value ->> 'delay' AS delay
  FROM json_each($2)
) AS b
WHERE true
ORDER BY b.place
ON CONFLICT (def_id, dedupe_key)
WHERE dedupe_key IS NOT NULL AND (fence = 0 OR dedupe_until_ended) DO NOTHING
RETURNING id, def_id, dedupe_key;

-- own_server
SELECT 0, '';

-- try_limit
SELECT
  m.def_id,
  m.begun,
  m.failures,
  CAST(round(unixepoch(m.open_until, 'subsec') * 1000) AS integer),
  m.probe,
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  )
FROM notify_limit m
WHERE m.def_id = $2;

-- limit_now
SELECT
  m.def_id,
  m.begun,
  m.failures,
  CAST(round(unixepoch(m.open_until, 'subsec') * 1000) AS integer),
  m.probe,
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  )
FROM notify_limit m
WHERE m.def_id = $2;

-- has_limit
SELECT 1
FROM notify_limit
WHERE def_id = $2;

-- open_limit
INSERT INTO notify_limit (def_id)
VALUES ($2)
ON CONFLICT DO NOTHING;

-- write_limit
UPDATE notify_limit SET
  begun = $3,
  failures = $4,
  open_until = strftime('%Y-%m-%d %H:%M:%f', $5 / 1000.0, 'unixepoch'),
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
  CAST(round(unixepoch(m.open_until, 'subsec') * 1000) AS integer),
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
  CAST(round(unixepoch(since, 'subsec') * 1000) AS integer),
  reason
FROM notify_switch
WHERE paused OR retries_paused;

-- lock
SELECT m.id, m.fence, b.was
FROM (
  SELECT
    value ->> 'notice_id' AS notice_id,
    value ->> 'fence' AS fence,
    value ->> 'was' AS was,
    value ->> 'overdue' AS overdue
  FROM json_each($2)
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
WHERE
  m.fence = b.fence
  AND m.status + 0 = b.was
  AND (
    b.overdue = 0
    OR m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  );

-- evict
DELETE FROM notify_msg_history AS m
WHERE m.id IN (SELECT value FROM json_each($2));

-- dead_with_ids
SELECT m.id, m.def_id
FROM notify_msg_history AS m
WHERE m.id IN (SELECT value FROM json_each($2)) AND m.status + 0 = 3;

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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  b.reason,
  b.new_group
FROM (
  SELECT
    value ->> 'notice_id' AS notice_id,
    value ->> 'new_status' AS new_status,
    value ->> 'after_ms' AS after_ms,
    value ->> 'new_failures' AS new_failures,
    value ->> 'new_crashes' AS new_crashes,
    value ->> 'new_errors' AS new_errors,
    value ->> 'new_class' AS new_class,
    value ->> 'new_description' AS new_description,
    value ->> 'new_response' AS new_response,
    value ->> 'new_group' AS new_group,
    value ->> 'reason' AS reason
  FROM json_each($2)
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id;

-- remove
DELETE FROM notify_msg AS m
WHERE m.id IN (SELECT value FROM json_each($2));

-- reschedule
UPDATE notify_msg AS m SET
  status = b.new_status,
  failures = b.new_failures,
  crashes = b.new_crashes,
  errors = b.new_errors,
  last_class = b.new_class,
  description = b.new_description,
  response = coalesce(b.new_response, m.response),
  next_call_time = CASE
    WHEN b.after_ms IS NULL THEN '9999-12-31 00:00:00.000'
    ELSE strftime(
      '%Y-%m-%d %H:%M:%f',
      coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
      printf('%+.3f seconds', (b.after_ms) / 1000.0)
    )
  END
FROM (
  SELECT
    value ->> 'notice_id' AS notice_id,
    value ->> 'new_status' AS new_status,
    value ->> 'after_ms' AS after_ms,
    value ->> 'new_failures' AS new_failures,
    value ->> 'new_crashes' AS new_crashes,
    value ->> 'new_errors' AS new_errors,
    value ->> 'new_class' AS new_class,
    value ->> 'new_description' AS new_description,
    value ->> 'new_response' AS new_response,
    value ->> 'new_group' AS new_group,
    value ->> 'reason' AS reason
  FROM json_each($2)
) AS b
WHERE
  m.id = b.notice_id
  AND m.id IN (
    SELECT b.notice_id
    FROM (
      SELECT
        value ->> 'notice_id' AS notice_id,
        value ->> 'new_status' AS new_status,
        value ->> 'after_ms' AS after_ms,
        value ->> 'new_failures' AS new_failures,
        value ->> 'new_crashes' AS new_crashes,
        value ->> 'new_errors' AS new_errors,
        value ->> 'new_class' AS new_class,
        value ->> 'new_description' AS new_description,
        value ->> 'new_response' AS new_response,
        value ->> 'new_group' AS new_group,
        value ->> 'reason' AS reason
      FROM json_each($2)
    ) AS b
  );

-- verify
SELECT m.id, m.fence, m.status, m.failures, m.crashes, NULL
FROM notify_msg AS m
WHERE m.id IN (SELECT value FROM json_each($2))
UNION ALL
SELECT m.id, m.fence, m.status, m.failures, m.crashes, m.end_reason
FROM notify_msg_history AS m
WHERE m.id IN (SELECT value FROM json_each($2));

-- has_ended
SELECT 1
FROM notify_msg_history
WHERE id = $2;

-- pass_on
INSERT INTO
  notify_msg (
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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
FROM (
  SELECT value ->> 'place' AS place, value ->> 'notice_id' AS notice_id, value ->> 'target' AS target
  FROM json_each($2)
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
WHERE true
ORDER BY b.place
ON CONFLICT (def_id, dedupe_key)
WHERE dedupe_key IS NOT NULL AND (fence = 0 OR dedupe_until_ended) DO NOTHING;

-- pass_on_keyed
INSERT INTO
  notify_msg (
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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
FROM (
  SELECT value ->> 'place' AS place, value ->> 'notice_id' AS notice_id, value ->> 'target' AS target
  FROM json_each($2)
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
WHERE true
ORDER BY b.place
ON CONFLICT (def_id, dedupe_key)
WHERE dedupe_key IS NOT NULL AND (fence = 0 OR dedupe_until_ended) DO NOTHING;

-- keyed
SELECT m.id
FROM notify_msg m
WHERE m.id IN (SELECT value FROM json_each($2)) AND m.dedupe_key IS NOT NULL;

-- holders
SELECT b.target, t.id, CASE WHEN t.parent_id = m.id THEN 1 ELSE 0 END, t.fence
FROM (
  SELECT value ->> 'place' AS place, value ->> 'notice_id' AS notice_id, value ->> 'target' AS target
  FROM json_each($2)
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
CROSS JOIN
  notify_msg t ON t.def_id = b.target
  AND t.dedupe_key = m.dedupe_key
  AND (t.fence = 0 OR t.dedupe_until_ended);

-- lock_to_pass_on
SELECT id
FROM notify_msg
WHERE id = $2 AND fence = $3 AND status + 0 = 5;

-- families
SELECT
  d.id,
  d.target_of,
  d.target_filter,
  CAST(round(unixepoch(d.delete_time, 'subsec') * 1000) AS integer)
FROM notify_def d
WHERE d.id IN (SELECT value FROM json_each($2)) OR d.target_of IN (SELECT value FROM json_each($2));

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
WHERE notice_id IN (SELECT value FROM json_each($2));

-- insert_bare
INSERT INTO notify_msg (def_id, param)
SELECT d.id, $2
FROM notify_def d
WHERE d.name = $1 AND d.delete_time IS NULL AND (NOT d.encrypt_param OR d.id = $3)
RETURNING id, def_id, dedupe_key;

-- insert_known
INSERT INTO notify_msg (def_id, param)
VALUES ($1, $2);

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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  NULL
FROM notify_msg AS m
WHERE m.id IN (SELECT value FROM json_each($2));

-- mark_seen
INSERT INTO notify_inbox (receiver, sender, idempotency_key, first_seen)
VALUES (
  $2,
  $3,
  $4,
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
)
ON CONFLICT (receiver, sender, idempotency_key) DO NOTHING;

-- purge_inbox
DELETE FROM notify_inbox
WHERE
  rowid IN (
    SELECT rowid
    FROM notify_inbox
    WHERE
      first_seen <= strftime(
        '%Y-%m-%d %H:%M:%f',
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        printf('%+.3f seconds', (- $2) / 1000.0)
      )
      AND first_seen >= strftime('%Y-%m-%d %H:%M:%f', $4 / 1000.0, 'unixepoch')
    ORDER BY first_seen
    LIMIT $3
  )
RETURNING CAST(round(unixepoch(first_seen, 'subsec') * 1000) AS integer);

-- open_alert
INSERT INTO notify_alert (def_id, reason, opened, last_seen)
VALUES (
  $2,
  $3,
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
)
ON CONFLICT DO NOTHING;

-- lock_alert
SELECT
  CAST(round(unixepoch(a.opened, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.last_notified, 'subsec') * 1000) AS integer),
  a.suppressed,
  CAST(round(unixepoch(a.last_seen, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.due, 'subsec') * 1000) AS integer),
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  CAST(round(unixepoch(a.silenced_until, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.acknowledged_at, 'subsec') * 1000) AS integer),
  a.acknowledged_by,
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  )
FROM notify_alert a
WHERE a.def_id = $2 AND a.reason = $3;

-- due_alerts
SELECT a.def_id, a.reason
FROM notify_alert a
WHERE
  a.due <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
ORDER BY a.due
LIMIT $2;

-- look_alert
SELECT
  CAST(round(unixepoch(a.opened, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.last_notified, 'subsec') * 1000) AS integer),
  a.suppressed,
  CAST(round(unixepoch(a.last_seen, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.due, 'subsec') * 1000) AS integer),
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  CAST(round(unixepoch(a.silenced_until, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.acknowledged_at, 'subsec') * 1000) AS integer),
  a.acknowledged_by,
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  ),
  (
    SELECT CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer)
    FROM notify_msg_history m
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
  CAST(round(unixepoch(a.opened, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.last_notified, 'subsec') * 1000) AS integer),
  a.suppressed,
  CAST(round(unixepoch(a.last_seen, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.due, 'subsec') * 1000) AS integer),
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  CAST(round(unixepoch(a.silenced_until, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(a.acknowledged_at, 'subsec') * 1000) AS integer),
  a.acknowledged_by,
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  ),
  a.def_id,
  a.reason
FROM notify_alert a
ORDER BY a.def_id, a.reason
LIMIT $2;

-- write_alert
UPDATE notify_alert SET
  opened = strftime('%Y-%m-%d %H:%M:%f', $4 / 1000.0, 'unixepoch'),
  last_notified = strftime('%Y-%m-%d %H:%M:%f', $5 / 1000.0, 'unixepoch'),
  suppressed = $6,
  last_seen = strftime('%Y-%m-%d %H:%M:%f', $7 / 1000.0, 'unixepoch'),
  due = strftime('%Y-%m-%d %H:%M:%f', $8 / 1000.0, 'unixepoch'),
  notice_id = $9,
  description = $10,
  class = $11,
  message = $12,
  node = $13,
  silenced_until = strftime('%Y-%m-%d %H:%M:%f', $14 / 1000.0, 'unixepoch'),
  acknowledged_at = strftime('%Y-%m-%d %H:%M:%f', $15 / 1000.0, 'unixepoch'),
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
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(update_time, 'subsec') * 1000) AS integer),
  coalesce(
    CAST(round(unixepoch(delete_time, 'subsec') * 1000) AS integer),
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
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(update_time, 'subsec') * 1000) AS integer),
  coalesce(
    CAST(round(unixepoch(delete_time, 'subsec') * 1000) AS integer),
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
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(update_time, 'subsec') * 1000) AS integer),
  coalesce(
    CAST(round(unixepoch(delete_time, 'subsec') * 1000) AS integer),
    CASE WHEN delete_time IS NOT NULL THEN 0 END
  )
FROM notify_def
WHERE id = $2;

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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
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
  update_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
WHERE id = $36;

-- delete_definition
UPDATE notify_def SET
  delete_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  update_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  handler = $3,
  name = $4
WHERE id = $2;

-- lock_tick
SELECT m.id
FROM notify_def m
WHERE m.id = $2;

-- note_tick
UPDATE notify_def SET
  last_tick = strftime('%Y-%m-%d %H:%M:%f', $6 / 1000.0, 'unixepoch'), tick_schedule = $3
WHERE
  id = $2
  AND enabled
  AND delete_time IS NULL
  AND (schedule = $3 OR (schedule IS NULL AND $3 IS NULL))
  AND (tick_schedule = $4 OR (tick_schedule IS NULL AND $4 IS NULL))
  AND (
    CAST(round(unixepoch(last_tick, 'subsec') * 1000) AS integer) = $5
    OR (CAST(round(unixepoch(last_tick, 'subsec') * 1000) AS integer) IS NULL AND $5 IS NULL)
  );

-- add_ticks
INSERT INTO notify_msg (def_id, param, create_time, next_call_time)
SELECT
  $2,
  b.param,
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
FROM (SELECT value ->> 'place' AS place, value ->> 'param' AS param FROM json_each($3)) AS b
WHERE true
ORDER BY b.place;

-- versions
SELECT
  v.def_id,
  v.version,
  CAST(round(unixepoch(v.time, 'subsec') * 1000) AS integer),
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
  CAST(round(unixepoch(v.time, 'subsec') * 1000) AS integer),
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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
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
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(update_time, 'subsec') * 1000) AS integer),
  coalesce(
    CAST(round(unixepoch(delete_time, 'subsec') * 1000) AS integer),
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
  CAST(round(unixepoch(create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(update_time, 'subsec') * 1000) AS integer),
  coalesce(
    CAST(round(unixepoch(delete_time, 'subsec') * 1000) AS integer),
    CASE WHEN delete_time IS NOT NULL THEN 0 END
  )
FROM notify_def
WHERE id = $2;

-- time
SELECT
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  );

-- beat
UPDATE notify_node SET
  last_seen = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

-- nodes
SELECT handlers
FROM notify_node
WHERE
  last_seen > strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', (- $2) / 1000.0)
  )
  AND last_seen < strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($2) / 1000.0)
  );

-- forget_nodes
DELETE FROM notify_node
WHERE
  NOT (
    last_seen > strftime(
      '%Y-%m-%d %H:%M:%f',
      coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
      printf('%+.3f seconds', (- $2) / 1000.0)
    )
    AND last_seen < strftime(
      '%Y-%m-%d %H:%M:%f',
      coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
      printf('%+.3f seconds', ($2) / 1000.0)
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
  CAST(round(unixepoch(start_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(last_seen, 'subsec') * 1000) AS integer)
FROM notify_node
WHERE
  last_seen > strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', (- $2) / 1000.0)
  )
  AND last_seen < strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($2) / 1000.0)
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
  strftime('%Y-%m-%d %H:%M:%f', b.minute_ms / 1000.0, 'unixepoch'),
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
FROM (
  SELECT
    value ->> 'owner' AS owner,
    value ->> 'minute_ms' AS minute_ms,
    value ->> 'succeeded' AS succeeded,
    value ->> 'awaiting_ack' AS awaiting_ack,
    value ->> 'skipped' AS skipped,
    value ->> 'failed' AS failed,
    value ->> 'dead_letters' AS dead_letters,
    value ->> 'unacked' AS unacked,
    value ->> 'timed' AS timed,
    value ->> 'duration_ms' AS duration_ms,
    value ->> 'duration_max_ms' AS duration_max_ms,
    value ->> 'delivery_ms' AS delivery_ms,
    value ->> 'delivery_max_ms' AS delivery_max_ms,
    value ->> 'late_max_ms' AS late_max_ms
  FROM json_each($2)
) AS b
WHERE true
ON CONFLICT (def_id, minute, node) DO UPDATE SET
  succeeded = max(notify_series.succeeded, excluded.succeeded),
  awaiting_ack = max(notify_series.awaiting_ack, excluded.awaiting_ack),
  skipped = max(notify_series.skipped, excluded.skipped),
  failed = max(notify_series.failed, excluded.failed),
  dead_letters = max(notify_series.dead_letters, excluded.dead_letters),
  unacked = max(notify_series.unacked, excluded.unacked),
  timed = max(notify_series.timed, excluded.timed),
  duration_ms = max(notify_series.duration_ms, excluded.duration_ms),
  duration_max_ms = max(notify_series.duration_max_ms, excluded.duration_max_ms),
  delivery_ms = max(notify_series.delivery_ms, excluded.delivery_ms),
  delivery_max_ms = max(notify_series.delivery_max_ms, excluded.delivery_max_ms),
  late_max_ms = max(notify_series.late_max_ms, excluded.late_max_ms);

-- series
SELECT
  ((CAST(round(unixepoch(minute, 'subsec') * 1000) AS integer)) - $3) / $5 AS step,
  sum(succeeded),
  sum(awaiting_ack),
  sum(skipped),
  sum(failed),
  sum(dead_letters),
  sum(unacked),
  sum(timed),
  sum(duration_ms),
  max(duration_max_ms),
  sum(delivery_ms),
  max(delivery_max_ms),
  max(late_max_ms)
FROM notify_series
WHERE
  def_id = $2
  AND minute >= strftime('%Y-%m-%d %H:%M:%f', $3 / 1000.0, 'unixepoch')
  AND minute < strftime('%Y-%m-%d %H:%M:%f', $4 / 1000.0, 'unixepoch')
GROUP BY step;

-- series_of_all
SELECT
  ((CAST(round(unixepoch(minute, 'subsec') * 1000) AS integer)) - $3) / $5 AS step,
  sum(succeeded),
  sum(awaiting_ack),
  sum(skipped),
  sum(failed),
  sum(dead_letters),
  sum(unacked),
  sum(timed),
  sum(duration_ms),
  max(duration_max_ms),
  sum(delivery_ms),
  max(delivery_max_ms),
  max(late_max_ms)
FROM notify_series
WHERE
  minute >= strftime('%Y-%m-%d %H:%M:%f', $3 / 1000.0, 'unixepoch')
  AND minute < strftime('%Y-%m-%d %H:%M:%f', $4 / 1000.0, 'unixepoch')
GROUP BY step;

-- purge_series
DELETE FROM notify_series
WHERE
  rowid IN (
    SELECT rowid
    FROM notify_series
    WHERE
      minute < strftime(
        '%Y-%m-%d %H:%M:%f',
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        printf('%+.3f seconds', (- $2) / 1000.0)
      )
    LIMIT $3
  );

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
  CAST(round(unixepoch(coalesce(m.blocked_since, m.next_call_time), 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  m.trace_context,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer),
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
  CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  m.trace_context,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer),
  m.parent_id,
  m.response,
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
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
  CAST(round(unixepoch(coalesce(m.blocked_since, m.next_call_time), 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  m.trace_context,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer),
  m.parent_id,
  m.response,
  NULL,
  NULL
FROM notify_msg m
WHERE m.id = $2;

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
  CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  m.trace_context,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer),
  m.parent_id,
  m.response,
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.end_reason
FROM notify_msg_history m
WHERE m.id = $2;

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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.finish_time,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM notify_msg_history m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.finish_time >= $4
  AND m.finish_time <= $5
  AND (m.finish_time < $5 OR m.id < $6)
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.finish_time,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM notify_msg_history m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.finish_time >= $4
  AND m.finish_time <= $5
  AND (m.finish_time > $4 OR m.id > $6)
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.finish_time,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM notify_msg_history m
WHERE
  m.def_id = $2
  AND m.dead_class = $3
  AND m.finish_time >= $4
  AND m.finish_time <= $5
  AND (m.finish_time < $5 OR m.id < $6)
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.finish_time,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM notify_msg_history m
WHERE
  m.def_id = $2
  AND m.dead_class = $3
  AND m.finish_time >= $4
  AND m.finish_time <= $5
  AND (m.finish_time > $4 OR m.id > $6)
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.finish_time,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM notify_msg_history m
WHERE
  m.def_id = $2
  AND m.error_group = $3
  AND m.finish_time >= $4
  AND m.finish_time <= $5
  AND (m.finish_time < $5 OR m.id < $6)
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.finish_time,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM notify_msg_history m
WHERE
  m.def_id = $2
  AND m.error_group = $3
  AND m.finish_time >= $4
  AND m.finish_time <= $5
  AND (m.finish_time > $4 OR m.id > $6)
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(coalesce(m.blocked_since, m.next_call_time), 'subsec') * 1000) AS integer),
  m.next_call_time,
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM (
  SELECT m.*
  FROM notify_msg m
  WHERE m.def_id = $2
    AND m.status = $3 AND m.next_call_time >= $4 AND m.next_call_time = $5 AND m.id < $6
  UNION ALL
  SELECT m.*
  FROM notify_msg m
  WHERE m.def_id = $2
    AND m.status = $3 AND m.next_call_time >= $4 AND m.next_call_time < $5
  ORDER BY next_call_time DESC, id DESC
  LIMIT $7
) AS m
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(coalesce(m.blocked_since, m.next_call_time), 'subsec') * 1000) AS integer),
  m.next_call_time,
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM (
  SELECT m.*
  FROM notify_msg m
  WHERE m.def_id = $2
    AND m.status = $3 AND m.next_call_time <= $5 AND m.next_call_time = $4 AND m.id > $6
  UNION ALL
  SELECT m.*
  FROM notify_msg m
  WHERE m.def_id = $2
    AND m.status = $3 AND m.next_call_time <= $5 AND m.next_call_time > $4
  ORDER BY next_call_time, id
  LIMIT $7
) AS m
ORDER BY m.next_call_time, m.id
LIMIT $7;

-- count_ended
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m
  WHERE m.def_id = $2
    AND m.status = $3 AND m.finish_time >= $4 AND m.finish_time <= $5
  LIMIT $6
) AS counted;

-- count_dead
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m
  WHERE m.def_id = $2
    AND m.dead_class = $3 AND m.finish_time >= $4 AND m.finish_time <= $5
  LIMIT $6
) AS counted;

-- count_group
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m
  WHERE m.def_id = $2
    AND m.error_group = $3 AND m.finish_time >= $4 AND m.finish_time <= $5
  LIMIT $6
) AS counted;

-- count_live
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg m
  WHERE m.def_id = $2
    AND m.status = $3 AND m.next_call_time >= $4 AND m.next_call_time <= $5
  LIMIT $6
) AS counted;

-- next_class
SELECT m.dead_class
FROM notify_msg_history m
WHERE m.def_id = $2 AND m.dead_class > $3
ORDER BY m.dead_class
LIMIT 1;

-- ahead
SELECT o.id
FROM notify_msg o
WHERE
  o.def_id = $2
  AND o.ordering_key = $3
  AND (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END) < $4
  AND o.id <> $4
ORDER BY (CASE WHEN o.status IN (4, 5) THEN 0 ELSE o.id END)
LIMIT 1;

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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.finish_time,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM (
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time < $5 OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time < $5 OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN (SELECT value FROM json_each($8))
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time < $5 OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time < $5 OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time < $5 OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time < $5 OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time < $5 OR m.id < $16)
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
) AS b
CROSS JOIN notify_msg_history m ON m.id = b.notice_id
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer),
  m.finish_time,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM (
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time > $4 OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time > $4 OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN (SELECT value FROM json_each($8))
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time > $4 OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time > $4 OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time > $4 OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time > $4 OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
      AND (m.finish_time > $4 OR m.id > $16)
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
) AS b
CROSS JOIN notify_msg_history m ON m.id = b.notice_id
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(coalesce(m.blocked_since, m.next_call_time), 'subsec') * 1000) AS integer),
  m.next_call_time,
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM (
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id = $2
        AND $7 = 1
        AND m.status = $3
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND m.next_call_time >= $4
        AND m.next_call_time = $5
        AND m.id < $16
      UNION ALL
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id = $2
        AND $7 = 1
        AND m.status = $3
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND m.next_call_time >= $4
        AND m.next_call_time < $5
      ORDER BY next_call_time DESC, id DESC
      LIMIT $6
    ) AS m
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg m
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN (SELECT value FROM json_each($8))
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
      AND (m.next_call_time < $5 OR m.id < $16)
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status + 0 = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
      AND (m.next_call_time < $5 OR m.id < $16)
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status + 0 = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
      AND (m.next_call_time < $5 OR m.id < $16)
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
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
  CAST(round(unixepoch(m.create_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(coalesce(m.blocked_since, m.next_call_time), 'subsec') * 1000) AS integer),
  m.next_call_time,
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer),
  m.max_tries,
  CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)
FROM (
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id = $2
        AND $7 = 1
        AND m.status = $3
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND m.next_call_time <= $5
        AND m.next_call_time = $4
        AND m.id > $16
      UNION ALL
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id = $2
        AND $7 = 1
        AND m.status = $3
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND m.next_call_time <= $5
        AND m.next_call_time > $4
      ORDER BY next_call_time, id
      LIMIT $6
    ) AS m
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg m
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN (SELECT value FROM json_each($8))
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
      AND (m.next_call_time > $4 OR m.id > $16)
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status + 0 = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
      AND (m.next_call_time > $4 OR m.id > $16)
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT m.id AS notice_id
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status + 0 = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
      AND (m.next_call_time > $4 OR m.id > $16)
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
) AS b
CROSS JOIN notify_msg m ON m.id = b.notice_id
WHERE true
ORDER BY m.next_call_time, m.id;

-- count_narrow_ended
SELECT count(*)
FROM (
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg_history m
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN (SELECT value FROM json_each($8))
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR m.dead_class = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg_history m
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
        OR instr(CASE WHEN json_valid(m.errors) THEN json_extract(m.errors, '$[#-1].message') END, $13) > 0
        OR ($14 = 1 AND instr(m.param, $13) > 0)
      )
      AND m.finish_time >= $4
      AND m.finish_time <= $5
    LIMIT $6
  )
) AS counted;

-- count_narrow_live
SELECT count(*)
FROM (
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg m
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id IN (SELECT value FROM json_each($8))
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 4
      AND m.status + 0 = $3
      AND m.tag = $9
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
    LIMIT $6
  )
  UNION ALL
  SELECT *
  FROM (
    SELECT 1 AS one
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 5
      AND m.status + 0 = $3
      AND m.ordering_key = $10
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= $4
      AND m.next_call_time <= $5
    LIMIT $6
  )
) AS counted;

-- groups
SELECT
  g.error_group,
  g.dead,
  CAST(round(unixepoch(g.first_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(g.last_time, 'subsec') * 1000) AS integer),
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
  FROM notify_msg_history m
  WHERE m.def_id = $2
    AND m.error_group IS NOT NULL AND m.finish_time >= $3 AND m.finish_time <= $4
  GROUP BY m.error_group
  ORDER BY dead DESC, m.error_group
  LIMIT $5
) AS g
CROSS JOIN notify_msg_history m ON m.id = g.example
WHERE true
ORDER BY g.dead DESC, g.error_group;

-- read_counts
SELECT
  d.id,
  d.name,
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  ),
  CAST(round(unixepoch(c.taken_at, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(c.next_time, 'subsec') * 1000) AS integer),
  CAST(round(unixepoch(c.oldest_due, 'subsec') * 1000) AS integer),
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
  next_time = strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($3) / 1000.0)
  )
WHERE
  def_id = $2
  AND next_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'));

-- open_count
INSERT INTO notify_count (def_id, next_time)
VALUES (
  $2,
  strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($3) / 1000.0)
  )
)
ON CONFLICT DO NOTHING;

-- take_count
SELECT
  CAST(
    round(
      unixepoch(
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        'subsec'
      ) * 1000
    ) AS integer
  ),
  (
    SELECT CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer)
    FROM notify_msg m
    WHERE m.def_id = $2
      AND m.status = 0
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (
    SELECT CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer)
    FROM notify_msg m
    WHERE m.def_id = $2
      AND m.status = 2
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (SELECT count(*) FROM notify_msg m WHERE m.def_id = $2 AND m.status = 0),
  (SELECT count(*) FROM notify_msg m WHERE m.def_id = $2 AND m.status = 2),
  (SELECT count(*) FROM notify_msg m WHERE m.def_id = $2 AND m.status = 5),
  (SELECT count(*) FROM notify_msg m WHERE m.def_id = $2 AND m.status = 4),
  (SELECT count(*) FROM notify_msg_history m WHERE m.def_id = $2 AND m.status = 3),
  (SELECT count(*) FROM notify_msg_history m WHERE m.def_id = $2 AND m.status = 6),
  (
    SELECT count(*)
    FROM notify_msg_history m
    WHERE
      m.def_id = $2
      AND m.status = 1
      AND m.finish_time > strftime(
        '%Y-%m-%d %H:%M:%f',
        coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
        printf('%+.3f seconds', (- $3) / 1000.0)
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
  oldest_due = strftime('%Y-%m-%d %H:%M:%f', $10 / 1000.0, 'unixepoch'),
  taken_at = strftime('%Y-%m-%d %H:%M:%f', $11 / 1000.0, 'unixepoch'),
  next_time = strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', ($12) / 1000.0)
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
      (CAST(round(unixepoch(m.next_call_time, 'subsec') * 1000) AS integer)) - (CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer))
    ) / 1000 AS wait,
    (
      (CAST(round(unixepoch(m.expires_at, 'subsec') * 1000) AS integer)) - (CAST(round(unixepoch(m.last_call_time, 'subsec') * 1000) AS integer)) + 999
    ) / 1000 AS expires_after,
    CASE
      WHEN m.next_call_time <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')) THEN 1
      ELSE 0
    END AS due
  FROM notify_msg m
  WHERE m.def_id = $2
    AND m.status = 2
  LIMIT $3
) AS waiting
GROUP BY failures, crashes, last_class, max_tries, wait, expires_after, due;

-- lock_to_revive
SELECT m.id, m.def_id, CASE WHEN m.fence = 0 OR m.dedupe_until_ended THEN m.dedupe_key END
FROM (
  SELECT value ->> 'notice_id' AS notice_id, value ->> 'fence' AS fence, value ->> 'was' AS was
  FROM json_each($2)
) AS b
CROSS JOIN notify_msg_history m ON m.id = b.notice_id
WHERE
  m.fence = b.fence
  AND m.status + 0 = b.was
  AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id);

-- lock_act
SELECT id
FROM notify_msg
WHERE id = $2 AND fence = $3 AND status + 0 = 5;

-- lock_to_purge
SELECT m.id, m.failures, m.crashes, m.last_class, CASE WHEN m.status <> 1 THEN m.errors END, m.end_reason
FROM (
  SELECT value ->> 'notice_id' AS notice_id, value ->> 'fence' AS fence, value ->> 'was' AS was
  FROM json_each($2)
) AS b
CROSS JOIN notify_msg_history m ON m.id = b.notice_id
WHERE
  m.fence = b.fence
  AND m.status + 0 = b.was
  AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id);

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
  max(
    strftime('%Y-%m-%d %H:%M:%f', b.due / 1000.0, 'unixepoch'),
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  ),
  m.create_time,
  m.dedupe_key,
  m.dedupe_until_ended,
  m.ordering_key,
  m.trace_context,
  m.tag,
  m.max_tries,
  CASE
    WHEN m.expires_at > max(
      strftime('%Y-%m-%d %H:%M:%f', b.due / 1000.0, 'unixepoch'),
      coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
    ) THEN m.expires_at
  END,
  m.response,
  m.parent_id
FROM (SELECT value ->> 'notice_id' AS notice_id, value ->> 'due' AS due FROM json_each($2)) AS b
CROSS JOIN notify_msg_history m ON m.id = b.notice_id
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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  $3
FROM notify_msg AS m
WHERE m.id IN (SELECT value FROM json_each($2)) AND true;

-- retime
UPDATE notify_msg SET
  next_call_time = max(
    strftime('%Y-%m-%d %H:%M:%f', $3 / 1000.0, 'unixepoch'),
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  ),
  blocked_since = NULL
WHERE id = $2;

-- retime_step
UPDATE notify_msg AS m SET
  next_call_time = max(
    strftime('%Y-%m-%d %H:%M:%f', b.due / 1000.0, 'unixepoch'),
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
  ),
  blocked_since = NULL
FROM (SELECT value ->> 'notice_id' AS notice_id, value ->> 'due' AS due FROM json_each($2)) AS b
WHERE
  m.id = b.notice_id
  AND m.id IN (
    SELECT b.notice_id
    FROM (SELECT value ->> 'notice_id' AS notice_id, value ->> 'due' AS due FROM json_each($2)) AS b
  );

-- recount
UPDATE notify_msg SET
  failures = $3,
  crashes = $4,
  next_call_time = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
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
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
)
RETURNING id;

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
WHERE notice_id IN (SELECT value FROM json_each($2));

-- note_progress
UPDATE notify_msg SET
  param = $4
WHERE id = $2 AND fence = $3 AND status + 0 = 5;

-- purgeable
SELECT m.id, CAST(round(unixepoch(m.finish_time, 'subsec') * 1000) AS integer)
FROM notify_msg_history m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.finish_time <= strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', (- $4) / 1000.0)
  )
  AND m.finish_time >= strftime('%Y-%m-%d %H:%M:%f', $6 / 1000.0, 'unixepoch')
ORDER BY m.finish_time
LIMIT $5;

-- lock_purgeable
SELECT m.id, m.failures, m.crashes, m.last_class, CASE WHEN m.status <> 1 THEN m.errors END, m.end_reason
FROM notify_msg_history AS m
WHERE
  m.id IN (SELECT value FROM json_each($2))
  AND m.status + 0 = $3
  AND strftime('%Y-%m-%d %H:%M:%f', m.finish_time, printf('%+.3f seconds', ($4) / 1000.0)) <= coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now'));

-- purge_definition
DELETE FROM notify_def
WHERE
  id = $2
  AND delete_time <= strftime(
    '%Y-%m-%d %H:%M:%f',
    coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
    printf('%+.3f seconds', (- $3) / 1000.0)
  )
  AND NOT EXISTS (SELECT 1 FROM notify_msg WHERE def_id = $2)
  AND NOT EXISTS (SELECT 1 FROM notify_msg_history WHERE def_id = $2)
  AND NOT EXISTS (SELECT 1 FROM (SELECT target_of FROM notify_def) t WHERE t.target_of = $2);

-- open_switch
INSERT INTO notify_switch (id)
VALUES (1)
ON CONFLICT DO NOTHING;

-- turn_switch
UPDATE notify_switch SET
  paused = $2,
  retries_paused = $5,
  who = $3,
  since = coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  reason = $4
WHERE paused <> $2 OR (NOT paused AND retries_paused <> $5);

-- audit
SELECT
  e.id,
  CAST(round(unixepoch(e.time, 'subsec') * 1000) AS integer),
  e.time,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE $2 = 0 AND e.time >= $3 AND e.time <= $4 AND (e.time < $4 OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_definition
SELECT
  e.id,
  CAST(round(unixepoch(e.time, 'subsec') * 1000) AS integer),
  e.time,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE e.def_id = $2 AND e.time >= $3 AND e.time <= $4 AND (e.time < $4 OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_notice
SELECT
  e.id,
  CAST(round(unixepoch(e.time, 'subsec') * 1000) AS integer),
  e.time,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE e.notice_id = $2 AND e.time >= $3 AND e.time <= $4 AND (e.time < $4 OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_steps
SELECT
  e.id,
  CAST(round(unixepoch(e.time, 'subsec') * 1000) AS integer),
  e.time,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE
  e.last_id >= $2
  AND e.first_id <= $2
  AND e.notice_ids LIKE $7
  AND coalesce(e.time, e.time) >= $3
  AND coalesce(e.time, e.time) <= $4
  AND (coalesce(e.time, e.time) < $4 OR e.id < $5)
ORDER BY coalesce(e.time, e.time) DESC, e.id DESC
LIMIT $6;

-- audit_by_who
SELECT
  e.id,
  CAST(round(unixepoch(e.time, 'subsec') * 1000) AS integer),
  e.time,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE e.who = $2 AND e.time >= $3 AND e.time <= $4 AND (e.time < $4 OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_by_act
SELECT
  e.id,
  CAST(round(unixepoch(e.time, 'subsec') * 1000) AS integer),
  e.time,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE e.act = $2 AND e.time >= $3 AND e.time <= $4 AND (e.time < $4 OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- write_audit
INSERT INTO notify_audit (time, who, act, def_id, notice_id, detail, notice_ids, first_id, last_id)
VALUES (
  coalesce(strftime('%Y-%m-%d %H:%M:%f', $1 / 1000.0, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', 'now')),
  $2,
  $3,
  $4,
  $5,
  $6,
  $7,
  $8,
  $9
);
