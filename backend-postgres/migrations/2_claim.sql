-- The functions answer with one record: it is taken apart by the client, for less than a column each
-- costs. Verdict, moment, key; where it is asked for the end of the lease; where a row was seen the rest
-- of it. Verdicts: 0 nothing written, the row is what was seen (none: absent); 1 written; 2 written where
-- no record was; 3 the row is locked by somebody's transaction; 4 gave up.
--
-- Each statement in here has a snapshot of its own (READ COMMITTED), so what a competitor has just
-- committed is seen. Whoever does not win writes nothing.
CREATE OR REPLACE FUNCTION @claim@(
    k text, fp bytea, tok uuid, lease_ms bigint, keep_ms bigint, allow boolean, lock_ms integer
) RETURNS record LANGUAGE plpgsql VOLATILE
-- a plan made while the table was small must not scan it when it is large
SET enable_seqscan = off
-- reverts by itself, also inside a longer transaction
SET lock_timeout = '700ms'
AS $idempotency$
#variable_conflict use_column
DECLARE
    at timestamptz;
    r record;
    -- set where something is written
    lease interval;
    keep interval;
    slack interval;
    anew boolean;
BEGIN
    IF lock_ms <> 700 THEN
        PERFORM set_config('lock_timeout', lock_ms::text, true);
    END IF;
    FOR round IN 1..8 LOOP
        -- before the read: a deadline that is over by then was over when the row was read
        at := date_trunc('milliseconds', clock_timestamp());
        SELECT 0::smallint AS verdict, at AS at, @row@ INTO r FROM @table@ t WHERE t.key = k;
        IF NOT FOUND THEN
            lease := lease_ms * interval '1 ms';
            keep := keep_ms * interval '1 ms';
            INSERT INTO @table@ (
                lease_until, expires_at, sweep_at, first_claimed_at, claimed_at,
                retention_ms, attempt, token, format, state, fingerprint, key
            ) VALUES (
                at + lease, at + lease + keep, at + lease + keep, at, at,
                keep_ms, 1, tok, 1, 0, fp, k
            ) ON CONFLICT (key) DO NOTHING;
            IF FOUND THEN
                RETURN ROW(1::smallint, at, k);
            END IF;
            -- a competitor was faster: look what it left
            CONTINUE;
        END IF;
        -- Also for an abandoned record that is not taken over: a transaction that holds the row is alive.
        IF (r.format = 1 AND (
            r.expires_at < at
            OR (r.state = 4 AND r.token <> tok)
            OR (r.fingerprint = fp AND r.token <> tok AND (
                r.state = 1 OR (r.state = 2 AND allow) OR (r.state = 0 AND r.lease_until < at)
            ))
        )) IS NOT TRUE THEN
            RETURN r;
        END IF;
        BEGIN
            SELECT 0::smallint AS verdict, at AS at, @row@ INTO r FROM @table@ t WHERE t.key = k FOR UPDATE;
        EXCEPTION WHEN lock_not_available THEN
            r.verdict := 3;
            r.at := date_trunc('milliseconds', clock_timestamp());
            RETURN r;
        END;
        CONTINUE WHEN NOT FOUND;
        at := date_trunc('milliseconds', clock_timestamp());
        r.at := at;
        IF (@sound_seen@ AND (
            r.expires_at < at
            OR (r.state = 4 AND r.token <> tok)
            OR (r.fingerprint = fp AND r.token <> tok AND (
                r.state = 1 OR (allow AND (r.state = 2 OR (r.state = 0 AND r.lease_until < at)))
            ))
        )) IS NOT TRUE THEN
            RETURN r;
        END IF;
        lease := lease_ms * interval '1 ms';
        keep := keep_ms * interval '1 ms';
        slack := CASE WHEN keep_ms >= 3600000 THEN keep / 100 ELSE interval '0' END;
        anew := r.expires_at < at OR r.state = 4;
        UPDATE @table@ t SET
            lease_until = at + lease,
            expires_at = at + lease + keep,
            sweep_at = CASE WHEN t.sweep_at > at AND t.sweep_at <= at + lease + keep + slack
                THEN t.sweep_at ELSE at + lease + keep END,
            first_claimed_at = CASE WHEN anew THEN at ELSE t.first_claimed_at END,
            claimed_at = at,
            ended_at = NULL,
            retention_ms = keep_ms,
            attempt = CASE WHEN anew THEN 1 ELSE least(t.attempt + 1, 4294967295) END,
            sequence = 0,
            token = tok,
            state = 0,
            waited = t.waited AND NOT anew,
            fingerprint = fp,
            checkpoint = CASE WHEN anew THEN NULL ELSE t.checkpoint END,
            response = NULL
        WHERE t.key = k RETURNING 1::smallint AS verdict, at AS at, @row@ INTO r;
        RETURN r;
    END LOOP;
    RETURN ROW(4::smallint, at, k);
END
$idempotency$;
