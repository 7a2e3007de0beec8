-- What every script of the timed tasks begins with but that which adds. A task is an id in one of three sorted sets (waiting by its due time, held
-- by the end of its lease, dead by the time of its end) and its value in one hash.
local DUE, LEASE, VALUES, HELD, TRIES, DEAD, WHY, ASIDE, SEQ =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]

local function forget(id)
  redis.call('ZREM', DUE, id)
  redis.call('ZREM', LEASE, id)
  redis.call('ZREM', DEAD, id)
  redis.call('HDEL', VALUES, id)
  redis.call('HDEL', HELD, id)
  redis.call('HDEL', TRIES, id)
  redis.call('HDEL', WHY, id)
end

-- Keeps what cannot be used where a person finds it, and takes it out of everybody's way.
local function put_aside(id, reason)
  local value = redis.call('HGET', VALUES, id)
  forget(id)
  redis.call('HSET', ASIDE, id, cjson.encode({ reason = reason, time = text(now), value = value or nil }))
end
