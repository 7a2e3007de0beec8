-- ARGV[2]: a random word that identifies the call; then for each notice: member, 'at' or 'in', milliseconds, parameter,
-- description, trace, ordering key, dedupe key, '=1' if the dedupe key lasts until the end. Returns for each 'n' and its member,
-- or 'd' and the member of the notice that has its dedupe key. The call can be repeated after a lost reply.
local out = {}
for i = 3, #ARGV, 9 do
  local m, ms, u = ARGV[i], tonumber(ARGV[i + 2]), opt(ARGV[i + 7])
  local taken = u and redis.call('HGET', B .. ':u', u)
  if redis.call('HGET', N(m), 'i') == ARGV[2] then
    out[#out + 1] = 'n' .. m
  elseif taken then
    out[#out + 1] = 'd' .. taken
  else
    local due = ARGV[i + 1] == 'in' and now + ms or math.max(ms, now)
    m = insert(m, due, ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], ARGV[i + 7], ARGV[i + 8])
    redis.call('HSET', N(m), 'i', ARGV[2])
    out[#out + 1] = 'n' .. m
  end
end
return out
