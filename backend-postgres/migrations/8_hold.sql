-- Locks the row of a claim that holds, for as long as the caller's transaction lasts: whether it does.
CREATE OR REPLACE FUNCTION @hold@(k text, tok uuid, att bigint, lock_ms integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET lock_timeout = '700ms'
AS $idempotency$
BEGIN
    IF lock_ms <> 700 THEN
        PERFORM set_config('lock_timeout', lock_ms::text, true);
    END IF;
    PERFORM FROM @table@ t
    WHERE t.key = k AND @sound_row@ AND t.state = 0 AND t.token = tok AND t.attempt = att
        AND t.expires_at >= date_trunc('milliseconds', clock_timestamp())
    FOR UPDATE;
    RETURN FOUND;
END
$idempotency$;
