-- given.runs: each has the `fence` of a claim, `ids` with equal outcomes, and the `outcome`: 'finish', 'retry' with its due time,
-- 'dead' with its `reason`, 'extend' with the milliseconds of its `lease`, 'aside' with its `reason`, 'release'. Returns the positions
-- of outcomes whose lease was lost.
local lost, before = {}, 0
for _, run in ipairs(given.runs) do
  local fence, outcome, ids = run.fence, run.outcome, run.ids
  local claims = redis.call('HMGET', CLAIMS, unpack(ids))
  local over, finished, n = {}, {}, 0
  for i, id in ipairs(ids) do
    if claims[i] ~= fence or over[id] then
      lost[#lost + 1] = before + i
    elseif outcome == 'finish' then
      n = n + 1
      finished[n] = id
    else
      over[id] = true
      if outcome == 'aside' then
        put_aside(id, run.reason)
      elseif outcome == 'release' then
        -- TRIES stays as it is, so this claim does not count.
        redis.call('HDEL', CLAIMS, id)
        redis.call('ZADD', DUE, text(now), id)
      elseif outcome == 'extend' then
        also_when_full()
        redis.call('ZADD', DUE, text(lease_end(run.lease)), id)
      else
        local tries = tries_of(redis.call('HGET', TRIES, id), claims[i])
        if outcome == 'dead' then
          bury(id, run.reason, tries)
        else
          redis.call('HDEL', CLAIMS, id)
          redis.call('HSET', TRIES, id, tries)
          redis.call('ZADD', DUE, due_time(run), id)
        end
      end
    end
  end
  -- A claimed task is in no other key.
  if n > 0 then
    redis.call('ZREM', DUE, unpack(finished))
    redis.call('HDEL', VALUES, unpack(finished))
    redis.call('HDEL', CLAIMS, unpack(finished))
    redis.call('HDEL', TRIES, unpack(finished))
    redis.call('HDEL', TARGETS, unpack(finished))
  end
  before = before + #ids
end
return lost
