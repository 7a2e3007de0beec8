-- A due time as callers pass it: milliseconds; with a plus sign they count from now.
local function due_time(word)
  return string.byte(word) == 43 and text(now + word) or word
end
