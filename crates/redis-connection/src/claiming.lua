-- How notices and timed tasks are claimed, which is the same for both:
-- 1. An id is in a sorted set, and its score is the next time at which a claim must look at it: its due time.
-- 2. A claim takes ids that are due. It gives each a fence, which is higher than that of all its claims before, and moves its score
--    to the end of the lease.
-- 3. A settle compares the fence. If it differs, the lease was lost, and nothing is changed.
-- 4. A lease that is over makes the id due again.
-- 5. An id that cannot be used is put aside, where people find it, so that it stops nothing else.
-- A script that includes this one defines before it ASIDE, the hash of what was put aside, and `forget(id)`, which removes an id
-- from all other keys and returns its value, if it has one.

-- Redis checks its memory until a script has written. Scripts that make room, now or later, must also run on a full server, so they
-- begin with this where their first write needs memory.
local function also_when_full()
  redis.call('HDEL', ASIDE, '')
end

-- Ids of what is due, the longest due first; with 'WITHSCORES' each with its score.
local function due_ids(set, offset, count, ...)
  return redis.call('ZRANGEBYSCORE', set, '-inf', text(now), 'LIMIT', offset, count, ...)
end

-- The end of a lease of so many milliseconds from now; 'inf': for ever.
local function lease_end(milliseconds)
  return now + milliseconds
end

-- Adds the id and the reason to `aside`, if given.
local function put_aside(id, reason, aside)
  local value = forget(id)
  redis.call('HSET', ASIDE, id, cjson.encode({ reason = reason, time = text(now), value = value or nil }))
  if aside then aside[#aside + 1], aside[#aside + 2] = id, reason end
end

-- Puts an id aside that is in a sorted set and nowhere else.
local function put_aside_without_entry(id, aside)
  put_aside(id, 'a score without an entry', aside)
end
