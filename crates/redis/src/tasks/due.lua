-- ARGV[2]: how many. Returns id, score and value of due tasks, the longest due first, their tries, and what was put aside.
-- Changes nothing else.
local limit = tonumber(ARGV[2])
local out, all_tries, aside = {}, {}, {}
local passed = 0
while #all_tries < limit and #aside / 2 < 1000 do
  local found = redis.call('ZRANGEBYSCORE', DUE, '-inf', text(now), 'WITHSCORES', 'LIMIT', passed, limit - #all_tries)
  if #found == 0 then break end
  for i = 1, #found, 2 do
    local id = found[i]
    local value = redis.call('HGET', VALUES, id)
    if value then
      local o = #out
      out[o + 1], out[o + 2], out[o + 3] = id, found[i + 1], value
      all_tries[#all_tries + 1] = tonumber(redis.call('HGET', TRIES, id) or nil) or tries_of(redis.call('HGET', CLAIMS, id))
      passed = passed + 1
    else
      put_aside(id, 'a score without an entry', aside)
    end
  end
end
return { out, all_tries, aside }
