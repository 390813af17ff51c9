-- Many claims of different keys in one commit. Keys that are there are only looked at; whatever needs more,
-- or has no answer, is claimed one by one. Of two answers for a key the later one counts: a sweeper came
-- between. No key twice in one call; the sorted order keeps two calls from a deadlock. An insert that
-- somebody has not committed is waited for as long as a usual commit takes, then the call fails and all
-- of it is claimed one by one. The records as bytes: a set cannot have the type record.
CREATE OR REPLACE FUNCTION @claim_many@(
    ks text[], fps bytea[], toks uuid[], leases bigint[], keeps bigint[], lock_ms integer
) RETURNS SETOF bytea
LANGUAGE plpgsql VOLATILE
-- each key by the index, also with a plan that was made while the table was small
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
-- with a plan for each call the server would plan longer than it works
SET plan_cache_mode = force_generic_plan
SET lock_timeout = '50ms'
AS $idempotency$
#variable_conflict use_column
DECLARE
    n timestamptz := date_trunc('milliseconds', clock_timestamp());
    seen bigint;
BEGIN
    RETURN QUERY SELECT record_send(ROW(0::smallint, n, @row@))
        FROM unnest(ks) AS u JOIN @table@ t ON t.key = u COLLATE "C";
    GET DIAGNOSTICS seen = ROW_COUNT;
    IF seen = cardinality(ks) THEN
        RETURN;
    END IF;
    IF lock_ms <> 50 THEN
        PERFORM set_config('lock_timeout', lock_ms::text, true);
    END IF;
    RETURN QUERY INSERT INTO @table@ AS t (
        lease_until, expires_at, sweep_at, first_claimed_at, claimed_at,
        retention_ms, attempt, token, format, state, fingerprint, key
    ) SELECT n + u.lease * interval '1 ms',
        n + (u.lease + u.keep) * interval '1 ms', n + (u.lease + u.keep) * interval '1 ms', n, n,
        u.keep, 1, u.tok, 1, 0, u.fp, u.k
    FROM unnest(ks, fps, toks, leases, keeps) AS u (k, fp, tok, lease, keep)
    ORDER BY u.k COLLATE "C"
    ON CONFLICT (key) DO NOTHING RETURNING record_send(ROW(1::smallint, n, t.key));
END
$idempotency$;
