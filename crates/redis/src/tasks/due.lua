-- ARGV[2]: how many. Answers with what is due, the longest first, and with what was put aside. Changes nothing else.
local limit = tonumber(ARGV[2])
local out, aside = {}, {}
while #out < limit and #aside < 1000 do
  local found = redis.call('ZRANGEBYSCORE', DUE, '-inf', text(now), 'WITHSCORES', 'LIMIT', #out, limit - #out)
  if #found == 0 then break end
  for i = 1, #found, 2 do
    local id = found[i]
    local value = redis.call('HGET', VALUES, id)
    if value then
      out[#out + 1] = { id, found[i + 1], value, redis.call('HGET', TRIES, id) or '0' }
    else
      put_aside(id, 'a score without an entry')
      aside[#aside + 1] = id
    end
  end
end
return { out, aside }
