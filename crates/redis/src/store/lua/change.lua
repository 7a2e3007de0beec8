-- ARGV[2]: what to change.
local what = ARGV[2]

-- The notice that has the dedupe key of this one, which then cannot be revived.
local function key_taken(m)
  local u = unique_key(m)
  return u and redis.call('HGET', B .. ':u', u)
end

local function revive(m, due, param)
  local attempt = tonumber(redis.call('HGET', N(m), 'a'))
  leave(m)
  redis.call('HSET', N(m), 'f', '0', 'c', '0')
  redis.call('HDEL', N(m), 'r')
  set_opt(m, 'p', param ~= '' and param or '=' .. redis.call('HGET', N(m), 'p'))
  enter(m, attempt > 0 and '2' or '0', due)
end

local function cancel(m, reason)
  leave(m)
  redis.call('HSET', N(m), 'r', reason)
  enter(m, '6', now)
end

local function retime(m, due)
  local status = redis.call('HGET', N(m), 's')
  leave(m)
  enter(m, status, due)
end

if what == 'one' then
  -- ARGV[3]: the member; ARGV[4] to [6]: status, attempt and time as read; ARGV[7]: the verb; ARGV[8]: its text; ARGV[9]: a time;
  -- ARGV[10]: the audit entry.
  local m = ARGV[3]
  local n = redis.call('HMGET', N(m), 's', 'a')
  if n[1] ~= ARGV[4] or n[2] ~= ARGV[5] or redis.call('ZSCORE', B .. ':z' .. n[1], m) ~= ARGV[6] then return 'conflict' end
  local act = ARGV[7]
  if act == 'revive' then
    local taken = key_taken(m)
    if taken then return taken end
    revive(m, now, ARGV[8])
  elseif act == 'end' then
    cancel(m, ARGV[8])
  elseif act == 'retime' then
    retime(m, math.max(tonumber(ARGV[9]), now))
  elseif act == 'rewrite' then
    redis.call('HSET', N(m), 'p', ARGV[8])
  elseif act == 'late' then
    leave(m)
    redis.call('HSET', N(m), 'r', ARGV[8])
    enter(m, '1', now)
  elseif act == 'refuse' then
    leave(m)
    redis.call('HSET', N(m), 'e', ARGV[8])
    enter(m, '4', now)
  end
  if ARGV[10] ~= '' then write_audit(B .. ':audit', ARGV[10]) end
  return 'done'
elseif what == 'window' then
  -- ARGV[3]: 'look' or 'take'; ARGV[4]: 'revive', 'end' or 'retime'; ARGV[5]: the status; ARGV[6]: a reason; ARGV[7]: the audit
  -- entry; ARGV[8]: what was read; then member, attempt and time of each notice.
  local act, changed, taken, keys = ARGV[4], {}, {}, {}
  local due = {}
  for i = 9, #ARGV, 3 do
    local m = ARGV[i]
    local n = redis.call('HMGET', N(m), 's', 'a')
    local u = unique_key(m)
    if n[1] == ARGV[5] and n[2] == ARGV[i + 1] then
      if act == 'revive' and u and (keys[u] or redis.call('HGET', B .. ':u', u)) then
        taken[#taken + 1] = m
      else
        if u then keys[u] = true end
        changed[#changed + 1] = m
        due[m] = math.max(tonumber(ARGV[i + 2]), now)
      end
    end
  end
  if ARGV[3] == 'look' then return { 'seen', changed, taken } end
  if table.concat(changed, ' ') .. '/' .. table.concat(taken, ' ') ~= ARGV[8] then return { 'conflict', {}, {} } end
  for _, m in ipairs(changed) do
    if act == 'revive' then
      revive(m, due[m], '')
    elseif act == 'end' then
      cancel(m, ARGV[6])
    else
      retime(m, due[m])
    end
  end
  if #changed > 0 then write_audit(B .. ':audit', ARGV[7]) end
  return { 'done', changed, taken }
elseif what == 'extend' then
  -- Member, attempt and milliseconds of each; returns the members whose lease was extended.
  local extended = {}
  for i = 3, #ARGV, 3 do
    local n = redis.call('HMGET', N(ARGV[i]), 's', 'a')
    if n[1] == '5' and n[2] == ARGV[i + 1] then
      redis.call('ZADD', B .. ':z5', text(now + tonumber(ARGV[i + 2])), ARGV[i])
      extended[#extended + 1] = ARGV[i]
    end
  end
  return extended
elseif what == 'purge' then
  -- ARGV[3]: the status, ARGV[4]: the minimum age, ARGV[5]: how many.
  local ids = redis.call('ZRANGEBYSCORE', B .. ':z' .. ARGV[3], '-inf', text(now - tonumber(ARGV[4])), 'LIMIT', 0, ARGV[5])
  for _, m in ipairs(ids) do
    if redis.call('EXISTS', N(m)) == 1 then erase(m) else put_aside(m, 'a score without an entry') end
  end
  return ids
elseif what == 'drop' then
  -- Deletes all keys of a definition that has no notices and no alarms.
  for _, set in ipairs({ ':z0', ':z1', ':z2', ':z3', ':z4', ':z5', ':z6' }) do
    if redis.call('EXISTS', B .. set) == 1 then return 0 end
  end
  if redis.call('LLEN', B .. ':alarms') > 0 then return 0 end
  redis.call('DEL', B .. ':lim', B .. ':tick', B .. ':cl', B .. ':o', B .. ':b', B .. ':u', B .. ':alarm', B .. ':alarms')
  return 1
elseif what == 'tick' then
  -- ARGV[3], [4]: time and timetable as read; ARGV[5], [6]: the new ones; then member and parameter of each tick.
  local tick = redis.call('HMGET', B .. ':tick', 'at', 'schedule')
  if (tick[1] or '') ~= ARGV[3] or (tick[2] and ('=' .. tick[2]) or '') ~= ARGV[4] then return 0 end
  redis.call('DEL', B .. ':tick')
  redis.call('HSET', B .. ':tick', 'at', ARGV[5])
  if ARGV[6] ~= '' then redis.call('HSET', B .. ':tick', 'schedule', opt(ARGV[6])) end
  for i = 7, #ARGV, 2 do insert(ARGV[i], now, ARGV[i + 1], '', '', '', '') end
  return 1
elseif what == 'forwarded' then
  -- ARGV[3]: the number up to which alarms have arrived; deletes them.
  while true do
    local head = redis.call('LINDEX', B .. ':alarms', 0)
    if not head or tonumber(string.match(head, '^%d+')) > tonumber(ARGV[3]) then return 1 end
    redis.call('LPOP', B .. ':alarms')
  end
end
return 1
