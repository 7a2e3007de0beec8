-- Makes a task dead. `tries`: how often it was claimed.
local function bury(id, reason, tries)
  redis.call('ZREM', DUE, id)
  redis.call('HDEL', CLAIMS, id)
  redis.call('HSET', TRIES, id, tries)
  redis.call('ZADD', DEAD, text(now), id)
  redis.call('HSET', REASONS, id, reason)
end
