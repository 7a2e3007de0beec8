-- Everything that belongs to no single definition. KEYS[1]: the prefix of its keys, which `store/keys.rs` lists; ARGV[2]: what to
-- do. Each branch names its further arguments.
local prefix, what = KEYS[1], ARGV[2]

local function key(name)
  return prefix .. ':' .. name
end

local function definition_key(id)
  return key('definition:' .. id)
end

local function versions_key(id)
  return key('versions:' .. id)
end

-- Returns a text that changes with every edit of a row, also by hand, and the row.
local function fingerprint(id)
  local row = redis.call('HGETALL', definition_key(id))
  if #row == 0 then return '', row end
  local words = {}
  for at = 1, #row, 2 do
    local field, value = row[at], row[at + 1]
    words[#words + 1] = #field .. ':' .. field .. #value .. ':' .. value
  end
  table.sort(words)
  return redis.sha1hex(table.concat(words)), row
end

-- The id of each definition that takes new notices, by name.
local function names()
  local known = {}
  for _, id in ipairs(redis.call('SMEMBERS', key('definitions'))) do
    local name, delete_time = unpack(redis.call('HMGET', definition_key(id), 'name', 'delete_time'))
    if name and not delete_time then known[name] = id end
  end
  return known
end

if what == 'names' then
  -- How many numbers; then names, each with its last known id ('': none). Returns the id of each, and the first of as many new
  -- numbers. Reads all definitions only if one of the ids is out of date.
  local wanted = tonumber(ARGV[3])
  local FIRST, WORDS = 4, 2
  local ids, known = {}, nil
  for at = FIRST, #ARGV, WORDS do
    local name, id = ARGV[at], ARGV[at + 1]
    local stored_name, delete_time
    if id ~= '' then stored_name, delete_time = unpack(redis.call('HMGET', definition_key(id), 'name', 'delete_time')) end
    if stored_name ~= name or delete_time then
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
  return { ids, wanted > 0 and redis.call('INCRBY', key('last_notice'), wanted) - wanted + 1 or 0, all, text(now) }
elseif what == 'ids' then
  return { text(now), redis.call('SMEMBERS', key('definitions')) }
elseif what == 'numbers' then
  local wanted = tonumber(ARGV[3])
  return redis.call('INCRBY', key('last_notice'), wanted) - wanted + 1
elseif what == 'definitions' then
  -- Each with its fingerprint, the number of its versions, and the last version.
  local out = {}
  for _, id in ipairs(redis.call('SMEMBERS', key('definitions'))) do
    local print, row = fingerprint(id)
    local last = redis.call('LINDEX', versions_key(id), -1)
    out[#out + 1] = { id, print, row, redis.call('LLEN', versions_key(id)), last or '' }
  end
  return { text(now), out }
elseif what == 'number' then
  local counter = ARGV[3]
  return redis.call('INCR', key(counter))
elseif what == 'edit' then
  -- The id; its fingerprint and the number of versions as read; the number of new versions and of audit entries; 'row' if columns
  -- follow; then all of these.
  local id, seen_fingerprint, seen_versions, new_versions, audit_entries, has_row = unpack(ARGV, 3, 8)
  local first_version = 9
  local first_audit = first_version + tonumber(new_versions)
  local first_column = first_audit + tonumber(audit_entries)
  local versions = versions_key(id)
  if fingerprint(id) ~= seen_fingerprint or redis.call('LLEN', versions) ~= tonumber(seen_versions) then return 'conflict' end
  if has_row == 'row' then
    local new_name
    for at = first_column, #ARGV, 2 do
      local column, value = ARGV[at], ARGV[at + 1]
      if column == 'name' then new_name = value end
    end
    for _, other in ipairs(redis.call('SMEMBERS', key('definitions'))) do
      if other ~= id and redis.call('HGET', definition_key(other), 'name') == new_name then return 'taken' end
    end
    redis.call('DEL', definition_key(id))
    for at = first_column, #ARGV, 2 do
      local column, value = ARGV[at], ARGV[at + 1]
      redis.call('HSET', definition_key(id), column, value)
    end
    redis.call('SADD', key('definitions'), id)
  end
  for at = first_version, first_audit - 1 do redis.call('RPUSH', versions, ARGV[at]) end
  for at = first_audit, first_column - 1 do write_audit(key('audit'), ARGV[at]) end
  return 'done'
elseif what == 'forget' then
  local id = ARGV[3]
  redis.call('SREM', key('definitions'), id)
  redis.call('HDEL', key('counts'), id)
  redis.call('DEL', definition_key(id), versions_key(id))
  return 'done'
elseif what == 'versions' then
  local id = ARGV[3]
  return redis.call('LRANGE', versions_key(id), 0, -1)
elseif what == 'beat' then
  -- The node that reports, empty: none; its row. Deletes nodes that were not seen for a day.
  local reporting, reported = ARGV[3], ARGV[4]
  if reporting ~= '' then
    redis.call('HSET', key('nodes'), reporting, '{"last_seen":' .. text(now) .. ',' .. string.sub(reported, 2))
  end
  local out = {}
  local nodes = redis.call('HGETALL', key('nodes'))
  for at = 1, #nodes, 2 do
    local node, row = nodes[at], nodes[at + 1]
    local last_seen = tonumber(string.match(row, '^{"last_seen":(%d+)') or '0')
    if last_seen < now - 86400000 then
      redis.call('HDEL', key('nodes'), node)
    else
      out[#out + 1] = { node, row }
    end
  end
  return { text(now), out }
elseif what == 'counts' then
  local out = {}
  local counts = redis.call('HGETALL', key('counts'))
  for at = 1, #counts, 2 do out[#out + 1] = { counts[at], counts[at + 1] } end
  return { text(now), out }
elseif what == 'may_count' then
  -- The definition; for how many milliseconds the others wait. The first node to ask counts.
  local id, wait = ARGV[3], tonumber(ARGV[4])
  local row = redis.call('HGET', key('counts'), id) or ''
  local next_time, rest = string.match(row, '^{"next_time":(%d+)(.*)$')
  if tonumber(next_time or '0') > now then return 0 end
  redis.call('HSET', key('counts'), id, '{"next_time":' .. text(now + wait) .. (rest or '}'))
  return 1
elseif what == 'counted' then
  -- The definition; when to count next; the counts.
  local id, wait, counts = ARGV[3], tonumber(ARGV[4]), ARGV[5]
  redis.call('HSET', key('counts'), id, '{"next_time":' .. text(now + wait) .. ',' .. string.sub(counts, 2))
  return 1
elseif what == 'switch' then
  -- The text that is stored while sending is paused, empty: not paused; the audit entry.
  local paused, audit = ARGV[3], ARGV[4]
  if (redis.call('EXISTS', key('switch')) == 1) == (paused ~= '') then return 0 end
  if paused ~= '' then redis.call('SET', key('switch'), paused) else redis.call('DEL', key('switch')) end
  write_audit(key('audit'), audit)
  return 1
elseif what == 'paused' then
  return redis.call('GET', key('switch')) or ''
elseif what == 'audit' then
  local from, to = ARGV[3], ARGV[4]
  return redis.call('LRANGE', key('audit'), from, to)
else
  -- 'alert': the row of an alert.
  local field = ARGV[3]
  return redis.call('HGET', key('alerts'), field) or ''
end
