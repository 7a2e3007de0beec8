-- Every statement of the store on PostgreSQL, as the database gets it, in the order of the source.

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
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at,
  status
FROM notify_msg
WHERE id = $2
FOR UPDATE;

-- answerable_if_free
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at,
  status
FROM notify_msg
WHERE id = $2
FOR UPDATE SKIP LOCKED;

-- ended
SELECT
  status,
  fence,
  def_id,
  CASE
    WHEN isfinite(date_trunc('milliseconds', create_time)) THEN (date_part('epoch', date_trunc('milliseconds', create_time)) * 1000)::bigint
    WHEN date_trunc('milliseconds', create_time) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc('milliseconds', create_time) > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_msg_history
WHERE id = $2
FOR UPDATE;

-- ended_if_free
SELECT
  status,
  fence,
  def_id,
  CASE
    WHEN isfinite(date_trunc('milliseconds', create_time)) THEN (date_part('epoch', date_trunc('milliseconds', create_time)) * 1000)::bigint
    WHEN date_trunc('milliseconds', create_time) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc('milliseconds', create_time) > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_msg_history
WHERE id = $2
FOR UPDATE SKIP LOCKED;

-- store_id
SELECT store_id
FROM notify_switch;

-- nack
UPDATE notify_msg SET
  status = 4,
  errors = $3::json,
  next_call_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
WHERE id = $2;

-- ack_late
UPDATE notify_msg_history SET
  status = 1,
  finish_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
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
    AND m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    AND m.next_call_time >= coalesce(('epoch'::timestamptz + $7::bigint * interval '1 millisecond'), '-infinity')
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
  FOR UPDATE OF m SKIP LOCKED
)
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  next_call_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $6 * interval '1 millisecond'
  ),
  blocked_since = NULL
WHERE m.id = ANY (ARRAY(SELECT id FROM due)) AND m.status + 0 = $3
RETURNING
  id,
  def_id,
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at;

-- claim_crash_looping
WITH
due AS MATERIALIZED (
  SELECT m.id
  FROM notify_msg m
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    AND m.next_call_time >= coalesce(('epoch'::timestamptz + $7::bigint * interval '1 millisecond'), '-infinity')
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
  FOR UPDATE OF m SKIP LOCKED
)
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  next_call_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $6 * interval '1 millisecond'
  ),
  blocked_since = NULL
WHERE m.id = ANY (ARRAY(SELECT id FROM due)) AND m.status + 0 = $3
RETURNING
  id,
  def_id,
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at;

-- claim_ids
WITH
due AS MATERIALIZED (
  SELECT m.id
  FROM notify_msg AS m
  WHERE
    m.id = ANY ($4::text::bigint[])
    AND m.def_id + 0 = $2
    AND m.status + 0 = $3
    AND (
      m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
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
  FOR UPDATE OF m SKIP LOCKED
)
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  next_call_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $6 * interval '1 millisecond'
  ),
  blocked_since = NULL
WHERE m.id = ANY (ARRAY(SELECT id FROM due)) AND m.status + 0 = $3
RETURNING
  id,
  def_id,
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at;

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
    FROM json_to_recordset($4::json) AS b(own_key text)
  ) AS b
  CROSS JOIN
    LATERAL (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.id = b.notice_id
        AND m.def_id + 0 = $2
        AND m.status + 0 = $3
        AND (
          m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
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
      FOR UPDATE OF m SKIP LOCKED
    ) AS m
)
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  next_call_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $6 * interval '1 millisecond'
  ),
  blocked_since = NULL
WHERE m.id = ANY (ARRAY(SELECT id FROM due)) AND m.status + 0 = $3
RETURNING
  id,
  def_id,
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at;

-- due
SELECT
  d.id,
  CASE
    WHEN isfinite(
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) THEN (
      date_part(
        'epoch',
        date_trunc(
          'milliseconds',
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      ) * 1000
    )::bigint
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) > 'epoch'::timestamptz THEN 253402214400000
  END,
  (
    SELECT
      coalesce(
        CASE
          WHEN isfinite(date_trunc('milliseconds', m.next_call_time + interval '999 microseconds')) THEN (
            date_part('epoch', date_trunc('milliseconds', m.next_call_time + interval '999 microseconds')) * 1000
          )::bigint
          WHEN date_trunc('milliseconds', m.next_call_time + interval '999 microseconds') < 'epoch'::timestamptz THEN 0
          WHEN date_trunc('milliseconds', m.next_call_time + interval '999 microseconds') > 'epoch'::timestamptz THEN 253402214400000
        END,
        CASE
          WHEN m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) THEN 0
        END
      )
    FROM notify_msg m
    WHERE
      m.def_id = d.id
      AND m.status = 0
      AND m.next_call_time >= coalesce(('epoch'::timestamptz + b.from_0::bigint * interval '1 millisecond'), '-infinity')
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        CASE
          WHEN isfinite(date_trunc('milliseconds', m.next_call_time + interval '999 microseconds')) THEN (
            date_part('epoch', date_trunc('milliseconds', m.next_call_time + interval '999 microseconds')) * 1000
          )::bigint
          WHEN date_trunc('milliseconds', m.next_call_time + interval '999 microseconds') < 'epoch'::timestamptz THEN 0
          WHEN date_trunc('milliseconds', m.next_call_time + interval '999 microseconds') > 'epoch'::timestamptz THEN 253402214400000
        END,
        CASE
          WHEN m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) THEN 0
        END
      )
    FROM notify_msg m
    WHERE
      m.def_id = d.id
      AND m.status = 2
      AND m.next_call_time >= coalesce(('epoch'::timestamptz + b.from_2::bigint * interval '1 millisecond'), '-infinity')
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        CASE
          WHEN isfinite(date_trunc('milliseconds', m.next_call_time + interval '999 microseconds')) THEN (
            date_part('epoch', date_trunc('milliseconds', m.next_call_time + interval '999 microseconds')) * 1000
          )::bigint
          WHEN date_trunc('milliseconds', m.next_call_time + interval '999 microseconds') < 'epoch'::timestamptz THEN 0
          WHEN date_trunc('milliseconds', m.next_call_time + interval '999 microseconds') > 'epoch'::timestamptz THEN 253402214400000
        END,
        CASE
          WHEN m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) THEN 0
        END
      )
    FROM notify_msg m
    WHERE
      m.def_id = d.id
      AND m.status = 5
      AND m.next_call_time >= coalesce(('epoch'::timestamptz + b.from_5::bigint * interval '1 millisecond'), '-infinity')
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (
    SELECT
      coalesce(
        CASE
          WHEN isfinite(date_trunc('milliseconds', m.next_call_time + interval '999 microseconds')) THEN (
            date_part('epoch', date_trunc('milliseconds', m.next_call_time + interval '999 microseconds')) * 1000
          )::bigint
          WHEN date_trunc('milliseconds', m.next_call_time + interval '999 microseconds') < 'epoch'::timestamptz THEN 0
          WHEN date_trunc('milliseconds', m.next_call_time + interval '999 microseconds') > 'epoch'::timestamptz THEN 253402214400000
        END,
        CASE
          WHEN m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) THEN 0
        END
      )
    FROM notify_msg m
    WHERE
      m.def_id = d.id
      AND m.status = 4
      AND m.next_call_time >= coalesce(('epoch'::timestamptz + b.from_4::bigint * interval '1 millisecond'), '-infinity')
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  d.tick_schedule,
  CASE
    WHEN isfinite(d.last_tick) THEN (date_part('epoch', d.last_tick) * 1000)::bigint
    WHEN d.last_tick < 'epoch'::timestamptz THEN 0
    WHEN d.last_tick > 'epoch'::timestamptz THEN 253402214400000
  END,
  (
    SELECT CASE
      WHEN isfinite(date_trunc('milliseconds', a.due + interval '999 microseconds')) THEN (date_part('epoch', date_trunc('milliseconds', a.due + interval '999 microseconds')) * 1000)::bigint
      WHEN date_trunc('milliseconds', a.due + interval '999 microseconds') < 'epoch'::timestamptz THEN 0
      WHEN date_trunc('milliseconds', a.due + interval '999 microseconds') > 'epoch'::timestamptz THEN 253402214400000
    END
    FROM notify_alert a
    WHERE a.due IS NOT NULL
    ORDER BY a.due
    LIMIT 1
  )
FROM notify_def d
LEFT JOIN
  json_to_recordset($2::json) AS b(owner bigint, from_0 bigint, from_2 bigint, from_5 bigint, from_4 bigint) ON b.owner = d.id;

-- overdue
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at
FROM notify_msg m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  AND m.next_call_time >= coalesce(('epoch'::timestamptz + $5::bigint * interval '1 millisecond'), '-infinity')
ORDER BY m.next_call_time
LIMIT $4;

-- claimed_by
SELECT
  id,
  def_id,
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at
FROM (SELECT id AS owner FROM notify_def) AS b
CROSS JOIN
  LATERAL (SELECT m.* FROM notify_msg m WHERE m.def_id = b.owner AND m.status = 5 AND m.worker = $2 OFFSET 0) AS m
ORDER BY m.id
LIMIT $3;

-- extendable
SELECT m.id
FROM json_to_recordset($2::json) AS b(notice_id bigint, fence bigint, lease bigint)
CROSS JOIN
  LATERAL (
    SELECT m.*
    FROM notify_msg m
    WHERE m.id = b.notice_id
      AND m.fence = b.fence AND m.status + 0 = 5
    FOR UPDATE OF m SKIP LOCKED
  ) AS m;

