-- given: `what` to change. Each branch names its further fields.
local what = given.what

-- The notice that has the dedupe key of this one, which then cannot be revived.
local function key_taken(member)
  local dedupe_key = unique_key(member)
  return dedupe_key and redis.call('HGET', dedupe_keys, dedupe_key)
end

local function revive(member, due, param)
  local fence, old_param, expires_at = fields(member, 'fence', 'param', 'expires_at')
  leave(member)
  -- An operator who retries an expired notice wants it sent.
  if expires_at and tonumber(expires_at) <= due then redis.call('HDEL', notice_key(member), 'expires_at') end
  redis.call('HSET', notice_key(member), 'failures', '0', 'crashes', '0', 'param', param or old_param)
  redis.call('HDEL', notice_key(member), 'end_reason')
  -- failed, or not_sent
  enter(member, tonumber(fence) > 0 and '2' or '0', due)
end

local function cancel(member, reason)
  leave(member)
  redis.call('HSET', notice_key(member), 'end_reason', reason)
  enter(member, '6', now)
end

-- Deletes an ended notice. Returns what the log needs of it.
local function purge(member)
  local status, failures, crashes, class, errors, reason =
    fields(member, 'status', 'failures', 'crashes', 'last_class', 'errors', 'end_reason')
  erase(member)
  -- succeeded
  return { member, failures, crashes, class, status ~= '1' and errors, reason }
end

local function retime(member, due)
  local status = fields(member, 'status')
  leave(member)
  enter(member, status, due)
end

if what == 'one' then
  -- The `member`; its status, fence and time as read: `status`, `fence`, `score`; the `verb`, its `text` and its `time`; the `audit`
  -- entry, if any.
  local member, verb, word = given.member, given.verb, given.text
  local status, fence = fields(member, 'status', 'fence')
  if status ~= given.status or fence ~= given.fence or redis.call('ZSCORE', status_set(status), member) ~= given.score then
    return 'conflict'
  end
  if verb == 'revive' then
    local taken = key_taken(member)
    if taken then return taken end
    revive(member, now, word)
  elseif verb == 'end' then
    cancel(member, word)
  elseif verb == 'retime' then
    retime(member, math.max(given.time, now))
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
  if given.audit then write_audit(key('audit'), given.audit) end
  return 'done'
