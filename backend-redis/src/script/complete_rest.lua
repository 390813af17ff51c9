
local done = ARGV[1]
local name = sub(done, 5, 20)
local failure = read(sub(done, 1, 20))
if failure then return failure end
local state = value and byte(value, 74)
if not value or state == 4 then
    redis.call('SET', key, done .. NO_SEQUENCE .. NO_SEQUENCE, 'PX', ARGV[2])
    return 'R' .. name
end
if sub(value, 21, 73) ~= sub(done, 21, 73) then return 'L' .. name end
if state ~= 3 then
    redis.call('SET', key, done .. ages(), 'PX', ARGV[2])
    tell()
end
return name