-- extend
UPDATE notify_msg AS m SET
  next_call_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + b.lease * interval '1 millisecond'
  )
FROM json_to_recordset($2::json) AS b(notice_id bigint, fence bigint, lease bigint)
WHERE
  m.id = b.notice_id
  AND m.id = ANY (
    ARRAY(
      SELECT b.notice_id
      FROM json_to_recordset($2::json) AS b(notice_id bigint, fence bigint, lease bigint)
    )
  )
  AND m.fence = b.fence
  AND m.status + 0 = 5;

-- count_sending
SELECT count(*)
FROM (SELECT 1 AS one FROM notify_msg m WHERE m.def_id = $2 AND m.status = 5 LIMIT $3) AS sent;

-- time_up
SELECT CASE
  WHEN isfinite(
    date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + interval '999 microseconds'
    )
  ) THEN (
    date_part(
      'epoch',
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + interval '999 microseconds'
      )
    ) * 1000
  )::bigint
  WHEN date_trunc(
    'milliseconds',
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + interval '999 microseconds'
  ) < 'epoch'::timestamptz THEN 0
  WHEN date_trunc(
    'milliseconds',
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + interval '999 microseconds'
  ) > 'epoch'::timestamptz THEN 253402214400000
END;

-- param_bytes
SELECT octet_length(param::text)
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
  AND m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  AND m.next_call_time >= coalesce(('epoch'::timestamptz + $5::bigint * interval '1 millisecond'), '-infinity')
  AND m.crashes < 2
ORDER BY m.next_call_time
LIMIT $4
FOR UPDATE OF m SKIP LOCKED;

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
  FROM json_to_recordset($3::json) AS b(own_key text)
) AS b
CROSS JOIN
  LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id AND true FOR UPDATE OF m SKIP LOCKED) AS m;

-- block
UPDATE notify_msg AS m SET
  blocked_since = coalesce(blocked_since, next_call_time),
  next_call_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $3 * interval '1 millisecond'
  )
WHERE m.id = ANY ($2::text::bigint[]);

-- keys_of
SELECT m.def_id, m.ordering_key
FROM notify_msg AS m
WHERE m.id = ANY ($2::text::bigint[]) AND true;

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
  FROM json_to_recordset($2::json) AS b(owner bigint, own_key text)
) AS b
CROSS JOIN
  LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id AND m.blocked_since IS NOT NULL OFFSET 0) AS m;

-- free
SELECT m.id
FROM notify_msg AS m
WHERE m.id = ANY ($2::text::bigint[]) AND true
FOR UPDATE OF m SKIP LOCKED;

-- unblock
UPDATE notify_msg AS m SET
  next_call_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  blocked_since = NULL
WHERE m.id = ANY ($2::text::bigint[]) AND m.blocked_since IS NOT NULL;

-- oldest_blocked
SELECT
  min(
    CASE
      WHEN isfinite(blocked_since) THEN (date_part('epoch', blocked_since) * 1000)::bigint
      WHEN blocked_since < 'epoch'::timestamptz THEN 0
      WHEN blocked_since > 'epoch'::timestamptz THEN 253402214400000
    END
  )
FROM (
  SELECT m.blocked_since
  FROM notify_msg m
  WHERE m.def_id = $2
    AND m.status = 0
  ORDER BY m.next_call_time
  LIMIT $3
) AS blocked;

-- claim_fresh
UPDATE notify_msg AS m SET
  status = 5,
  fence = fence + 1,
  worker = $5,
  last_call_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  next_call_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $6 * interval '1 millisecond'
  ),
  blocked_since = NULL
WHERE
  m.id = ANY ($4::text::bigint[])
  AND m.def_id + 0 = $2
  AND m.status + 0 = $3
  AND (
    m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  ) IS TRUE
  AND m.ordering_key IS NULL
  AND (SELECT set_config('lock_timeout', '20ms', true)) IS NOT NULL
RETURNING
  id,
  def_id,
  CASE WHEN octet_length(param::text) <= 262144 THEN param END,
  description,
  errors,
  fence,
  failures,
  crashes,
  worker,
  last_call_time,
  create_time,
  trace_context,
  ordering_key,
  tag,
  max_tries,
  expires_at;

-- definition_names
SELECT name
FROM notify_def
WHERE delete_time IS NULL
ORDER BY name
LIMIT 1000;

-- definition_ids
SELECT d.id, d.name, 'notify_msg'::regclass::oid::text, CASE WHEN d.encrypt_param THEN 1 ELSE 0 END
FROM notify_def d
JOIN json_to_recordset($2::json) AS b(own_key text) ON d.name = b.own_key
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
  $3::json,
  $4,
  $5,
  $6,
  $7,
  ($8 = 1),
  $9,
  $10,
  ('epoch'::timestamptz + $11::bigint * interval '1 millisecond'),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  greatest(
    coalesce(
      ('epoch'::timestamptz + $12::bigint * interval '1 millisecond'),
      (
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $13 * interval '1 millisecond'
      )
    ),
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  )
FROM notify_def d
WHERE d.name = $2 AND d.delete_time IS NULL AND (NOT d.encrypt_param OR d.id = $14)
RETURNING id, def_id, dedupe_key;

-- duplicates
SELECT m.id, m.def_id, m.dedupe_key, m.fence
FROM json_to_recordset($2::json) AS b(owner bigint, own_key text)
JOIN
  notify_msg m ON m.def_id = b.owner
  AND m.dedupe_key = b.own_key
  AND (m.fence = 0 OR m.dedupe_until_ended);

-- lock_duplicates
SELECT m.id, m.def_id, m.dedupe_key, m.fence
FROM json_to_recordset($2::json) AS b(owner bigint, own_key text)
JOIN
  notify_msg m ON m.def_id = b.owner
  AND m.dedupe_key = b.own_key
  AND (m.fence = 0 OR m.dedupe_until_ended)
