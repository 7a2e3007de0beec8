-- given: `limit`; of a further page the `score` and `id` of the last task before it. Returns id, score and value of due tasks, the
-- longest due first, their tries, their target URLs ('' for none), what was put aside, and 1 if there are no more. Changes nothing else.
local limit = given.limit
local out, all_tries, targets, aside = {}, {}, {}, {}
local start, passed = 0, 0
if given.id then
  if tonumber(redis.call('ZSCORE', DUE, given.id)) == tonumber(given.score) then
    start = redis.call('ZRANK', DUE, given.id) + 1
  else
    -- It has gone. This may repeat tasks of its time, and leaves none out.
    start = redis.call('ZCOUNT', DUE, '-inf', '(' .. given.score)
  end
end
while passed < limit and #aside / 2 < 1000 do
  local found = redis.call('ZRANGE', DUE, start + passed, start + limit - 1, 'WITHSCORES')
  if #found == 0 then return { out, all_tries, targets, aside, 1 } end
  for i = 1, #found, 2 do
    local id = found[i]
    if tonumber(found[i + 1]) > now then return { out, all_tries, targets, aside, 1 } end
    local value = redis.call('HGET', VALUES, id)
    if value then
      local o = #out
      out[o + 1], out[o + 2], out[o + 3] = id, found[i + 1], value
      passed = passed + 1
      all_tries[passed] = tries_of(redis.call('HGET', TRIES, id), redis.call('HGET', CLAIMS, id))
      targets[passed] = redis.call('HGET', TARGETS, id) or ''
    else
      put_aside_without_entry(id, aside)
    end
  end
end
return { out, all_tries, targets, aside, 0 }
