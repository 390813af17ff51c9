-- In front of the scripts: reads the record of KEYS[1] and puts one in its place. The layout is that
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
    local expected = #value < 120 and 120 or 120 + unpack('>I4', value, 77)
    if #value ~= expected then return '!L' .. pack('>I4I4', #value, expected) end
    left = redis.call('PTTL', key)
    if left < 0 then return '!E' end
end

-- Mark, length and bytes of the payload.
local function payload()
    return sub(value, 76, 80) .. sub(value, 105, -17)
end

-- How long the attempt has run and how long ago attempt 1 began. A clock that was set back makes the
-- time since the last write less than nothing.
local function ages()
    local since = math.max(0, unpack('>I8', value, 89) - left)
    local claimed, first = unpack('>I8I8', value, #value - 15)
    return pack('>I8I8', claimed + since, first + since)
end

-- Writes a record, value and expiry in one step (C32). `start` is all up to its state.
local function write(start, waited, payload, retention, life, sequence, ages)
    redis.call('SET', key, start .. waited .. sub(payload, 1, 5) .. retention .. pack('>I8', life)
        .. sequence .. sub(payload, 6) .. ages, 'PX', life)
end

-- Tells who waits that the attempt has ended.
local function tell()
    if byte(value, 75) == 1 then
        redis.pcall('PUBLISH', 'idempotency:' .. sub(value, 5, 20), '')
    end
end

-- Ends the attempt: the record of the same attempt in another state.
local function put(state, retention, life, payload)
    write(sub(value, 1, 73) .. state, '\0', payload, retention, life, NO_SEQUENCE, ages())
    tell()
end
