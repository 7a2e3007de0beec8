-- Rows of alerts and their notices, which are in one slot. KEYS[1]: the definition of alerts. given: `what` to do, `common`: the
-- prefix of the common keys, `field` of the row; `follow_up`: the member of the follow-up, as far as Rust knows it; `source`: the
-- definition that alarms come from, if they are numbered.
local field, follow_up, source = given.field, given.follow_up, given.source
local alerts_key, arrived_alarms = given.common .. ':alerts', given.common .. ':arrived_alarms'
local row = redis.call('HGET', alerts_key, field) or ''

-- The state of the follow-up: its status and its time.
local function stands(member)
  if not member then return '' end
  local status = fields(member, 'status')
  if not status or not LIVE[status] then return '' end
  return status .. ' ' .. (redis.call('ZSCORE', status_set(status), member) or '')
end

if given.what == 'look' then
  -- Only Rust can read the follow-up in the row, so Rust asks again with this member. Returns also the number up to which alarms of
  -- the source have arrived.
  return { text(now), row, stands(follow_up), source and redis.call('HGET', arrived_alarms, source) or '0' }
end
-- 'raise': the follow-up's state and the row as read, `seen_state` and `seen_row`; the `new_row`; `sooner`: the delay after which the
-- follow-up is due, absent: unchanged; the number up to which alarms had arrived, `seen_arrived`, and the `new_arrived`; `notices`:
-- each has `member`, `param` and `delay`.
if row ~= given.seen_row or stands(follow_up) ~= given.seen_state then return 'conflict' end
if source then
  if (redis.call('HGET', arrived_alarms, source) or '0') ~= given.seen_arrived then return 'conflict' end
  redis.call('HSET', arrived_alarms, source, given.new_arrived)
end
redis.call('HSET', alerts_key, field, given.new_row)
if given.sooner then
  leave(follow_up)
  -- not_sent
  enter(follow_up, '0', now + given.sooner)
end
for _, notice in ipairs(given.notices) do insert(notice, now + notice.delay) end
return 'done'
