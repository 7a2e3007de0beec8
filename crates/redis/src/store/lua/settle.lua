-- given: `mode`: 'look' (returns which fences hold, and the limits), 'free' or 'once' (settle), 'take' (settle, if all is unchanged);
-- `outcomes`: each has `member`, `fence`, `from` and `status` (the status before and after), `overdue`, `delay` of one that waits,
-- `keep` and `reason` of one that ends, `failures`, `crashes`; where there is one: `errors`, `last_class`, `description`, `response`, `error_group`,
-- `alarm`; `pass_to`: the ids of the targets to which the notice is passed on. Of one with a dedupe key the reply is 'keyed', and nothing
-- changes: its end reason says which targets kept an earlier notice, so it is passed on before;
-- `history_limit`: how many successes of the definition are kept. To take: `seen_limits`, `new_limits`; `seen_mask`: which fences
-- held, a word of 0 and 1; `alarm` of the circuit. Once: the `audit` entry of an operator's ack, if it is one.
local mode = given.mode
local limits = redis.call('GET', key('limit')) or ''

-- True if the notice still has the status and the fence of the outcome, and is overdue if it must be.
local function is_held(outcome, stored_status, stored_fence)
  if stored_status ~= outcome.from or stored_fence ~= outcome.fence then return false end
  return not outcome.overdue or tonumber(redis.call('ZSCORE', status_set(stored_status), outcome.member)) <= now
end

if mode ~= 'free' and mode ~= 'once' then
  local mask, twice = {}, {}
  for _, outcome in ipairs(given.outcomes) do
    local member = outcome.member
    local held = not twice[member] and is_held(outcome, fields(member, 'status', 'fence'))
    if held then twice[member] = true end
    mask[#mask + 1] = held and '1' or '0'
  end
  mask = table.concat(mask)
  if mode == 'look' then return { 'seen', text(now), limits, mask } end
  if limits ~= given.seen_limits or mask ~= given.seen_mask then return { 'conflict' } end
  also_when_full()
  if given.new_limits ~= limits then redis.call('SET', key('limit'), given.new_limits) end
end

local out = {}
for i, outcome in ipairs(given.outcomes) do
  local member, status, failures, crashes = outcome.member, outcome.status, outcome.failures, outcome.crashes
  local stored_status, stored_fence, stored_failures, stored_crashes = fields(member, 'status', 'fence', 'failures', 'crashes')
  local held = stored_status and is_held(outcome, stored_status, stored_fence)
  if held and outcome.pass_to and fields(member, 'dedupe_key') then
    out[i] = 'keyed'
  elseif held then
    -- It removes something, so what follows is stored on a full server, too.
    leave(member)
    for _, target in ipairs(outcome.pass_to or {}) do pass_on(member, target) end
    if outcome.delay or outcome.keep then
      redis.call('HSET', notice_key(member), 'failures', failures, 'crashes', crashes)
      set_or_delete(member, 'errors', outcome.errors)
      set_or_delete(member, 'last_class', outcome.last_class)
      set_or_delete(member, 'description', outcome.description)
      set_if_given(member, 'response', outcome.response)
      set_if_given(member, 'error_group', outcome.error_group)
    end
    if outcome.delay then
      enter(member, status, now + outcome.delay)
    elseif outcome.keep then
      set_or_delete(member, 'end_reason', outcome.reason)
      enter(member, status, now)
      -- succeeded
      if status == '1' and redis.call('ZCARD', status_set('1')) > given.history_limit then
        -- Deletes two for each new one, so that the count falls to a lowered limit.
        for _, old in ipairs(redis.call('ZRANGE', status_set('1'), 0, 1)) do
          if old ~= member then erase(old) end
        end
      end
    else
      redis.call('DEL', notice_key(member))
    end
    if outcome.alarm then forward(outcome.alarm) end
    out[i] = 'done'
  elseif not stored_status then
    out[i] = (status == '1' and not outcome.keep) and 'was' or 'lost'
  elseif not outcome.overdue and stored_fence == outcome.fence and stored_status == status and stored_failures == failures
    and stored_crashes == crashes then
    -- An earlier call stored it, and its reply was lost. An overdue one may have been stored by another sweeper.
    out[i] = outcome.pass_to and 'was ' .. (fields(member, 'end_reason') or '') or 'was'
  elseif stored_fence == outcome.fence and not LIVE[stored_status] then
    out[i] = 'ended ' .. stored_status
  else
    out[i] = 'lost'
  end
end
if given.alarm then forward(given.alarm) end
if given.audit and out[1] == 'done' then write_audit(key('audit'), given.audit) end
return { 'settled', out }
