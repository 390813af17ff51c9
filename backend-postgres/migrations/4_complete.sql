-- `strict`: only for a claim that holds now, and nothing else is written: what a transaction of the
-- caller's joins.
CREATE OR REPLACE FUNCTION @complete@(
    k text, tok uuid, att bigint, fp bytea, answer bytea, keep_ms bigint, strict boolean,
    lock_ms integer
) RETURNS record LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET lock_timeout = '700ms'
AS $idempotency$
#variable_conflict use_column
DECLARE
    at timestamptz;
    r record;
    keep CONSTANT interval := keep_ms * interval '1 ms';
    slack CONSTANT interval := CASE WHEN keep_ms >= 3600000 THEN keep / 100 ELSE interval '0' END;
    tell boolean;
BEGIN
    IF lock_ms <> 700 THEN
        PERFORM set_config('lock_timeout', lock_ms::text, true);
    END IF;
    FOR round IN 1..8 LOOP
        at := date_trunc('milliseconds', clock_timestamp());
        UPDATE @table@ t SET @completed@
        WHERE t.key = k AND @holds@ AND (t.state = 0 OR (t.state IN (1, 2) AND NOT strict))
        RETURNING t.waited INTO tell;
        IF FOUND THEN
            IF tell THEN
                PERFORM pg_notify(@channel@, encode(sha256(convert_to(k, 'UTF8')), 'hex'));
            END IF;
            RETURN ROW(1::smallint, at, k);
        END IF;
        IF strict THEN
            RETURN ROW(0::smallint, at, k);
        END IF;
        SELECT 0::smallint AS verdict, at AS at, @row@ INTO r FROM @table@ t WHERE t.key = k;
        IF FOUND THEN
            IF r.format <> 1 OR (r.expires_at >= at AND r.state <> 4) THEN
                RETURN r;
            END IF;
            SELECT 0::smallint AS verdict, at AS at, @row@ INTO r FROM @table@ t WHERE t.key = k FOR UPDATE;
            CONTINUE WHEN NOT FOUND;
            at := date_trunc('milliseconds', clock_timestamp());
            r.at := at;
            IF (@sound_seen@ AND (r.expires_at < at OR r.state = 4)) IS NOT TRUE THEN
                RETURN r;
            END IF;
            UPDATE @table@ t SET
                lease_until = NULL, expires_at = at + keep, sweep_at = at + keep,
                first_claimed_at = at, claimed_at = at, ended_at = at,
                retention_ms = keep_ms, attempt = att, sequence = 0, token = tok, state = 3,
                waited = false, fingerprint = fp, checkpoint = NULL, response = answer
            WHERE t.key = k;
            RETURN ROW(2::smallint, at, k);
        END IF;
        INSERT INTO @table@ (
            expires_at, sweep_at, first_claimed_at, claimed_at, ended_at,
            retention_ms, attempt, token, format, state, fingerprint, key, response
        ) VALUES (
            at + keep, at + keep, at, at, at,
            keep_ms, att, tok, 1, 3, fp, k, answer
        ) ON CONFLICT (key) DO NOTHING;
        IF FOUND THEN
            RETURN ROW(2::smallint, at, k);
        END IF;
    END LOOP;
    RETURN ROW(4::smallint, at, k);
END
$idempotency$;
