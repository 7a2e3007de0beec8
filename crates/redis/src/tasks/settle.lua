-- ARGV from 2 on, of each run of outcomes that are alike: fence with its colon, what, what that needs ('finish', 'retry' when it is due,
-- 'dead' reason, 'lease' milliseconds, 'aside' reason), how many, their ids. Answers with the places of those that no longer held
-- their tasks.
local lost, before = {}, 0
also_when_full()
local at = 2
while at < #ARGV do
  local fence, what, more, count, first = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), at + 4
  at = first + count
  local claims = redis.call('HMGET', CLAIMS, unpack(ARGV, first, at - 1))
  -- Of most tasks it is the first try.
  local usual, over, finished, n = fence .. '1', {}, {}, 0
  for i = 1, count do
    local claim, id = claims[i], ARGV[first + i - 1]
    if not claim or claim ~= usual and string.find(claim, fence, 1, true) ~= 1 or over[id] then
      lost[#lost + 1] = before + i
    elseif what == 'finish' then
      n = n + 1
      finished[n] = id
    else
      over[id] = true
      if what == 'aside' then
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
  if n > 0 then
    redis.call('ZREM', DUE, unpack(finished))
    redis.call('HDEL', VALUES, unpack(finished))
    redis.call('HDEL', CLAIMS, unpack(finished))
  end
  before = before + count
end
return lost
