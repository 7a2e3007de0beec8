-- ARGV[2]: how many, ARGV[3]: the lease in milliseconds, ARGV[4]: the most tries, 0 for any number.
-- Answers with the fence, with id, score and value of each that was claimed, with their tries, with what was put aside and what has
-- died. What cannot be used leaves its set, so that the loop ends.
local limit, lease, most = tonumber(ARGV[2]), text(now + tonumber(ARGV[3])), tonumber(ARGV[4])
local out, all_tries, aside, dead = {}, {}, {}, {}
also_when_full()
-- One number for the whole claim. It never goes back, not even for an id that is used again.
local fence = text(next_number(SEQ))
local first = fence .. ':1'

while #all_tries < limit and #aside / 2 + #dead < 1000 do
  local found = redis.call('ZRANGEBYSCORE', DUE, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, limit - #all_tries)
  if #found == 0 then break end
  local ids = {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  local values = redis.call('HMGET', VALUES, unpack(ids))
  -- Of most tasks there is nothing in these.
  local claims = redis.call('HLEN', CLAIMS) > 0 and redis.call('HMGET', CLAIMS, unpack(ids)) or {}
  local tried = redis.call('HLEN', TRIES) > 0 and redis.call('HMGET', TRIES, unpack(ids)) or {}
  local held, leases = {}, {}
  for i, id in ipairs(ids) do
    local before = tonumber(tried[i] or nil) or tries_of(claims[i])
    if not values[i] then
      put_aside(id, 'a score without an entry', aside)
    elseif most > 0 and before >= most then
      bury(id, 'all ' .. text(most) .. ' tries used; in the last one its consumer died', before)
      dead[#dead + 1] = id
    else
      local n = #held
      held[n + 1], held[n + 2] = id, before == 0 and first or fence .. ':' .. text(before + 1)
      leases[n + 1], leases[n + 2] = lease, id
      if tried[i] then redis.call('HDEL', TRIES, id) end
      local o = #out
      out[o + 1], out[o + 2], out[o + 3] = id, found[2 * i], values[i]
      all_tries[#all_tries + 1] = before + 1
    end
  end
  if #held > 0 then
    redis.call('HSET', CLAIMS, unpack(held))
    redis.call('ZADD', DUE, unpack(leases))
  end
end
-- Who has nothing to do looks for damage, a little and not often.
if #all_tries == 0 and redis.call('HLEN', VALUES) > 0 then
  local checked = redis.call('HMGET', CHECKED, 'cursor', 'next')
  if now >= tonumber(checked[2] or 0) then
    redis.call('HSET', CHECKED, 'cursor', check_window(checked[1] or '0', 50, aside), 'next', text(now + 1000))
  end
end
return { tonumber(fence), out, all_tries, aside, dead }
