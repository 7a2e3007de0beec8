-- given: `limit`, `lease` in milliseconds, `max_tries` (absent: any number). Returns the fence; id and score of each claimed
-- task; their values; index and tries of those that were claimed before; index and target URL of those that have one; what was put
-- aside; the ids of dead ones. A task that cannot be used leaves its set, so that the loop ends.
local limit, lease, max_tries = given.limit, text(lease_end(given.lease)), given.max_tries or math.huge
local count, taken, values, again, targets, aside, dead = 0, {}, {}, {}, {}, {}, {}
also_when_full()
-- One number for the whole claim. It only goes up, also when an id is used again. The first one is the time in microseconds, so
-- that after FLUSHALL no earlier number is given again.
local fence = redis.call('INCR', LAST_NUMBER)
if fence == 1 then
  fence = now * 1000
  redis.call('SET', LAST_NUMBER, text(fence))
end
local fence_text = text(fence)

-- Counters, because asking a table for its length is a search.
while count < limit and #aside / 2 + #dead < 1000 do
  local found = due_ids(DUE, 0, limit - count, 'WITHSCORES')
  if #found == 0 then break end
  local ids, claimed, leases, n = {}, {}, {}, 0
  for i = 1, #found, 2 do ids[(i + 1) / 2] = found[i] end
  local entries = redis.call('HMGET', VALUES, unpack(ids))
  -- Empty for most tasks.
  local claims = redis.call('HLEN', CLAIMS) > 0 and redis.call('HMGET', CLAIMS, unpack(ids)) or {}
  local tried = redis.call('HLEN', TRIES) > 0 and redis.call('HMGET', TRIES, unpack(ids)) or {}
  local target = targets_of(ids)
  for i, id in ipairs(ids) do
    local tries = tries_of(tried[i], claims[i])
    if not entries[i] then
      put_aside_without_entry(id, aside)
    elseif tries >= max_tries then
      bury(id, 'all ' .. text(max_tries) .. ' tries used; in the last one its consumer died', tries)
      dead[#dead + 1] = id
    else
      count, n = count + 1, n + 2
      claimed[n - 1], claimed[n] = id, fence_text
      leases[n - 1], leases[n] = lease, id
      taken[2 * count - 1], taken[2 * count] = id, found[2 * i]
      values[count] = entries[i]
      if target[i] then targets[#targets + 1], targets[#targets + 2] = count, target[i] end
      if tries > 0 then
        again[#again + 1], again[#again + 2] = count, tries + 1
        if claims[i] then redis.call('HSET', TRIES, id, tries) end
      end
    end
  end
  if n > 0 then
    redis.call('HSET', CLAIMS, unpack(claimed))
    redis.call('ZADD', DUE, unpack(leases))
  end
end
-- A claim that finds nothing checks for damage: a few entries, at most once a second.
if count == 0 and redis.call('HLEN', VALUES) > 0 then
  local cursor, next_time = unpack(redis.call('HMGET', CHECK, 'cursor', 'next_time'))
  if now >= tonumber(next_time or 0) then
    redis.call('HSET', CHECK, 'cursor', check_page(cursor or '0', 50, aside), 'next_time', text(now + 1000))
  end
end
return { fence, taken, values, again, targets, aside, dead }
