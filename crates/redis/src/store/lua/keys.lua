-- The names of a definition's keys. KEYS[1] is their prefix; all of them are in its slot. `store/keys.rs` lists what each one holds.
local prefix = KEYS[1]

local function key(name)
  return prefix .. ':' .. name
end

local dedupe_keys, ordering_keys, under_way = key('dedupe_keys'), key('ordering_keys'), key('ordering_keys:under_way')
local ready_first_sends, ready_retries = key('ready:first_sends'), key('ready:retries')
local ready_crash_looping = key('ready:crash_looping')
local ASIDE = key('aside')

-- Scripts and hashes have the numbers of the SQL column `status`; the keys have their names.
local STATUS = {
  ['0'] = 'not_sent', ['1'] = 'succeeded', ['2'] = 'failed', ['3'] = 'dead_letter', ['4'] = 'awaiting_ack', ['5'] = 'sending',
  ['6'] = 'cancelled',
}

-- The notices of a status.
local function status_set(status)
  return prefix .. ':status:' .. (STATUS[status] or tostring(status))
end

-- The dead letters of a class; '-': of none.
local function dead_letter_set(class)
  return prefix .. ':dead_letters:' .. class
end

-- The notices of a status that have this tag. Other notices are in no such set.
local function tag_set(status, tag)
  return prefix .. ':tagged:' .. STATUS[status] .. ':' .. tag
end

-- What is forwarded to a target; nil or '': alarms. Each target has a list, because one that cannot be written to holds up no other.
local function outgoing(target)
  return prefix .. ':outgoing' .. ((target or '') ~= '' and ':' .. target or '')
end

-- The dead letters of a group.
local function error_group_set(group)
  return prefix .. ':error_group:' .. group
end

-- Members have 19 digits, as many as the largest id, so that notices of the same time are in the order of their ids. Scripts
-- never convert one to a number, because numbers in Lua are exact only up to 2^53.
local function notice_key(member)
  return prefix .. ':notice:' .. string.gsub(member, '^0+', '')
end

-- Removes a member without a notice from all sets.
local function forget(member)
  for status in pairs(STATUS) do redis.call('ZREM', status_set(status), member) end
  for _, ready in ipairs({ ready_first_sends, ready_retries, ready_crash_looping }) do redis.call('ZREM', ready, member) end
end
