-- Streams of audit entries. The first number of an id is the time, the second the server's microseconds, which order the entries of
-- one millisecond in all streams. After a clock was set back, ids go on behind the last one.
local function write_audit(key, entry)
  local seconds, microseconds = unpack(redis.call('TIME'))
  local ms, order = now, seconds * 1000000 + microseconds
  local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  if last then
    local last_ms, last_order = string.match(last[1], '^(%d+)-(%d+)$')
    last_ms, last_order = tonumber(last_ms), tonumber(last_order)
    if last_ms > ms or (last_ms == ms and last_order >= order) then ms, order = last_ms, last_order + 1 end
  end
  redis.call('XADD', key, text(ms) .. '-' .. text(order), 'time', text(now), 'entry', entry)
end

-- given: the `last` and the `first` id; `most`, the maximum; `word`: only entries with this text, if it is there. Returns how many
-- entries were read, the id of the last one, and the found ones: id, time and entry.
local function read_audit(key)
  local lines = redis.call('XREVRANGE', key, given.last, given.first, 'COUNT', given.most)
  local out, read_to = {}, ''
  for _, line in ipairs(lines) do
    local id, time, entry = line[1], line[2][2], line[2][4]
    read_to = id
    if entry and (not given.word or string.find(entry, given.word, 1, true)) then out[#out + 1] = { id, time, entry } end
  end
  return { #lines, read_to, out }
end
