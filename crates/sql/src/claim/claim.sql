-- The statements that claim notices, look for due and overdue ones, and extend leases.
--
-- On PostgreSQL and SQLite each claim is one statement, which is a transaction of its own unless the queue slice is read in parts
-- (`ordering.rs`): that is done while this process does not know that a definition has no ordering keys. The statement locks the rows first
-- and updates only those, because Postgres could run the subselect again for each row and return other rows each time. The status is checked
-- again after the lock.
--
-- MySQL has no `UPDATE … RETURNING`. There a locking read picks the rows, and `claim_picked` updates them in the same transaction.

-- row: Claimed(fence, called)
-- The columns that a claim returns, without a large parameter. No alias in front, because SQLite allows none in RETURNING; so no batch has a
-- column `id`.
id = id
def_id = def_id
param = CASE WHEN {json_bytes(param)} <= {large_param} THEN param END
description = description
errors = errors
fence = {fence}
failures = failures
crashes = crashes
worker = worker
last_call_time = {moment({called})}
create_time = {moment(create_time)}
trace_context = trace_context
ordering_key = ordering_key
tag = tag
max_tries = max_tries
expires_at = {moment(expires_at)}

-- macro: json_bytes(column)
-- How many bytes the text of a JSON column has.
-- postgres:
octet_length({column}::text)
-- mysql:
octet_length({column})
-- sqlite:
-- `octet_length` is younger than the oldest SQLite.
length(CAST({column} AS blob))

-- macro: stored_claim
-- The columns of a notice whose claim is stored.
{Claimed(fence, last_call_time)}

-- macro: picked
-- The row as `claim_picked` is going to change it.
{Claimed(fence + 1, {now})}

-- macro: claim_changes
status = 5, fence = fence + 1, worker = :worker, last_call_time = {now}, next_call_time = {plus({now}, :lease)}, blocked_since = NULL

-- macro: claim_due
-- The end of each claim that is one statement: it updates the rows that `due` has locked.
UPDATE notify_msg AS m
SET {claim_changes}
WHERE {id_in(m.id, SELECT id FROM due)} AND m.status + 0 = :status
RETURNING {stored_claim}

-- macro: due_by_id
-- The condition that a notice, found by its id, is in the queue slice and due. Without `+ 0` and IS TRUE, Postgres reads the whole slice by
-- the other index where its statistics are old (here, and wherever rows are found by their ids).
m.def_id + 0 = :def_id AND m.status + 0 = :status AND (m.next_call_time <= {now}) IS TRUE

-- macro: claim_slice(crashes)
-- postgres, sqlite:
WITH due AS MATERIALIZED (
    SELECT m.id
    FROM notify_msg m
    WHERE m.def_id = :def_id AND m.status = :status AND m.next_call_time <= {now}{from_mark(:mark)}
        AND {its_turn}
        AND m.crashes {crashes} {crash_loop}
    ORDER BY m.next_call_time
    LIMIT :limit{lock}
)
{claim_due}
-- mysql:
SELECT {picked}
FROM notify_msg m FORCE INDEX (notify_msg_due)
WHERE m.def_id = :def_id AND m.status = :status AND m.next_call_time <= {now}
    AND {its_turn}
    AND m.crashes {crashes} {crash_loop}
ORDER BY m.next_call_time
LIMIT :limit{lock}

-- name: claim_slice
-- Claims the notices of a queue slice that are due, the first ones first.
-- args: def_id int, status int, limit int, worker text, lease int, mark int?
{claim_slice(<)}

-- name: claim_crash_looping
-- args: def_id int, status int, limit int, worker text, lease int, mark int?
{claim_slice(>=)}

-- name: claim_ids
-- args: def_id int, status int, ids ids, worker text, lease int
-- postgres, sqlite:
WITH due AS MATERIALIZED (
    SELECT m.id
    FROM notify_msg AS m
    WHERE {listed(m.id, :ids)} AND {due_by_id}
        AND {its_turn}{lock}
)
{claim_due}
-- mysql:
SELECT {picked}
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE {listed(m.id, :ids)} AND {due_by_id}
    AND {its_turn}{lock}

-- name: claim_keys
-- Claims the first notice of each listed ordering key, found by one index search each.
-- args: def_id int, status int, keys text, worker text, lease int
-- postgres:
-- A subquery that cannot be flattened makes the planner read the batch first.
WITH due AS MATERIALIZED (
    SELECT m.id
    FROM {first_of_keys(:def_id, {batch(:keys, {key(own_key)})})}
    CROSS JOIN LATERAL (
        SELECT m.*
        FROM notify_msg m
        WHERE m.id = b.notice_id AND {due_by_id}
            AND {its_turn}{lock}
    ) AS m
)
{claim_due}
-- sqlite:
WITH due AS MATERIALIZED (
    SELECT m.id
    FROM {first_of_keys(:def_id, {batch(:keys, {key(own_key)})})}
    CROSS JOIN notify_msg m ON m.id = b.notice_id
    WHERE {due_by_id}
        AND {its_turn}
)
{claim_due}
-- mysql:
SELECT {picked}
FROM {first_of_keys(:def_id, {batch(:keys, {key(own_key)})})}
STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
WHERE {due_by_id}
    AND {its_turn}{lock}

