-- ARGV: the record's first 20 bytes; token and attempt; the sequence number, packed; the lease in ms;
-- the new checkpoint or nothing.
local name = sub(ARGV[1], 5, 20)
local failure = read(ARGV[1])
if failure then return failure end
if not value or sub(value, 54, 73) ~= ARGV[2] or byte(value, 74) ~= 0 then return 'L' .. name end
local packed = sub(value, 81, 88)
local retention = unpack('>I8', packed)
local rest = left - retention
-- in halves: a number here has 53 bits, and strings compare by the server's locale
local high, low = unpack('>I4I4', ARGV[3])
local last_high, last_low = unpack('>I4I4', value, 97)
if high < last_high or high == last_high and low < last_low then
    return 'H' .. name .. pack('>I8', math.max(rest, 0))
end
rest = math.max(rest, tonumber(ARGV[4]))
local checkpoint = ARGV[5] ~= '' and ARGV[5] or payload()
write(sub(value, 1, 74), sub(value, 75, 75), checkpoint, packed, rest + retention, ARGV[3], ages())
return 'H' .. name .. pack('>I8', rest)
