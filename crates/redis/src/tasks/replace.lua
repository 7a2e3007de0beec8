-- Of each task its id, 'at' or 'in', milliseconds, value: it takes the place of what has this id.
local out = {}
for i = 2, #ARGV, 4 do
  local id, ms = ARGV[i], tonumber(ARGV[i + 2])
  forget(id)
  redis.call('HSET', VALUES, id, ARGV[i + 3])
  redis.call('ZADD', DUE, text(ARGV[i + 1] == 'in' and now + ms or math.max(ms, 0)), id)
  out[#out + 1] = { id, 1 }
end
return out
