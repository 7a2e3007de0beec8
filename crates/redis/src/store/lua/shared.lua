-- What every script of one definition begins with. KEYS[1] is what all keys of one definition begin with; all of them are in its slot.
--   n:<id>     a notice, live or ended: a hash
--   z<status>  the notices of a status, by the time when somebody must look at them or, of ended ones, by their end
--   z3:<class> dead letters of a class, cl: the classes that there ever were
--   r0 r2 rs   what can be claimed: first sends, retries, suspects. Not in them is what waits behind another of its ordering key
--   o          the live notices of ordering keys, in their order; b: of each key the one that is under way
--   u          of each dedupe key its live notice
local B = KEYS[1]

-- Members have 16 digits, so that notices of the same time are in the order of their ids.
local function N(m)
  return B .. ':n:' .. string.gsub(m, '^0+', '')
end

local function opt(word)
  if word ~= '' then return string.sub(word, 2) end
end

local function set_opt(m, field, word)
  if word == '' then redis.call('HDEL', N(m), field) else redis.call('HSET', N(m), field, string.sub(word, 2)) end
end

local LIVE = { ['0'] = true, ['2'] = true, ['4'] = true, ['5'] = true }

local function ready_lane(status, crashes)
  if status == '0' then return B .. ':r0' end
  if status == '2' then return B .. (tonumber(crashes) >= 2 and ':rs' or ':r2') end
end

local function key_range(key)
  return '[' .. key .. '\0', '(' .. key .. '\1'
end

-- Only the first of a key can be ready, and only while none of the key is under way.
local function refresh(key)
  local from, to = key_range(key)
  local busy = redis.call('HGET', B .. ':b', key)
  for i, entry in ipairs(redis.call('ZRANGEBYLEX', B .. ':o', from, to, 'LIMIT', 0, 2)) do
    local m = string.sub(entry, -16)
    local n = redis.call('HMGET', N(m), 's', 'c')
    local lane = n[1] and ready_lane(n[1], n[2])
    if lane and i == 1 and not busy then
      redis.call('ZADD', lane, redis.call('ZSCORE', B .. ':z' .. n[1], m), m)
    elseif lane then
      redis.call('ZREM', lane, m)
    end
  end
end

-- Takes a notice out of all sets. Its hash stays.
local function leave(m)
  local n = redis.call('HMGET', N(m), 's', 'c', 'o', 'u', 'q')
  redis.call('ZREM', B .. ':z' .. n[1], m)
  if n[1] == '3' then redis.call('ZREM', B .. ':z3:' .. (n[5] or ''), m) end
  local lane = ready_lane(n[1], n[2])
  if lane then redis.call('ZREM', lane, m) end
  if LIVE[n[1]] then
    if n[4] then redis.call('HDEL', B .. ':u', n[4]) end
    if n[3] then
      redis.call('ZREM', B .. ':o', n[3] .. '\0' .. m)
      if redis.call('HGET', B .. ':b', n[3]) == m then redis.call('HDEL', B .. ':b', n[3]) end
      refresh(n[3])
    end
  end
end

-- Puts it into the sets of its status. `score`: when somebody must look at it or, of an ended one, when it ended.
local function enter(m, status, score)
  redis.call('HSET', N(m), 's', status)
  redis.call('ZADD', B .. ':z' .. status, text(score), m)
  local n = redis.call('HMGET', N(m), 'c', 'o', 'u', 'q')
  if status == '3' then
    redis.call('ZADD', B .. ':z3:' .. (n[4] or ''), text(score), m)
    redis.call('SADD', B .. ':cl', n[4] or '')
  end
  if LIVE[status] then
    if n[3] then redis.call('HSET', B .. ':u', n[3], m) end
    if n[2] then
      redis.call('ZADD', B .. ':o', 0, n[2] .. '\0' .. m)
      if status == '4' or status == '5' then redis.call('HSET', B .. ':b', n[2], m) end
      refresh(n[2])
    else
      local lane = ready_lane(status, n[1])
      if lane then redis.call('ZADD', lane, text(score), m) end
    end
  end
end

local function erase(m)
  leave(m)
  redis.call('DEL', N(m))
end

-- A member of a set without its notice: kept where a person finds it, out of everybody's way.
local function put_aside(m, reason)
  for _, set in ipairs({ ':z0', ':z1', ':z2', ':z3', ':z4', ':z5', ':z6', ':r0', ':r2', ':rs' }) do
    redis.call('ZREM', B .. set, m)
  end
  redis.call('HSET', B .. ':aside', m, reason)
end

-- What Rust reads of a notice; `false` for one that has no hash.
local function seen(m)
  local n = redis.call('HMGET', N(m), 's', 'a', 'f', 'c', 'p', 'd', 'e', 'w', 'l', 'k', 't', 'o')
  if not n[1] then return false end
  n[13] = m
  return n
end

-- A new notice; words of it as Rust writes them. Answers with its member: where the number was given before (the node that counts
-- has lost its last steps in a failover) it is the next one that is free.
local function insert(m, due, p, d, t, o, u)
  while redis.call('EXISTS', N(m)) == 1 do m = string.format('%016.0f', tonumber(m) + 100000) end
  redis.call('HSET', N(m), 'a', '0', 'f', '0', 'c', '0', 'p', p, 'k', text(now))
  set_opt(m, 'd', d)
  set_opt(m, 't', t)
  set_opt(m, 'o', o)
  set_opt(m, 'u', u)
  enter(m, '0', due)
  return m
end
