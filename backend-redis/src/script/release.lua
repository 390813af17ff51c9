-- ARGV: the record's first 20 bytes; token and attempt; 'N' not started, 'F' failed, 'U' unknown.
local name, release = sub(ARGV[1], 5, 20), ARGV[3]
local failure = read(ARGV[1])
if failure then return failure end
local state = value and byte(value, 74)
if not value or state == 4 then return 'R' .. name end
if sub(value, 54, 73) ~= ARGV[2] or state == 3 then return 'L' .. name end
if state ~= 0 then return 'R' .. name end
local packed = sub(value, 81, 88)
local retention = unpack('>I8', packed)
if release == 'N' and unpack('>I4', value, 70) == 1 then
    -- the token is kept in mind for what is left of its lease, the rest is forgotten
    put('\4', packed, math.max(1, left - retention), NO_PAYLOAD)
else
    put(release == 'U' and '\2' or '\1', packed, retention, payload())
end
return 'R' .. name