FOR SHARE OF m;

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
  $3::json,
  $4,
  $5,
  $6,
  $7,
  ($8 = 1),
  $9,
  $10,
  ('epoch'::timestamptz + $11::bigint * interval '1 millisecond'),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  greatest(
    coalesce(
      ('epoch'::timestamptz + $12::bigint * interval '1 millisecond'),
      (
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $13 * interval '1 millisecond'
      )
    ),
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
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
  b.param::json,
  b.description,
  b.trace_context,
  b.ordering_key,
  b.dedupe_key,
  (b.until_ended = 1),
  b.tag,
  b.max_tries,
  ('epoch'::timestamptz + b.expires_at::bigint * interval '1 millisecond'),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  greatest(
    coalesce(
      ('epoch'::timestamptz + b.send_at::bigint * interval '1 millisecond'),
      (
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + b.delay * interval '1 millisecond'
      )
    ),
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  )
FROM
  json_to_recordset($2::json) AS b(
    place bigint,
    owner bigint,
    param text,
    description text,
    trace_context text,
    ordering_key text,
    dedupe_key text,
    until_ended bigint,
    tag text,
    max_tries bigint,
    expires_at bigint,
    send_at bigint,
    delay bigint
  )
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
  b.param::json,
  b.description,
  b.trace_context,
  b.ordering_key,
  b.dedupe_key,
  (b.until_ended = 1),
  b.tag,
  b.max_tries,
  ('epoch'::timestamptz + b.expires_at::bigint * interval '1 millisecond'),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  greatest(
    coalesce(
      ('epoch'::timestamptz + b.send_at::bigint * interval '1 millisecond'),
      (
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + b.delay * interval '1 millisecond'
      )
    ),
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  )
FROM
  json_to_recordset($2::json) AS b(
    place bigint,
    owner bigint,
    param text,
    description text,
    trace_context text,
    ordering_key text,
    dedupe_key text,
    until_ended bigint,
    tag text,
    max_tries bigint,
    expires_at bigint,
    send_at bigint,
    delay bigint
  )
WHERE true
ORDER BY b.place
ON CONFLICT (def_id, dedupe_key)
WHERE dedupe_key IS NOT NULL AND (fence = 0 OR dedupe_until_ended) DO NOTHING
RETURNING id, def_id, dedupe_key;

-- own_server
SELECT 1, 'notify_msg'::regclass::oid::text;

-- try_limit
SELECT
  m.def_id,
  m.begun,
  m.failures,
  CASE
    WHEN isfinite(m.open_until) THEN (date_part('epoch', m.open_until) * 1000)::bigint
    WHEN m.open_until < 'epoch'::timestamptz THEN 0
    WHEN m.open_until > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.probe,
  CASE
    WHEN isfinite(
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) THEN (
      date_part(
        'epoch',
        date_trunc(
          'milliseconds',
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      ) * 1000
    )::bigint
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_limit m
WHERE m.def_id = $2
FOR UPDATE OF m SKIP LOCKED;

-- limit_now
SELECT
  m.def_id,
  m.begun,
  m.failures,
  CASE
    WHEN isfinite(m.open_until) THEN (date_part('epoch', m.open_until) * 1000)::bigint
    WHEN m.open_until < 'epoch'::timestamptz THEN 0
    WHEN m.open_until > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.probe,
  CASE
    WHEN isfinite(
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) THEN (
      date_part(
        'epoch',
        date_trunc(
          'milliseconds',
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      ) * 1000
    )::bigint
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_limit m
WHERE m.def_id = $2
FOR UPDATE NOWAIT;

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
  open_until = ('epoch'::timestamptz + $5::bigint * interval '1 millisecond'),
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
  CASE
    WHEN isfinite(m.open_until) THEN (date_part('epoch', m.open_until) * 1000)::bigint
    WHEN m.open_until < 'epoch'::timestamptz THEN 0
    WHEN m.open_until > 'epoch'::timestamptz THEN 253402214400000
  END,
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
  CASE
    WHEN isfinite(since) THEN (date_part('epoch', since) * 1000)::bigint
    WHEN since < 'epoch'::timestamptz THEN 0
    WHEN since > 'epoch'::timestamptz THEN 253402214400000
  END,
  reason
FROM notify_switch
WHERE paused OR retries_paused;

-- lock
SELECT m.id, m.fence, b.was
FROM json_to_recordset($2::json) AS b(notice_id bigint, fence bigint, was bigint, overdue bigint)
CROSS JOIN
  LATERAL (
    SELECT m.*
    FROM notify_msg m
    WHERE
      m.id = b.notice_id
      AND m.fence = b.fence
      AND m.status + 0 = b.was
      AND (
        b.overdue = 0
        OR m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    FOR UPDATE OF m SKIP LOCKED
  ) AS m;

-- evict
DELETE FROM notify_msg_history AS m
WHERE m.id = ANY ($2::text::bigint[]);

-- dead_with_ids
SELECT m.id, m.def_id
FROM notify_msg_history AS m
WHERE m.id = ANY ($2::text::bigint[]) AND m.status + 0 = 3;

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
  b.new_errors::json,
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
  coalesce(b.new_response::json, m.response),
  m.parent_id,
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  b.reason,
  b.new_group
FROM
  json_to_recordset($2::json) AS b(
    notice_id bigint,
    new_status bigint,
    after_ms bigint,
    new_failures bigint,
    new_crashes bigint,
    new_errors text,
    new_class text,
    new_description text,
    new_response text,
    new_group bigint,
    reason text
  )
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id OFFSET 0) AS m;

-- remove
DELETE FROM notify_msg AS m
WHERE m.id = ANY ($2::text::bigint[]);

-- reschedule
UPDATE notify_msg AS m SET
  status = b.new_status,
  failures = b.new_failures,
  crashes = b.new_crashes,
  errors = b.new_errors::json,
  last_class = b.new_class,
  description = b.new_description,
  response = coalesce(b.new_response::json, m.response),
  next_call_time = CASE
    WHEN b.after_ms IS NULL THEN 'infinity'::timestamptz
    ELSE (
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + b.after_ms * interval '1 millisecond'
    )
  END
FROM
  json_to_recordset($2::json) AS b(
    notice_id bigint,
    new_status bigint,
    after_ms bigint,
    new_failures bigint,
    new_crashes bigint,
    new_errors text,
    new_class text,
    new_description text,
    new_response text,
    new_group bigint,
    reason text
  )
WHERE
  m.id = b.notice_id
  AND m.id = ANY (
    ARRAY(
      SELECT b.notice_id
      FROM
        json_to_recordset($2::json) AS b(
          notice_id bigint,
          new_status bigint,
          after_ms bigint,
          new_failures bigint,
          new_crashes bigint,
          new_errors text,
          new_class text,
          new_description text,
          new_response text,
          new_group bigint,
          reason text
        )
    )
  );

-- verify
SELECT m.id, m.fence, m.status, m.failures, m.crashes, NULL
FROM notify_msg AS m
WHERE m.id = ANY ($2::text::bigint[])
UNION ALL
SELECT m.id, m.fence, m.status, m.failures, m.crashes, m.end_reason
FROM notify_msg_history AS m
WHERE m.id = ANY ($2::text::bigint[]);

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
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
FROM json_to_recordset($2::json) AS b(place bigint, notice_id bigint, target bigint)
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id OFFSET 0) AS m
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
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
FROM json_to_recordset($2::json) AS b(place bigint, notice_id bigint, target bigint)
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id OFFSET 0) AS m
WHERE (SELECT set_config('lock_timeout', '20ms', true)) IS NOT NULL
ORDER BY b.place
ON CONFLICT (def_id, dedupe_key)
WHERE dedupe_key IS NOT NULL AND (fence = 0 OR dedupe_until_ended) DO NOTHING;

-- keyed
SELECT m.id
FROM notify_msg m
WHERE m.id = ANY ($2::text::bigint[]) AND m.dedupe_key IS NOT NULL;

-- holders
SELECT b.target, t.id, CASE WHEN t.parent_id = m.id THEN 1 ELSE 0 END, t.fence
FROM json_to_recordset($2::json) AS b(place bigint, notice_id bigint, target bigint)
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id OFFSET 0) AS m
CROSS JOIN
  LATERAL (
    SELECT t.*
    FROM notify_msg t
    WHERE
      t.def_id = b.target
      AND t.dedupe_key = m.dedupe_key
      AND (t.fence = 0 OR t.dedupe_until_ended) OFFSET 0
  ) AS t;

-- lock_to_pass_on
SELECT id
FROM notify_msg
WHERE id = $2 AND fence = $3 AND status + 0 = 5
FOR UPDATE SKIP LOCKED;

-- families
SELECT d.id, d.target_of, d.target_filter, d.delete_time
FROM notify_def d
WHERE d.id = ANY ($2::text::bigint[]) OR d.target_of = ANY ($2::text::bigint[]);

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
WHERE notice_id = ANY ($2::text::bigint[]);

-- insert_bare
INSERT INTO notify_msg (def_id, param)
SELECT d.id, $2::json
FROM notify_def d
WHERE d.name = $1 AND d.delete_time IS NULL AND (NOT d.encrypt_param OR d.id = $3)
RETURNING id, def_id, dedupe_key;

-- insert_known
INSERT INTO notify_msg (def_id, param)
SELECT $1, $2::json
WHERE ($3 OR pg_current_xact_id_if_assigned() IS NOT NULL) AND 'notify_msg'::regclass::oid::text = $4
RETURNING id;

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
  NULL::json,
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
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  NULL
FROM notify_msg AS m
WHERE m.id = ANY ($2::text::bigint[]);

