-- ARGV: the record's first 20 bytes.
-- Answers nothing, or the record, what is left of its life and when that ends in ms since 1970.
local failure = read(ARGV[1])
if failure then return failure end
if not value then return false end
local ends = redis.pcall('PEXPIRETIME', key)
if type(ends) == 'table' then
    -- before Redis 7
    local now = redis.call('TIME')
    ends = now[1] * 1000 + math.floor(now[2] / 1000) + left
end
return {value, left, ends}
