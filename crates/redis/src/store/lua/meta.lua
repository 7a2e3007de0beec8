-- Everything that belongs to no single definition. KEYS[1]: the prefix of its keys.
--   defs  the ids of the definitions; def:<id>: a definition, a hash that people may edit; v:<id>: its versions
--   seq   the last number of a notice; last_def, last_alert_def: of a definition
--   nodes, counts, switch, audit; alerts: the rows of alerts; told: the number up to which alarms have arrived
local M = KEYS[1]
local what = ARGV[2]

-- Changes with every edit of a row, also by hand.
local function fingerprint(id)
  local row = redis.call('HGETALL', M .. ':def:' .. id)
  if #row == 0 then return '', row end
  local words = {}
  for i = 1, #row, 2 do words[#words + 1] = #row[i] .. ':' .. row[i] .. #row[i + 1] .. ':' .. row[i + 1] end
  table.sort(words)
  return redis.sha1hex(table.concat(words)), row
end

-- The id of each definition that takes new notices, by name.
local function names()
  local known = {}
  for _, id in ipairs(redis.call('SMEMBERS', M .. ':defs')) do
    local row = redis.call('HMGET', M .. ':def:' .. id, 'name', 'delete_time')
    if row[1] and not row[2] then known[row[1]] = id end
  end
  return known
end

if what == 'names' then
  -- Arguments: names, each with its last known id ('': none). Returns the id of each, and the first of as many new numbers. Reads
  -- all definitions only if one of the ids is out of date.
  local ids, known = {}, nil
  local wanted = tonumber(ARGV[3])
  for i = 4, #ARGV, 2 do
    local name, id = ARGV[i], ARGV[i + 1]
    local row = id ~= '' and redis.call('HMGET', M .. ':def:' .. id, 'name', 'delete_time')
    if not row or row[1] ~= name or row[2] then
      known = known or names()
      id = known[name] or ''
    end
    ids[#ids + 1] = id
    if id == '' then wanted = 0 end
  end
  local all = {}
  if wanted == 0 then
    for name in pairs(known or names()) do all[#all + 1] = name end
  end
  return { ids, wanted > 0 and redis.call('INCRBY', M .. ':seq', wanted) - wanted + 1 or 0, all, text(now) }
elseif what == 'ids' then
  return { text(now), redis.call('SMEMBERS', M .. ':defs') }
elseif what == 'numbers' then
  return redis.call('INCRBY', M .. ':seq', ARGV[3]) - tonumber(ARGV[3]) + 1
elseif what == 'definitions' then
  -- Each with its fingerprint, the number of its versions, and the last version.
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
  -- ARGV[3]: the id; ARGV[4]: its fingerprint as read; ARGV[5]: the number of versions as read; ARGV[6]: the number of new
  -- versions; ARGV[7]: the number of audit entries; ARGV[8]: 'row' if columns follow; then all of these.
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
  -- ARGV[3]: the node, ARGV[4]: its text. Deletes nodes that were not seen for a day.
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
  -- The first node to ask counts; the others wait for ARGV[4] milliseconds. ARGV[3]: the definition.
  local row = redis.call('HGET', M .. ':counts', ARGV[3]) or '0 '
  local next, rest = string.match(row, '^(%d+) (.*)$')
  if tonumber(next or '0') > now then return 0 end
  redis.call('HSET', M .. ':counts', ARGV[3], text(now + tonumber(ARGV[4])) .. ' ' .. (rest or ''))
  return 1
elseif what == 'counted' then
  redis.call('HSET', M .. ':counts', ARGV[3], text(now + tonumber(ARGV[4])) .. ' ' .. ARGV[5])
  return 1
elseif what == 'switch' then
  -- ARGV[3]: the text that is stored while sending is paused, empty: not paused; ARGV[4]: the audit entry.
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
