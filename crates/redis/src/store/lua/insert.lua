-- ARGV[2]: a word of this call alone; then of each notice: member, 'at' or 'in', milliseconds, parameter, description, trace,
-- ordering key, dedupe key. Answers for each with 'n' and its member, or with 'd' and that of the live notice that has its dedupe
-- key. It can be repeated after a lost answer.
local out = {}
for i = 3, #ARGV, 8 do
  local m, ms, u = ARGV[i], tonumber(ARGV[i + 2]), opt(ARGV[i + 7])
  local taken = u and redis.call('HGET', B .. ':u', u)
  if redis.call('HGET', N(m), 'i') == ARGV[2] then
    out[#out + 1] = 'n' .. m
  elseif taken then
    out[#out + 1] = 'd' .. taken
  else
    local due = ARGV[i + 1] == 'in' and now + ms or math.max(ms, now)
    m = insert(m, due, ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], ARGV[i + 7])
    redis.call('HSET', N(m), 'i', ARGV[2])
    out[#out + 1] = 'n' .. m
  end
end
return out
