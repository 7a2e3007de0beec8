-- ARGV[2]: what: 'r0', 'r2', 'rs' (a queue slice), 'ids', 'keys'; ARGV[3]: the maximum; ARGV[4]: the lease; ARGV[5]: the worker;
-- ARGV[6]: 'look' (returns the notices and the limits), 'take' (claims these, if the limits are unchanged), 'free' (no limits);
-- ARGV[7]: the limits as read; ARGV[8]: the new limits; ARGV[9]: the maximum number under way before; then members or keys.
local what, most, lease, worker, mode = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local limits = redis.call('GET', B .. ':lim') or ''
local found, aside = {}, {}

local function is_due(slice, m)
  local score = redis.call('ZSCORE', B .. slice, m)
  return score and tonumber(score) <= now
end

if what == 'ids' then
  for i = 10, #ARGV do
    if #found < most and is_due(':r0', ARGV[i]) then found[#found + 1] = ARGV[i] end
  end
elseif what == 'any' then
  for i = 10, #ARGV do
    if is_due(':r0', ARGV[i]) or is_due(':r2', ARGV[i]) or is_due(':rs', ARGV[i]) then found[#found + 1] = ARGV[i] end
  end
elseif what == 'keys' then
  for i = 10, #ARGV do
    local from, to = key_range(ARGV[i])
    local first = redis.call('ZRANGEBYLEX', B .. ':o', from, to, 'LIMIT', 0, 1)[1]
    local m = first and string.sub(first, -19)
    if m and #found < most and is_due(':r0', m) then found[#found + 1] = m end
  end
else
  local slice = B .. ':' .. what
  while #found < most and #aside < 1000 do
    local due = redis.call('ZRANGEBYSCORE', slice, '-inf', text(now), 'LIMIT', #found, most - #found)
    if #due == 0 then break end
    for _, m in ipairs(due) do
      if redis.call('EXISTS', N(m)) == 1 then
        found[#found + 1] = m
      else
        put_aside(m, 'a score without an entry')
        aside[#aside + 1] = m
      end
    end
  end
end

local sending = redis.call('ZCARD', B .. ':z5')
if mode == 'look' then
  return { 'seen', text(now), limits, sending, found, aside }
elseif mode == 'take' then
  -- Another client has changed something, so Rust must decide again.
  if limits ~= ARGV[7] or sending > tonumber(ARGV[9]) or #found ~= #ARGV - 9 then return { 'conflict' } end
  redis.call('SET', B .. ':lim', ARGV[8])
end
local out = {}
for _, m in ipairs(found) do
  leave(m)
  redis.call('HINCRBY', N(m), 'a', 1)
  redis.call('HSET', N(m), 'w', worker, 'l', text(now))
  enter(m, '5', now + lease)
  out[#out + 1] = seen(m)
end
return { 'claimed', text(now), redis.call('GET', B .. ':lim') or '', sending + #out, out, aside }
