-- given: `what`: 'first_sends', 'retries', 'crash_looping' (sets of ready notices), 'ids' (`members` among the first sends), 'any'
-- (`members` in any of these sets) or 'keys' (`keys`); `most`, the maximum; `lease` in milliseconds; `worker`; `mode`: 'look'
-- (returns the notices, each with its expiry, and the limits), 'take' (claims these, if the limits are unchanged) or 'free' (no limits); to take:
-- `seen_limits`, `new_limits`, and `most_sending`, the maximum number under way before.
local what, most, mode = given.what, given.most, given.mode
local limits = redis.call('GET', key('limit')) or ''
local found, aside = {}, {}

local function is_due(ready, member)
  local score = redis.call('ZSCORE', ready, member)
  return score and tonumber(score) <= now
end

if what == 'ids' then
  for _, member in ipairs(given.members) do
    if #found < most and is_due(ready_first_sends, member) then found[#found + 1] = member end
  end
elseif what == 'any' then
  for _, member in ipairs(given.members) do
    if is_due(ready_first_sends, member) or is_due(ready_retries, member) or is_due(ready_crash_looping, member) then
      found[#found + 1] = member
    end
  end
elseif what == 'keys' then
  for _, ordering_key in ipairs(given.keys) do
    local from, to = key_range(ordering_key)
    local first = redis.call('ZRANGEBYLEX', ordering_keys, from, to, 'LIMIT', 0, 1)[1]
    local member = first and string.sub(first, -19)
    if member and #found < most and is_due(ready_first_sends, member) then found[#found + 1] = member end
  end
else
  local ready = key('ready:' .. what)
  while #found < most and #aside / 2 < 1000 do
    local due = due_ids(ready, #found, most - #found)
    if #due == 0 then break end
    for _, member in ipairs(due) do
      if redis.call('EXISTS', notice_key(member)) == 1 then
        found[#found + 1] = member
      else
        put_aside_without_entry(member, aside)
      end
    end
  end
end

-- The number of notices that are being sent.
local sending = redis.call('ZCARD', status_set('5'))
if mode == 'look' then
  local seen_ones = {}
  for i, member in ipairs(found) do seen_ones[i] = { member, (fields(member, 'expires_at')) } end
  return { 'seen', text(now), limits, sending, seen_ones, aside }
elseif mode == 'take' then
  -- Another client has changed something, so Rust must decide again.
  if limits ~= given.seen_limits or sending > given.most_sending or #found ~= #given.members then return { 'conflict' } end
  also_when_full()
  redis.call('SET', key('limit'), given.new_limits)
end
local out, lease = {}, lease_end(given.lease)
for _, member in ipairs(found) do
  if leave(member) then
    redis.call('HINCRBY', notice_key(member), 'fence', 1)
    redis.call('HSET', notice_key(member), 'worker', given.worker, 'last_call_time', text(now))
    -- sending
    enter(member, '5', lease)
    out[#out + 1] = seen(member)
  else
    put_aside_without_entry(member, aside)
  end
end
return { 'claimed', text(now), redis.call('GET', key('limit')) or '', sending + #out, out, aside }
