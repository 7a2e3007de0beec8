-- ARGV from 2 on, of each outcome: id, fence, what, and what it needs: 'finish', 'in' / 'at' milliseconds, 'dead' reason,
-- 'lease' milliseconds, 'aside' reason. Answers 1 for each that still held its task, else 0.
local ids, out, finished = {}, {}, {}
for i = 2, #ARGV, 4 do ids[#ids + 1] = ARGV[i] end
if #ids == 0 then return out end
local held = redis.call('HMGET', HELD, unpack(ids))
local twice = {}
for n, id in ipairs(ids) do
  local i = 4 * n - 2
  local what, more = ARGV[i + 2], ARGV[i + 3]
  if held[n] ~= ARGV[i + 1] or twice[id] then
    out[n] = 0
  else
    out[n] = 1
    twice[id] = what ~= 'lease'
    if what == 'finish' then
      finished[#finished + 1] = id
    elseif what == 'aside' then
      put_aside(id, more)
    elseif what == 'lease' then
      redis.call('ZADD', LEASE, text(now + tonumber(more)), id)
    else
      redis.call('ZREM', LEASE, id)
      redis.call('HDEL', HELD, id)
      if what == 'dead' then
        redis.call('ZADD', DEAD, text(now), id)
        redis.call('HSET', WHY, id, more)
      else
        redis.call('ZADD', DUE, text(what == 'in' and now + tonumber(more) or tonumber(more)), id)
      end
    end
  end
end
-- What is held is in no other set.
if #finished > 0 then
  redis.call('ZREM', LEASE, unpack(finished))
  redis.call('HDEL', VALUES, unpack(finished))
  redis.call('HDEL', HELD, unpack(finished))
  redis.call('HDEL', TRIES, unpack(finished))
end
return out
