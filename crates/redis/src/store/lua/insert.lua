-- ARGV[2]: a random word that identifies the call; then for each notice: member, 'at' or 'in', milliseconds, parameter,
-- description, trace, ordering key, dedupe key, '=1' if the dedupe key lasts until the end. Returns for each 'n' and its member,
-- or 'd' and the member of the notice that has its dedupe key. The call can be repeated after a lost reply.
local insert_call, FIRST, WORDS = ARGV[2], 3, 9
local out = {}
for at = FIRST, #ARGV, WORDS do
  local member, way, milliseconds, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended =
    unpack(ARGV, at, at + WORDS - 1)
  local taken = dedupe_key ~= '' and redis.call('HGET', dedupe_keys, optional(dedupe_key))
  if redis.call('HGET', notice_key(member), 'insert_call') == insert_call then
    out[#out + 1] = 'n' .. member
  elseif taken then
    out[#out + 1] = 'd' .. taken
  else
    local due = way == 'in' and now + tonumber(milliseconds) or math.max(tonumber(milliseconds), now)
    member = insert(member, due, param, description, trace_context, ordering_key, dedupe_key, dedupe_until_ended)
    redis.call('HSET', notice_key(member), 'insert_call', insert_call)
    out[#out + 1] = 'n' .. member
  end
end
return out
