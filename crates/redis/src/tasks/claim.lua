-- ARGV[2]: how many, ARGV[3]: the lease in milliseconds, ARGV[4]: the most tries, 0 for any number.
-- Answers with the fence, with id and score of each that was claimed, with their values, with place and tries of those that were
-- claimed before, with what was put aside and what has died. What cannot be used leaves its set, so that the loop ends.
local limit, lease, most = tonumber(ARGV[2]), text(now + tonumber(ARGV[3])), tonumber(ARGV[4])
local count, taken, values, again, aside, dead = 0, {}, {}, {}, {}, {}
also_when_full()
-- One number for the whole claim. It never goes back, not even for an id that is used again.
local fence = text(next_number(SEQ))
local first = fence .. ':1'

-- Lengths are counted: to ask a table for its length is a search.
while count < limit and #aside / 2 + #dead < 1000 do
  local found = redis.call('ZRANGEBYSCORE', DUE, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, limit - count)
  if #found == 0 then break end
  local ids, held, leases, n = {}, {}, {}, 0
  for i = 1, #found, 2 do ids[(i + 1) / 2] = found[i] end
  local entries = redis.call('HMGET', VALUES, unpack(ids))
  -- Of most tasks there is nothing in these.
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
-- Who has nothing to do looks for damage, a little and not often.
if count == 0 and redis.call('HLEN', VALUES) > 0 then
  local checked = redis.call('HMGET', CHECKED, 'cursor', 'next')
  if now >= tonumber(checked[2] or 0) then
    redis.call('HSET', CHECKED, 'cursor', check_window(checked[1] or '0', 50, aside), 'next', text(now + 1000))
  end
end
return { tonumber(fence), taken, values, again, aside, dead }
