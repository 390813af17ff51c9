CREATE OR REPLACE FUNCTION @renew@(
    k text, tok uuid, att bigint, seq bigint, lease_ms bigint, leaves bytea, lock_ms integer
) RETURNS record LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET lock_timeout = '700ms'
AS $idempotency$
#variable_conflict use_column
DECLARE
    at timestamptz;
    r record;
    lease CONSTANT interval := lease_ms * interval '1 ms';
    -- turns the order of signed numbers into that of unsigned ones
    sign CONSTANT bigint := (-9223372036854775808)::bigint;
BEGIN
    IF lock_ms <> 700 THEN
        PERFORM set_config('lock_timeout', lock_ms::text, true);
    END IF;
    at := date_trunc('milliseconds', clock_timestamp());
    UPDATE @table@ t SET
        lease_until = greatest(t.lease_until, at + lease),
        expires_at = greatest(t.lease_until, at + lease) + t.retention_ms * interval '1 ms',
        sequence = seq,
        checkpoint = coalesce(leaves, t.checkpoint)
    WHERE t.key = k AND @sound_row@ AND t.state = 0 AND t.token = tok AND t.attempt = att
        AND t.expires_at >= at AND t.sequence # sign <= seq # sign
    RETURNING 1::smallint AS verdict, at AS at, t.key, t.lease_until INTO r;
    IF FOUND THEN
        RETURN r;
    END IF;
    SELECT 0::smallint AS verdict, at AS at, @row@ INTO r FROM @table@ t WHERE t.key = k;
    IF FOUND THEN
        RETURN r;
    END IF;
    RETURN ROW(0::smallint, at, k);
END
$idempotency$;
