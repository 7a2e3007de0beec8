-- ARGV from 2 on, of each run of outcomes that are alike: fence with its colon, what, what that needs ('finish', 'retry' when it is due,
-- 'dead' reason, 'lease' milliseconds, 'aside' reason), how many, their ids. Answers 1 for each that still held its task, else 0.
local out = {}
also_when_full()
local at = 2
while at < #ARGV do
  local fence, what, more, first = ARGV[at], ARGV[at + 1], ARGV[at + 2], at + 4
  at = first + ARGV[at + 3]
  local claims = redis.call('HMGET', CLAIMS, unpack(ARGV, first, at - 1))
  local over, finished = {}, {}
  for n, claim in ipairs(claims) do
    local id = ARGV[first + n - 1]
    if not claim or string.find(claim, fence, 1, true) ~= 1 or over[id] then
      out[#out + 1] = 0
    else
      out[#out + 1] = 1
      over[id] = true
      if what == 'finish' then
        finished[#finished + 1] = id
      elseif what == 'aside' then
        put_aside(id, more)
      elseif what == 'lease' then
        redis.call('ZADD', DUE, text(now + tonumber(more)), id)
      elseif what == 'dead' then
        bury(id, more, tries_of(claim))
      else
        redis.call('HDEL', CLAIMS, id)
        redis.call('HSET', TRIES, id, tries_of(claim))
        redis.call('ZADD', DUE, due_time(more), id)
      end
    end
  end
  -- What is held has nothing elsewhere.
  if #finished > 0 then
    redis.call('ZREM', DUE, unpack(finished))
    redis.call('HDEL', VALUES, unpack(finished))
    redis.call('HDEL', CLAIMS, unpack(finished))
  end
end
return out
