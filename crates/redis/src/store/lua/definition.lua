-- The rows of definitions, whose keys belong to no single definition; `common` is the prefix of these keys.
local function definition_key(common, id)
  return common .. ':definition:' .. id
end

local function versions_key(common, id)
  return common .. ':versions:' .. id
end

-- The longest row, in bytes: more than all texts of one that is valid.
local LONGEST_ROW = 4194304

-- Runs a command that reads. Nil where the key has another type: people have damaged it, and other definitions go on.
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return nil end
  return redis.call(...)
end

-- The ids of all definitions.
local function definition_ids(common)
  local ids = {}
  for _, id in ipairs(redis.call('SMEMBERS', common .. ':definitions')) do
    if #id < 16 and string.find(id, '^%d+$') then ids[#ids + 1] = id end
  end
  return ids
end

-- Returns a text that changes with every edit of a row, also by hand, and the row; nothing where that cannot be read.
local function fingerprint(common, id)
  local row = read('HGETALL', definition_key(common, id))
  if not row then return nil end
  if #row == 0 then return '', row end
  local bytes = 0
  for _, word in ipairs(row) do bytes = bytes + #word end
  if bytes > LONGEST_ROW then return nil end
  local words = {}
  for at = 1, #row, 2 do
    local field, value = row[at], row[at + 1]
    words[#words + 1] = #field .. ':' .. field .. #value .. ':' .. value
  end
  table.sort(words)
  return redis.sha1hex(table.concat(words)), row
end

-- edit: the `id`; its fingerprint and the number of versions as read: `seen_fingerprint`, `seen_versions`; new `versions` and `audit`
-- entries; the `row`, if it changes: the value of each column.
local function write_definition(common, edit)
  local id, row, versions = edit.id, edit.row, versions_key(common, edit.id)
  if fingerprint(common, id) ~= edit.seen_fingerprint or redis.call('LLEN', versions) ~= edit.seen_versions then return 'conflict' end
  if row then
    for _, other in ipairs(definition_ids(common)) do
      if other ~= id and read('HGET', definition_key(common, other), 'name') == row.name then return 'taken' end
    end
    redis.call('DEL', definition_key(common, id))
    for column, value in pairs(row) do redis.call('HSET', definition_key(common, id), column, value) end
    redis.call('SADD', common .. ':definitions', id)
  end
  for _, version in ipairs(edit.versions) do redis.call('RPUSH', versions, version) end
  for _, entry in ipairs(edit.audit) do write_audit(common .. ':audit', entry) end
  return 'done'
end