-- settle
WITH
held AS MATERIALIZED (
  SELECT
    m.*,
    b.was,
    b.ends,
    b.keep,
    b.notice_id,
    b.new_status,
    b.after_ms,
    b.new_failures,
    b.new_crashes,
    b.new_errors,
    b.new_class,
    b.new_description,
    b.new_response,
    b.new_group,
    b.reason
  FROM
    json_to_recordset($2::json) AS b(
      notice_id bigint,
      new_status bigint,
      after_ms bigint,
      new_failures bigint,
      new_crashes bigint,
      new_errors text,
      new_class text,
      new_description text,
      new_response text,
      new_group bigint,
      reason text,
      fence bigint,
      was bigint,
      overdue bigint,
      ends bigint,
      keep bigint
    )
  CROSS JOIN
    LATERAL (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.id = b.notice_id
        AND m.fence = b.fence
        AND m.status + 0 = b.was
        AND (
          b.overdue = 0
          OR m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      FOR UPDATE OF m SKIP LOCKED
    ) AS m
),
gone AS (DELETE FROM notify_msg AS m WHERE m.id = ANY (ARRAY(SELECT notice_id FROM held WHERE ends = 1))),
kept AS (
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
    m.new_description,
    m.new_errors::json,
    m.new_status,
    m.fence,
    m.new_failures,
    m.new_crashes,
    m.worker,
    m.new_class,
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
    coalesce(m.new_response::json, m.response),
    m.parent_id,
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
    m.reason,
    m.new_group
  FROM held m
  WHERE m.ends = 1 AND m.keep = 1
),
moved AS (
  UPDATE notify_msg AS m SET
    status = b.new_status,
    failures = b.new_failures,
    crashes = b.new_crashes,
    errors = b.new_errors::json,
    last_class = b.new_class,
    description = b.new_description,
    response = coalesce(b.new_response::json, m.response),
    next_call_time = CASE
      WHEN b.after_ms IS NULL THEN 'infinity'::timestamptz
      ELSE (
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + b.after_ms * interval '1 millisecond'
      )
    END
  FROM held b
  WHERE
    m.id = b.notice_id
    AND b.ends = 0
    AND m.id = ANY (ARRAY(SELECT notice_id FROM held WHERE ends = 0))
)
SELECT notice_id, fence, was
FROM held;

-- settle_kept
WITH
gone AS (
  DELETE FROM notify_msg AS m
  WHERE
    m.id = ANY ($2::text::bigint[])
    AND m.status + 0 = 5
    AND ((m.id, m.fence) IN (SELECT * FROM unnest($2::text::bigint[], $3::text::bigint[]))) IS TRUE
    AND (SELECT set_config('lock_timeout', '20ms', true)) IS NOT NULL
  RETURNING m.*
),
kept AS (
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
    NULL::json,
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
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
    NULL
  FROM gone m
)
SELECT b.notice_id, b.fence, 5
FROM unnest($2::text::bigint[], $3::text::bigint[]) AS b(notice_id, fence)
WHERE
  (SELECT count(*) FROM gone) < cardinality($2::text::bigint[])
  AND NOT EXISTS (SELECT 1 FROM gone WHERE gone.id = b.notice_id AND gone.fence = b.fence);

-- settle_gone
WITH
gone AS (
  DELETE FROM notify_msg AS m
  WHERE
    m.id = ANY ($2::text::bigint[])
    AND m.status + 0 = 5
    AND ((m.id, m.fence) IN (SELECT * FROM unnest($2::text::bigint[], $3::text::bigint[]))) IS TRUE
    AND (SELECT set_config('lock_timeout', '20ms', true)) IS NOT NULL
  RETURNING m.id, m.fence
)
SELECT b.notice_id, b.fence, 5
FROM unnest($2::text::bigint[], $3::text::bigint[]) AS b(notice_id, fence)
WHERE
  (SELECT count(*) FROM gone) < cardinality($2::text::bigint[])
  AND NOT EXISTS (SELECT 1 FROM gone WHERE gone.id = b.notice_id AND gone.fence = b.fence);

-- mark_seen
INSERT INTO notify_inbox (receiver, sender, idempotency_key, first_seen)
VALUES (
  $2,
  $3,
  $4,
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
)
ON CONFLICT (receiver, sender, idempotency_key) DO NOTHING;

-- purge_inbox
DELETE FROM notify_inbox
WHERE
  ctid = ANY (
    ARRAY(
      SELECT ctid
      FROM notify_inbox
      WHERE
        first_seen <= (
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + - $2 * interval '1 millisecond'
        )
        AND first_seen >= ('epoch'::timestamptz + $4::bigint * interval '1 millisecond')
      ORDER BY first_seen
      LIMIT $3
    )
  )
RETURNING CASE
  WHEN isfinite(date_trunc('milliseconds', first_seen)) THEN (date_part('epoch', date_trunc('milliseconds', first_seen)) * 1000)::bigint
  WHEN date_trunc('milliseconds', first_seen) < 'epoch'::timestamptz THEN 0
  WHEN date_trunc('milliseconds', first_seen) > 'epoch'::timestamptz THEN 253402214400000
END;

-- open_alert
INSERT INTO notify_alert (def_id, reason, opened, last_seen)
VALUES (
  $2,
  $3,
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
)
ON CONFLICT DO NOTHING;

-- lock_alert
SELECT
  CASE
    WHEN isfinite(a.opened) THEN (date_part('epoch', a.opened) * 1000)::bigint
    WHEN a.opened < 'epoch'::timestamptz THEN 0
    WHEN a.opened > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.last_notified) THEN (date_part('epoch', a.last_notified) * 1000)::bigint
    WHEN a.last_notified < 'epoch'::timestamptz THEN 0
    WHEN a.last_notified > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.suppressed,
  CASE
    WHEN isfinite(a.last_seen) THEN (date_part('epoch', a.last_seen) * 1000)::bigint
    WHEN a.last_seen < 'epoch'::timestamptz THEN 0
    WHEN a.last_seen > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.due) THEN (date_part('epoch', a.due) * 1000)::bigint
    WHEN a.due < 'epoch'::timestamptz THEN 0
    WHEN a.due > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  CASE
    WHEN isfinite(a.silenced_until) THEN (date_part('epoch', a.silenced_until) * 1000)::bigint
    WHEN a.silenced_until < 'epoch'::timestamptz THEN 0
    WHEN a.silenced_until > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.acknowledged_at) THEN (date_part('epoch', a.acknowledged_at) * 1000)::bigint
    WHEN a.acknowledged_at < 'epoch'::timestamptz THEN 0
    WHEN a.acknowledged_at > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.acknowledged_by,
  CASE
    WHEN isfinite(
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) THEN (
      date_part(
        'epoch',
        date_trunc(
          'milliseconds',
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      ) * 1000
    )::bigint
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_alert a
WHERE a.def_id = $2 AND a.reason = $3
FOR UPDATE NOWAIT;

-- due_alerts
SELECT a.def_id, a.reason
FROM notify_alert a
WHERE
  a.due <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
ORDER BY a.due
LIMIT $2;

-- look_alert
SELECT
  CASE
    WHEN isfinite(a.opened) THEN (date_part('epoch', a.opened) * 1000)::bigint
    WHEN a.opened < 'epoch'::timestamptz THEN 0
    WHEN a.opened > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.last_notified) THEN (date_part('epoch', a.last_notified) * 1000)::bigint
    WHEN a.last_notified < 'epoch'::timestamptz THEN 0
    WHEN a.last_notified > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.suppressed,
  CASE
    WHEN isfinite(a.last_seen) THEN (date_part('epoch', a.last_seen) * 1000)::bigint
    WHEN a.last_seen < 'epoch'::timestamptz THEN 0
    WHEN a.last_seen > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.due) THEN (date_part('epoch', a.due) * 1000)::bigint
    WHEN a.due < 'epoch'::timestamptz THEN 0
    WHEN a.due > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  CASE
    WHEN isfinite(a.silenced_until) THEN (date_part('epoch', a.silenced_until) * 1000)::bigint
    WHEN a.silenced_until < 'epoch'::timestamptz THEN 0
    WHEN a.silenced_until > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.acknowledged_at) THEN (date_part('epoch', a.acknowledged_at) * 1000)::bigint
    WHEN a.acknowledged_at < 'epoch'::timestamptz THEN 0
    WHEN a.acknowledged_at > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.acknowledged_by,
  CASE
    WHEN isfinite(
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) THEN (
      date_part(
        'epoch',
        date_trunc(
          'milliseconds',
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      ) * 1000
    )::bigint
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) > 'epoch'::timestamptz THEN 253402214400000
  END,
  (
    SELECT CASE
      WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
      WHEN m.finish_time < 'epoch'::timestamptz THEN 0
      WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
    END
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
  CASE
    WHEN isfinite(a.opened) THEN (date_part('epoch', a.opened) * 1000)::bigint
    WHEN a.opened < 'epoch'::timestamptz THEN 0
    WHEN a.opened > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.last_notified) THEN (date_part('epoch', a.last_notified) * 1000)::bigint
    WHEN a.last_notified < 'epoch'::timestamptz THEN 0
    WHEN a.last_notified > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.suppressed,
  CASE
    WHEN isfinite(a.last_seen) THEN (date_part('epoch', a.last_seen) * 1000)::bigint
    WHEN a.last_seen < 'epoch'::timestamptz THEN 0
    WHEN a.last_seen > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.due) THEN (date_part('epoch', a.due) * 1000)::bigint
    WHEN a.due < 'epoch'::timestamptz THEN 0
    WHEN a.due > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.notice_id,
  a.description,
  a.class,
  a.message,
  a.node,
  CASE
    WHEN isfinite(a.silenced_until) THEN (date_part('epoch', a.silenced_until) * 1000)::bigint
    WHEN a.silenced_until < 'epoch'::timestamptz THEN 0
    WHEN a.silenced_until > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(a.acknowledged_at) THEN (date_part('epoch', a.acknowledged_at) * 1000)::bigint
    WHEN a.acknowledged_at < 'epoch'::timestamptz THEN 0
    WHEN a.acknowledged_at > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.acknowledged_by,
  CASE
    WHEN isfinite(
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) THEN (
      date_part(
        'epoch',
        date_trunc(
          'milliseconds',
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      ) * 1000
    )::bigint
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) > 'epoch'::timestamptz THEN 253402214400000
  END,
  a.def_id,
  a.reason
FROM notify_alert a
ORDER BY a.def_id, a.reason
LIMIT $2;