-- name: still_first
-- A locking read sees what is committed while it runs, but its subqueries do not. So it may have returned a notice and missed an earlier one
-- of its key. The claimed rows are locked now, so a separate look sees all.
-- args: ids ids
-- mysql:
SELECT m.id
FROM notify_msg AS m FORCE INDEX (PRIMARY)
WHERE m.id IN (:ids) AND {its_turn}

-- name: claim_picked
-- args: status int, ids ids, worker text, lease int
-- mysql:
UPDATE notify_msg AS m FORCE INDEX (PRIMARY)
SET {claim_changes}
WHERE m.id IN (:ids) AND m.status + 0 = :status

-- ---------------------------------------------------------------- due times

-- row: DueTime
-- The first due time of each status is null where there is no notice.
def_id = d.id
now = {epoch_down({now})}
not_sent = {first_due(0)}
failed = {first_due(2)}
sending = {first_due(5)}
awaiting_ack = {first_due(4)}
tick_schedule = d.tick_schedule
last_tick = {epoch(d.last_tick)}
-- When the first row of an alert is due; the same in each row.
due_alert = (SELECT {epoch_up(a.due)} FROM notify_alert a WHERE a.due IS NOT NULL ORDER BY a.due LIMIT 1)

-- macro: first_due(status)
-- The index entry of the earliest due time: one search, however many notices there are. `ORDER BY … LIMIT 1`, because MySQL reads the whole
-- group for a correlated `min`; it needs all columns of the index in the order, as in `order_of_slice`. On Postgres a search begins at a mark.
--
-- The due time is rounded up and now is rounded down, so a notice reported as due can be claimed. An unreadable time counts as 0 where the
-- claim's comparison finds it due, so that it does not hide its queue slice. Otherwise it sorts last.
(SELECT coalesce({epoch_up(m.next_call_time)}, CASE WHEN m.next_call_time <= {now} THEN 0 END)
 FROM notify_msg m{by_index(notify_msg_due)}
 WHERE m.def_id = d.id AND m.status = {status}{from_mark(b.from_{status})}
 ORDER BY {order_of_slice}
 LIMIT 1)

-- name: due
-- The earliest due times of all definitions, four searches for each.
-- args: marks text
-- postgres:
SELECT {DueTime}
FROM notify_def d
LEFT JOIN json_to_recordset(:marks::json) AS b(
    owner bigint, from_0 bigint, from_2 bigint, from_5 bigint, from_4 bigint
) ON b.owner = d.id
-- mysql, sqlite:
SELECT {DueTime}
FROM notify_def d

-- ---------------------------------------------------------------- leases

-- macro: leases
{batch(:leases, {int(notice_id)}, {int(fence)}, {int(lease)})}

-- macro: holds(status)
-- The condition that a row `b` of a batch has the fence of its notice `m`, and that the notice has this status. (`+ 0` for the reason of
-- `due_by_id`.)
m.fence = b.fence AND m.status + 0 = {status}

-- name: overdue
-- args: def_id int, status int, limit int, mark int?
SELECT {stored_claim}
FROM notify_msg m{by_index(notify_msg_due)}
WHERE m.def_id = :def_id AND m.status = :status AND m.next_call_time <= {now}{from_mark(:mark)}
ORDER BY m.next_call_time
LIMIT :limit

-- name: claimed_by
-- By the index, definition by definition, because few notices are being sent.
-- args: worker text, limit int
SELECT {stored_claim}
{rows_by((SELECT id AS owner FROM notify_def) AS b, notify_msg, notify_msg_due, m.def_id = b.owner, m.status = 5 AND m.worker = :worker)}
ORDER BY m.id LIMIT :limit

-- name: extendable
-- Skips locked rows, because one of them must not delay the other leases.
-- args: leases text
SELECT m.id {lock_batch_rows({leases}, notify_msg, {holds(5)})}

-- name: extend
-- args: leases text
{batch_update({leases}, notify_msg, next_call_time = {plus({now}, b.lease)}, AND {holds(5)})}

-- ---------------------------------------------------------------- quotas

-- name: count_sending
-- Reads at most as many index entries as the limit allows.
-- args: def_id int, most int
SELECT count(*)
FROM (SELECT 1 AS one FROM notify_msg m{by_index(notify_msg_due)} WHERE m.def_id = :def_id AND m.status = 5 LIMIT :most) AS sent

-- name: time_up
SELECT {epoch_up({now})}

-- ---------------------------------------------------------------- large parameters

-- name: param_bytes
-- args: id int, fence int
SELECT {json_bytes(param)} FROM notify_msg WHERE id = :id AND fence = :fence

-- name: param_text
-- args: id int, fence int
SELECT param FROM notify_msg WHERE id = :id AND fence = :fence
