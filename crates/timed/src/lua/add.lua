-- ARGV from 2 on: due time and value of each task. Returns the task's id, which is the next number; for several tasks a list of ids.
-- It often runs for a single task, so it is given no JSON, uses only three keys, and no table and no function that it can avoid:
-- each costs as much time as a command. A due time with a plus sign counts from now. The first number is the time in microseconds,
-- so that after FLUSHALL no earlier number is given again.
local DUE, VALUES, LAST_NUMBER = KEYS[1], KEYS[2], KEYS[3]
local ids = #ARGV > 3 and {}
local id
for at = 2, #ARGV, 2 do
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
  if ids then ids[at / 2] = id end
end
return ids or id