-- write_alert
UPDATE notify_alert SET
  opened = ('epoch'::timestamptz + $4::bigint * interval '1 millisecond'),
  last_notified = ('epoch'::timestamptz + $5::bigint * interval '1 millisecond'),
  suppressed = $6,
  last_seen = ('epoch'::timestamptz + $7::bigint * interval '1 millisecond'),
  due = ('epoch'::timestamptz + $8::bigint * interval '1 millisecond'),
  notice_id = $9,
  description = $10,
  class = $11,
  message = $12,
  node = $13,
  silenced_until = ('epoch'::timestamptz + $14::bigint * interval '1 millisecond'),
  acknowledged_at = ('epoch'::timestamptz + $15::bigint * interval '1 millisecond'),
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
  CASE
    WHEN isfinite(create_time) THEN (date_part('epoch', create_time) * 1000)::bigint
    WHEN create_time < 'epoch'::timestamptz THEN 0
    WHEN create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(update_time) THEN (date_part('epoch', update_time) * 1000)::bigint
    WHEN update_time < 'epoch'::timestamptz THEN 0
    WHEN update_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  coalesce(
    CASE
      WHEN isfinite(delete_time) THEN (date_part('epoch', delete_time) * 1000)::bigint
      WHEN delete_time < 'epoch'::timestamptz THEN 0
      WHEN delete_time > 'epoch'::timestamptz THEN 253402214400000
    END,
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
  CASE
    WHEN isfinite(create_time) THEN (date_part('epoch', create_time) * 1000)::bigint
    WHEN create_time < 'epoch'::timestamptz THEN 0
    WHEN create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(update_time) THEN (date_part('epoch', update_time) * 1000)::bigint
    WHEN update_time < 'epoch'::timestamptz THEN 0
    WHEN update_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  coalesce(
    CASE
      WHEN isfinite(delete_time) THEN (date_part('epoch', delete_time) * 1000)::bigint
      WHEN delete_time < 'epoch'::timestamptz THEN 0
      WHEN delete_time > 'epoch'::timestamptz THEN 253402214400000
    END,
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
  CASE
    WHEN isfinite(create_time) THEN (date_part('epoch', create_time) * 1000)::bigint
    WHEN create_time < 'epoch'::timestamptz THEN 0
    WHEN create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(update_time) THEN (date_part('epoch', update_time) * 1000)::bigint
    WHEN update_time < 'epoch'::timestamptz THEN 0
    WHEN update_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  coalesce(
    CASE
      WHEN isfinite(delete_time) THEN (date_part('epoch', delete_time) * 1000)::bigint
      WHEN delete_time < 'epoch'::timestamptz THEN 0
      WHEN delete_time > 'epoch'::timestamptz THEN 253402214400000
    END,
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
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
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
  update_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
WHERE id = $36;

-- delete_definition
UPDATE notify_def SET
  delete_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  update_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  handler = $3,
  name = $4
WHERE id = $2;

-- lock_tick
SELECT m.id
FROM notify_def m
WHERE m.id = $2
FOR UPDATE OF m SKIP LOCKED;

-- note_tick
UPDATE notify_def SET
  last_tick = ('epoch'::timestamptz + $6::bigint * interval '1 millisecond'), tick_schedule = $3
WHERE
  id = $2
  AND enabled
  AND delete_time IS NULL
  AND (schedule = $3 OR (schedule IS NULL AND $3 IS NULL))
  AND (tick_schedule = $4 OR (tick_schedule IS NULL AND $4 IS NULL))
  AND (
    CASE
      WHEN isfinite(last_tick) THEN (date_part('epoch', last_tick) * 1000)::bigint
      WHEN last_tick < 'epoch'::timestamptz THEN 0
      WHEN last_tick > 'epoch'::timestamptz THEN 253402214400000
    END = $5
    OR (
      CASE
        WHEN isfinite(last_tick) THEN (date_part('epoch', last_tick) * 1000)::bigint
        WHEN last_tick < 'epoch'::timestamptz THEN 0
        WHEN last_tick > 'epoch'::timestamptz THEN 253402214400000
      END IS NULL
      AND $5 IS NULL
    )
  );

-- add_ticks
INSERT INTO notify_msg (def_id, param, create_time, next_call_time)
SELECT
  $2,
  b.param::json,
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
FROM json_to_recordset($3::json) AS b(place bigint, param text)
WHERE true
ORDER BY b.place;

-- versions
SELECT
  v.def_id,
  v.version,
  CASE
    WHEN isfinite(v.time) THEN (date_part('epoch', v.time) * 1000)::bigint
    WHEN v.time < 'epoch'::timestamptz THEN 0
    WHEN v.time > 'epoch'::timestamptz THEN 253402214400000
  END,
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
  CASE
    WHEN isfinite(v.time) THEN (date_part('epoch', v.time) * 1000)::bigint
    WHEN v.time < 'epoch'::timestamptz THEN 0
    WHEN v.time > 'epoch'::timestamptz THEN 253402214400000
  END,
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
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  $4,
  $5,
  $6::json
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
  CASE
    WHEN isfinite(create_time) THEN (date_part('epoch', create_time) * 1000)::bigint
    WHEN create_time < 'epoch'::timestamptz THEN 0
    WHEN create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(update_time) THEN (date_part('epoch', update_time) * 1000)::bigint
    WHEN update_time < 'epoch'::timestamptz THEN 0
    WHEN update_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  coalesce(
    CASE
      WHEN isfinite(delete_time) THEN (date_part('epoch', delete_time) * 1000)::bigint
      WHEN delete_time < 'epoch'::timestamptz THEN 0
      WHEN delete_time > 'epoch'::timestamptz THEN 253402214400000
    END,
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
  CASE
    WHEN isfinite(create_time) THEN (date_part('epoch', create_time) * 1000)::bigint
    WHEN create_time < 'epoch'::timestamptz THEN 0
    WHEN create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(update_time) THEN (date_part('epoch', update_time) * 1000)::bigint
    WHEN update_time < 'epoch'::timestamptz THEN 0
    WHEN update_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  coalesce(
    CASE
      WHEN isfinite(delete_time) THEN (date_part('epoch', delete_time) * 1000)::bigint
      WHEN delete_time < 'epoch'::timestamptz THEN 0
      WHEN delete_time > 'epoch'::timestamptz THEN 253402214400000
    END,
    CASE WHEN delete_time IS NOT NULL THEN 0 END
  )
FROM notify_def
WHERE id = $2
FOR UPDATE SKIP LOCKED;

-- time
SELECT CASE
  WHEN isfinite(
    date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    )
  ) THEN (
    date_part(
      'epoch',
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) * 1000
  )::bigint
  WHEN date_trunc(
    'milliseconds',
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  ) < 'epoch'::timestamptz THEN 0
  WHEN date_trunc(
    'milliseconds',
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  ) > 'epoch'::timestamptz THEN 253402214400000
END;

-- beat
UPDATE notify_node SET
  last_seen = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
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
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
);

-- nodes
SELECT handlers
FROM notify_node
WHERE
  last_seen > (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + - $2 * interval '1 millisecond'
  )
  AND last_seen < (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $2 * interval '1 millisecond'
  );

-- forget_nodes
DELETE FROM notify_node
WHERE
  NOT (
    last_seen > (
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + - $2 * interval '1 millisecond'
    )
    AND last_seen < (
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $2 * interval '1 millisecond'
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
  CASE
    WHEN isfinite(start_time) THEN (date_part('epoch', start_time) * 1000)::bigint
    WHEN start_time < 'epoch'::timestamptz THEN 0
    WHEN start_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(last_seen) THEN (date_part('epoch', last_seen) * 1000)::bigint
    WHEN last_seen < 'epoch'::timestamptz THEN 0
    WHEN last_seen > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_node
WHERE
  last_seen > (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + - $2 * interval '1 millisecond'
  )
  AND last_seen < (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $2 * interval '1 millisecond'
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
  ('epoch'::timestamptz + b.minute_ms::bigint * interval '1 millisecond'),
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
  json_to_recordset($2::json) AS b(
    owner bigint,
    minute_ms bigint,
    succeeded bigint,
    awaiting_ack bigint,
    skipped bigint,
    failed bigint,
    dead_letters bigint,
    unacked bigint,
    timed bigint,
    duration_ms bigint,
    duration_max_ms bigint,
    delivery_ms bigint,
    delivery_max_ms bigint,
    late_max_ms bigint
  )
WHERE true
ON CONFLICT (def_id, minute, node) DO UPDATE SET
  succeeded = greatest(notify_series.succeeded, excluded.succeeded),
  awaiting_ack = greatest(notify_series.awaiting_ack, excluded.awaiting_ack),
  skipped = greatest(notify_series.skipped, excluded.skipped),
  failed = greatest(notify_series.failed, excluded.failed),
  dead_letters = greatest(notify_series.dead_letters, excluded.dead_letters),
  unacked = greatest(notify_series.unacked, excluded.unacked),
  timed = greatest(notify_series.timed, excluded.timed),
  duration_ms = greatest(notify_series.duration_ms, excluded.duration_ms),
  duration_max_ms = greatest(notify_series.duration_max_ms, excluded.duration_max_ms),
  delivery_ms = greatest(notify_series.delivery_ms, excluded.delivery_ms),
  delivery_max_ms = greatest(notify_series.delivery_max_ms, excluded.delivery_max_ms),
  late_max_ms = greatest(notify_series.late_max_ms, excluded.late_max_ms);

-- series
SELECT
  (
    (
      CASE
        WHEN isfinite(minute) THEN (date_part('epoch', minute) * 1000)::bigint
        WHEN minute < 'epoch'::timestamptz THEN 0
        WHEN minute > 'epoch'::timestamptz THEN 253402214400000
      END
    ) - $3
  ) / $5 AS step,
  (sum(succeeded))::bigint,
  (sum(awaiting_ack))::bigint,
  (sum(skipped))::bigint,
  (sum(failed))::bigint,
  (sum(dead_letters))::bigint,
  (sum(unacked))::bigint,
  (sum(timed))::bigint,
  (sum(duration_ms))::bigint,
  (max(duration_max_ms))::bigint,
  (sum(delivery_ms))::bigint,
  (max(delivery_max_ms))::bigint,
  (max(late_max_ms))::bigint
FROM notify_series
WHERE
  def_id = $2
  AND minute >= ('epoch'::timestamptz + $3::bigint * interval '1 millisecond')
  AND minute < ('epoch'::timestamptz + $4::bigint * interval '1 millisecond')
GROUP BY step;

-- series_of_all
SELECT
  (
    (
      CASE
        WHEN isfinite(minute) THEN (date_part('epoch', minute) * 1000)::bigint
        WHEN minute < 'epoch'::timestamptz THEN 0
        WHEN minute > 'epoch'::timestamptz THEN 253402214400000
      END
    ) - $3
  ) / $5 AS step,
  (sum(succeeded))::bigint,
  (sum(awaiting_ack))::bigint,
  (sum(skipped))::bigint,
  (sum(failed))::bigint,
  (sum(dead_letters))::bigint,
  (sum(unacked))::bigint,
  (sum(timed))::bigint,
  (sum(duration_ms))::bigint,
  (max(duration_max_ms))::bigint,
  (sum(delivery_ms))::bigint,
  (max(delivery_max_ms))::bigint,
  (max(late_max_ms))::bigint
FROM notify_series
WHERE
  minute >= ('epoch'::timestamptz + $3::bigint * interval '1 millisecond')
  AND minute < ('epoch'::timestamptz + $4::bigint * interval '1 millisecond')
GROUP BY step;

-- purge_series
DELETE FROM notify_series
WHERE
  ctid = ANY (
    ARRAY(
      SELECT ctid
      FROM notify_series
      WHERE
        minute < (
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + - $2 * interval '1 millisecond'
        )
      LIMIT $3
    )
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
  CASE
    WHEN isfinite(coalesce(m.blocked_since, m.next_call_time)) THEN (date_part('epoch', coalesce(m.blocked_since, m.next_call_time)) * 1000)::bigint
    WHEN coalesce(m.blocked_since, m.next_call_time) < 'epoch'::timestamptz THEN 0
    WHEN coalesce(m.blocked_since, m.next_call_time) > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.trace_context,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END,
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
  CASE
    WHEN isfinite(m.next_call_time) THEN (date_part('epoch', m.next_call_time) * 1000)::bigint
    WHEN m.next_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.next_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.trace_context,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.parent_id,
  m.response,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
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
  CASE
    WHEN isfinite(coalesce(m.blocked_since, m.next_call_time)) THEN (date_part('epoch', coalesce(m.blocked_since, m.next_call_time)) * 1000)::bigint
    WHEN coalesce(m.blocked_since, m.next_call_time) < 'epoch'::timestamptz THEN 0
    WHEN coalesce(m.blocked_since, m.next_call_time) > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.trace_context,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END,
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
  CASE
    WHEN isfinite(m.next_call_time) THEN (date_part('epoch', m.next_call_time) * 1000)::bigint
    WHEN m.next_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.next_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.trace_context,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE WHEN m.dedupe_until_ended THEN 1 ELSE 0 END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.parent_id,
  m.response,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.end_reason
FROM notify_msg_history m
WHERE m.id = $2
FOR UPDATE SKIP LOCKED;

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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN to_char(m.finish_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.finish_time::text
  END,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  SELECT m.*
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $6)
  ORDER BY m.finish_time DESC
  FETCH FIRST ($7) ROWS
  WITH TIES
) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN to_char(m.finish_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.finish_time::text
  END,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  SELECT m.*
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $6)
  ORDER BY m.finish_time
  FETCH FIRST ($7) ROWS
  WITH TIES
) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN to_char(m.finish_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.finish_time::text
  END,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  SELECT m.*
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $6)
  ORDER BY m.finish_time DESC
  FETCH FIRST ($7) ROWS
  WITH TIES
) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN to_char(m.finish_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.finish_time::text
  END,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  SELECT m.*
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $6)
  ORDER BY m.finish_time
  FETCH FIRST ($7) ROWS
  WITH TIES
) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN to_char(m.finish_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.finish_time::text
  END,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  SELECT m.*
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND m.error_group = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $6)
  ORDER BY m.finish_time DESC
  FETCH FIRST ($7) ROWS
  WITH TIES
) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN to_char(m.finish_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.finish_time::text
  END,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  SELECT m.*
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND m.error_group = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $6)
  ORDER BY m.finish_time
  FETCH FIRST ($7) ROWS
  WITH TIES
) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(coalesce(m.blocked_since, m.next_call_time)) THEN (date_part('epoch', coalesce(m.blocked_since, m.next_call_time)) * 1000)::bigint
    WHEN coalesce(m.blocked_since, m.next_call_time) < 'epoch'::timestamptz THEN 0
    WHEN coalesce(m.blocked_since, m.next_call_time) > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.next_call_time) THEN to_char(m.next_call_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.next_call_time::text
  END,
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_msg m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
  AND (m.next_call_time, m.id + 0) < (($5::timestamp AT TIME ZONE 'UTC'), $6)
ORDER BY m.next_call_time DESC, m.id + 0 DESC
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(coalesce(m.blocked_since, m.next_call_time)) THEN (date_part('epoch', coalesce(m.blocked_since, m.next_call_time)) * 1000)::bigint
    WHEN coalesce(m.blocked_since, m.next_call_time) < 'epoch'::timestamptz THEN 0
    WHEN coalesce(m.blocked_since, m.next_call_time) > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.next_call_time) THEN to_char(m.next_call_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.next_call_time::text
  END,
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_msg m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
  AND (m.next_call_time, m.id + 0) > (($4::timestamp AT TIME ZONE 'UTC'), $6)
ORDER BY m.next_call_time, m.id + 0
LIMIT $7;

-- count_ended
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
  LIMIT $6
) AS counted;

