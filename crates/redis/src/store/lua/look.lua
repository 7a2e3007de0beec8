-- ARGV[2]: what to read. Changes nothing, except that it puts members without a notice aside.
local what = ARGV[2]

local function first(set)
  local found = redis.call('ZRANGE', B .. set, 0, 0, 'WITHSCORES')
  return found[2] or ''
end

if what == 'due' then
  local retry, crash_looping = first(':r2'), first(':rs')
  if retry == '' or (crash_looping ~= '' and tonumber(crash_looping) < tonumber(retry)) then retry = crash_looping end
  local tick = redis.call('HMGET', B .. ':tick', 'at', 'schedule')
  return {
    text(now), { first(':r0'), retry, first(':z5'), first(':z4') }, redis.call('LLEN', B .. ':alarms'),
    { redis.call('EXISTS', B .. ':tick'), tick[1] or '', tick[2] and ('=' .. tick[2]) or '' },
  }
elseif what == 'oldest' then
  -- Since when the first of all first sends has been due, including those behind another one of their ordering key.
  local oldest = first(':z0')
  return oldest ~= '' and tonumber(oldest) <= now and oldest or ''
elseif what == 'overdue' then
  -- ARGV[3]: the status, ARGV[4]: how many.
  local out = {}
  for _, m in ipairs(redis.call('ZRANGEBYSCORE', B .. ':z' .. ARGV[3], '-inf', text(now), 'LIMIT', 0, ARGV[4])) do
    local n = seen(m)
    if n then out[#out + 1] = n else put_aside(m, 'a score without an entry') end
  end
  return out
elseif what == 'held' then
  -- ARGV[3]: the worker, ARGV[4]: how many.
  local out = {}
  for _, m in ipairs(redis.call('ZRANGE', B .. ':z5', 0, -1)) do
    if #out < tonumber(ARGV[4]) and redis.call('HGET', N(m), 'w') == ARGV[3] then out[#out + 1] = seen(m) end
  end
  return out
elseif what == 'find' then
  local m = ARGV[3]
  local n = redis.call('HGETALL', N(m))
  if #n == 0 then return { n, '' } end
  return { n, redis.call('ZSCORE', B .. ':z' .. redis.call('HGET', N(m), 's'), m) or '' }
elseif what == 'list' then
  -- ARGV[3]: the set; ARGV[4], [5]: from and to, in its direction; ARGV[6]: '1': the latest first; ARGV[7]: how many;
  -- ARGV[8], [9]: score and member after which the page begins; empty: at the start.
  local latest, most = ARGV[6] == '1', tonumber(ARGV[7])
  local after = tonumber(ARGV[8])
  local out, offset = {}, 0
  while #out < most do
    local page = redis.call(
      latest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE', B .. ARGV[3], ARGV[4], ARGV[5], 'WITHSCORES', 'LIMIT', offset, 1000)
    if #page == 0 then break end
    for i = 1, #page, 2 do
      local m, score = page[i], tonumber(page[i + 1])
      local passed = after and score == after and ((latest and m >= ARGV[9]) or (not latest and m <= ARGV[9]))
      if not passed and #out < most then
        local n = redis.call('HMGET', N(m), 's', 'a', 'f', 'c', 'q', 'd', 'k', 'l', 'r', 'o', 'u')
        if n[1] then
          n[12], n[13] = m, page[i + 1]
          out[#out + 1] = n
        end
      end
    end
    offset = offset + 1000
  end
  return out
elseif what == 'count' then
  return redis.call('ZCOUNT', B .. ARGV[3], ARGV[4], ARGV[5])
elseif what == 'classes' then
  local out = {}
  for _, class in ipairs(redis.call('SMEMBERS', B .. ':cl')) do
    if redis.call('ZCARD', B .. ':z3:' .. class) > 0 then out[#out + 1] = class end
  end
  return out
elseif what == 'counts' then
  -- ARGV[3]: how many milliseconds back successes count.
  local oldest = ''
  for _, set in ipairs({ ':z0', ':z2' }) do
    local score = first(set)
    if score ~= '' and tonumber(score) <= now and (oldest == '' or tonumber(score) < tonumber(oldest)) then oldest = score end
  end
  local out = { text(now), oldest }
  for _, set in ipairs({ ':z0', ':z2', ':z5', ':z4', ':z3', ':z6' }) do
    out[#out + 1] = text(redis.call('ZCARD', B .. set))
  end
  out[#out + 1] = text(redis.call('ZCOUNT', B .. ':z1', text(now - tonumber(ARGV[3]) + 1), '+inf'))
  return out
elseif what == 'facts' then
  -- ARGV[3]: the time after which a success counts.
  local success = redis.call('ZRANGEBYSCORE', B .. ':z1', '(' .. ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return { text(now), success[2] or '', redis.call('ZCARD', B .. ':z2') }
elseif what == 'ahead' then
  -- ARGV[3]: the key, ARGV[4]: the member.
  local busy = redis.call('HGET', B .. ':b', ARGV[3])
  if busy and busy ~= ARGV[4] then return busy end
  local from, to = key_range(ARGV[3])
  local head = redis.call('ZRANGEBYLEX', B .. ':o', from, to, 'LIMIT', 0, 1)[1]
  local m = head and string.sub(head, -19) or ''
  return m < ARGV[4] and m or ''
elseif what == 'retries' then
  -- ARGV[3]: how many to skip, ARGV[4]: how many to read.
  local out = {}
  local from = tonumber(ARGV[3])
  local page = redis.call('ZRANGE', B .. ':z2', from, from + tonumber(ARGV[4]) - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    local n = redis.call('HMGET', N(page[i]), 'f', 'c', 'q', 'l')
    out[#out + 1] = { n[1] or '0', n[2] or '0', n[3] and ('=' .. n[3]) or '', n[4] or '', page[i + 1] }
  end
  return { text(now), out }
elseif what == 'audit' then
  -- ARGV[3], [4]: first and last entry, counted from the latest.
  return redis.call('LRANGE', B .. ':audit', ARGV[3], ARGV[4])
elseif what == 'dedupe' then
  return redis.call('HGET', B .. ':u', ARGV[3]) or ''
elseif what == 'alarms' then
  return redis.call('LRANGE', B .. ':alarms', 0, 499)
else
  return redis.call('GET', B .. ':lim') or ''
end
