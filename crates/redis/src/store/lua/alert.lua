-- Rows of alerts and their notices, which are in one slot. KEYS[1]: the definition of alerts; ARGV[2]: what; ARGV[3]: what the
-- common keys begin with; ARGV[4]: the field of the row.
local what, M, field = ARGV[2], ARGV[3], ARGV[4]
local row = redis.call('HGET', M .. ':alerts', field) or ''

-- How the notice stands that is the follow-up: its status and its time.
local function stands(m)
  if m == '' then return '' end
  local status = redis.call('HGET', N(m), 's')
  if not status or not LIVE[status] then return '' end
  return status .. ' ' .. (redis.call('ZSCORE', B .. ':z' .. status, m) or '')
end

if what == 'look' then
  -- ARGV[5]: the follow-up. It is named by the row, which is Rust's to read: it asks once more with the member.
  -- ARGV[6]: from whom alarms come; up to which of their numbers they have arrived is told.
  return { text(now), row, stands(ARGV[5]), redis.call('HGET', M .. ':told', ARGV[6]) or '0' }
end
-- 'raise': ARGV[5], [6]: the follow-up and how it was seen; ARGV[7]: the row as seen; ARGV[8]: as it shall be; ARGV[9]: when the
-- follow-up is due from now on, empty: as it was; ARGV[10] to [12]: from whom, up to which number they had arrived, and have now;
-- then member, parameter and delay of each notice to add.
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
