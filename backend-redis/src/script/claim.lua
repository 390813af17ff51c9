-- ARGV: the record of attempt 1; its life in ms; '1' when a take-over is allowed.
-- Answers the record that is there in the end, and what is left of its life.
local fresh = ARGV[1]
local failure = read(sub(fresh, 1, 20))
if failure then return failure end
local state = value and byte(value, 74)
local own = value and sub(value, 54, 69) == sub(fresh, 54, 69)
if not value or state == 4 and not own then
    redis.call('SET', key, fresh, 'PX', ARGV[2])
    return {fresh, tonumber(ARGV[2])}
end
local retention = unpack('>I8', value, 76)
local abandoned = state == 2 or state == 0 and left < retention
local free = state == 1 or abandoned and ARGV[3] == '1'
if own or not free or sub(value, 21, 53) ~= sub(fresh, 21, 53) then return {value, left} end
local attempt = math.min(unpack('>I4', value, 70) + 1, 4294967295)
local first = unpack('>I8', value, 100) + elapsed()
local next = sub(fresh, 1, 69) .. pack('>I4', attempt) .. '\0' .. sub(value, 75, 75)
    .. sub(fresh, 76, 99) .. pack('>I8', first) .. NO_SEQUENCE .. sub(value, 116)
redis.call('SET', key, next, 'PX', ARGV[2])
return {next, tonumber(ARGV[2])}
