-- Acks and nacks of receivers.

-- row: EndedColumns
-- An ended notice, as far as a late ack needs it.
status = status
fence = fence
def_id = def_id
create_time = {epoch_down(create_time)}

-- name: stored_where
-- Returns 1 where a notice is live, 2 where it has ended. Without a lock: where there is no row, a locking read on MySQL would lock the gap, and
-- the next insert of any session would wait there until the caller's transaction ends.
-- args: id int
SELECT 1 FROM notify_msg WHERE id = :id UNION ALL SELECT 2 FROM notify_msg_history WHERE id = :id

-- macro: answerable
-- The status is behind the columns of a claim.
SELECT {stored_claim}, status FROM notify_msg WHERE id = :id

-- name: answerable
-- A lock that waits for a settle that runs now finds no row afterwards; the next look finds the notice where it went.
-- args: id int
{answerable}{lock_wait}

-- name: answerable_if_free
-- args: id int
{answerable}{lock_if_free}

-- macro: ended
SELECT {EndedColumns} FROM notify_msg_history WHERE id = :id

-- name: ended
-- args: id int
{ended}{lock_wait}

-- name: ended_if_free
-- args: id int
{ended}{lock_if_free}

-- name: store_id
SELECT store_id FROM notify_switch

-- name: nack
-- The new status makes the settle of a sender that is still running fail.
-- args: id int, errors text
UPDATE notify_msg SET status = 4, errors = {to_json(:errors)}, next_call_time = {now} WHERE id = :id

-- name: ack_late
-- args: id int, reason text
UPDATE notify_msg_history SET status = 1, finish_time = {now}, end_reason = :reason, error_group = NULL WHERE id = :id
