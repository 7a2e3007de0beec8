-- The start of every script.
-- ARGV[1]: the time of a hand-turned clock in milliseconds; empty: use the server's time.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Formats a number exactly, where tostring would round. Infinity becomes 'inf'.
local function text(number)
  return string.format('%.0f', number)
end
