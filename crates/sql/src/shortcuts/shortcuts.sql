-- The statements of the shortcuts. Only databases on which a measurement pays for one have it.

-- name: claim_fresh
-- As `claim_ids`, for notices without an ordering key that are probably not locked.
-- args: def_id int, status int, ids ids, worker text, lease int
-- postgres:
UPDATE notify_msg AS m
SET {claim_changes}
WHERE m.id = ANY (:ids::text::bigint[]) AND {due_by_id} AND m.ordering_key IS NULL
    AND {wait_briefly}
RETURNING {stored_claim}
