-- Removes at most `batch` records past their retention. Sweepers pass each other by.
CREATE OR REPLACE FUNCTION @sweep@(
    batch bigint, OUT removed bigint, OUT abandoned bigint, OUT more boolean
) LANGUAGE plpgsql VOLATILE
-- along the index, whatever the planner takes the rows for: a batch must not read and sort all that is due
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
-- nor compile code for it, which takes as long as a hundred batches
SET jit = off
AS $idempotency$
DECLARE
    n CONSTANT timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
    WITH due AS MATERIALIZED (
        -- partitions have a place of the same number each
        SELECT t.tableoid AS part, t.ctid AS at FROM @table@ t WHERE t.sweep_at < n AND @sound_row@
        ORDER BY t.sweep_at LIMIT batch FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM @table@ t
        WHERE t.ctid = ANY (ARRAY(SELECT d.at FROM due d))
            AND (t.tableoid, t.ctid) IN (SELECT d.part, d.at FROM due d)
            AND t.expires_at < n
        RETURNING t.state
    ), later AS (
        UPDATE @table@ t SET sweep_at = t.expires_at
        WHERE t.ctid = ANY (ARRAY(SELECT d.at FROM due d))
            AND (t.tableoid, t.ctid) IN (SELECT d.part, d.at FROM due d)
            AND t.expires_at >= n
    )
    SELECT count(*), count(*) FILTER (WHERE g.state IN (0, 2)), (SELECT count(*) FROM due) >= batch
    INTO removed, abandoned, more FROM gone g;
END
$idempotency$;
