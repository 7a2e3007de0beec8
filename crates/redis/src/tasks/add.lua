-- Of each task when it is due and its value. Answers with their ids, the next numbers. It is called once for each task, so it names
-- three keys and no more.
local DUE, VALUES, SEQ = KEYS[1], KEYS[2], KEYS[3]
local ids = {}
for i = 2, #ARGV, 2 do
  local id
  repeat
    id = next_number(SEQ)
  until redis.call('HSETNX', VALUES, id, ARGV[i + 1]) == 1
  redis.call('ZADD', DUE, due_time(ARGV[i]), id)
  ids[#ids + 1] = id
end
return ids
