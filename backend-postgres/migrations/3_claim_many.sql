-- Many claims of different keys in one commit. Keys that are not absent are only looked at; whatever
-- needs more is claimed one by one. No key twice in one call; the sorted order keeps two calls from a
-- deadlock.
CREATE OR REPLACE FUNCTION @claim_many@(
    ks text[], fps bytea[], toks uuid[], leases bigint[], keeps bigint[], lock_ms integer
) RETURNS TABLE (k text, verdict smallint, at timestamptz, r @table@)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET lock_timeout = '700ms'
AS $idempotency$
#variable_conflict use_column
DECLARE
    n timestamptz := date_trunc('milliseconds', clock_timestamp());
    won text[];
BEGIN
    IF lock_ms <> 700 THEN
        PERFORM set_config('lock_timeout', lock_ms::text, true);
    END IF;
    WITH inserted AS (
        INSERT INTO @table@ AS t (
            lease_until, expires_at, sweep_at, first_claimed_at, claimed_at,
            retention_ms, attempt, token, format, state, fingerprint, key
        ) SELECT n + u.lease * interval '1 ms',
            n + (u.lease + u.keep) * interval '1 ms', n + (u.lease + u.keep) * interval '1 ms', n, n,
            u.keep, 1, u.tok, 1, 0, u.fp, u.k
        FROM unnest(ks, fps, toks, leases, keeps) AS u (k, fp, tok, lease, keep)
        ORDER BY u.k COLLATE "C"
        ON CONFLICT (key) DO NOTHING RETURNING t.key
    ) SELECT coalesce(array_agg(i.key), '{}') INTO won FROM inserted i;
    RETURN QUERY SELECT w, 1::smallint, n, NULL::@table@ FROM unnest(won) AS w;
    IF cardinality(won) = cardinality(ks) THEN
        RETURN;
    END IF;
    n := date_trunc('milliseconds', clock_timestamp());
    RETURN QUERY SELECT u, 0::smallint, n, t
        FROM unnest(ks) AS u LEFT JOIN @table@ t ON t.key = u COLLATE "C"
        WHERE u <> ALL (won);
END
$idempotency$;
