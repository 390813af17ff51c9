-- ARGV: the completed record without its trailer; its life in ms.
-- Answers the key's name when it is done, a letter and the name otherwise.

-- What nearly always is: the attempt is in progress, left no checkpoint, and nobody waits. The rest of
-- the file decides the same for every other case; here the server's interpreter has as little to do
-- as can be.
local plain = redis.pcall('GET', KEYS[1])
if plain and #plain == 120 and string.sub(plain, 1, 73) == string.sub(ARGV[1], 1, 73)
    and string.sub(plain, 74, 76) == '\0\0\0' then
    local since = redis.call('PTTL', KEYS[1])
    if since >= 0 then
        local life, _, claimed, first = struct.unpack('>I8I8I8I8', plain, 89)
        since = life > since and life - since or 0
        redis.call('SET', KEYS[1],
            ARGV[1] .. struct.pack('>I8I8', claimed + since, first + since), 'PX', ARGV[2])
        return string.sub(plain, 5, 20)
    end
end
