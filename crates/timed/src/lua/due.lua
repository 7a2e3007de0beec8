-- given: `limit`. Returns id, score and value of due tasks, the longest due first, their tries, and what was put aside. Changes
-- nothing else.
local limit = given.limit
local out, all_tries, aside = {}, {}, {}
local passed = 0
while passed < limit and #aside / 2 < 1000 do
  local found = due_ids(DUE, passed, limit - passed, 'WITHSCORES')
  if #found == 0 then break end
  for i = 1, #found, 2 do
    local id = found[i]
    local value = redis.call('HGET', VALUES, id)
    if value then
      local o = #out
      out[o + 1], out[o + 2], out[o + 3] = id, found[i + 1], value
      passed = passed + 1
      all_tries[passed] = tries_of(redis.call('HGET', TRIES, id), redis.call('HGET', CLAIMS, id))
    else
      put_aside_without_entry(id, aside)
    end
  end
end
return { out, all_tries, aside }
