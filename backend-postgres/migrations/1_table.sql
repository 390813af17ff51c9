-- One row a key. Moments are whole milliseconds of the server's clock; deadlines are inclusive. No CHECK: the
-- server would parse it anew in every statement that writes, for as long as all the rest takes. The functions
-- look instead, and whoever reads.
CREATE TABLE IF NOT EXISTS @table@ (
    -- in progress: the end of the lease; else nothing
    lease_until      timestamptz,
    -- the last moment at which the record counts
    expires_at       timestamptz NOT NULL,
    -- when a sweeper looks at the row. Only a hint: it may be early (the sweeper then moves it), or late
    -- by 1 % of a retention of an hour or more. So neither a heartbeat nor a usual completion changes
    -- an indexed column, and both are heap-only updates.
    sweep_at         timestamptz NOT NULL,
    -- when attempt 1, and when this attempt, began
    first_claimed_at timestamptz NOT NULL,
    claimed_at       timestamptz NOT NULL,
    -- when it was released or completed
    ended_at         timestamptz,
    retention_ms     bigint NOT NULL,
    attempt          bigint NOT NULL,
    -- of the last renewal; the bits of an unsigned number
    sequence         bigint NOT NULL DEFAULT 0,
    token            uuid NOT NULL,
    -- of the row; a newer release may write a higher one, which this one leaves alone
    format           smallint NOT NULL,
    -- 0 in progress, 1 released as failed, 2 released as unknown, 3 completed, 4 unused (given back)
    state            smallint NOT NULL,
    -- somebody waits: tell of the end
    waited           boolean NOT NULL DEFAULT false,
    fingerprint      bytea NOT NULL,
    -- namespace/scope/key, escaped, or namespace/#digest
    key              text COLLATE "C" NOT NULL PRIMARY KEY,
    checkpoint       bytea,
    response         bytea
) WITH (
    -- Room in each page for the heap-only updates of its rows: a completed row is two to three times as
    -- long as it was in progress. The table gets no larger for it, its rows just stay where they were.
    fillfactor = 40,
    -- every row dies: look often
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

CREATE INDEX IF NOT EXISTS @sweep_index@ ON @table@ (sweep_at);
