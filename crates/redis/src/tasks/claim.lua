-- ARGV[2]: how many, ARGV[3]: the lease in milliseconds, ARGV[4]: the maximum number of tries, 0 for any. Returns the fence; id
-- and score of each claimed task; their values; index and tries of those that were claimed before; what was put aside; the ids of
-- dead ones. A task that cannot be used leaves its set, so that the loop ends.
local limit, lease, most = tonumber(ARGV[2]), text(now + tonumber(ARGV[3])), tonumber(ARGV[4])
local count, taken, values, again, aside, dead = 0, {}, {}, {}, {}, {}
also_when_full()
-- One number for the whole claim. It only goes up, also when an id is used again.
local fence = text(next_number(LAST_NUMBER))
local first = fence .. ':1'

-- Counters, because asking a table for its length is a search.
while count < limit and #aside / 2 + #dead < 1000 do
  local found = redis.call('ZRANGEBYSCORE', DUE, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, limit - count)
  if #found == 0 then break end
  local ids, held, leases, n = {}, {}, {}, 0
  for i = 1, #found, 2 do ids[(i + 1) / 2] = found[i] end
  local entries = redis.call('HMGET', VALUES, unpack(ids))
  -- Empty for most tasks.
  local claims = redis.call('HLEN', CLAIMS) > 0 and redis.call('HMGET', CLAIMS, unpack(ids)) or {}
  local tried = redis.call('HLEN', TRIES) > 0 and redis.call('HMGET', TRIES, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    local before = 0
    if tried[i] or claims[i] then before = tonumber(tried[i] or nil) or tries_of(claims[i]) end
    if not entries[i] then
      put_aside(id, 'a score without an entry', aside)
    elseif most > 0 and before >= most then
      bury(id, 'all ' .. text(most) .. ' tries used; in the last one its consumer died', before)
      dead[#dead + 1] = id
    else
      count, n = count + 1, n + 2
      held[n - 1], held[n] = id, first
      leases[n - 1], leases[n] = lease, id
      taken[2 * count - 1], taken[2 * count] = id, found[2 * i]
      values[count] = entries[i]
      if before > 0 then
        held[n] = fence .. ':' .. text(before + 1)
        again[#again + 1], again[#again + 2] = count, before + 1
      end
      if tried[i] then redis.call('HDEL', TRIES, id) end
    end
  end
  if n > 0 then
    redis.call('HSET', CLAIMS, unpack(held))
    redis.call('ZADD', DUE, unpack(leases))
  end
end
-- A claim that finds nothing checks for damage: a few entries, at most once a second.
if count == 0 and redis.call('HLEN', VALUES) > 0 then
  local cursor, next_time = unpack(redis.call('HMGET', CHECK, 'cursor', 'next_time'))
  if now >= tonumber(next_time or 0) then
    redis.call('HSET', CHECK, 'cursor', check_window(cursor or '0', 50, aside), 'next_time', text(now + 1000))
  end
end
return { tonumber(fence), taken, values, again, aside, dead }
