-- Ordering keys: the statements that read a queue slice in parts, block what waits behind another notice, and unblock it.

-- row: PartColumns
-- A due notice. It is the first one of its key where no other is under way or before it, or where it has no key.
id = m.id
is_first = CASE WHEN {its_turn} THEN 1 ELSE 0 END
ordering_key = m.ordering_key

-- row: First
-- The first notice of an ordering key.
id = m.id
ordering_key = m.ordering_key

-- row: KeyOf
-- The ordering key of a notice, and its definition.
def_id = m.def_id
ordering_key = m.ordering_key

-- name: part
-- args: def_id int, status int, size int, mark int?
SELECT {PartColumns} FROM notify_msg m{by_index(notify_msg_due)}
WHERE m.def_id = :def_id AND m.status = :status AND m.next_call_time <= {now}{from_mark(:mark)} AND m.crashes < {crash_loop}
ORDER BY m.next_call_time LIMIT :size{lock}

-- name: lock_first
-- args: def_id int, keys text
SELECT {First} {lock_batch_rows({first_of_keys(:def_id, {batch(:keys, {key(own_key)})})}, notify_msg, true)}

-- name: block
-- MySQL assigns from left to right: `blocked_since` keeps the due time before `next_call_time` is overwritten.
-- args: ids ids, after int
UPDATE notify_msg AS m{by_index(PRIMARY)}
SET blocked_since = coalesce(blocked_since, next_call_time), next_call_time = {plus({now}, :after)}
WHERE {listed(m.id, :ids)}

-- name: keys_of
-- args: ids ids
SELECT {KeyOf} {listed_rows(:ids, notify_msg, true)}

-- name: first_blocked
-- args: keys text
SELECT m.id
{batch_rows({first_of_keys(b.owner, {batch(:keys, {int(owner)}, {key(own_key)})})}, notify_msg, m.blocked_since IS NOT NULL)}

-- name: free
-- args: ids ids
SELECT m.id {listed_rows(:ids, notify_msg, true)}{lock}

-- name: unblock
-- args: ids ids
UPDATE notify_msg AS m{by_index(PRIMARY)} SET next_call_time = {now}, blocked_since = NULL
WHERE {listed(m.id, :ids)} AND m.blocked_since IS NOT NULL

-- name: oldest_blocked
-- The order of the next looks does not show how long a notice has been blocked: these rows are a sample.
-- args: def_id int, sample int
SELECT min({epoch(blocked_since)})
FROM (SELECT m.blocked_since FROM notify_msg m{by_index(notify_msg_due)}
      WHERE m.def_id = :def_id AND m.status = 0 ORDER BY {order_of_slice} LIMIT :sample) AS blocked