-- count_dead
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
  LIMIT $6
) AS counted;

-- count_group
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg_history m
  WHERE
    m.def_id = $2
    AND m.error_group = $3
    AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
  LIMIT $6
) AS counted;

-- count_live
SELECT count(*)
FROM (
  SELECT 1 AS one
  FROM notify_msg m
  WHERE
    m.def_id = $2
    AND m.status = $3
    AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
    AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
  LIMIT $6
) AS counted;

-- next_class
SELECT (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END)
FROM notify_msg_history m
WHERE m.def_id = $2 AND (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) > $3
ORDER BY (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END)
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN to_char(m.finish_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.finish_time::text
  END,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 1
        AND m.status = $3
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.finish_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 2
        AND m.status + 0 = $3
        AND (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.finish_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id + 0 = $2
        AND $7 = 3
        AND m.status + 0 = $3
        AND m.id = ANY ($8::text::bigint[])
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND (m.finish_time + interval '0') >= ($4::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time + interval '0') <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.finish_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 4
        AND m.status = $3
        AND m.tag = $9
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.finish_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 5
        AND m.status = $3
        AND m.ordering_key = $10
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.finish_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 7
        AND m.status + 0 = $3
        AND m.error_group = $15
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.finish_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 6
        AND m.status = $3
        AND m.dedupe_key = $11
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.finish_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time DESC, m.id DESC
    LIMIT $6
  )
) AS b
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg_history m WHERE m.id = b.notice_id AND true OFFSET 0) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN (date_part('epoch', m.finish_time) * 1000)::bigint
    WHEN m.finish_time < 'epoch'::timestamptz THEN 0
    WHEN m.finish_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.finish_time) THEN to_char(m.finish_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.finish_time::text
  END,
  substr(m.end_reason, 1, 500),
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 1
        AND m.status = $3
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.finish_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 2
        AND m.status + 0 = $3
        AND (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.finish_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id + 0 = $2
        AND $7 = 3
        AND m.status + 0 = $3
        AND m.id = ANY ($8::text::bigint[])
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND (m.finish_time + interval '0') >= ($4::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time + interval '0') <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.finish_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 4
        AND m.status = $3
        AND m.tag = $9
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.finish_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 5
        AND m.status = $3
        AND m.ordering_key = $10
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.finish_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 7
        AND m.status + 0 = $3
        AND m.error_group = $15
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.finish_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg_history m
      WHERE
        m.def_id = $2
        AND $7 = 6
        AND m.status = $3
        AND m.dedupe_key = $11
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
        AND ($15 IS NULL OR m.error_group = $15)
        AND (
          $13 IS NULL
          OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
          OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
        )
        AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.finish_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.finish_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.finish_time, m.id
    LIMIT $6
  )
) AS b
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg_history m WHERE m.id = b.notice_id AND true OFFSET 0) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(coalesce(m.blocked_since, m.next_call_time)) THEN (date_part('epoch', coalesce(m.blocked_since, m.next_call_time)) * 1000)::bigint
    WHEN coalesce(m.blocked_since, m.next_call_time) < 'epoch'::timestamptz THEN 0
    WHEN coalesce(m.blocked_since, m.next_call_time) > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.next_call_time) THEN to_char(m.next_call_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.next_call_time::text
  END,
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  (
    SELECT m.id AS notice_id
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND (m.next_call_time, m.id + 0) < (($5::timestamp AT TIME ZONE 'UTC'), $16)
    ORDER BY m.next_call_time DESC, m.id + 0 DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id + 0 = $2
        AND $7 = 3
        AND m.status + 0 = $3
        AND m.id = ANY ($8::text::bigint[])
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND (m.next_call_time + interval '0') >= ($4::timestamp AT TIME ZONE 'UTC')
        AND (m.next_call_time + interval '0') <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.next_call_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.next_call_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id = $2
        AND $7 = 4
        AND m.status + 0 = $3
        AND m.tag = $9
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.next_call_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.next_call_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id = $2
        AND $7 = 5
        AND m.status + 0 = $3
        AND m.ordering_key = $10
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.next_call_time < ($5::timestamp AT TIME ZONE 'UTC') OR m.id < $16)
      ORDER BY m.next_call_time DESC
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.next_call_time DESC, m.id DESC
    LIMIT $6
  )
) AS b
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id AND true OFFSET 0) AS m
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
  CASE
    WHEN isfinite(m.create_time) THEN (date_part('epoch', m.create_time) * 1000)::bigint
    WHEN m.create_time < 'epoch'::timestamptz THEN 0
    WHEN m.create_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(coalesce(m.blocked_since, m.next_call_time)) THEN (date_part('epoch', coalesce(m.blocked_since, m.next_call_time)) * 1000)::bigint
    WHEN coalesce(m.blocked_since, m.next_call_time) < 'epoch'::timestamptz THEN 0
    WHEN coalesce(m.blocked_since, m.next_call_time) > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(m.next_call_time) THEN to_char(m.next_call_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE m.next_call_time::text
  END,
  NULL,
  m.ordering_key,
  m.dedupe_key,
  m.tag,
  CASE
    WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
    WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
    WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  m.max_tries,
  CASE
    WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
    WHEN m.expires_at < 'epoch'::timestamptz THEN 0
    WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
  END
FROM (
  (
    SELECT m.id AS notice_id
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
      AND (m.next_call_time, m.id + 0) > (($4::timestamp AT TIME ZONE 'UTC'), $16)
    ORDER BY m.next_call_time, m.id + 0
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id + 0 = $2
        AND $7 = 3
        AND m.status + 0 = $3
        AND m.id = ANY ($8::text::bigint[])
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND (m.next_call_time + interval '0') >= ($4::timestamp AT TIME ZONE 'UTC')
        AND (m.next_call_time + interval '0') <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.next_call_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.next_call_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id = $2
        AND $7 = 4
        AND m.status + 0 = $3
        AND m.tag = $9
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.next_call_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.next_call_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
  UNION ALL
  (
    SELECT m.id AS notice_id
    FROM (
      SELECT m.*
      FROM notify_msg m
      WHERE
        m.def_id = $2
        AND $7 = 5
        AND m.status + 0 = $3
        AND m.ordering_key = $10
        AND ($9 IS NULL OR m.tag = $9)
        AND ($10 IS NULL OR m.ordering_key = $10)
        AND ($11 IS NULL OR m.dedupe_key = $11)
        AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
        AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
        AND (m.next_call_time > ($4::timestamp AT TIME ZONE 'UTC') OR m.id > $16)
      ORDER BY m.next_call_time
      FETCH FIRST ($6) ROWS
      WITH TIES
    ) AS m
    ORDER BY m.next_call_time, m.id
    LIMIT $6
  )
) AS b
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg m WHERE m.id = b.notice_id AND true OFFSET 0) AS m
ORDER BY m.next_call_time, m.id;

-- count_narrow_ended
SELECT count(*)
FROM (
  (
    SELECT 1 AS one
    FROM notify_msg_history m
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
        OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
      )
      AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg_history m
    WHERE
      m.def_id = $2
      AND $7 = 2
      AND m.status + 0 = $3
      AND (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
        OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
      )
      AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg_history m
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id = ANY ($8::text::bigint[])
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
        OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
      )
      AND (m.finish_time + interval '0') >= ($4::timestamp AT TIME ZONE 'UTC')
      AND (m.finish_time + interval '0') <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
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
      AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
        OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
      )
      AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
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
      AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
        OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
      )
      AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
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
      AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
        OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
      )
      AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
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
      AND ($12 IS NULL OR (CASE WHEN m.status = 3 THEN coalesce(nullif(m.last_class, ''), '-') END) = $12)
      AND ($15 IS NULL OR m.error_group = $15)
      AND (
        $13 IS NULL
        OR strpos((m.errors -> -1 ->> 'message'), $13) > 0
        OR ($14 = 1 AND strpos(m.param::text, $13) > 0)
      )
      AND m.finish_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.finish_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
) AS counted;

