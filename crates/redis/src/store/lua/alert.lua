-- Rows of alerts and their notices, which are in one slot. KEYS[1]: the definition of alerts; ARGV[2]: what to do; ARGV[3]: the
-- prefix of the common keys; ARGV[4]: the field of the row.
local what, common, field = ARGV[2], ARGV[3], ARGV[4]
local alerts_key, arrived_alarms = common .. ':alerts', common .. ':arrived_alarms'
local row = redis.call('HGET', alerts_key, field) or ''

-- The state of the follow-up: its status and its time.
local function stands(member)
  if member == '' then return '' end
  local status = fields(member, 'status')
  if not status or not LIVE[status] then return '' end
  return status .. ' ' .. (redis.call('ZSCORE', status_set(status), member) or '')
end

if what == 'look' then
  -- The follow-up: only Rust can read it in the row, so Rust asks again with this member. The definition that alarms come from:
  -- returns the number up to which they have arrived.
  local follow_up, source = ARGV[5], ARGV[6]
  return { text(now), row, stands(follow_up), redis.call('HGET', arrived_alarms, source) or '0' }
end
-- 'raise': the follow-up and its state as read; the row as read; the new row; the delay after which the follow-up is due, empty:
-- unchanged; the definition that alarms come from, the number up to which they had arrived, and the new one; then member, parameter
-- and delay of each new notice.
local follow_up, seen_state, seen_row, new_row, sooner, source, seen_arrived, new_arrived = unpack(ARGV, 5, 12)
local FIRST, WORDS = 13, 3
if row ~= seen_row or stands(follow_up) ~= seen_state then return 'conflict' end
if source ~= '' then
  if (redis.call('HGET', arrived_alarms, source) or '0') ~= seen_arrived then return 'conflict' end
  redis.call('HSET', arrived_alarms, source, new_arrived)
end
redis.call('HSET', alerts_key, field, new_row)
if sooner ~= '' then
  leave(follow_up)
  -- not_sent
  enter(follow_up, '0', now + tonumber(sooner))
end
for at = FIRST, #ARGV, WORDS do
  local member, param, delay = unpack(ARGV, at, at + WORDS - 1)
  insert_plain(member, now + tonumber(delay), param)
end
return 'done'
