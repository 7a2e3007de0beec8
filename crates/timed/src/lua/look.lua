-- given: `what` to read. Each branch names its further field.
local what = given.what
if what == 'count' then
  return {
    redis.call('ZCARD', DUE), redis.call('ZCOUNT', DUE, '-inf', text(now)), redis.call('HLEN', CLAIMS),
    redis.call('ZCARD', DEAD), redis.call('HLEN', ASIDE),
  }
elseif what == 'next_due' then
  -- The time, and the earliest score, if there is one.
  return { text(now), redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2] }
elseif what == 'is_scheduled' then
  return redis.call('ZSCORE', DUE, given.id) and 1 or 0
elseif what == 'dead' then
  -- `limit` of them, the latest first.
  local out = {}
  for _, id in ipairs(redis.call('ZREVRANGE', DEAD, 0, given.limit - 1)) do
    out[#out + 1] = {
      id, redis.call('ZSCORE', DEAD, id), redis.call('HGET', REASONS, id) or '', redis.call('HGET', TRIES, id) or '0',
      redis.call('HGET', VALUES, id) or '', redis.call('HGET', TARGETS, id) or '',
    }
  end
  return out
elseif what == 'purge' then
  -- One batch of tasks that have been dead for at least `minimum_age` milliseconds.
  local ids = redis.call('ZRANGEBYSCORE', DEAD, '-inf', text(now - given.minimum_age), 'LIMIT', 0, 500)
  for _, id in ipairs(ids) do
    forget(id)
    redis.call('HDEL', TARGETS, id)
  end
  return ids
elseif what == 'aside' then
  local page = redis.call('HSCAN', ASIDE, given.cursor, 'COUNT', 500)
  return { page[1], page[2] }
else
  -- 'check'
  local aside = {}
  return { check_page(given.cursor, 500, aside), aside }
end
