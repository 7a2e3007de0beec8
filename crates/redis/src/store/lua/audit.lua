-- Writes the server's microseconds before the entry, to order the entries of a millisecond.
local function write_audit(key, line)
  local t = redis.call('TIME')
  redis.call('RPUSH', key, string.format('%.0f', t[1] * 1000000 + t[2]) .. ' ' .. line)
end
