-- Arguments: due time and value of each task. Returns the task's id, which is the next number; for several tasks a list of ids.
-- It often runs for a single task, so it uses only three keys, and no table and no function that it can avoid: each costs as much
-- time as a command. (`sequence.lua` and `due_time.lua` explain its steps.)
local DUE, VALUES, SEQ = KEYS[1], KEYS[2], KEYS[3]
local ids = #ARGV > 3 and {}
local id
for i = 2, #ARGV, 2 do
  local due = ARGV[i]
  if string.byte(due) == 43 then due = now + due end
  repeat
    id = redis.call('INCR', SEQ)
    if id == 1 then
      id = now * 1000
      redis.call('SET', SEQ, text(id))
    end
  until redis.call('HSETNX', VALUES, id, ARGV[i + 1]) == 1
  redis.call('ZADD', DUE, due, id)
  if ids then ids[i / 2] = id end
end
return ids or id
