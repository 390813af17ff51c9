-- ARGV: the record's first 20 bytes; token and attempt; the sequence number, packed; the lease in ms;
-- the new checkpoint or nothing.
local name = sub(ARGV[1], 5, 20)
local failure = read(ARGV[1])
if failure then return failure end
if not value or sub(value, 54, 73) ~= ARGV[2] or byte(value, 74) ~= 0 then return 'L' .. name end
local retention, _, claimed, first = unpack('>I8I8I8I8', value, 76)
local rest = left - retention
-- in halves: a number here has 53 bits, and strings compare by the server's locale
local high, low = unpack('>I4I4', ARGV[3])
local last_high, last_low = unpack('>I4I4', value, 108)
if high < last_high or high == last_high and low < last_low then
    return 'H' .. name .. pack('>I8', math.max(rest, 0))
end
rest = math.max(rest, tonumber(ARGV[4]))
local life, since = rest + retention, elapsed()
local payload = ARGV[5] ~= '' and ARGV[5] or sub(value, 116)
redis.call('SET', key, sub(value, 1, 83) .. pack('>I8I8I8', life, claimed + since, first + since)
    .. ARGV[3] .. payload, 'PX', life)
return 'H' .. name .. pack('>I8', rest)
