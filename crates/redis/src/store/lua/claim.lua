-- ARGV[2]: what: 'first_sends', 'retries', 'crash_looping' (sets of ready notices), 'ids', 'any' (ids in any of these sets),
-- 'keys'; ARGV[3]: the maximum; ARGV[4]: the lease; ARGV[5]: the worker; ARGV[6]: 'look' (returns the notices and the limits),
-- 'take' (claims these, if the limits are unchanged), 'free' (no limits); ARGV[7]: the limits as read; ARGV[8]: the new limits;
-- ARGV[9]: the maximum number under way before; then members or keys.
local what, most, lease, worker, mode = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local seen_limits, new_limits, most_sending = ARGV[7], ARGV[8], tonumber(ARGV[9])
local FIRST = 10
local wanted = #ARGV - FIRST + 1
local limits = redis.call('GET', key('limit')) or ''
local found, aside = {}, {}

local function is_due(ready, member)
  local score = redis.call('ZSCORE', ready, member)
  return score and tonumber(score) <= now
end

if what == 'ids' then
  for at = FIRST, #ARGV do
    local member = ARGV[at]
    if #found < most and is_due(ready_first_sends, member) then found[#found + 1] = member end
  end
elseif what == 'any' then
  for at = FIRST, #ARGV do
    local member = ARGV[at]
    if is_due(ready_first_sends, member) or is_due(ready_retries, member) or is_due(ready_crash_looping, member) then
      found[#found + 1] = member
    end
  end
elseif what == 'keys' then
  for at = FIRST, #ARGV do
    local from, to = key_range(ARGV[at])
    local first = redis.call('ZRANGEBYLEX', ordering_keys, from, to, 'LIMIT', 0, 1)[1]
    local member = first and string.sub(first, -19)
    if member and #found < most and is_due(ready_first_sends, member) then found[#found + 1] = member end
  end
else
  local ready = key('ready:' .. what)
  while #found < most and #aside < 1000 do
    local due = redis.call('ZRANGEBYSCORE', ready, '-inf', text(now), 'LIMIT', #found, most - #found)
    if #due == 0 then break end
    for _, member in ipairs(due) do
      if redis.call('EXISTS', notice_key(member)) == 1 then
        found[#found + 1] = member
      else
        put_aside(member, 'a score without an entry')
        aside[#aside + 1] = member
      end
    end
  end
end

-- The number of notices that are being sent.
local sending = redis.call('ZCARD', status_set('5'))
if mode == 'look' then
  return { 'seen', text(now), limits, sending, found, aside }
elseif mode == 'take' then
  -- Another client has changed something, so Rust must decide again.
  if limits ~= seen_limits or sending > most_sending or #found ~= wanted then return { 'conflict' } end
  redis.call('SET', key('limit'), new_limits)
end
local out = {}
for _, member in ipairs(found) do
  leave(member)
  redis.call('HINCRBY', notice_key(member), 'fence', 1)
  redis.call('HSET', notice_key(member), 'worker', worker, 'last_call_time', text(now))
  -- sending
  enter(member, '5', now + lease)
  out[#out + 1] = seen(member)
end
return { 'claimed', text(now), redis.call('GET', key('limit')) or '', sending + #out, out, aside }
