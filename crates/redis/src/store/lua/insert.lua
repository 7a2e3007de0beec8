-- given: `call`, a random word that identifies the call; `notices`: each has `member`, `param`, its other texts if there are any, and
-- when it is due: `at` a time, or `delay` from now, in milliseconds. Returns for each 'n' and its member, or 'd' and the member of
-- the notice that has its dedupe key; a skipped one never is a duplicate. The call can be repeated after a lost reply.
-- Notices that are passed on to a target instead: `source`, the definition that passes them on; each notice also has its `number` there and
-- `parent_id`. Those up to the number that has arrived are left out, and those whose dedupe key is taken. Returns for each the member of the
-- notice that has its dedupe key instead, or ''. A call that repeats numbers, after a lost reply, returns the same: what the last calls found
-- is kept until the first number of a call is greater.
if given.source then
  local found = given.source .. ':found'
  local arrived, earlier = unpack(redis.call('HMGET', key('arrived'), given.source, found))
  arrived, earlier = tonumber(arrived or '0'), cjson.decode(earlier or '{}')
  local out, repeatable = {}, {}
  for number, taken in pairs(earlier) do
    if tonumber(number) > given.notices[#given.notices].number then repeatable[number] = taken end
  end
  for i, notice in ipairs(given.notices) do
    local number = text(notice.number)
    local taken = earlier[number]
    if notice.number > arrived then
      arrived = notice.number
      taken = notice.dedupe_key and redis.call('HGET', dedupe_keys, notice.dedupe_key)
      if not taken then insert(notice, now, 'parent_id', notice.parent_id) end
    end
    out[i], repeatable[number] = taken or '', taken or nil
  end
  redis.call('HSET', key('arrived'), given.source, text(arrived))
  if next(repeatable) then
    redis.call('HSET', key('arrived'), found, cjson.encode(repeatable))
  elseif next(earlier) then
    redis.call('HDEL', key('arrived'), found)
  end
  return out
end
local out = {}
for i, notice in ipairs(given.notices) do
  local taken = notice.dedupe_key and not notice.skipped and redis.call('HGET', dedupe_keys, notice.dedupe_key)
  if redis.call('HGET', notice_key(notice.member), 'insert_call') == given.call then
    out[i] = 'n' .. notice.member
  elseif taken then
    out[i] = 'd' .. taken
  else
    local due = notice.delay and now + notice.delay or math.max(notice.at, now)
    out[i] = 'n' .. insert(notice, due, 'insert_call', given.call)
  end
end
return out
