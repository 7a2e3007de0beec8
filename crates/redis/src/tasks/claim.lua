-- ARGV[2]: how many, ARGV[3]: the lease in milliseconds, ARGV[4]: the most tries, 0 for any number.
-- Answers with what was claimed, what was put aside and what has died. What cannot be used leaves its set, so that the loop ends.
local limit, lease, most = tonumber(ARGV[2]), text(now + tonumber(ARGV[3])), tonumber(ARGV[4])
local out, aside, dead = {}, {}, {}

local function take(set)
  while #out < limit and #aside + #dead < 1000 do
    local found = redis.call('ZRANGEBYSCORE', set, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, limit - #out)
    if #found == 0 then return end
    local ids = {}
    for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
    local values = redis.call('HMGET', VALUES, unpack(ids))
    local tried = redis.call('HMGET', TRIES, unpack(ids))
    -- The fence: it never goes back, not even for an id that is used again.
    local fence = redis.call('INCRBY', SEQ, #ids) - #ids
    local taken, tries, held, leases = {}, {}, {}, {}
    for i, id in ipairs(ids) do
      local try = tonumber(tried[i] or '0') + 1
      if not values[i] then
        put_aside(id, 'a score without an entry')
        aside[#aside + 1] = id
      elseif most > 0 and try > most then
        redis.call('ZREM', set, id)
        redis.call('HDEL', HELD, id)
        redis.call('ZADD', DEAD, text(now), id)
        redis.call('HSET', WHY, id, 'all ' .. text(most) .. ' tries used; in the last one its consumer died')
        dead[#dead + 1] = id
      else
        local n = 2 * #taken + 1
        local words = { id, found[2 * i], values[i], text(try), text(fence + i) }
        taken[#taken + 1] = id
        tries[n], tries[n + 1] = id, words[4]
        held[n], held[n + 1] = id, words[5]
        leases[n], leases[n + 1] = lease, id
        out[#out + 1] = words
      end
    end
    if #taken > 0 then
      redis.call('HSET', TRIES, unpack(tries))
      redis.call('HSET', HELD, unpack(held))
      if set ~= LEASE then redis.call('ZREM', set, unpack(taken)) end
      redis.call('ZADD', LEASE, unpack(leases))
    end
  end
end

-- What a dead consumer held has waited longest.
take(LEASE)
take(DUE)
return { out, aside, dead }
