-- given: `what` to read. Each branch names its further fields. Changes nothing, except that it puts members without a notice
-- aside and forgets groups without members.
local what = given.what

-- The first score of a sorted set; '': it is empty.
local function first(set)
  local found = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return found[2] or ''
end

-- Visits the members of a sorted set until `visit` returns true. The `set`; `from` and `to`, in its direction; `latest_first`;
-- `after_score` and `after_member`: it begins after them. It goes by ranks, because any number of members may have the same score.
local function walk(visit)
  local set, latest, last = prefix .. given.set, given.latest_first == true, tonumber(given.to)
  local after, after_member = tonumber(given.after_score or nil), given.after_member
  local by_score = latest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
  local by_rank = latest and 'ZREVRANGE' or 'ZRANGE'
  local head = redis.call(by_score, set, given.from, given.to, 'LIMIT', 0, 1)[1]
  if not head then return end
  local at = redis.call(latest and 'ZREVRANK' or 'ZRANK', set, head)
  if after then
    -- The member may have gone, so its place is looked for.
    local low, high = at, redis.call('ZCARD', set)
    while low < high do
      local middle = math.floor((low + high) / 2)
      local member, score = unpack(redis.call(by_rank, set, middle, middle, 'WITHSCORES'))
      local is_before
      if tonumber(score) == after then is_before = member < after_member else is_before = tonumber(score) < after end
      if member == after_member or is_before ~= latest then low = middle + 1 else high = middle end
    end
    at = low
  end
  while true do
    local page = redis.call(by_rank, set, at, at + 999, 'WITHSCORES')
    if #page == 0 then return end
    for i = 1, #page, 2 do
      local score = tonumber(page[i + 1])
      if (latest and score < last) or (not latest and score > last) then return end
      if visit(page[i], page[i + 1]) then return end
    end
    at = at + 1000
  end
end

