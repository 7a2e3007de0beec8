-- Checks one page of the entries. Puts those aside that are in no set, because they would never be due. Returns the
-- next cursor.
local function check_page(cursor, count, aside)
  local page = redis.call('HSCAN', VALUES, cursor, 'COUNT', count)
  for i = 1, #page[2], 2 do
    local id = page[2][i]
    if not (redis.call('ZSCORE', DUE, id) or redis.call('ZSCORE', DEAD, id)) then
      put_aside(id, 'an entry without a score', aside)
    end
  end
  return page[1]
end
