-- The start of every script of the timed tasks except the one that adds. A task is an id in one of two sorted sets, and its value
-- in one hash. DUE: the next time at which a claim must look at it: its due time, or the end of its lease. DEAD: the time of its
-- death. CLAIMS has the fence of each claimed task, TRIES how often a task was claimed, without a claim that is in CLAIMS.
-- REASONS has the reasons of dead tasks, TARGETS the target URLs. `scripts.rs` lists all keys.
local DUE, VALUES, CLAIMS, TRIES, DEAD, REASONS, ASIDE, LAST_NUMBER, CHECK, TARGETS, IMPORT =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]

-- Removes a task from all keys and returns its value. The target URL stays: an operator needs that of a task which was put aside.
local function forget(id)
  local value = redis.call('HGET', VALUES, id)
  redis.call('ZREM', DUE, id)
  redis.call('ZREM', DEAD, id)
  redis.call('HDEL', VALUES, id)
  redis.call('HDEL', CLAIMS, id)
  redis.call('HDEL', TRIES, id)
  redis.call('HDEL', REASONS, id)
  return value
end

-- How often a task was claimed, by its values in TRIES and CLAIMS.
local function tries_of(tried, claim)
  return (tonumber(tried or 0) or 0) + (claim and 1 or 0)
end

-- Sets or removes the target URL of a new task.
local function set_target(id, target)
  if target then redis.call('HSET', TARGETS, id, target) else redis.call('HDEL', TARGETS, id) end
end

-- The target URLs of these tasks; empty if no task has one.
local function targets_of(ids)
  return redis.call('EXISTS', TARGETS) == 1 and redis.call('HMGET', TARGETS, unpack(ids)) or {}
end

-- `delay` counts from now, `at` is a time, both in milliseconds.
local function due_time(of)
  return text(of.delay and now + of.delay or of.at)
end
