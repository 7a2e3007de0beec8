-- Rows of alerts and their notices, which are in one slot. KEYS[1]: the definition of alerts; ARGV[2]: what to do; ARGV[3]: the
-- prefix of the common keys; ARGV[4]: the field of the row.
local what, M, field = ARGV[2], ARGV[3], ARGV[4]
local row = redis.call('HGET', M .. ':alerts', field) or ''

-- The state of the follow-up: its status and its time.
local function stands(m)
  if m == '' then return '' end
  local status = redis.call('HGET', N(m), 's')
  if not status or not LIVE[status] then return '' end
  return status .. ' ' .. (redis.call('ZSCORE', B .. ':z' .. status, m) or '')
end

if what == 'look' then
  -- ARGV[5]: the follow-up. Only Rust can read it in the row, so Rust asks again with this member.
  -- ARGV[6]: the definition that alarms come from. Returns the number up to which they have arrived.
  return { text(now), row, stands(ARGV[5]), redis.call('HGET', M .. ':told', ARGV[6]) or '0' }
end
-- 'raise': ARGV[5], [6]: the follow-up and its state as read; ARGV[7]: the row as read; ARGV[8]: the new row; ARGV[9]: the delay
-- after which the follow-up is due, empty: unchanged; ARGV[10] to [12]: the definition that alarms come from, the number up to
-- which they had arrived, and the new one; then member, parameter and delay of each new notice.
if row ~= ARGV[7] or stands(ARGV[5]) ~= ARGV[6] then return 'conflict' end
if ARGV[10] ~= '' then
  if (redis.call('HGET', M .. ':told', ARGV[10]) or '0') ~= ARGV[11] then return 'conflict' end
  redis.call('HSET', M .. ':told', ARGV[10], ARGV[12])
end
redis.call('HSET', M .. ':alerts', field, ARGV[8])
if ARGV[9] ~= '' then
  local m = ARGV[5]
  leave(m)
  enter(m, '0', now + tonumber(ARGV[9]))
end
for i = 13, #ARGV, 3 do insert(ARGV[i], now + tonumber(ARGV[i + 2]), ARGV[i + 1], '', '', '', '') end
return 'done'
