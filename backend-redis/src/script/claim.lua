-- ARGV: the record of attempt 1; its life in ms; '1' when a take-over is allowed.
-- Answers the record that is there in the end, and what is left of its life.
local fresh, life = ARGV[1], tonumber(ARGV[2])
local failure = read(sub(fresh, 1, 20))
if failure then return failure end
local state = value and byte(value, 74)
local own = value and sub(value, 54, 69) == sub(fresh, 54, 69)
if not value or state == 4 and not own then
    redis.call('SET', key, fresh, 'PX', life)
    return {fresh, life}
end
local retention = unpack('>I8', value, 81)
local abandoned = state == 2 or state == 0 and left < retention
local free = state == 1 or abandoned and ARGV[3] == '1'
if own or not free or sub(value, 21, 53) ~= sub(fresh, 21, 53) then return {value, left} end
local attempt = pack('>I4', math.min(unpack('>I4', value, 70) + 1, 4294967295))
local begun = NO_SEQUENCE .. sub(ages(), 9)
write(sub(fresh, 1, 69) .. attempt .. '\0', sub(value, 75, 75), payload(), sub(fresh, 81, 88), life,
    NO_SEQUENCE, begun)
return {redis.call('GET', key), life}
