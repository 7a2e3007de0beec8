-- ARGV[2]: what to read. Each branch names its further argument.
local what = ARGV[2]
if what == 'count' then
  return {
    redis.call('ZCARD', DUE), redis.call('ZCOUNT', DUE, '-inf', text(now)), redis.call('HLEN', CLAIMS),
    redis.call('ZCARD', DEAD), redis.call('HLEN', ASIDE),
  }
elseif what == 'is_scheduled' then
  local id = ARGV[3]
  return redis.call('ZSCORE', DUE, id) and 1 or 0
elseif what == 'dead' then
  -- The latest first.
  local limit = tonumber(ARGV[3])
  local out = {}
  for _, id in ipairs(redis.call('ZREVRANGE', DEAD, 0, limit - 1)) do
    out[#out + 1] = {
      id, redis.call('ZSCORE', DEAD, id), redis.call('HGET', REASONS, id) or '', redis.call('HGET', TRIES, id) or '0',
      redis.call('HGET', VALUES, id) or '',
    }
  end
  return out
elseif what == 'purge' then
  -- One window of tasks that have been dead for at least so many milliseconds.
  local minimum_age = tonumber(ARGV[3])
  local ids = redis.call('ZRANGEBYSCORE', DEAD, '-inf', text(now - minimum_age), 'LIMIT', 0, 500)
  for _, id in ipairs(ids) do forget(id) end
  return ids
elseif what == 'aside' then
  local cursor = ARGV[3]
  local page = redis.call('HSCAN', ASIDE, cursor, 'COUNT', 500)
  return { page[1], page[2] }
else
  -- 'check'
  local cursor, aside = ARGV[3], {}
  return { check_window(cursor, 500, aside), aside }
end
