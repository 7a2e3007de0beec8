-- A due time as callers give it: milliseconds, with a plus in front those from now on.
local function due_time(word)
  return string.byte(word) == 43 and text(now + word) or word
end
