-- The next number of a kind. The first one is the time in microseconds, so that after FLUSHALL no earlier number
-- is given again.
local function next_number(sequence)
  local number = redis.call('INCR', sequence)
  if number > 1 then return number end
  redis.call('SET', sequence, text(now * 1000))
  return now * 1000
end
