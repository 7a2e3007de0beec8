-- ARGV[2]: an id, ARGV[3]: when the task is due, ARGV[4]: its value. Returns 0 if a task with this id exists.
local id, due, value = ARGV[2], ARGV[3], ARGV[4]
local added = redis.call('HSETNX', VALUES, id, value)
if added == 1 then redis.call('ZADD', DUE, due_time(due), id) end
return added
