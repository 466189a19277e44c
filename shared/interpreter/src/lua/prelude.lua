-- What scripts find: the base library without ways to the outside, to other scripts, or around the limits. Functions
-- that would do much work inside one instruction are written in Lua here or pay for their work.
local host = ...
local base = { pcall = pcall, tostring = tostring, type = type, select = select, error = error, next = next,
  floor = math.floor, min = math.min, concat = table.concat, len = string.len }
local globals = _G

local allowed = { "_G", "_VERSION", "assert", "error", "ipairs", "next", "pairs", "select", "tonumber", "type", "unpack",
  "string", "table", "math" }
local forbidden = { "load", "loadstring", "loadfile", "dofile", "setmetatable", "getmetatable", "rawget", "rawset",
  "rawequal", "setfenv", "getfenv", "collectgarbage", "module", "newproxy" }

local keep = {}
for _, name in ipairs(allowed) do keep[name] = globals[name] end
local names = {}
for name in base.next, globals do names[#names + 1] = name end
for _, name in ipairs(names) do globals[name] = nil end
for name, value in base.next, keep do globals[name] = value end

local function forbid(where, name)
  where[name] = function() base.error(name .. " is not available to scripts", 2) end
end
for _, name in ipairs(forbidden) do forbid(globals, name) end
for _, name in ipairs({ "rep", "gsub", "dump" }) do forbid(string, name) end

-- A caught error does not give a stopped script new time.
local function checked(...)
  host.check()
  return ...
end
function globals.pcall(...) return checked(base.pcall(...)) end
function globals.xpcall(f, handler)
  local function settle(ok, ...)
    if ok then return true, ... end
    return false, handler(...)
  end
  return settle(checked(base.pcall(f)))
end

-- Addresses differ from run to run.
function globals.tostring(...)
  local kind = base.type((...))
  if kind == "string" or kind == "number" or kind == "boolean" or kind == "nil" then return base.tostring(...) end
  return kind
end
function globals.print() end

for _, name in ipairs({ "upper", "lower", "reverse" }) do
  local raw = string[name]
  string[name] = function(s)
    host.charge(base.len(s) / 64)
    return raw(s)
  end
end
string.find, string.match = host.find, host.match
function string.gmatch(s, pattern)
  local at = 1
  local function take(after, ...)
    at = after
    return ...
  end
  return function()
    if at == nil then return nil end
    return take(host.gmatch(s, pattern, at))
  end
end
string.gfind = nil

local table, math = table, math
for _, name in ipairs({ "foreach", "foreachi", "getn", "setn" }) do table[name] = nil end
function table.concat(t, ...)
  host.charge(#t)
  return base.concat(t, ...)
end
function table.insert(t, ...)
  local size, count = #t, base.select("#", ...)
  if count == 1 then
    t[size + 1] = (...)
  elseif count == 2 then
    local at, value = ...
    for i = size + 1, at + 1, -1 do t[i] = t[i - 1] end
    t[at] = value
  else
    base.error("wrong number of arguments to 'insert'", 2)
  end
end
function table.remove(t, at)
  local size = #t
  at = at or size
  if at < 1 or at > size then return nil end
  local value = t[at]
  for i = at, size - 1 do t[i] = t[i + 1] end
  t[size] = nil
  return value
end
function table.maxn(t)
  local largest = 0
  for key in base.next, t do
    if base.type(key) == "number" and key > largest then largest = key end
  end
  return largest
end
-- Merge sort: no order that a script gives makes it slow.
function table.sort(t, less)
  less = less or function(a, b) return a < b end
  local size, from, to, width = #t, {}, {}, 1
  for i = 1, size do from[i] = t[i] end
  while width < size do
    local start = 1
    while start <= size do
      local middle, stop = base.min(start + width, size + 1), base.min(start + 2 * width, size + 1)
      local left, right = start, middle
      for i = start, stop - 1 do
        if left < middle and (right >= stop or not less(from[right], from[left])) then
          to[i], left = from[left], left + 1
        else
          to[i], right = from[right], right + 1
        end
      end
      start = stop
    end
    from, to, width = to, from, width * 2
  end
  for i = 1, size do t[i] = from[i] end
end

-- The same numbers in every run.
local seed = 1
function math.randomseed(n) seed = base.floor(n) % 2147483646 + 1 end
function math.random(low, high)
  seed = seed * 16807 % 2147483647
  local fraction = (seed - 1) / 2147483646
  if low == nil then return fraction end
  if high == nil then low, high = 1, low end
  if low > high then base.error("interval is empty", 2) end
  return low + base.floor(fraction * (high - low + 1))
end

globals.os = { time = host.time, date = host.date }
function globals.require(name)
  if name == "kube" then return host.kube end
  base.error("module " .. base.tostring(name) .. " is not available to scripts", 2)
end
