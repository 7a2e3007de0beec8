-- ARGV[2]: 'look' (returns which fences hold, and the limits), 'free' or 'once' (settle), 'take' (settle, if all is unchanged);
-- ARGV[3]: the limits as read; ARGV[4]: the new limits; ARGV[5]: which fences held, a word of 0 and 1; ARGV[6]: an alarm of the
-- circuit; ARGV[7]: the field of the reported alert; ARGV[8]: its row as read; ARGV[9]: the new row, empty: delete it; ARGV[10]
-- to [12]: member, parameter and delay of its next follow-up; ARGV[13]: the key of the rows of alerts; ARGV[14]: how many
-- successes of the definition are kept; then for each outcome: member, fence, from, overdue, status, delay (of one that waits),
-- keep, reason, failures, crashes, errors, class, description, alarm.
local mode, seen_limits, new_limits, seen_mask, circuit_alarm = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local alert_field, seen_alert, new_alert = ARGV[7], ARGV[8], ARGV[9]
local follow_up, follow_up_param, follow_up_delay = ARGV[10], ARGV[11], ARGV[12]
local alerts_key, history_limit = ARGV[13], tonumber(ARGV[14])
local FIRST, WORDS = 15, 14
local limits = redis.call('GET', key('limit')) or ''

-- True if the notice still has the status and the fence of the outcome, and is overdue if it must be.
local function is_held(member, fence, from, overdue, stored_status, stored_fence)
  if stored_status ~= from or stored_fence ~= fence then return false end
  return overdue == '0' or tonumber(redis.call('ZSCORE', status_set(from), member)) <= now
end

if mode ~= 'free' and mode ~= 'once' then
  local mask, twice = {}, {}
  for at = FIRST, #ARGV, WORDS do
    local member, fence, from, overdue = unpack(ARGV, at, at + 3)
    local held = not twice[member] and is_held(member, fence, from, overdue, fields(member, 'status', 'fence'))
    if held then twice[member] = true end
    mask[#mask + 1] = held and '1' or '0'
  end
  mask = table.concat(mask)
  if mode == 'look' then return { 'seen', text(now), limits, mask } end
  local alert = alert_field ~= '' and (redis.call('HGET', alerts_key, alert_field) or '') or ''
  if limits ~= seen_limits or mask ~= seen_mask or alert ~= seen_alert then return { 'conflict' } end
  if new_limits ~= limits then redis.call('SET', key('limit'), new_limits) end
end

-- The number is at least the time, so that it is not used twice if a failover loses the last one.
local function raise(alarm)
  local number = math.max(tonumber(redis.call('GET', key('last_alarm')) or '0') + 1, now)
  redis.call('SET', key('last_alarm'), text(number))
  redis.call('RPUSH', key('alarms'), '{"number":' .. text(number) .. ',' .. string.sub(alarm, 2))
end

local out = {}
for at = FIRST, #ARGV, WORDS do
  local member, fence, from, overdue, status, delay, keep, reason, failures, crashes, errors, class, description, alarm =
    unpack(ARGV, at, at + WORDS - 1)
  local stored_status, stored_fence, stored_failures, stored_crashes = fields(member, 'status', 'fence', 'failures', 'crashes')
  if stored_status and is_held(member, fence, from, overdue, stored_status, stored_fence) then
    leave(member)
    redis.call('HSET', notice_key(member), 'failures', failures, 'crashes', crashes)
    set_or_delete(member, 'errors', errors)
    set_or_delete(member, 'last_class', class)
    set_or_delete(member, 'description', description)
    if delay ~= '' then
      enter(member, status, now + tonumber(delay))
    elseif keep == '1' then
      set_or_delete(member, 'end_reason', reason)
      enter(member, status, now)
      -- succeeded
      if status == '1' and redis.call('ZCARD', status_set('1')) > history_limit then
        -- Deletes two for each new one, so that the count falls to a lowered limit.
        for _, old in ipairs(redis.call('ZRANGE', status_set('1'), 0, 1)) do
          if old ~= member then erase(old) end
        end
      end
    else
      redis.call('DEL', notice_key(member))
    end
    if alarm ~= '' then raise(alarm) end
    out[#out + 1] = 'done'
  elseif not stored_status then
    out[#out + 1] = (status == '1' and keep == '0') and 'was' or 'lost'
  elseif stored_fence == fence and stored_status == status and stored_failures == failures and stored_crashes == crashes then
    -- An earlier call stored it, and its reply was lost.
    out[#out + 1] = 'was'
  elseif stored_fence == fence and not LIVE[stored_status] then
    out[#out + 1] = 'ended'
  else
    out[#out + 1] = 'lost'
  end
end
if circuit_alarm ~= '' then raise(circuit_alarm) end
if alert_field ~= '' then
  if new_alert == '' then
    redis.call('HDEL', alerts_key, alert_field)
  else
    redis.call('HSET', alerts_key, alert_field, new_alert)
  end
  if follow_up ~= '' then insert_plain(follow_up, now + tonumber(follow_up_delay), follow_up_param) end
end
return { 'settled', out }
