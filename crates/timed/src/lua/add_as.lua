-- given: `id`, the due time, `value`, perhaps `target`. Returns 0 if a task with this id exists.
local added = redis.call('HSETNX', VALUES, given.id, given.value)
if added == 1 then
  redis.call('ZADD', DUE, due_time(given), given.id)
  set_target(given.id, given.target)
end
return added
