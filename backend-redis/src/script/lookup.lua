-- ARGV: the record's first 20 bytes.
-- Answers nothing, or the record, what is left of its life and when that ends in ms since 1970.
local failure = read(ARGV[1])
if failure then return failure end
if not value then return false end
local ends = redis.pcall('PEXPIRETIME', key)
if type(ends) == 'table' then
    -- before Redis 7, where time goes on while a script runs: both are read in the same millisecond,
    -- else the end of a record would not be the same in every lookup
    local function now()
        local time = redis.call('TIME')
        return time[1] * 1000 + math.floor(time[2] / 1000)
    end
    local moment
    repeat
        moment = now()
        left = redis.call('PTTL', key)
    until now() == moment
    ends = moment + left
end
return {value, left, ends}
