-- ARGV[2]: 'delete', 'revive', 'aside' (only tasks that no consumer holds) or 'due'; ARGV[3]: a reason, or the due time; then
-- ids. Returns for each: 1 done, 0 unknown, 2 held by a consumer.
local what, more = ARGV[2], ARGV[3]
local FIRST = 4
local out = {}
for at = FIRST, #ARGV do
  local id = ARGV[at]
  local done = 0
  if what == 'delete' then
    done = redis.call('HEXISTS', VALUES, id)
    forget(id)
    redis.call('HDEL', ASIDE, id)
  elseif what == 'aside' then
    local score = redis.call('ZSCORE', DUE, id)
    if score and (tonumber(score) <= now or redis.call('HEXISTS', CLAIMS, id) == 0) then
      put_aside(id, more)
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
    redis.call('ZADD', DUE, due_time(more), id)
    done = 1
  end
  out[#out + 1] = done
end
return out
