-- The side of the new keys in an import from the older layout. IMPORT has the number of batches that are complete, and a mark for each
-- task that was added here and may still be in the older keys: its score there and the SHA-1 of its content. given: `what`. Each
-- branch names its further fields.
local what = given.what
local batches = redis.call('HGET', IMPORT, 'batches') or '0'
if what == 'begin' then
  local marks = {}
  local found = redis.call('HGETALL', IMPORT)
  for i = 1, #found, 2 do
    if found[i] ~= 'batches' then
      local m = #marks
      marks[m + 1] = string.sub(found[i], 6)
      marks[m + 2], marks[m + 3] = string.match(found[i + 1], '^(.*):(%x*)$')
    end
  end
  return { batches, marks }
elseif what == 'add' then
  -- `batches` as it was before the older keys were read, and `tasks`. Returns the SHA-1 and the fate of each: 'added', 'present', or
  -- 'differs' for another task with its id. Nothing if a batch was completed meanwhile: what was read may have been imported by it, and
  -- be done by now.
  local out = {}
  if batches ~= given.batches then return out end
  for i, task in ipairs(given.tasks) do
    local id, sha1 = task.id, redis.sha1hex(task.value)
    local field, mark = 'task:' .. id, task.score .. ':' .. sha1
    local value, fate = redis.call('HGET', VALUES, id), 'present'
    if redis.call('HGET', IMPORT, field) ~= mark then
      if not value then
        fate = 'added'
        redis.call('HSET', VALUES, id, task.value)
        redis.call('ZADD', DUE, text(task.due), id)
        set_target(id)
      elseif value ~= task.value then
        fate = 'differs'
      end
      if fate ~= 'differs' then redis.call('HSET', IMPORT, field, mark) end
    end
    out[2 * i - 1], out[2 * i] = sha1, fate
  end
  return out
else
  -- 'done': `marks`, which are no longer in the older keys.
  for _, mark in ipairs(given.marks) do
    local field = 'task:' .. mark.id
    if redis.call('HGET', IMPORT, field) == mark.score .. ':' .. mark.sha1 then redis.call('HDEL', IMPORT, field) end
  end
  redis.call('HSET', IMPORT, 'batches', text(batches + 1))
  return {}
end
