-- What every script begins with.
-- ARGV[1]: the time of a hand-turned clock in milliseconds; empty: the server's.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Exact, where tostring would round; of what never comes, 'inf'.
local function text(number)
  return string.format('%.0f', number)
end
