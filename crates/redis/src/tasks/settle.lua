-- ARGV from 2 on, for each run of equal outcomes: the fence with its colon, the outcome, its argument ('finish' none, 'retry' due
-- time, 'dead' reason, 'lease' milliseconds, 'aside' reason), the number of ids, the ids. Returns the positions of outcomes whose
-- task the consumer no longer held.
local lost, before, next_run = {}, 0, 2
also_when_full()
while next_run < #ARGV do
  local fence, what, more, count = unpack(ARGV, next_run, next_run + 3)
  local first = next_run + 4
  next_run, count = first + count, tonumber(count)
  local ids = { unpack(ARGV, first, next_run - 1) }
  local claims = redis.call('HMGET', CLAIMS, unpack(ids))
  -- Most tasks are in their first try.
  local usual, over, finished, n = fence .. '1', {}, {}, 0
  for i = 1, count do
    local claim, id = claims[i], ids[i]
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
  -- A held task is in no other key.
  if n > 0 then
    redis.call('ZREM', DUE, unpack(finished))
    redis.call('HDEL', VALUES, unpack(finished))
    redis.call('HDEL', CLAIMS, unpack(finished))
  end
  before = before + count
end
return lost
