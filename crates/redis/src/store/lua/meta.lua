-- What belongs to no single definition: KEYS[1] is what its keys begin with.
--   defs  the ids of the definitions, def:<id>: one of them, a hash that people may edit; v:<id>: its versions
--   seq   the last number of a notice, last_def, last_alert_def: of a definition
--   nodes, counts, switch, audit; alerts: the rows of alerts, told: up to which number alarms have arrived
local M = KEYS[1]
local what = ARGV[2]

-- Says whether a row is as it was seen, whoever edited it.
local function fingerprint(id)
  local row = redis.call('HGETALL', M .. ':def:' .. id)
  if #row == 0 then return '', row end
  local words = {}
  for i = 1, #row, 2 do words[#words + 1] = #row[i] .. ':' .. row[i] .. #row[i + 1] .. ':' .. row[i + 1] end
  table.sort(words)
  return redis.sha1hex(table.concat(words)), row
end

if what == 'names' then
  -- Then names. Answers with the id of each, and with the first of as many new numbers.
  local ids, known = {}, {}
  for _, id in ipairs(redis.call('SMEMBERS', M .. ':defs')) do
    local row = redis.call('HMGET', M .. ':def:' .. id, 'name', 'delete_time')
    if row[1] and not row[2] then known[row[1]] = id end
  end
  local wanted = tonumber(ARGV[3])
  for i = 4, #ARGV do
    ids[#ids + 1] = known[ARGV[i]] or ''
    if not known[ARGV[i]] then wanted = 0 end
  end
  local names = {}
  if wanted == 0 then
    for name in pairs(known) do names[#names + 1] = name end
  end
  return { ids, wanted > 0 and redis.call('INCRBY', M .. ':seq', wanted) - wanted + 1 or 0, names, text(now) }
elseif what == 'numbers' then
  return redis.call('INCRBY', M .. ':seq', ARGV[3]) - tonumber(ARGV[3]) + 1
elseif what == 'definitions' then
  -- Each with its fingerprint, how many versions it has, and the last of them.
  local out = {}
  for _, id in ipairs(redis.call('SMEMBERS', M .. ':defs')) do
    local print, row = fingerprint(id)
    local last = redis.call('LINDEX', M .. ':v:' .. id, -1)
    out[#out + 1] = { id, print, row, redis.call('LLEN', M .. ':v:' .. id), last or '' }
  end
  return { text(now), out }
elseif what == 'number' then
  return redis.call('INCR', M .. ':' .. ARGV[3])
elseif what == 'edit' then
  -- ARGV[3]: the id; ARGV[4]: its fingerprint as seen; ARGV[5]: how many versions were seen; ARGV[6]: how many versions follow,
  -- ARGV[7]: how many lines of the audit, ARGV[8]: 'row' where columns follow; all of them after that.
  local id, versions = ARGV[3], M .. ':v:' .. ARGV[3]
  local print = fingerprint(id)
  if print ~= ARGV[4] or redis.call('LLEN', versions) ~= tonumber(ARGV[5]) then return 'conflict' end
  local at = 9
  local keep, audit = tonumber(ARGV[6]), tonumber(ARGV[7])
  if ARGV[8] == 'row' then
    local fields = at + keep + audit
    local name
    for i = fields, #ARGV, 2 do
      if ARGV[i] == 'name' then name = ARGV[i + 1] end
    end
    for _, other in ipairs(redis.call('SMEMBERS', M .. ':defs')) do
      if other ~= id and redis.call('HGET', M .. ':def:' .. other, 'name') == name then return 'taken' end
    end
    redis.call('DEL', M .. ':def:' .. id)
    for i = fields, #ARGV, 2 do redis.call('HSET', M .. ':def:' .. id, ARGV[i], ARGV[i + 1]) end
    redis.call('SADD', M .. ':defs', id)
  end
  for i = at, at + keep - 1 do redis.call('RPUSH', versions, ARGV[i]) end
  for i = at + keep, at + keep + audit - 1 do write_audit(M .. ':audit', ARGV[i]) end
  return 'done'
elseif what == 'forget' then
  redis.call('SREM', M .. ':defs', ARGV[3])
  redis.call('HDEL', M .. ':counts', ARGV[3])
  redis.call('DEL', M .. ':def:' .. ARGV[3], M .. ':v:' .. ARGV[3])
  return 'done'
elseif what == 'versions' then
  return redis.call('LRANGE', M .. ':v:' .. ARGV[3], 0, -1)
elseif what == 'beat' then
  -- ARGV[3]: the node, ARGV[4]: what it says. Those that were not seen for a day are forgotten.
  if ARGV[3] ~= '' then redis.call('HSET', M .. ':nodes', ARGV[3], text(now) .. ' ' .. ARGV[4]) end
  local out = {}
  local nodes = redis.call('HGETALL', M .. ':nodes')
  for i = 1, #nodes, 2 do
    local seen = tonumber(string.match(nodes[i + 1], '^%d+') or '0')
    if seen < now - 86400000 then
      redis.call('HDEL', M .. ':nodes', nodes[i])
    else
      out[#out + 1] = { nodes[i], nodes[i + 1] }
    end
  end
  return { text(now), out }
elseif what == 'counts' then
  local out = {}
  local counts = redis.call('HGETALL', M .. ':counts')
  for i = 1, #counts, 2 do out[#out + 1] = { counts[i], counts[i + 1] } end
  return { text(now), out }
elseif what == 'may_count' then
  -- Whoever is first counts, and holds it for so long. ARGV[3]: the definition, ARGV[4]: milliseconds.
  local row = redis.call('HGET', M .. ':counts', ARGV[3]) or '0 '
  local next, rest = string.match(row, '^(%d+) (.*)$')
  if tonumber(next or '0') > now then return 0 end
  redis.call('HSET', M .. ':counts', ARGV[3], text(now + tonumber(ARGV[4])) .. ' ' .. (rest or ''))
  return 1
elseif what == 'counted' then
  redis.call('HSET', M .. ':counts', ARGV[3], text(now + tonumber(ARGV[4])) .. ' ' .. ARGV[5])
  return 1
elseif what == 'switch' then
  -- ARGV[3]: what is stored while it is paused, empty: it goes on; ARGV[4]: the line of the audit.
  if (redis.call('EXISTS', M .. ':switch') == 1) == (ARGV[3] ~= '') then return 0 end
  if ARGV[3] ~= '' then redis.call('SET', M .. ':switch', ARGV[3]) else redis.call('DEL', M .. ':switch') end
  write_audit(M .. ':audit', ARGV[4])
  return 1
elseif what == 'paused' then
  return redis.call('GET', M .. ':switch') or ''
elseif what == 'audit' then
  return redis.call('LRANGE', M .. ':audit', ARGV[3], ARGV[4])
else
  -- 'alert': the row of an alert.
  return redis.call('HGET', M .. ':alerts', ARGV[3]) or ''
end
