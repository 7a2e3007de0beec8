-- Everything that belongs to no single definition. KEYS[1]: the prefix of its keys, which `store/keys.rs` lists. given: `what` to do.
-- Each branch names its further fields.
local prefix, what = KEYS[1], given.what

local function key(name)
  return prefix .. ':' .. name
end

-- The id of each definition that takes new notices, by name.
local function names()
  local known = {}
  for _, id in ipairs(definition_ids(prefix)) do
    local name, delete_time = unpack(read('HMGET', definition_key(prefix, id), 'name', 'delete_time') or {})
    if name and not delete_time then known[name] = id end
  end
  return known
end

-- What the switch pauses, as `codec::paused` reads it; nil: nothing.
local function paused_scope()
  local text = redis.call('GET', key('switch'))
  if not text or text == '' then return nil end
  local ok, paused = pcall(cjson.decode, text)
  return ok and type(paused) == 'table' and paused.scope == 'retries' and 'retries' or 'everything'
end

if what == 'names' then
  -- How many numbers are `wanted`; `names`: each has a `name` and its last known `id`, if any. Returns the id and the column `encrypt_param` of
  -- each, and the first of as many new numbers. Reads all definitions only if one of the ids is out of date.
  local wanted = given.wanted
  local ids, encrypt, known = {}, {}, nil
  for i, of in ipairs(given.names) do
    local name, id = of.name, of.id
    local stored_name, delete_time, encrypt_param
    if id then
      stored_name, delete_time, encrypt_param =
        unpack(read('HMGET', definition_key(prefix, id), 'name', 'delete_time', 'encrypt_param') or {})
    end
    if stored_name ~= name or delete_time then
      known = known or names()
      id = known[name] or ''
      encrypt_param = redis.call('HGET', definition_key(prefix, id), 'encrypt_param')
    end
    ids[i], encrypt[i] = id, encrypt_param or ''
    if id == '' then wanted = 0 end
  end
  local all = {}
  if wanted == 0 then
    for name in pairs(known or names()) do all[#all + 1] = name end
  end
  return { ids, wanted > 0 and redis.call('INCRBY', key('last_notice'), wanted) - wanted + 1 or 0, all, encrypt }
elseif what == 'ids' then
  -- With the time at which the first row of an alert is due.
  local due_alert = redis.call('ZRANGE', key('due_alerts'), 0, 0, 'WITHSCORES')[2] or ''
  return { text(now), definition_ids(prefix), due_alert }
elseif what == 'targets' then
  -- The definition `id` and its targets, as far as they can be read.
  local out = {}
  for _, id in ipairs(definition_ids(prefix)) do
    local target_of = read('HGET', definition_key(prefix, id), 'target_of')
    if tonumber(id) == given.id or tonumber(target_of or '') == given.id then
      local _, row = fingerprint(prefix, id)
      if row then out[#out + 1] = { id, row } end
    end
  end
  return out
elseif what == 'numbers' then
  return redis.call('INCRBY', key('last_notice'), given.wanted) - given.wanted + 1
elseif what == 'definitions' then
  -- Each with its fingerprint, the number of its versions, and the last version; without these where a key of it cannot be read.
  local out = {}
  for _, id in ipairs(definition_ids(prefix)) do
    local print, row = fingerprint(prefix, id)
    local last, count = read('LINDEX', versions_key(prefix, id), -1), read('LLEN', versions_key(prefix, id))
    out[#out + 1] = { id, print or 'damaged', row or {}, count or -1, last or '' }
  end
  return { text(now), out }
elseif what == 'number' then
  return redis.call('INCR', key(given.counter))
elseif what == 'edit' then
  return write_definition(prefix, given)
elseif what == 'forget' then
  local id = given.id
  redis.call('SREM', key('definitions'), id)
  redis.call('HDEL', key('counts'), id)
  redis.call('HDEL', key('arrived_alarms'), id)
  redis.call('DEL', definition_key(prefix, id), versions_key(prefix, id))
  return 'done'
elseif what == 'versions' then
  return redis.call('LRANGE', versions_key(prefix, given.id), 0, -1)
elseif what == 'beat' then
  -- The `node` that reports, if any, and its `row`. Deletes nodes that were not seen for a day.
  if given.node then
    -- Redis checks its memory until a script has written: on a full server a node still says that it lives.
    redis.call('HDEL', key('nodes'), '')
    local start_time = string.match(redis.call('HGET', key('nodes'), given.node) or '', '^{"last_seen":%d+,"start_time":(%d+)') or text(now)
    local times = '{"last_seen":' .. text(now) .. ',"start_time":' .. start_time .. ','
    redis.call('HSET', key('nodes'), given.node, times .. string.sub(given.row, 2))
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
  -- The definition `id`; for how many milliseconds the others `wait`. The first node to ask counts. It may still know a definition that
  -- is gone.
  local id = given.id
  if redis.call('SISMEMBER', key('definitions'), id) == 0 then return 0 end
  local row = redis.call('HGET', key('counts'), id) or ''
  local next_time, rest = string.match(row, '^{"next_time":(%d+)(.*)$')
  if tonumber(next_time or '0') > now then return 0 end
  redis.call('HSET', key('counts'), id, '{"next_time":' .. text(now + given.wait) .. (rest or '}'))
  return 1
elseif what == 'counted' then
  -- The definition `id`, which may be gone; after how many milliseconds to count next, `wait`; the `counts`.
  if redis.call('SISMEMBER', key('definitions'), given.id) == 0 then return 0 end
  redis.call('HSET', key('counts'), given.id, '{"next_time":' .. text(now + given.wait) .. ',' .. string.sub(given.counts, 2))
  return 1
elseif what == 'switch' then
  -- `paused`: the text that is stored while something is paused, absent: nothing is; its `scope`; the `audit` entry.
  local paused = given.paused
  if paused_scope() == given.scope then return 0 end
  if paused then redis.call('SET', key('switch'), paused) else redis.call('DEL', key('switch')) end
  write_audit(key('audit'), given.audit)
  return 1
elseif what == 'paused' then
  return redis.call('GET', key('switch')) or ''
elseif what == 'store_id' then
  -- `random`: the number that the store gets if it has none. A server that is full or read-only gives it none.
  local id = redis.call('GET', key('store_id'))
  if not id then
    redis.pcall('SET', key('store_id'), given.random)
    id = redis.call('GET', key('store_id')) or ''
  end
  return id
elseif what == 'numbered' then
  -- Ids up to `number` were given: the counter was lost, or set back.
  if tonumber(redis.call('GET', key('last_notice')) or '0') < given.number then
    redis.call('SET', key('last_notice'), text(given.number))
  end
  return 1
elseif what == 'audit' then
  return read_audit(key('audit'))
elseif what == 'alert' then
  -- The row of an alert, by its `field`.
  return redis.call('HGET', key('alerts'), given.field) or ''
elseif what == 'alerts' then
  -- Returns all rows of alerts: field and row.
  return { text(now), redis.call('HGETALL', key('alerts')) }
elseif what == 'change_alerts' then
  -- `rows`: each has the `field`, the row as read (`seen_row`), the `new_row` (absent: delete it), and when it is `due` (absent: never);
  -- the `audit` entry.
  for _, row in ipairs(given.rows) do
    if (redis.call('HGET', key('alerts'), row.field) or '') ~= row.seen_row then return 'conflict' end
  end
  for _, row in ipairs(given.rows) do
    if row.new_row then
      redis.call('HSET', key('alerts'), row.field, row.new_row)
    else
      redis.call('HDEL', key('alerts'), row.field)
    end
    if row.due then
      redis.call('ZADD', key('due_alerts'), text(row.due), row.field)
    else
      redis.call('ZREM', key('due_alerts'), row.field)
    end
  end
  write_audit(key('audit'), given.audit)
  return 'done'
elseif what == 'is_seen' then
  -- The `mark`: receiver and sender of an inbox, and the idempotency key, with zero bytes between them.
  return redis.call('HEXISTS', key('inbox'), given.mark)
elseif what == 'mark_seen' then
  -- The `marks`, as above, and `call`, a random word that identifies the call, which can be repeated after a lost reply. Returns how many
  -- of the marks this call has made.
  local made = 0
  for _, mark in ipairs(given.marks) do
    if redis.call('HSETNX', key('inbox'), mark, given.call) == 1 then
      redis.call('ZADD', key('inbox_times'), text(now), mark)
    end
    if redis.call('HGET', key('inbox'), mark) == given.call then made = made + 1 end
  end
  return made
elseif what == 'purge_inbox' then
  -- `most` marks that are older than `minimum_age` in milliseconds, the oldest first. Returns how many were deleted.
  local latest = text(now - given.minimum_age)
  local old = redis.call('ZRANGEBYSCORE', key('inbox_times'), '-inf', latest, 'LIMIT', 0, given.most)
  for _, mark in ipairs(old) do
    redis.call('HDEL', key('inbox'), mark)
    redis.call('ZREM', key('inbox_times'), mark)
  end
  return #old
elseif what == 'due_alerts' then
  return redis.call('ZRANGEBYSCORE', key('due_alerts'), '-inf', text(now), 'LIMIT', 0, given.most)
end
