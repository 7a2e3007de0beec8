-- Works on one key of the older layout, KEYS[1], because on a cluster each of them may be in another slot. given: `what`. Each branch
-- names its further fields.
local key, what = KEYS[1], given.what
local out = {}
if what == 'scan' then
  -- `cursor`. One page of ids with their scores, and the next cursor.
  local page = redis.call('ZSCAN', key, given.cursor, 'COUNT', 500)
  return { page[1], page[2] }
elseif what == 'contents' then
  return redis.call('HMGET', key, unpack(given.ids))
elseif what == 'remove_scores' then
  -- `marks`. Returns the positions of those that have another score by now, which stay.
  for i, mark in ipairs(given.marks) do
    local score = redis.call('ZSCORE', key, mark.id)
    if score and tonumber(score) ~= tonumber(mark.score) then
      out[#out + 1] = i
    else
      redis.call('ZREM', key, mark.id)
    end
  end
elseif what == 'remove_contents' then
  -- `marks`. Returns the positions of those that have another content by now, which stay.
  for i, mark in ipairs(given.marks) do
    local content = redis.call('HGET', key, mark.id)
    if content and redis.sha1hex(content) ~= mark.sha1 then
      out[#out + 1] = i
    else
      redis.call('HDEL', key, mark.id)
    end
  end
else
  -- 'restore_scores': `marks`.
  for _, mark in ipairs(given.marks) do redis.call('ZADD', key, 'NX', mark.score, mark.id) end
end
return out