-- A notice in a list; nothing if it has no hash.
local function line(member, score)
  local notice = redis.call(
    'HMGET', notice_key(member), 'status', 'fence', 'failures', 'crashes', 'last_class', 'description', 'create_time',
    'last_call_time', 'end_reason', 'ordering_key', 'dedupe_key', 'tag', 'max_tries', 'expires_at')
  if not notice[1] then return nil end
  notice[#notice + 1] = member
  notice[#notice + 1] = score
  return notice
end

-- True if the text is in the message of the last failed attempt.
local function in_error(errors, text)
  local ok, list = pcall(cjson.decode, errors or '')
  local last = ok and type(list) == 'table' and list[#list]
  local message = type(last) == 'table' and last.message
  return type(message) == 'string' and string.find(message, text, 1, true)
end

-- True if a notice meets the conditions `only`: `tag`, `ordering_key`, `dedupe_key`, `class`, `group`, `text` with `in_param`, where given.
local function is_selected(member)
  local only = given.only
  local tag, ordering_key, dedupe_key, last_class, group =
    fields(member, 'tag', 'ordering_key', 'dedupe_key', 'last_class', 'error_group')
  if only.tag and tag ~= only.tag then return false end
  if only.ordering_key and ordering_key ~= only.ordering_key then return false end
  if only.dedupe_key and dedupe_key ~= only.dedupe_key then return false end
  if only.class and class_name(last_class) ~= only.class then return false end
  if only.group and group ~= only.group then return false end
  if not only.text then return true end
  local errors, param = fields(member, 'errors', 'param')
  return in_error(errors, only.text) or (only.in_param and string.find(param or '', only.text, 1, true) ~= nil)
end

if what == 'due' then
  local retry, crash_looping = first(ready_retries), first(ready_crash_looping)
  if retry == '' or (crash_looping ~= '' and tonumber(crash_looping) < tonumber(retry)) then retry = crash_looping end
  local last_tick, tick_schedule = unpack(redis.call('HMGET', key('tick'), 'last_tick', 'tick_schedule'))
  return {
    -- not_sent, failed, sending, awaiting_ack
    text(now), { first(ready_first_sends), retry, first(status_set('5')), first(status_set('4')) },
    redis.call('LLEN', outgoing()) + redis.call('SCARD', key('outgoing_to')),
    { redis.call('EXISTS', key('tick')), last_tick or '', tick_schedule },
  }
elseif what == 'oldest' then
  -- Since when the first of all first sends has been due, including those behind another one of their ordering key.
  local oldest = first(status_set('0'))
  return oldest ~= '' and tonumber(oldest) <= now and oldest or ''
elseif what == 'overdue' then
  -- The `status`; `most`, the maximum.
  local out = {}
  for _, member in ipairs(due_ids(status_set(given.status), 0, given.most)) do
    local notice = seen(member)
    if notice then out[#out + 1] = notice else put_aside_without_entry(member) end
  end
  return out
elseif what == 'claimed' then
  -- The `worker`; `most`, the maximum.
  local out = {}
  -- sending
  for _, member in ipairs(redis.call('ZRANGE', status_set('5'), 0, -1)) do
    if #out < given.most and fields(member, 'worker') == given.worker then out[#out + 1] = seen(member) end
  end
  return out
elseif what == 'find' then
  local member = given.member
  local notice = redis.call('HGETALL', notice_key(member))
  if #notice == 0 then return { notice, '' } end
  return { notice, redis.call('ZSCORE', status_set(fields(member, 'status')), member) or '' }
elseif what == 'param' then
  -- The `member` and its `fence`; `whole`: its parameter, else how many bytes that has.
  local member = given.member
  if fields(member, 'fence') ~= given.fence then return false end
  if given.whole then return redis.call('HGET', notice_key(member), 'param') end
  return text(redis.call('HSTRLEN', notice_key(member), 'param'))
elseif what == 'list' then
  -- What `walk` needs; `most`, the maximum. Only the notice itself names the sets of its tag, class and group, so a member that has lost
  -- its notice is removed from them here.
  local out, lost = {}, {}
  walk(function(member, score)
    local notice = line(member, score)
    if notice then out[#out + 1] = notice else lost[#lost + 1] = member end
    return #out >= given.most
  end)
  for _, member in ipairs(lost) do
    redis.call('ZREM', prefix .. given.set, member)
    put_aside_without_entry(member)
  end
  return out
elseif what == 'search' then
  -- As 'list', for those that are selected; `read`, the maximum number of notices to read. Returns the found ones, and where it stopped
  -- reading: score and member, nothing at the end.
  local out, stopped, read = {}, {}, 0
  walk(function(member, score)
    read = read + 1
    if is_selected(member) then out[#out + 1] = line(member, score) end
    if #out < given.most and read < given.read then return false end
    stopped = { score, member }
    return true
  end)
  return { out, stopped }
elseif what == 'pick' then
  -- The `members` of this `status` that are selected.
  local out = {}
  for _, member in ipairs(given.members) do
    local score = redis.call('ZSCORE', status_set(given.status), member)
    if score and is_selected(member) then out[#out + 1] = line(member, score) end
  end
  return out
elseif what == 'count' then
  return redis.call('ZCOUNT', prefix .. given.set, given.from, given.to)
elseif what == 'classes' then
  local out = {}
  for _, class in ipairs(redis.call('SMEMBERS', key('dead_letter_classes'))) do
    if redis.call('ZCARD', dead_letter_set(class)) > 0 then out[#out + 1] = class end
  end
  return out
elseif what == 'group_counts' then
  -- A step over the groups, from the `cursor` on; `from` and `to`. Returns the next cursor, '0' at the end, and groups with their counts.
  -- Forgets groups whose last members have lost their notices.
  local cursor, found = unpack(redis.call('SSCAN', key('error_groups'), given.cursor, 'COUNT', 500))
  local out = {}
  for _, group in ipairs(found) do
    local count = redis.call('ZCOUNT', error_group_set(group), given.from, given.to)
    if count > 0 then
      out[#out + 1] = { group, count }
    elseif redis.call('EXISTS', error_group_set(group)) == 0 then
      redis.call('SREM', key('error_groups'), group)
    end
  end
  return { cursor, out }
elseif what == 'groups' then
  -- The `groups`; `from` and `to`. Returns of each that is not empty: number, count, the first and the last time, and the notice that
  -- was added last: its member, class, errors and reason.
  local out = {}
  for _, group in ipairs(given.groups) do
    local set = error_group_set(group)
    local count = redis.call('ZCOUNT', set, given.from, given.to)
    if count > 0 then
      local first = redis.call('ZRANGEBYSCORE', set, given.from, given.to, 'WITHSCORES', 'LIMIT', 0, 1)
      local last = redis.call('ZREVRANGEBYSCORE', set, given.to, given.from, 'WITHSCORES', 'LIMIT', 0, 1)
      out[#out + 1] = { group, text(count), first[2], last[2], last[1], fields(last[1], 'last_class', 'errors', 'end_reason') }
    end
  end
  return out
elseif what == 'series' then
  -- `from` and `to`, the begins of hours; `most`: when so many rows are read, another call reads the hours that follow. Returns the begin of
  -- the next one, '' if all are read; and the hours, each with its begin, and minute and node with their counters.
  local out, read = {}, 0
  local hours = redis.call('ZRANGEBYSCORE', key('series_hours'), given.from, given.to, 'WITHSCORES', 'LIMIT', 0, given.most + 1)
  for at = 1, #hours, 2 do
    local name, begin = hours[at], hours[at + 1]
    if read >= given.most then return { begin, out } end
    local rows = redis.call('HGETALL', key('series:' .. name))
    read = read + math.max(#rows / 2, 1)
    out[#out + 1] = { begin, rows }
  end
  return { '', out }
elseif what == 'counts' then
  -- `recent`: how many milliseconds back successes count.
  local oldest = ''
  -- not_sent, failed
  for _, status in ipairs({ '0', '2' }) do
    local score = first(status_set(status))
    if score ~= '' and tonumber(score) <= now and (oldest == '' or tonumber(score) < tonumber(oldest)) then oldest = score end
  end
  local out = { text(now), oldest }
  -- not_sent, failed, sending, awaiting_ack, dead_letter, cancelled
  for _, status in ipairs({ '0', '2', '5', '4', '3', '6' }) do
    out[#out + 1] = text(redis.call('ZCARD', status_set(status)))
  end
  -- succeeded
  out[#out + 1] = text(redis.call('ZCOUNT', status_set('1'), text(now - given.recent + 1), '+inf'))
  return out
elseif what == 'facts' then
  -- `since`: the time from which on a success counts.
  -- succeeded, failed
  local success = redis.call('ZRANGEBYSCORE', status_set('1'), given.since, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return { text(now), success[2] or '', redis.call('ZCARD', status_set('2')) }
elseif what == 'ahead' then
  local ordering_key, member = given.ordering_key, given.member
  local busy = redis.call('HGET', under_way, ordering_key)
  if busy and busy ~= member then return busy end
  local from, to = key_range(ordering_key)
  local entry = redis.call('ZRANGEBYLEX', ordering_keys, from, to, 'LIMIT', 0, 1)[1]
  local head = entry and string.sub(entry, -19) or ''
  return head < member and head or ''
elseif what == 'retries' then
  -- How many are `skipped`; `most`, the maximum.
  local out = {}
  -- failed
  local page = redis.call('ZRANGE', status_set('2'), given.skipped, given.skipped + given.most - 1, 'WITHSCORES')
  for at = 1, #page, 2 do
    local failures, crashes, last_class, max_tries, expires_at, last_call_time =
      fields(page[at], 'failures', 'crashes', 'last_class', 'max_tries', 'expires_at', 'last_call_time')
    out[#out + 1] = {
      failures or '0', crashes or '0', last_class, max_tries, expires_at, last_call_time, page[at + 1],
    }
  end
  return { text(now), out }
elseif what == 'audit' then
  return read_audit(key('audit'))
elseif what == 'dedupe' then
  return redis.call('HGET', dedupe_keys, given.dedupe_key) or ''
elseif what == 'outgoing' then
  -- The first entries for each target, '' for alarms, but not for those of `without`: at most 1 MiB, but at least one.
  local out, count, bytes = {}, 0, 0
  local function add(target)
    if given.without[target] then return end
    local entries, list = {}, outgoing(target)
    while count < 500 do
      local entry = redis.call('LINDEX', list, #entries)
      bytes = bytes + #(entry or '')
      if not entry or (count > 0 and bytes > 1048576) then break end
      entries[#entries + 1], count = entry, count + 1
    end
    if #entries > 0 then out[#out + 1] = { target, entries } end
  end
  add('')
  for _, target in ipairs(redis.call('SMEMBERS', key('outgoing_to'))) do add(target) end
  return out
else
  return redis.call('GET', key('limit')) or ''
end
