-- Of each task its id (empty: the next number), 'at' or 'in', milliseconds, value. Answers with the id of each, and whether it was
-- added. It needs three keys and no more.
local DUE, VALUES, SEQ = KEYS[1], KEYS[2], KEYS[3]
local out = {}
for i = 2, #ARGV, 4 do
  local id, ms = ARGV[i], tonumber(ARGV[i + 2])
  local added
  repeat
    if ARGV[i] == '' then id = text(redis.call('INCR', SEQ)) end
    added = redis.call('HSETNX', VALUES, id, ARGV[i + 3])
  until added == 1 or ARGV[i] ~= ''
  if added == 1 then
    redis.call('ZADD', DUE, text(ARGV[i + 1] == 'in' and now + ms or math.max(ms, 0)), id)
  end
  out[#out + 1] = { id, added }
end
return out
