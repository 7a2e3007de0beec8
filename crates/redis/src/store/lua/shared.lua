-- The start of every script of one definition, after `keys.lua` and `claiming.lua`. A member is the id of a notice in the sorted sets.

-- Returns these fields of a notice; `false` for one that is missing.
local function fields(member, ...)
  return unpack(redis.call('HMGET', notice_key(member), ...))
end

local function set_if_given(member, field, value)
  if value then redis.call('HSET', notice_key(member), field, value) end
end

local function set_or_delete(member, field, value)
  if value then redis.call('HSET', notice_key(member), field, value) else redis.call('HDEL', notice_key(member), field) end
end

-- not_sent, failed, awaiting_ack, sending
local LIVE = { ['0'] = true, ['2'] = true, ['4'] = true, ['5'] = true }

local function class_name(last_class)
  return last_class and last_class ~= '' and last_class or '-'
end

-- The set of ready notices that this one belongs to, if it can be claimed.
local function ready_set(status, crashes)
  if status == '0' then return ready_first_sends end
  if status == '2' then return tonumber(crashes) >= 2 and ready_crash_looping or ready_retries end
end

local function key_range(ordering_key)
  return '[' .. ordering_key .. '\0', '(' .. ordering_key .. '\1'
end

-- Makes the first notice of an ordering key ready if none of the key is under way; no other one is ready.
local function refresh(ordering_key)
  local from, to = key_range(ordering_key)
  local busy = redis.call('HGET', under_way, ordering_key)
  for i, entry in ipairs(redis.call('ZRANGEBYLEX', ordering_keys, from, to, 'LIMIT', 0, 2)) do
    local member = string.sub(entry, -19)
    local status, crashes = fields(member, 'status', 'crashes')
    local ready = status and ready_set(status, crashes)
    if ready and i == 1 and not busy then
      redis.call('ZADD', ready, redis.call('ZSCORE', status_set(status), member), member)
    elseif ready then
      redis.call('ZREM', ready, member)
    end
  end
end

-- Removes a notice from all sets. Its hash stays. Returns its status; `false`: it has no hash.
local function leave(member)
  local status, crashes, ordering_key, dedupe_key, last_class, tag =
    fields(member, 'status', 'crashes', 'ordering_key', 'dedupe_key', 'last_class', 'tag')
  redis.call('ZREM', status_set(status), member)
  if tag then redis.call('ZREM', tag_set(status, tag), member) end
  if status == '3' then
    redis.call('ZREM', dead_letter_set(class_name(last_class)), member)
    local group = fields(member, 'error_group')
    if group and redis.call('ZREM', error_group_set(group), member) == 1 and redis.call('EXISTS', error_group_set(group)) == 0 then
      redis.call('SREM', key('error_groups'), group)
    end
  end
  local ready = ready_set(status, crashes)
  if ready then redis.call('ZREM', ready, member) end
  if LIVE[status] then
    if dedupe_key and redis.call('HGET', dedupe_keys, dedupe_key) == member then redis.call('HDEL', dedupe_keys, dedupe_key) end
    if ordering_key then
      redis.call('ZREM', ordering_keys, ordering_key .. '\0' .. member)
      if redis.call('HGET', under_way, ordering_key) == member then redis.call('HDEL', under_way, ordering_key) end
      refresh(ordering_key)
    end
  end
  return status
end

-- The dedupe key of a notice, if no other live notice may have it.
local function unique_key(member)
  local dedupe_key, until_ended, fence = fields(member, 'dedupe_key', 'dedupe_until_ended', 'fence')
  return dedupe_key and (until_ended or fence == '0') and dedupe_key
end

-- Adds a notice to the sets of its status. `score`: when a sweeper must look at it, or when it ended.
local function enter(member, status, score)
  redis.call('HSET', notice_key(member), 'status', status)
  redis.call('ZADD', status_set(status), text(score), member)
  local crashes, ordering_key, last_class, tag = fields(member, 'crashes', 'ordering_key', 'last_class', 'tag')
  if tag then redis.call('ZADD', tag_set(status, tag), text(score), member) end
  if status == '3' then
    redis.call('ZADD', dead_letter_set(class_name(last_class)), text(score), member)
    redis.call('SADD', key('dead_letter_classes'), class_name(last_class))
    local group = fields(member, 'error_group')
    if group then
      redis.call('ZADD', error_group_set(group), text(score), member)
      redis.call('SADD', key('error_groups'), group)
    end
  end
  if LIVE[status] then
    local dedupe_key = unique_key(member)
    if dedupe_key then redis.call('HSET', dedupe_keys, dedupe_key, member) end
    if ordering_key then
      redis.call('ZADD', ordering_keys, 0, ordering_key .. '\0' .. member)
      -- awaiting_ack or sending
      if status == '4' or status == '5' then redis.call('HSET', under_way, ordering_key, member) end
      refresh(ordering_key)
    else
      local ready = ready_set(status, crashes)
      if ready then redis.call('ZADD', ready, text(score), member) end
    end
  end
end

local function erase(member)
  leave(member)
  redis.call('DEL', notice_key(member))
end

-- The fields that Rust reads of a notice, in the order of `row.rs`; `false` if it has no hash.
local function seen(member)
  local notice = redis.call(
    'HMGET', notice_key(member), 'status', 'fence', 'failures', 'crashes', 'param', 'description', 'errors', 'worker',
    'last_call_time', 'create_time', 'trace_context', 'ordering_key', 'max_tries', 'expires_at', 'tag')
  if not notice[1] then return false end
  -- It is read alone, before the attempt.
  if notice[5] and #notice[5] > 262144 then notice[5] = false end
  notice[#notice + 1] = member
  return notice
end

-- Inserts a notice, which has `member`, `param`, and its other texts if there are any; then more fields and values. Returns the
-- member. If the number is taken (the counting node lost its last steps in a failover), it uses the next free one.
local function insert(notice, due, ...)
  local member = notice.member
  -- The last five digits are the definition's id.
  while redis.call('EXISTS', notice_key(member)) == 1 do
    member = string.format('%014.0f', tonumber(string.sub(member, 1, 14)) + 1) .. string.sub(member, 15)
  end
  redis.call(
    'HSET', notice_key(member), 'fence', '0', 'failures', '0', 'crashes', '0', 'param', notice.param, 'create_time', text(now),
    ...)
  set_if_given(member, 'description', notice.description)
  set_if_given(member, 'trace_context', notice.trace_context)
  set_if_given(member, 'ordering_key', notice.ordering_key)
  set_if_given(member, 'dedupe_key', notice.dedupe_key)
  set_if_given(member, 'dedupe_until_ended', notice.dedupe_until_ended)
  set_if_given(member, 'tag', notice.tag)
  set_if_given(member, 'authority', notice.authority)
  set_if_given(member, 'max_tries', notice.max_tries)
  set_if_given(member, 'expires_at', notice.expires_at)
  if notice.skipped then
    -- cancelled
    redis.call('HSET', notice_key(member), 'end_reason', notice.skipped)
    enter(member, '6', now)
  else
    enter(member, '0', due)
  end
  return member
end