elseif what == 'step' then
  -- The `verb`: 'revive', 'end' with its `reason`, 'retime', or 'purge'; the `status`; `notices`: each has `member`, `fence` and `time`; to take:
  -- the `audit` entry, and what was `seen` by a look.
  local verb, audit = given.verb, given.audit
  local changed, taken, keys, due = {}, {}, {}, {}
  for _, notice in ipairs(given.notices) do
    local member = notice.member
    local status, fence = fields(member, 'status', 'fence')
    local dedupe_key = unique_key(member)
    if status == given.status and fence == notice.fence then
      if verb == 'revive' and dedupe_key and (keys[dedupe_key] or redis.call('HGET', dedupe_keys, dedupe_key)) then
        taken[#taken + 1] = member
      else
        if dedupe_key then keys[dedupe_key] = true end
        changed[#changed + 1] = member
        due[member] = math.max(notice.time, now)
      end
    end
  end
  if not audit then return { 'seen', changed, taken, {} } end
  if table.concat(changed, ' ') .. '/' .. table.concat(taken, ' ') ~= given.seen then return { 'conflict', {}, {}, {} } end
  local purged = {}
  for _, member in ipairs(changed) do
    if verb == 'revive' then
      revive(member, due[member])
    elseif verb == 'end' then
      cancel(member, given.reason)
    elseif verb == 'purge' then
      purged[#purged + 1] = purge(member)
    else
      retime(member, due[member])
    end
  end
  if #changed > 0 then write_audit(key('audit'), audit) end
  return { 'done', changed, taken, purged }
elseif what == 'progress' then
  -- The `member`, its `fence`, and the new `text` of its parameter. Returns 1 if it is being sent under that fence.
  local status, fence = fields(given.member, 'status', 'fence')
  -- sending
  if status ~= '5' or fence ~= given.fence then return 0 end
  redis.call('HSET', notice_key(given.member), 'param', given.text)
  return 1
elseif what == 'extend' then
  -- `leases`: each has `member`, `fence` and `lease` in milliseconds. Returns the members whose lease was extended.
  local extended = {}
  also_when_full()
  for _, held in ipairs(given.leases) do
    local member = held.member
    local status, fence = fields(member, 'status', 'fence')
    -- sending
    if status == '5' and fence == held.fence then
      redis.call('ZADD', status_set('5'), text(lease_end(held.lease)), member)
      extended[#extended + 1] = member
    end
  end
  return extended
elseif what == 'purge' then
  -- The `status`; `minimum_age` in milliseconds; `most`, the maximum. Returns what the log needs of each deleted notice.
  local oldest = redis.call(
    'ZRANGEBYSCORE', status_set(given.status), '-inf', text(now - given.minimum_age), 'LIMIT', 0, given.most)
  local purged = {}
  for _, member in ipairs(oldest) do
    if redis.call('EXISTS', notice_key(member)) == 1 then
      purged[#purged + 1] = purge(member)
    else
      put_aside_without_entry(member)
    end
  end
  return purged
elseif what == 'series' then
  -- `rows`: each has the `day` and its `begin`, the `field` and the `counts` by name. The counters of a minute only grow.
  for _, row in ipairs(given.rows) do
    local set = key('series:' .. row.day)
    local counts = cjson.decode(redis.call('HGET', set, row.field) or '{}')
    for name, count in pairs(row.counts) do counts[name] = math.max(counts[name] or 0, count) end
    local words = {}
    for name, count in pairs(counts) do words[#words + 1] = '"' .. name .. '":' .. text(count) end
    table.sort(words)
    redis.call('HSET', set, row.field, '{' .. table.concat(words, ',') .. '}')
    redis.call('ZADD', key('series_days'), text(row.begin), row.day)
  end
  return #given.rows
elseif what == 'purge_series' then
  -- Deletes the days that ended before `minimum_age`, in milliseconds, at most `most`. Returns how many.
  local latest = text(now - given.minimum_age - 86400000)
  local days = redis.call('ZRANGEBYSCORE', key('series_days'), '-inf', latest, 'LIMIT', 0, given.most)
  for _, day in ipairs(days) do
    redis.call('DEL', key('series:' .. day))
    redis.call('ZREM', key('series_days'), day)
  end
  return #days
elseif what == 'drop' then
  -- Deletes all keys of a definition that has no notices and nothing to forward.
  for status in pairs(STATUS) do
    if redis.call('EXISTS', status_set(status)) == 1 then return 0 end
  end
  if redis.call('LLEN', key('outgoing')) > 0 then return 0 end
  for _, day in ipairs(redis.call('ZRANGE', key('series_days'), 0, -1)) do redis.call('DEL', key('series:' .. day)) end
  redis.call(
    'DEL', key('series_days'), key('error_groups'), key('limit'), key('tick'), key('dead_letter_classes'), key('outgoing'),
    key('last_outgoing'), key('arrived'), ordering_keys, under_way, dedupe_keys)
  return 1
elseif what == 'tick' then
  -- Time and timetable as read, `seen_tick` and `seen_schedule`; the new ones, `last_tick` and `tick_schedule`; `notices`: each has
  -- `member` and `param`.
  local stored_tick, stored_schedule = unpack(redis.call('HMGET', key('tick'), 'last_tick', 'tick_schedule'))
  if (stored_tick or nil) ~= given.seen_tick or (stored_schedule or nil) ~= given.seen_schedule then return 0 end
  redis.call('DEL', key('tick'))
  redis.call('HSET', key('tick'), 'last_tick', given.last_tick)
  if given.tick_schedule then redis.call('HSET', key('tick'), 'tick_schedule', given.tick_schedule) end
  for _, notice in ipairs(given.notices) do insert(notice, now) end
  return 1
elseif what == 'forwarded' then
  -- Deletes what has arrived in other slots: up to the number `arrived`.
  while true do
    local head = redis.call('LINDEX', key('outgoing'), 0)
    if not head or tonumber(string.match(head, '^{"number":(%d+)') or '0') > given.arrived then return 1 end
    redis.call('LPOP', key('outgoing'))
  end
elseif what == 'limits' then
  -- The limits as read, `seen_limits`; the `new_limits`; the `audit` entry.
  if (redis.call('GET', key('limit')) or '') ~= given.seen_limits then return 'conflict' end
  redis.call('SET', key('limit'), given.new_limits)
  write_audit(key('audit'), given.audit)
  return 'done'
end
return 1
