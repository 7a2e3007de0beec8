-- ARGV[2]: 'look' (returns which fences hold, and the limits), 'free' or 'once' (settle), 'take' (settle, if all is unchanged);
-- ARGV[3]: the limits as read; ARGV[4]: the new limits; ARGV[5]: which fences held, a word of 0 and 1; ARGV[6]: an alarm of the
-- circuit; ARGV[7]: the field of the reported alert; ARGV[8]: its row as read; ARGV[9]: the new row, empty: delete it; ARGV[10]
-- to [12]: member, parameter and delay of its next follow-up; ARGV[13]: the key of the rows of alerts; ARGV[14]: how many
-- successes of the definition are kept; then for each outcome: member, attempt, from, overdue, status, delay (of one that waits),
-- keep, reason, failures, crashes, errors, class, description, alarm.
local FIRST, WORDS = 15, 14
local mode = ARGV[2]
local limits = redis.call('GET', B .. ':lim') or ''

local function is_held(i, n)
  if n[1] ~= ARGV[i + 2] or n[2] ~= ARGV[i + 1] then return false end
  return ARGV[i + 3] == '0' or tonumber(redis.call('ZSCORE', B .. ':z' .. n[1], ARGV[i])) <= now
end

if mode ~= 'free' and mode ~= 'once' then
  local mask, twice = {}, {}
  for i = FIRST, #ARGV, WORDS do
    local held = not twice[ARGV[i]] and is_held(i, redis.call('HMGET', N(ARGV[i]), 's', 'a'))
    if held then twice[ARGV[i]] = true end
    mask[#mask + 1] = held and '1' or '0'
  end
  mask = table.concat(mask)
  if mode == 'look' then return { 'seen', text(now), limits, mask } end
  local row = ARGV[7] ~= '' and (redis.call('HGET', ARGV[13], ARGV[7]) or '') or ''
  if limits ~= ARGV[3] or mask ~= ARGV[5] or row ~= ARGV[8] then return { 'conflict' } end
  if ARGV[4] ~= limits then redis.call('SET', B .. ':lim', ARGV[4]) end
end

-- The number is at least the time, so that it is not used twice if a failover loses the last one.
local function raise(alarm)
  local number = math.max(tonumber(redis.call('GET', B .. ':alarm') or '0') + 1, now)
  redis.call('SET', B .. ':alarm', text(number))
  redis.call('RPUSH', B .. ':alarms', text(number) .. ' ' .. alarm)
end

local out = {}
for i = FIRST, #ARGV, WORDS do
  local m, status, failures, crashes = ARGV[i], ARGV[i + 4], ARGV[i + 8], ARGV[i + 9]
  local n = redis.call('HMGET', N(m), 's', 'a', 'f', 'c')
  if n[1] and is_held(i, n) then
    leave(m)
    redis.call('HSET', N(m), 'f', failures, 'c', crashes)
    set_opt(m, 'e', ARGV[i + 10])
    set_opt(m, 'q', ARGV[i + 11])
    set_opt(m, 'd', ARGV[i + 12])
    if ARGV[i + 5] ~= '' then
      enter(m, status, now + tonumber(ARGV[i + 5]))
    elseif ARGV[i + 6] == '1' then
      set_opt(m, 'r', ARGV[i + 7])
      enter(m, status, now)
      if status == '1' and redis.call('ZCARD', B .. ':z1') > tonumber(ARGV[14]) then
        -- Deletes two for each new one, so that the count falls to a lowered limit.
        for _, old in ipairs(redis.call('ZRANGE', B .. ':z1', 0, 1)) do
          if old ~= m then erase(old) end
        end
      end
    else
      redis.call('DEL', N(m))
    end
    if ARGV[i + 13] ~= '' then raise(ARGV[i + 13]) end
    out[#out + 1] = 'done'
  elseif not n[1] then
    out[#out + 1] = (status == '1' and ARGV[i + 6] == '0') and 'was' or 'lost'
  elseif n[2] == ARGV[i + 1] and n[1] == status and n[3] == failures and n[4] == crashes then
    -- An earlier call stored it, and its reply was lost.
    out[#out + 1] = 'was'
  elseif n[2] == ARGV[i + 1] and not LIVE[n[1]] then
    out[#out + 1] = 'ended'
  else
    out[#out + 1] = 'lost'
  end
end
if ARGV[6] ~= '' then raise(ARGV[6]) end
if ARGV[7] ~= '' then
  if ARGV[9] == '' then redis.call('HDEL', ARGV[13], ARGV[7]) else redis.call('HSET', ARGV[13], ARGV[7], ARGV[9]) end
  if ARGV[10] ~= '' then insert(ARGV[10], now + tonumber(ARGV[12]), ARGV[11], '', '', '', '') end
end
return { 'settled', out }
