-- In front of every script: reads the record of KEYS[1] and puts one in its place. The layout is that
-- of src/wire.rs; offsets here begin at 1. One key only, so that a Cluster runs it where the key is.

local sub, byte, pack, unpack = string.sub, string.byte, struct.pack, struct.unpack
local key, value, left = KEYS[1], nil, nil
local NO_SEQUENCE, NO_PAYLOAD = '\0\0\0\0\0\0\0\0', '\0\0\0\0\0'

-- Reads the record, if there is one, and what is left of its life in ms. `mark` is what its first 20
-- bytes have to be: magic, format, name. Answers nothing, or why the record cannot be read (C00, C35).
local function read(mark)
    value = redis.pcall('GET', key)
    if not value then return nil end
    if type(value) == 'table' then
        return string.find(value.err, 'WRONGTYPE', 1, true) and '!F' or value
    end
    if sub(value, 1, 20) ~= mark then
        if sub(value, 1, 3) ~= sub(mark, 1, 3) or #value < 4 then return '!F' end
        if sub(value, 4, 4) ~= sub(mark, 4, 4) then return '!V' .. sub(value, 4, 4) end
        return #value < 120 and '!L' .. pack('>I4I4', #value, 120) or '!K'
    end
    local expected = #value < 120 and 120 or 120 + unpack('>I4', value, 117)
    if #value ~= expected then return '!L' .. pack('>I4I4', #value, expected) end
    left = redis.call('PTTL', key)
    if left < 0 then return '!E' end
end

-- Since the last write, in ms. A clock that was set back makes it less than nothing.
local function elapsed()
    return math.max(0, unpack('>I8', value, 84) - left)
end

-- Puts a record of the same attempt in the place of the one that was read, value and expiry in one
-- step (C32), and tells who waits that the attempt has ended.
local function put(state, retention, life, payload)
    local claimed, first = unpack('>I8I8', value, 92)
    local since = elapsed()
    redis.call('SET', key, sub(value, 1, 73) .. state .. '\0' .. retention
        .. pack('>I8I8I8', life, claimed + since, first + since) .. NO_SEQUENCE .. payload, 'PX', life)
    if byte(value, 75) == 1 then
        redis.pcall('PUBLISH', 'idempotency:' .. sub(value, 5, 20), '')
    end
end