-- count_narrow_live
SELECT count(*)
FROM (
  (
    SELECT 1 AS one
    FROM notify_msg m
    WHERE
      m.def_id = $2
      AND $7 = 1
      AND m.status = $3
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
    SELECT 1 AS one
    FROM notify_msg m
    WHERE
      m.def_id + 0 = $2
      AND $7 = 3
      AND m.status + 0 = $3
      AND m.id = ANY ($8::text::bigint[])
      AND ($9 IS NULL OR m.tag = $9)
      AND ($10 IS NULL OR m.ordering_key = $10)
      AND ($11 IS NULL OR m.dedupe_key = $11)
      AND (m.next_call_time + interval '0') >= ($4::timestamp AT TIME ZONE 'UTC')
      AND (m.next_call_time + interval '0') <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
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
      AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
  UNION ALL
  (
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
      AND m.next_call_time >= ($4::timestamp AT TIME ZONE 'UTC')
      AND m.next_call_time <= ($5::timestamp AT TIME ZONE 'UTC')
    LIMIT $6
  )
) AS counted;

-- groups
SELECT
  g.error_group,
  g.dead,
  CASE
    WHEN isfinite(g.first_time) THEN (date_part('epoch', g.first_time) * 1000)::bigint
    WHEN g.first_time < 'epoch'::timestamptz THEN 0
    WHEN g.first_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(g.last_time) THEN (date_part('epoch', g.last_time) * 1000)::bigint
    WHEN g.last_time < 'epoch'::timestamptz THEN 0
    WHEN g.last_time > 'epoch'::timestamptz THEN 253402214400000
  END,
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
  WHERE
    m.def_id = $2
    AND m.error_group IS NOT NULL
    AND m.finish_time >= ($3::timestamp AT TIME ZONE 'UTC')
    AND m.finish_time <= ($4::timestamp AT TIME ZONE 'UTC')
  GROUP BY m.error_group
  ORDER BY dead DESC, m.error_group
  LIMIT $5
) AS g
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg_history m WHERE m.id = g.example AND true OFFSET 0) AS m
ORDER BY g.dead DESC, g.error_group;

-- read_counts
SELECT
  d.id,
  d.name,
  CASE
    WHEN isfinite(
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) THEN (
      date_part(
        'epoch',
        date_trunc(
          'milliseconds',
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      ) * 1000
    )::bigint
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(c.taken_at) THEN (date_part('epoch', c.taken_at) * 1000)::bigint
    WHEN c.taken_at < 'epoch'::timestamptz THEN 0
    WHEN c.taken_at > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(c.next_time) THEN (date_part('epoch', c.next_time) * 1000)::bigint
    WHEN c.next_time < 'epoch'::timestamptz THEN 0
    WHEN c.next_time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(c.oldest_due) THEN (date_part('epoch', c.oldest_due) * 1000)::bigint
    WHEN c.oldest_due < 'epoch'::timestamptz THEN 0
    WHEN c.oldest_due > 'epoch'::timestamptz THEN 253402214400000
  END,
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
  next_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $3 * interval '1 millisecond'
  )
WHERE
  def_id = $2
  AND next_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp());

-- open_count
INSERT INTO notify_count (def_id, next_time)
VALUES (
  $2,
  (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $3 * interval '1 millisecond'
  )
)
ON CONFLICT DO NOTHING;

-- take_count
SELECT
  CASE
    WHEN isfinite(
      date_trunc(
        'milliseconds',
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
      )
    ) THEN (
      date_part(
        'epoch',
        date_trunc(
          'milliseconds',
          coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
        )
      ) * 1000
    )::bigint
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc(
      'milliseconds',
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) > 'epoch'::timestamptz THEN 253402214400000
  END,
  (
    SELECT CASE
      WHEN isfinite(date_trunc('milliseconds', m.next_call_time)) THEN (date_part('epoch', date_trunc('milliseconds', m.next_call_time)) * 1000)::bigint
      WHEN date_trunc('milliseconds', m.next_call_time) < 'epoch'::timestamptz THEN 0
      WHEN date_trunc('milliseconds', m.next_call_time) > 'epoch'::timestamptz THEN 253402214400000
    END
    FROM notify_msg m
    WHERE m.def_id = $2
      AND m.status = 0
    ORDER BY m.next_call_time
    LIMIT 1
  ),
  (
    SELECT CASE
      WHEN isfinite(date_trunc('milliseconds', m.next_call_time)) THEN (date_part('epoch', date_trunc('milliseconds', m.next_call_time)) * 1000)::bigint
      WHEN date_trunc('milliseconds', m.next_call_time) < 'epoch'::timestamptz THEN 0
      WHEN date_trunc('milliseconds', m.next_call_time) > 'epoch'::timestamptz THEN 253402214400000
    END
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
      AND m.finish_time > (
        coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + - $3 * interval '1 millisecond'
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
  oldest_due = ('epoch'::timestamptz + $10::bigint * interval '1 millisecond'),
  taken_at = ('epoch'::timestamptz + $11::bigint * interval '1 millisecond'),
  next_time = (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + $12 * interval '1 millisecond'
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
      (
        CASE
          WHEN isfinite(m.next_call_time) THEN (date_part('epoch', m.next_call_time) * 1000)::bigint
          WHEN m.next_call_time < 'epoch'::timestamptz THEN 0
          WHEN m.next_call_time > 'epoch'::timestamptz THEN 253402214400000
        END
      ) - (
        CASE
          WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
          WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
          WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
        END
      )
    ) / 1000 AS wait,
    (
      (
        CASE
          WHEN isfinite(m.expires_at) THEN (date_part('epoch', m.expires_at) * 1000)::bigint
          WHEN m.expires_at < 'epoch'::timestamptz THEN 0
          WHEN m.expires_at > 'epoch'::timestamptz THEN 253402214400000
        END
      ) - (
        CASE
          WHEN isfinite(m.last_call_time) THEN (date_part('epoch', m.last_call_time) * 1000)::bigint
          WHEN m.last_call_time < 'epoch'::timestamptz THEN 0
          WHEN m.last_call_time > 'epoch'::timestamptz THEN 253402214400000
        END
      ) + 999
    ) / 1000 AS expires_after,
    CASE
      WHEN m.next_call_time <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) THEN 1
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
FROM json_to_recordset($2::json) AS b(notice_id bigint, fence bigint, was bigint)
CROSS JOIN
  LATERAL (
    SELECT m.*
    FROM notify_msg_history m
    WHERE
      m.id = b.notice_id
      AND m.fence = b.fence
      AND m.status + 0 = b.was
      AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id)
    FOR UPDATE OF m SKIP LOCKED
  ) AS m;

