-- Many completions of different keys in one commit: those of holders, whose rows nobody has locked. The
-- rest has no answer here and is completed one by one. No row is waited for, so a call can be in a
-- deadlock with nobody. No key twice in one call. The records as bytes: a set cannot have the type record.
CREATE OR REPLACE FUNCTION @complete_many@(
    ks text[], toks uuid[], atts bigint[], fps bytea[], answers bytea[], keeps bigint[], lock_ms integer
) RETURNS SETOF bytea
LANGUAGE plpgsql VOLATILE
-- each key by the index, also with a plan that was made while the table was small
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
-- with a plan for each call the server would plan longer than it works
SET plan_cache_mode = force_generic_plan
-- of the table; it is never waited for a row
SET lock_timeout = '50ms'
AS $idempotency$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := date_trunc('milliseconds', clock_timestamp());
    done record;
BEGIN
    IF lock_ms <> 50 THEN
        PERFORM set_config('lock_timeout', lock_ms::text, true);
    END IF;
    FOR done IN
        WITH asked AS (
            SELECT u.*, u.keep_ms * interval '1 ms' AS keep,
                CASE WHEN u.keep_ms >= 3600000 THEN u.keep_ms * interval '0.01 ms' ELSE interval '0' END AS slack
            FROM unnest(ks, toks, atts, fps, answers, keeps) AS u (k, tok, att, fp, answer, keep_ms)
        ), held AS MATERIALIZED (
            SELECT k, answer, keep_ms, keep, slack
            FROM asked JOIN @table@ t ON t.key = k COLLATE "C"
            WHERE @holds@ AND t.state IN (0, 1, 2)
            FOR NO KEY UPDATE OF t SKIP LOCKED
        )
        UPDATE @table@ t SET @completed@
        FROM held WHERE t.key = k COLLATE "C"
        RETURNING t.key, t.waited
    LOOP
        IF done.waited THEN
            PERFORM pg_notify(@channel@, encode(sha256(convert_to(done.key, 'UTF8')), 'hex'));
        END IF;
        RETURN NEXT record_send(ROW(1::smallint, at, done.key));
    END LOOP;
END
$idempotency$;
