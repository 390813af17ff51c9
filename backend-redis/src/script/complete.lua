-- ARGV: the record's first 73 bytes; the retention, packed; the retention in ms; the payload.
local identity = ARGV[1]
local name = sub(identity, 5, 20)
local failure = read(sub(identity, 1, 20))
if failure then return failure end
local state = value and byte(value, 74)
if not value or state == 4 then
    local begun_now = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    redis.call('SET', key, identity .. '\3\0' .. ARGV[2] .. ARGV[2] .. begun_now .. NO_SEQUENCE
        .. ARGV[4], 'PX', ARGV[3])
    return 'R' .. name
end
if sub(value, 21, 73) ~= sub(identity, 21, 73) then return 'L' .. name end
if state ~= 3 then put('\3', ARGV[2], tonumber(ARGV[3]), ARGV[4]) end
return 'D' .. name
