-- ARGV[2]: an id, ARGV[3]: when the task is due, ARGV[4]: its value. Returns 0 if a task with this id exists.
local added = redis.call('HSETNX', VALUES, ARGV[2], ARGV[4])
if added == 1 then redis.call('ZADD', DUE, due_time(ARGV[3]), ARGV[2]) end
return added
