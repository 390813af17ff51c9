-- ARGV: the record's first 20 bytes; token and attempt as they were seen; 'C' completed, 'F' failed,
-- 'N' not started, 'R' remove whatever its state; for 'C': the retention, packed; the payload.
local name, verdict = sub(ARGV[1], 5, 20), ARGV[3]
local failure = read(ARGV[1])
if failure then return failure end
local state = value and byte(value, 74)
if not value or state == 4 or sub(value, 54, 73) ~= ARGV[2] then return 'C' .. name end
local packed = sub(value, 81, 88)
local retention = unpack('>I8', packed)
if verdict ~= 'R' then
    if state == 0 and left >= retention then return 'A' .. name end
    if state == 1 or state == 3 then return 'C' .. name end
end
if verdict == 'C' then
    put('\3', ARGV[4], unpack('>I8', ARGV[4]), ARGV[5])
elseif verdict == 'F' then
    put('\1', packed, retention, payload())
else
    put('\4', packed, retention, NO_PAYLOAD)
end
return 'S' .. name
