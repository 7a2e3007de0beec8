-- What every script of the timed tasks begins with but the one that adds. A task is an id in one of two sorted sets and its value in
-- one hash. DUE: the next moment at which somebody must look at it, when it is due or when its lease ends. DEAD: when it ended.
-- CLAIMS has 'fence:tries' of those that are held, TRIES the tries of those that are not and were claimed before.
local DUE, VALUES, CLAIMS, TRIES, DEAD, WHY, ASIDE, SEQ, CHECKED =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]

-- Redis looks at its memory until a script has written. What makes room, now or later, must be done on a full server too.
local function also_when_full()
  redis.call('HDEL', WHY, '')
end

local function forget(id)
  redis.call('ZREM', DUE, id)
  redis.call('ZREM', DEAD, id)
  redis.call('HDEL', VALUES, id)
  redis.call('HDEL', CLAIMS, id)
  redis.call('HDEL', TRIES, id)
  redis.call('HDEL', WHY, id)
end

local function bury(id, reason, tries)
  redis.call('ZREM', DUE, id)
  redis.call('HDEL', CLAIMS, id)
  redis.call('HSET', TRIES, id, tries)
  redis.call('ZADD', DEAD, text(now), id)
  redis.call('HSET', WHY, id, reason)
end

-- The tries in what CLAIMS has of a task; 0 of one that it does not have.
local function tries_of(claim)
  return claim and tonumber(string.match(claim, ':(%d+)$')) or 0
end

-- Keeps what cannot be used where a person finds it, and takes it out of everybody's way.
-- Adds its id and the reason to `aside`, if there is one.
local function put_aside(id, reason, aside)
  local value = redis.call('HGET', VALUES, id)
  forget(id)
  redis.call('HSET', ASIDE, id, cjson.encode({ reason = reason, time = text(now), value = value or nil }))
  if aside then aside[#aside + 1], aside[#aside + 2] = id, reason end
end
