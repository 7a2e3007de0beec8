-- given: `id`, the due time, `value`. Replaces a task that has this id.
forget(given.id)
redis.call('HSET', VALUES, given.id, given.value)
redis.call('ZADD', DUE, due_time(given), given.id)
return 1
