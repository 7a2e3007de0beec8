-- ARGV from 2 on: due time and value of each task; before them, if there is a fourth key, the target URL of all. Returns the task's
-- id, which is the next number; for several tasks a list of ids. It often runs for a single task, so it is given no JSON, uses only
-- the keys it needs, and no table and no function that it can avoid: each costs as much time as a command. A due time with a plus
-- sign counts from now. The first number is the time in microseconds, so that after FLUSHALL no earlier number is given again.
local DUE, VALUES, LAST_NUMBER, TARGETS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local first = TARGETS and 3 or 2
local ids = #ARGV > first + 1 and {}
local id
for at = first, #ARGV, 2 do
  local due, value = ARGV[at], ARGV[at + 1]
  if string.byte(due) == 43 then due = now + due end
  repeat
    id = redis.call('INCR', LAST_NUMBER)
    if id == 1 then
      id = now * 1000
      redis.call('SET', LAST_NUMBER, text(id))
    end
  until redis.call('HSETNX', VALUES, id, value) == 1
  redis.call('ZADD', DUE, due, id)
  if TARGETS then redis.call('HSET', TARGETS, id, ARGV[2]) end
  if ids then ids[(at - first) / 2 + 1] = id end
end
return ids or id
