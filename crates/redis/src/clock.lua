-- What every script begins with.
-- ARGV[1]: the time of a hand-turned clock in milliseconds; empty: the server's.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Exact, where tostring would round.
local function text(number)
  if number == math.huge then return 'inf' end
  return string.format('%.0f', number)
end
