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

-- Deletes hours of the series.
local function delete_hours(names)
  for _, name in ipairs(names) do
    redis.call('UNLINK', key('series:' .. name))
    redis.call('ZREM', key('series_hours'), name)
  end
end

local function retime(member, due)
  local status = fields(member, 'status')
  leave(member)
  enter(member, status, due)
end

if what == 'one' then
  -- The `member`; its status, fence and time as read: `status`, `fence`, `score`; the `verb`, its `text`, its `time`, its `failures` and `crashes`; the new
  -- `errors` and the `audit` entry, if any.
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
  elseif verb == 'recount' then
    redis.call('HSET', notice_key(member), 'failures', given.failures, 'crashes', given.crashes)
    retime(member, now)
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
  if given.errors then redis.call('HSET', notice_key(member), 'errors', given.errors) end
  if given.audit then write_audit(key('audit'), given.audit) end
  return 'done'
elseif what == 'step' then
  -- The `verb`: 'revive', 'end' with its `reason`, 'retime', or 'purge'; the `status`; `notices`: each has `member`, `fence` and `time`; to take:
  -- the `audit` entry, and what was `seen` by a look. `before`: when the lease of the act ends whose step it is. Its notice is in another slot.
  if given.before and now >= given.before then return { 'late', {}, {}, {} } end
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
elseif what == 'pass_on' then
  -- The `member` and its `fence`; `targets`, which are stored if none are yet; those to which it is `owed`, which come last and get nothing now;
  -- how many at `most`. Returns the stored targets, how many of them have it, '1' if it has a dedupe key, and the answers of targets about that
  -- key; nothing if the claim was lost; 'changed' if no targets are stored or given.
  local member = given.member
  local status, fence, stored, done, dedupe_key, answers =
    fields(member, 'status', 'fence', 'pass_to', 'passed_on', 'dedupe_key', 'answers')
  -- sending
  if status ~= '5' or fence ~= given.fence then return {} end
  if not stored and not given.targets then return { 'changed' } end
  stored = stored or table.concat(given.targets, ' ')
  local first, targets, owed = tonumber(done or '0'), {}, {}
  for target in string.gmatch(stored, '%d+') do
    local list = (#targets >= first and given.owed[target]) and owed or targets
    list[#list + 1] = target
  end
  local last = math.min(first + given.most, #targets)
  for at = first + 1, last do pass_on(member, targets[at]) end
  for _, target in ipairs(owed) do targets[#targets + 1] = target end
  stored = table.concat(targets, ' ')
  redis.call('HSET', notice_key(member), 'pass_to', stored, 'passed_on', text(last))
  return { stored, text(last), dedupe_key and '1' or '', answers or '' }
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
  -- `rows`: each has the `hour` and its `begin`, the `field` and the `counts`. The counters of a minute only grow. A node writes
  -- them up to a minute after the last outcome, so the definition may be gone.
  if redis.call('EXISTS', key('dropped')) == 1 then return 0 end
  for _, row in ipairs(given.rows) do
    local set, counts = key('series:' .. row.hour), {}
    for count in string.gmatch(redis.call('HGET', set, row.field) or '', '%d+') do counts[#counts + 1] = tonumber(count) end
    for i, count in ipairs(row.counts) do counts[i] = math.max(counts[i] or 0, count) end
    for i, count in ipairs(counts) do counts[i] = text(count) end
    redis.call('HSET', set, row.field, table.concat(counts, ' '))
    redis.call('ZADD', key('series_hours'), text(row.begin), row.hour)
  end
  return #given.rows
elseif what == 'purge_series' then
  -- Deletes the hours that ended before `minimum_age`, in milliseconds, at most `most`. Returns how many.
  local latest = text(now - given.minimum_age - 3600000)
  local hours = redis.call('ZRANGEBYSCORE', key('series_hours'), '-inf', latest, 'LIMIT', 0, given.most)
  delete_hours(hours)
  return #hours
elseif what == 'drop' then
  -- Deletes the keys of a definition that has no notices and nothing to forward, except its audit. Returns 'dropped'; 'kept', if it has
  -- some; 'more', if more of its series is left than one call deletes; 'damaged', if notices were put aside: sets of their tags and groups may be left, which no other key names.
  for status in pairs(STATUS) do
    if redis.call('EXISTS', status_set(status)) == 1 then return 'kept' end
  end
  if redis.call('LLEN', outgoing()) + redis.call('SCARD', key('outgoing_to')) > 0 then return 'kept' end
  also_when_full()
  redis.call('SET', key('dropped'), text(now))
  delete_hours(redis.call('ZRANGE', key('series_hours'), 0, 499))
  if redis.call('EXISTS', key('series_hours')) == 1 then return 'more' end
  redis.call(
    'DEL', key('error_groups'), key('limit'), key('tick'), key('dead_letter_classes'), outgoing(), key('last_outgoing'),
    key('arrived'), ordering_keys, under_way, dedupe_keys)
  return redis.call('EXISTS', ASIDE) == 1 and 'damaged' or 'dropped'
elseif what == 'erase' then
  -- A step over all keys of the server, from the `cursor` on: deletes what is left of a damaged definition. Returns the next cursor; '0'
  -- at the end, when it also forgets what was put aside.
  local cursor, found = unpack(redis.call('SCAN', given.cursor, 'MATCH', prefix .. ':*', 'COUNT', 1000))
  for _, name in ipairs(found) do
    if name ~= key('audit') and name ~= key('dropped') and name ~= ASIDE then redis.call('UNLINK', name) end
  end
  if cursor == '0' then redis.call('DEL', ASIDE) end
  return cursor
elseif what == 'tick' then
  -- Time and timetable as read, `seen_tick` and `seen_schedule`; the new ones, `last_tick` and `tick_schedule`; `notices`: each has
  -- `member`, `param` and, of a built-in definition, `authority`.
  local stored_tick, stored_schedule = unpack(redis.call('HMGET', key('tick'), 'last_tick', 'tick_schedule'))
  if (stored_tick or nil) ~= given.seen_tick or (stored_schedule or nil) ~= given.seen_schedule then return 0 end
  redis.call('DEL', key('tick'))
  redis.call('HSET', key('tick'), 'last_tick', given.last_tick)
  if given.tick_schedule then redis.call('HSET', key('tick'), 'tick_schedule', given.tick_schedule) end
  for _, notice in ipairs(given.notices) do insert(notice, now) end
  return 1
elseif what == 'forwarded' then
  -- Deletes what has arrived in other slots, as `lists`: each has the `target`, '' for alarms, and the number up to which it has `arrived`.
  -- Notes the `answers` of targets about dedupe keys: each has the `member` that was passed on, the `target`, and the notice that it `kept`
  -- instead, or ''. The first answer of a target counts.
  for _, answer in ipairs(given.answers) do
    local passed, answers = fields(answer.member, 'pass_to', 'answers')
    local word = ' ' .. answer.target .. '='
    if passed and not string.find(answers or '', word, 1, true) then
      redis.call('HSET', notice_key(answer.member), 'answers', (answers or '') .. word .. answer.kept)
    end
  end
  for _, list in ipairs(given.lists) do
    local name = outgoing(list.target)
    local head = redis.call('LINDEX', name, 0)
    while head and tonumber(string.match(head, '^{"number":(%d+)') or '0') <= list.arrived do
      redis.call('LPOP', name)
      head = redis.call('LINDEX', name, 0)
    end
    if not head then redis.call('SREM', key('outgoing_to'), list.target) end
  end
  return 1
elseif what == 'test' then
  -- A new notice: its `member`, `param` and `tag`; `call`, a random word that identifies the call; its `audit` entry. Returns 'done', or
  -- 'conflict' where the number is taken. The call can be repeated after a lost reply.
  if redis.call('EXISTS', notice_key(given.member)) == 1 then
    return redis.call('HGET', notice_key(given.member), 'insert_call') == given.call and 'done' or 'conflict'
  end
  insert(given, now, 'insert_call', given.call)
  write_audit(key('audit'), given.audit)
  return 'done'
elseif what == 'can_ack' then
  -- Does with a notice of its own what acks do, and deletes it. An error says what acks lack. The `member` is of a definition that does not
  -- exist. What a refused call has left the next one takes over.
  local member = given.member
  also_when_full()
  redis.call('HSET', notice_key(member), 'fence', '1', 'failures', '0', 'crashes', '0')
  -- awaiting_ack, then succeeded
  enter(member, '4', now)
  leave(member)
  enter(member, '1', now)
  erase(member)
elseif what == 'limits' then
  -- The limits as read, `seen_limits`; the `new_limits`; the `audit` entry.
  if (redis.call('GET', key('limit')) or '') ~= given.seen_limits then return 'conflict' end
  redis.call('SET', key('limit'), given.new_limits)
  write_audit(key('audit'), given.audit)
  return 'done'
end
return 1
