-- given: `what`: 'delete', 'revive', 'set_aside' with its `reason` (only tasks that no consumer holds), or 'reschedule' with the due
-- time; `ids`. Returns for each id: 1 done, 0 unknown, 2 claimed by a consumer.
local what = given.what
local out = {}
for i, id in ipairs(given.ids) do
  local done = 0
  if what == 'delete' then
    if forget(id) then done = 1 end
    redis.call('HDEL', ASIDE, id)
    redis.call('HDEL', TARGETS, id)
  elseif what == 'set_aside' then
    local score = redis.call('ZSCORE', DUE, id)
    if score and (tonumber(score) <= now or redis.call('HEXISTS', CLAIMS, id) == 0) then
      put_aside(id, given.reason)
      done = 1
    end
  elseif what == 'revive' then
    done = redis.call('ZREM', DEAD, id)
    if done == 1 then
      redis.call('HDEL', REASONS, id)
      redis.call('HDEL', TRIES, id)
      redis.call('ZADD', DUE, text(now), id)
    end
  elseif redis.call('HEXISTS', CLAIMS, id) == 1 then
    done = 2
  elseif redis.call('ZSCORE', DUE, id) then
    redis.call('ZADD', DUE, due_time(given), id)
    done = 1
  end
  out[i] = done
end
return out