-- lock_act
SELECT id
FROM notify_msg
WHERE id = $2 AND fence = $3 AND status + 0 = 5
FOR UPDATE SKIP LOCKED;

-- lock_to_purge
SELECT m.id, m.failures, m.crashes, m.last_class, CASE WHEN m.status <> 1 THEN m.errors END, m.end_reason
FROM json_to_recordset($2::json) AS b(notice_id bigint, fence bigint, was bigint)
CROSS JOIN
  LATERAL (
    SELECT m.*
    FROM notify_msg_history m
    WHERE
      m.id = b.notice_id
      AND m.fence = b.fence
      AND m.status + 0 = b.was
      AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id)
    FOR UPDATE OF m SKIP LOCKED
  ) AS m;

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
    ('epoch'::timestamptz + b.due::bigint * interval '1 millisecond'),
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
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
      ('epoch'::timestamptz + b.due::bigint * interval '1 millisecond'),
      coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
    ) THEN m.expires_at
  END,
  m.response,
  m.parent_id
FROM json_to_recordset($2::json) AS b(notice_id bigint, due bigint)
CROSS JOIN LATERAL (SELECT m.* FROM notify_msg_history m WHERE m.id = b.notice_id AND true OFFSET 0) AS m;

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
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  $3
FROM notify_msg AS m
WHERE m.id = ANY ($2::text::bigint[]) AND true;

-- retime
UPDATE notify_msg SET
  next_call_time = greatest(
    ('epoch'::timestamptz + $3::bigint * interval '1 millisecond'),
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  ),
  blocked_since = NULL
WHERE id = $2;

-- retime_step
UPDATE notify_msg AS m SET
  next_call_time = greatest(
    ('epoch'::timestamptz + b.due::bigint * interval '1 millisecond'),
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
  ),
  blocked_since = NULL
FROM json_to_recordset($2::json) AS b(notice_id bigint, due bigint)
WHERE
  m.id = b.notice_id
  AND m.id = ANY (ARRAY(SELECT b.notice_id FROM json_to_recordset($2::json) AS b(notice_id bigint, due bigint)));

-- recount
UPDATE notify_msg SET
  failures = $3,
  crashes = $4,
  next_call_time = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  blocked_since = NULL
WHERE id = $2;

-- rewrite
UPDATE notify_msg SET
  param = $3::json
WHERE id = $2;

-- rewrite_errors
UPDATE notify_msg SET
  errors = $3::json
WHERE id = $2;

-- add_own
INSERT INTO notify_msg (def_id, param, tag, create_time, next_call_time)
VALUES (
  $2,
  $3::json,
  $4,
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
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
WHERE notice_id = ANY ($2::text::bigint[]);

-- note_progress
UPDATE notify_msg SET
  param = $4::json
WHERE id = $2 AND fence = $3 AND status + 0 = 5;

-- purgeable
SELECT
  m.id,
  CASE
    WHEN isfinite(date_trunc('milliseconds', m.finish_time)) THEN (date_part('epoch', date_trunc('milliseconds', m.finish_time)) * 1000)::bigint
    WHEN date_trunc('milliseconds', m.finish_time) < 'epoch'::timestamptz THEN 0
    WHEN date_trunc('milliseconds', m.finish_time) > 'epoch'::timestamptz THEN 253402214400000
  END
FROM notify_msg_history m
WHERE
  m.def_id = $2
  AND m.status = $3
  AND m.finish_time <= (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + - $4 * interval '1 millisecond'
  )
  AND m.finish_time >= ('epoch'::timestamptz + $6::bigint * interval '1 millisecond')
ORDER BY m.finish_time
LIMIT $5;

-- lock_purgeable
SELECT m.id, m.failures, m.crashes, m.last_class, CASE WHEN m.status <> 1 THEN m.errors END, m.end_reason
FROM notify_msg_history AS m
WHERE
  m.id = ANY ($2::text::bigint[])
  AND m.status + 0 = $3
  AND (m.finish_time + $4 * interval '1 millisecond') <= coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp())
FOR UPDATE;

-- purge_definition
DELETE FROM notify_def
WHERE
  id = $2
  AND delete_time <= (
    coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()) + - $3 * interval '1 millisecond'
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
  since = coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  reason = $4
WHERE paused <> $2 OR (NOT paused AND retries_paused <> $5);

-- audit
SELECT
  e.id,
  CASE
    WHEN isfinite(e.time) THEN (date_part('epoch', e.time) * 1000)::bigint
    WHEN e.time < 'epoch'::timestamptz THEN 0
    WHEN e.time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(e.time) THEN to_char(e.time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE e.time::text
  END,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE
  $2 = 0
  AND e.time >= ($3::timestamp AT TIME ZONE 'UTC')
  AND e.time <= ($4::timestamp AT TIME ZONE 'UTC')
  AND (e.time < ($4::timestamp AT TIME ZONE 'UTC') OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_definition
SELECT
  e.id,
  CASE
    WHEN isfinite(e.time) THEN (date_part('epoch', e.time) * 1000)::bigint
    WHEN e.time < 'epoch'::timestamptz THEN 0
    WHEN e.time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(e.time) THEN to_char(e.time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE e.time::text
  END,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE
  e.def_id = $2
  AND e.time >= ($3::timestamp AT TIME ZONE 'UTC')
  AND e.time <= ($4::timestamp AT TIME ZONE 'UTC')
  AND (e.time < ($4::timestamp AT TIME ZONE 'UTC') OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_notice
SELECT
  e.id,
  CASE
    WHEN isfinite(e.time) THEN (date_part('epoch', e.time) * 1000)::bigint
    WHEN e.time < 'epoch'::timestamptz THEN 0
    WHEN e.time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(e.time) THEN to_char(e.time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE e.time::text
  END,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE
  e.notice_id = $2
  AND e.time >= ($3::timestamp AT TIME ZONE 'UTC')
  AND e.time <= ($4::timestamp AT TIME ZONE 'UTC')
  AND (e.time < ($4::timestamp AT TIME ZONE 'UTC') OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_of_steps
SELECT
  e.id,
  CASE
    WHEN isfinite(e.time) THEN (date_part('epoch', e.time) * 1000)::bigint
    WHEN e.time < 'epoch'::timestamptz THEN 0
    WHEN e.time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(e.time) THEN to_char(e.time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE e.time::text
  END,
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
  AND coalesce(e.time, e.time) >= ($3::timestamp AT TIME ZONE 'UTC')
  AND coalesce(e.time, e.time) <= ($4::timestamp AT TIME ZONE 'UTC')
  AND (coalesce(e.time, e.time) < ($4::timestamp AT TIME ZONE 'UTC') OR e.id < $5)
ORDER BY coalesce(e.time, e.time) DESC, e.id DESC
LIMIT $6;

-- audit_by_who
SELECT
  e.id,
  CASE
    WHEN isfinite(e.time) THEN (date_part('epoch', e.time) * 1000)::bigint
    WHEN e.time < 'epoch'::timestamptz THEN 0
    WHEN e.time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(e.time) THEN to_char(e.time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE e.time::text
  END,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE
  e.who = $2
  AND e.time >= ($3::timestamp AT TIME ZONE 'UTC')
  AND e.time <= ($4::timestamp AT TIME ZONE 'UTC')
  AND (e.time < ($4::timestamp AT TIME ZONE 'UTC') OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- audit_by_act
SELECT
  e.id,
  CASE
    WHEN isfinite(e.time) THEN (date_part('epoch', e.time) * 1000)::bigint
    WHEN e.time < 'epoch'::timestamptz THEN 0
    WHEN e.time > 'epoch'::timestamptz THEN 253402214400000
  END,
  CASE
    WHEN isfinite(e.time) THEN to_char(e.time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
    ELSE e.time::text
  END,
  e.who,
  e.act,
  e.def_id,
  e.notice_id,
  e.notice_ids,
  e.detail
FROM notify_audit e
WHERE
  e.act = $2
  AND e.time >= ($3::timestamp AT TIME ZONE 'UTC')
  AND e.time <= ($4::timestamp AT TIME ZONE 'UTC')
  AND (e.time < ($4::timestamp AT TIME ZONE 'UTC') OR e.id < $5)
ORDER BY e.time DESC, e.id DESC
LIMIT $6;

-- write_audit
INSERT INTO notify_audit (time, who, act, def_id, notice_id, detail, notice_ids, first_id, last_id)
VALUES (
  coalesce(('epoch'::timestamptz + $1::bigint * interval '1 millisecond'), statement_timestamp()),
  $2,
  $3,
  $4,
  $5,
  $6,
  $7,
  $8,
  $9
);
