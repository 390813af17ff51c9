-- ARGV: the record's first 20 bytes.
-- Marks the record: who ends its attempt tells that it did. The mark is no part of the record, and
-- SETRANGE leaves the expiry as it is. Answers 1 while the key is in progress, else 0.
local failure = read(ARGV[1])
if failure then return failure end
if not value or byte(value, 74) ~= 0 then return 0 end
if byte(value, 75) ~= 1 then redis.call('SETRANGE', key, 74, '\1') end
return 1
