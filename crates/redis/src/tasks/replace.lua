-- ARGV[2]: an id, ARGV[3]: when the task is due, ARGV[4]: its value. Replaces a task that has this id.
forget(ARGV[2])
redis.call('HSET', VALUES, ARGV[2], ARGV[4])
redis.call('ZADD', DUE, due_time(ARGV[3]), ARGV[2])
return 1
