-- The start of every script. ARGV[1]: all that it is given, JSON with named fields; empty: nothing. Numbers are for computing; ids,
-- fences, and what is stored or compared are texts, because numbers in Lua are exact only up to 2^53. An absent field is nil.
local given = ARGV[1] ~= '' and cjson.decode(ARGV[1])
-- Milliseconds since 1970: the time of a hand-turned clock, else that of the server.
local now = given and given.now
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Formats a number exactly, where tostring would round. Infinity becomes 'inf'.
local function text(number)
  return string.format('%.0f', number)
end
