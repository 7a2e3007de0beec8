-- ARGV[2]: an id, ARGV[3]: when the task is due, ARGV[4]: its value. Replaces a task that has this id.
local id, due, value = ARGV[2], ARGV[3], ARGV[4]
forget(id)
redis.call('HSET', VALUES, id, value)
redis.call('ZADD', DUE, due_time(due), id)
return 1
