-- The start of every script of the timed tasks except the one that adds. A task is an id in one of two sorted sets, and its value
-- in one hash. DUE: the next time at which a claim must look at it: its due time, or the end of its lease. DEAD: the time of its
-- death. CLAIMS has 'fence:tries' of held tasks, TRIES the tries of tasks that are not held and were claimed before. REASONS has
-- the reasons of dead tasks. `scripts.rs` lists all keys.
local DUE, VALUES, CLAIMS, TRIES, DEAD, REASONS, ASIDE, LAST_NUMBER, CHECK =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]

-- Redis checks its memory until a script has written. Scripts that make room, now or later, must also run on a full server.
local function also_when_full()
  redis.call('HDEL', REASONS, '')
end

local function forget(id)
  redis.call('ZREM', DUE, id)
  redis.call('ZREM', DEAD, id)
  redis.call('HDEL', VALUES, id)
  redis.call('HDEL', CLAIMS, id)
  redis.call('HDEL', TRIES, id)
  redis.call('HDEL', REASONS, id)
end

local function bury(id, reason, tries)
  redis.call('ZREM', DUE, id)
  redis.call('HDEL', CLAIMS, id)
  redis.call('HSET', TRIES, id, tries)
  redis.call('ZADD', DEAD, text(now), id)
  redis.call('HSET', REASONS, id, reason)
end

-- The tries in a task's value of CLAIMS; 0 if it has none.
local function tries_of(claim)
  return claim and tonumber(string.match(claim, ':(%d+)$')) or 0
end

-- Moves a task that cannot be used to ASIDE, where people find it, and out of all other keys.
-- Adds its id and the reason to `aside`, if given.
local function put_aside(id, reason, aside)
  local value = redis.call('HGET', VALUES, id)
  forget(id)
  redis.call('HSET', ASIDE, id, cjson.encode({ reason = reason, time = text(now), value = value or nil }))
  if aside then aside[#aside + 1], aside[#aside + 2] = id, reason end
end
