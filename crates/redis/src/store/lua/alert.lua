-- Rows of alerts and their notices, which are in one slot. KEYS[1]: the definition of alerts. given: `what` to do, `common`: the
-- prefix of the common keys, `field` of the row; `source`: the definition that alarms come from, if they are numbered.
local field, source = given.field, given.source
local alerts_key, due_alerts, arrived_alarms =
  given.common .. ':alerts', given.common .. ':due_alerts', given.common .. ':arrived_alarms'
local row = redis.call('HGET', alerts_key, field) or ''

if given.what == 'look' then
  -- Returns also the number up to which alarms of the source have arrived.
  return { text(now), row, source and redis.call('HGET', arrived_alarms, source) or '0' }
end
-- 'write': the row as read, `seen_row`; the `new_row` (absent: delete it), and when it is `due` (absent: never); the number up to which
-- alarms had arrived, `seen_arrived`, and the `new_arrived`; the `notice` to insert, if there is one, with `member`, `param` and `authority`; the
-- `edit` of a definition that raises the alarm, if it is one.
if row ~= given.seen_row then return 'conflict' end
if given.edit then
  local written = write_definition(given.common, given.edit)
  if written ~= 'done' then return written end
end
if source then
  if (redis.call('HGET', arrived_alarms, source) or '0') ~= given.seen_arrived then return 'conflict' end
  redis.call('HSET', arrived_alarms, source, given.new_arrived)
end
if given.new_row then
  redis.call('HSET', alerts_key, field, given.new_row)
else
  redis.call('HDEL', alerts_key, field)
end
if given.due then
  redis.call('ZADD', due_alerts, text(given.due), field)
else
  redis.call('ZREM', due_alerts, field)
end
if given.notice then insert(given.notice, now) end
return 'done'
