-- ARGV[2]: what to change. Each branch names its further arguments.
local what = ARGV[2]

-- The notice that has the dedupe key of this one, which then cannot be revived.
local function key_taken(member)
  local dedupe_key = unique_key(member)
  return dedupe_key and redis.call('HGET', dedupe_keys, dedupe_key)
end

local function revive(member, due, param)
  local fence, old_param = fields(member, 'fence', 'param')
  leave(member)
  redis.call('HSET', notice_key(member), 'failures', '0', 'crashes', '0', 'param', optional(param) or old_param)
  redis.call('HDEL', notice_key(member), 'end_reason')
  -- failed, or not_sent
  enter(member, tonumber(fence) > 0 and '2' or '0', due)
end

local function cancel(member, reason)
  leave(member)
  redis.call('HSET', notice_key(member), 'end_reason', reason)
  enter(member, '6', now)
end

local function retime(member, due)
  local status = fields(member, 'status')
  leave(member)
  enter(member, status, due)
end

if what == 'one' then
  -- The member; its status, fence and time as read; the verb, its text and its time; the audit entry.
  local member, seen_status, seen_fence, seen_time, verb, word, time, audit = unpack(ARGV, 3, 10)
  local status, fence = fields(member, 'status', 'fence')
  if status ~= seen_status or fence ~= seen_fence or redis.call('ZSCORE', status_set(status), member) ~= seen_time then
    return 'conflict'
  end
  if verb == 'revive' then
    local taken = key_taken(member)
    if taken then return taken end
    revive(member, now, word)
  elseif verb == 'end' then
    cancel(member, word)
  elseif verb == 'retime' then
    retime(member, math.max(tonumber(time), now))
  elseif verb == 'rewrite' then
    redis.call('HSET', notice_key(member), 'param', word)
  elseif verb == 'late' then
    leave(member)
    redis.call('HSET', notice_key(member), 'end_reason', word)
    -- succeeded
    enter(member, '1', now)
  elseif verb == 'refuse' then
    leave(member)
    redis.call('HSET', notice_key(member), 'errors', word)
    -- awaiting_ack
    enter(member, '4', now)
  end
  if audit ~= '' then write_audit(key('audit'), audit) end
  return 'done'
elseif what == 'window' then
  -- 'look' or 'take'; 'revive', 'end' or 'retime'; the status; a reason; the audit entry; what was read; then member, fence and
  -- time of each notice.
  local mode, verb, seen_status, reason, audit, read_before = unpack(ARGV, 3, 8)
  local FIRST, WORDS = 9, 3
  local changed, taken, keys, due = {}, {}, {}, {}
  for at = FIRST, #ARGV, WORDS do
    local member, seen_fence, time = unpack(ARGV, at, at + WORDS - 1)
    local status, fence = fields(member, 'status', 'fence')
    local dedupe_key = unique_key(member)
    if status == seen_status and fence == seen_fence then
      if verb == 'revive' and dedupe_key and (keys[dedupe_key] or redis.call('HGET', dedupe_keys, dedupe_key)) then
        taken[#taken + 1] = member
      else
        if dedupe_key then keys[dedupe_key] = true end
        changed[#changed + 1] = member
        due[member] = math.max(tonumber(time), now)
      end
    end
  end
  if mode == 'look' then return { 'seen', changed, taken } end
  if table.concat(changed, ' ') .. '/' .. table.concat(taken, ' ') ~= read_before then return { 'conflict', {}, {} } end
  for _, member in ipairs(changed) do
    if verb == 'revive' then
      revive(member, due[member], '')
    elseif verb == 'end' then
      cancel(member, reason)
    else
      retime(member, due[member])
    end
  end
  if #changed > 0 then write_audit(key('audit'), audit) end
  return { 'done', changed, taken }
elseif what == 'extend' then
  -- Member, fence and milliseconds of each notice. Returns the members whose lease was extended.
  local FIRST, WORDS = 3, 3
  local extended = {}
  for at = FIRST, #ARGV, WORDS do
    local member, held_fence, milliseconds = unpack(ARGV, at, at + WORDS - 1)
    local status, fence = fields(member, 'status', 'fence')
    -- sending
    if status == '5' and fence == held_fence then
      redis.call('ZADD', status_set('5'), text(now + tonumber(milliseconds)), member)
      extended[#extended + 1] = member
    end
  end
  return extended
elseif what == 'purge' then
  local status, minimum_age, most = unpack(ARGV, 3, 5)
  local oldest = redis.call(
    'ZRANGEBYSCORE', status_set(status), '-inf', text(now - tonumber(minimum_age)), 'LIMIT', 0, most)
  for _, member in ipairs(oldest) do
    if redis.call('EXISTS', notice_key(member)) == 1 then erase(member) else put_aside(member, 'a score without an entry') end
  end
  return oldest
elseif what == 'drop' then
  -- Deletes all keys of a definition that has no notices and no alarms.
  for status in pairs(STATUS) do
    if redis.call('EXISTS', status_set(status)) == 1 then return 0 end
  end
  if redis.call('LLEN', key('alarms')) > 0 then return 0 end
  redis.call(
    'DEL', key('limit'), key('tick'), key('dead_letter_classes'), key('alarms'), key('last_alarm'), ordering_keys, under_way,
    dedupe_keys)
  return 1
elseif what == 'tick' then
  -- Time and timetable as read; the new ones; then member and parameter of each tick.
  local seen_tick, seen_schedule, last_tick, tick_schedule = unpack(ARGV, 3, 6)
  local FIRST, WORDS = 7, 2
  local stored_tick, stored_schedule = unpack(redis.call('HMGET', key('tick'), 'last_tick', 'tick_schedule'))
  if (stored_tick or '') ~= seen_tick or (stored_schedule and ('=' .. stored_schedule) or '') ~= seen_schedule then return 0 end
  redis.call('DEL', key('tick'))
  redis.call('HSET', key('tick'), 'last_tick', last_tick)
  if tick_schedule ~= '' then redis.call('HSET', key('tick'), 'tick_schedule', optional(tick_schedule)) end
  for at = FIRST, #ARGV, WORDS do
    local member, param = unpack(ARGV, at, at + WORDS - 1)
    insert_plain(member, now, param)
  end
  return 1
elseif what == 'forwarded' then
  -- Deletes the alarms up to this number, which have arrived.
  local arrived = tonumber(ARGV[3])
  while true do
    local head = redis.call('LINDEX', key('alarms'), 0)
    if not head or tonumber(string.match(head, '^{"number":(%d+)') or '0') > arrived then return 1 end
    redis.call('LPOP', key('alarms'))
  end
end
return 1
