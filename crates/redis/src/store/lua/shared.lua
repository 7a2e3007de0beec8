-- The start of every script of one definition. KEYS[1] is the prefix of the definition's keys; all of them are in its slot.
--   n:<id>     a notice, live or ended: a hash
--   z<status>  the notices of a status: live ones by the next time at which a sweeper must look at them, ended ones by their end
--   z3:<class> dead letters of a class; cl: all classes that ever occurred
--   r0 r2 rs   what can be claimed: first sends, retries, crash_looping. Not those that wait behind another one of their ordering key
--   o          the live notices of ordering keys, in their order; b: the notice of each key that is under way
--   u          the notice that has each dedupe key: until its first claim, or (field v) until it has ended
local B = KEYS[1]

-- Members have 19 digits, as many as the largest id, so that notices of the same time are in the order of their ids. Scripts
-- never convert one to a number, because numbers in Lua are exact only up to 2^53.
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

local function ready_slice(status, crashes)
  if status == '0' then return B .. ':r0' end
  if status == '2' then return B .. (tonumber(crashes) >= 2 and ':rs' or ':r2') end
end

local function key_range(key)
  return '[' .. key .. '\0', '(' .. key .. '\1'
end

-- Makes the first notice of a key ready if none of the key is under way; no other one is ready.
local function refresh(key)
  local from, to = key_range(key)
  local busy = redis.call('HGET', B .. ':b', key)
  for i, entry in ipairs(redis.call('ZRANGEBYLEX', B .. ':o', from, to, 'LIMIT', 0, 2)) do
    local m = string.sub(entry, -19)
    local n = redis.call('HMGET', N(m), 's', 'c')
    local slice = n[1] and ready_slice(n[1], n[2])
    if slice and i == 1 and not busy then
      redis.call('ZADD', slice, redis.call('ZSCORE', B .. ':z' .. n[1], m), m)
    elseif slice then
      redis.call('ZREM', slice, m)
    end
  end
end

-- Removes a notice from all sets. Its hash stays.
local function leave(m)
  local n = redis.call('HMGET', N(m), 's', 'c', 'o', 'u', 'q')
  redis.call('ZREM', B .. ':z' .. n[1], m)
  if n[1] == '3' then redis.call('ZREM', B .. ':z3:' .. (n[5] or ''), m) end
  local slice = ready_slice(n[1], n[2])
  if slice then redis.call('ZREM', slice, m) end
  if LIVE[n[1]] then
    if n[4] and redis.call('HGET', B .. ':u', n[4]) == m then redis.call('HDEL', B .. ':u', n[4]) end
    if n[3] then
      redis.call('ZREM', B .. ':o', n[3] .. '\0' .. m)
      if redis.call('HGET', B .. ':b', n[3]) == m then redis.call('HDEL', B .. ':b', n[3]) end
      refresh(n[3])
    end
  end
end

-- The dedupe key of a notice, if no other live notice may have it.
local function unique_key(m)
  local n = redis.call('HMGET', N(m), 'u', 'v', 'a')
  return n[1] and (n[2] or n[3] == '0') and n[1]
end

-- Adds a notice to the sets of its status. `score`: when a sweeper must look at it, or when it ended.
local function enter(m, status, score)
  redis.call('HSET', N(m), 's', status)
  redis.call('ZADD', B .. ':z' .. status, text(score), m)
  local n = redis.call('HMGET', N(m), 'c', 'o', 'q')
  if status == '3' then
    redis.call('ZADD', B .. ':z3:' .. (n[3] or ''), text(score), m)
    redis.call('SADD', B .. ':cl', n[3] or '')
  end
  if LIVE[status] then
    local u = unique_key(m)
    if u then redis.call('HSET', B .. ':u', u, m) end
    if n[2] then
      redis.call('ZADD', B .. ':o', 0, n[2] .. '\0' .. m)
      if status == '4' or status == '5' then redis.call('HSET', B .. ':b', n[2], m) end
      refresh(n[2])
    else
      local slice = ready_slice(status, n[1])
      if slice then redis.call('ZADD', slice, text(score), m) end
    end
  end
end

local function erase(m)
  leave(m)
  redis.call('DEL', N(m))
end

-- Moves a member without its notice to `aside`, where people find it, and out of the other sets.
local function put_aside(m, reason)
  for _, set in ipairs({ ':z0', ':z1', ':z2', ':z3', ':z4', ':z5', ':z6', ':r0', ':r2', ':rs' }) do
    redis.call('ZREM', B .. set, m)
  end
  redis.call('HSET', B .. ':aside', m, reason)
end

-- The fields that Rust reads of a notice; `false` if it has no hash.
local function seen(m)
  local n = redis.call('HMGET', N(m), 's', 'a', 'f', 'c', 'p', 'd', 'e', 'w', 'l', 'k', 't', 'o')
  if not n[1] then return false end
  n[13] = m
  return n
end

-- Inserts a notice; its words are as Rust writes them. Returns its member. If the number is taken (the counting node lost its
-- last steps in a failover), it uses the next free one.
local function insert(m, due, p, d, t, o, u, v)
  -- The last five digits are the definition's id.
  while redis.call('EXISTS', N(m)) == 1 do m = string.format('%014.0f', tonumber(string.sub(m, 1, 14)) + 1) .. string.sub(m, 15) end
  redis.call('HSET', N(m), 'a', '0', 'f', '0', 'c', '0', 'p', p, 'k', text(now))
  set_opt(m, 'd', d)
  set_opt(m, 't', t)
  set_opt(m, 'o', o)
  set_opt(m, 'u', u)
  set_opt(m, 'v', v or '')
  enter(m, '0', due)
  return m
end
