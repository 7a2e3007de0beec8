-- Appends an entry. `written` is the server's microseconds, to order the entries of a millisecond.
local function write_audit(key, entry)
  local seconds, microseconds = unpack(redis.call('TIME'))
  local written = string.format('%.0f', seconds * 1000000 + microseconds)
  redis.call('RPUSH', key, '{"written":' .. written .. ',' .. string.sub(entry, 2))
end
