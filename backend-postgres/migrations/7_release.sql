-- `how`: 0 not started, 1 failed, 2 unknown.
CREATE OR REPLACE FUNCTION @release@(
    k text, tok uuid, att bigint, how smallint, lock_ms integer
) RETURNS record LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET lock_timeout = '700ms'
AS $idempotency$
#variable_conflict use_column
DECLARE
    at timestamptz;
    r record;
    -- attempt 1 frees the key; earlier attempts of a later one may have run
    unused CONSTANT boolean := how = 0 AND att = 1;
    tell boolean;
BEGIN
    IF lock_ms <> 700 THEN
        PERFORM set_config('lock_timeout', lock_ms::text, true);
    END IF;
    at := date_trunc('milliseconds', clock_timestamp());
    UPDATE @table@ t SET
        lease_until = NULL,
        expires_at = CASE WHEN unused THEN greatest(t.lease_until, at)
            ELSE at + t.retention_ms * interval '1 ms' END,
        sweep_at = CASE WHEN unused THEN greatest(t.lease_until, at)
            ELSE least(t.sweep_at, at + t.retention_ms * interval '1 ms') END,
        ended_at = at,
        sequence = 0,
        state = CASE WHEN unused THEN 4 WHEN how = 2 THEN 2 ELSE 1 END,
        checkpoint = CASE WHEN unused THEN NULL ELSE t.checkpoint END
    WHERE t.key = k AND @sound_row@ AND t.state = 0 AND t.token = tok AND t.attempt = att
        AND t.expires_at >= at
    RETURNING t.waited INTO tell;
    IF FOUND THEN
        IF tell THEN
            PERFORM pg_notify(@channel@, encode(sha256(convert_to(k, 'UTF8')), 'hex'));
        END IF;
        RETURN ROW(1::smallint, at, k);
    END IF;
    SELECT 0::smallint AS verdict, at AS at, @row@ INTO r FROM @table@ t WHERE t.key = k;
    IF FOUND THEN
        RETURN r;
    END IF;
    RETURN ROW(0::smallint, at, k);
END
$idempotency$;
