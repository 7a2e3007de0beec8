-- What is forwarded to other slots, after `shared.lua`.

-- Stores what is forwarded to another slot, as JSON: an alarm, or a notice for a `target`. The number is at least the time, so that it is not
-- used twice if a failover loses the last one.
local function forward(object, target)
  local number = math.max(tonumber(redis.call('GET', key('last_outgoing')) or '0') + 1, now)
  redis.call('SET', key('last_outgoing'), text(number))
  if target then redis.call('SADD', key('outgoing_to'), target) end
  redis.call('RPUSH', outgoing(target), '{"number":' .. text(number) .. ',' .. string.sub(object, 2))
end

-- The notice of a target has the number of the one that is passed on, and so its place among those of its ordering key.
local function pass_on(member, target)
  local param, description, trace_context, tag, ordering_key, dedupe_key, dedupe_until_ended, max_tries, expires_at = fields(
    member, 'param', 'description', 'trace_context', 'tag', 'ordering_key', 'dedupe_key', 'dedupe_until_ended', 'max_tries',
    'expires_at')
  local notice = cjson.encode({
    member = string.sub(member, 1, 14) .. string.format('%05d', target), parent_id = (string.gsub(member, '^0+', '')),
    param = param, description = description or nil, trace_context = trace_context or nil, tag = tag or nil,
    ordering_key = ordering_key or nil,
    dedupe_key = dedupe_key or nil, dedupe_until_ended = dedupe_until_ended or nil, max_tries = max_tries or nil,
    expires_at = expires_at or nil,
  })
  forward('{"target":' .. target .. ',"notice":' .. notice .. '}', target)
end
