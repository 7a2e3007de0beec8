-- given: `id`, the due time, `value`, perhaps `target`. Replaces a task that has this id.
forget(given.id)
redis.call('HSET', VALUES, given.id, given.value)
redis.call('ZADD', DUE, due_time(given), given.id)
set_target(given.id, given.target)
return 1
