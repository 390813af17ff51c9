use std::sync::Arc;

use sqlx::AssertSqlSafe;

use crate::names::{Names, literal};

/// A statement of ours. What is not constant in it are names, and they are quoted.
#[derive(Clone, Debug)]
pub(crate) struct Sql(Arc<str>);

impl Sql {
    pub(crate) fn new(text: String) -> Self {
        Self(text.into())
    }

    pub(crate) fn safe(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.0))
    }

    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// All statements for one table.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    pub(crate) claim: Sql,
    pub(crate) claim_many: Sql,
    pub(crate) complete: Sql,
    pub(crate) complete_many: Sql,
    pub(crate) renew: Sql,
    pub(crate) release: Sql,
    pub(crate) hold: Sql,
    pub(crate) lookup: Sql,
    pub(crate) sweep: Sql,
    pub(crate) list: Sql,
    pub(crate) replace: Sql,
    pub(crate) wait: Sql,
}

/// The columns of a row `t`, in the order in which [`wire`](crate::wire) reads them.
pub(crate) const ROW: &str = "t.key, t.lease_until, t.format, t.state, t.fingerprint, t.token, \
    t.attempt, t.retention_ms, t.first_claimed_at, t.claimed_at, t.expires_at, t.ended_at, \
    t.sequence, t.checkpoint, t.response";

/// Whether a release that writes format 1 has written `row`. What is not sound is never written over.
fn sound(row: &str) -> String {
    let parts = [
        "@.format = 1",
        "@.state BETWEEN 0 AND 4",
        "octet_length(@.fingerprint) = 33",
        "@.attempt BETWEEN 1 AND 4294967295",
        "@.retention_ms BETWEEN 1 AND 316224000000",
        "isfinite(@.expires_at) AND @.expires_at >= timestamptz 'epoch'",
        "isfinite(@.first_claimed_at) AND @.first_claimed_at >= timestamptz 'epoch'",
        "isfinite(@.claimed_at) AND @.claimed_at >= timestamptz 'epoch'",
        "(@.state = 0) = (@.lease_until IS NOT NULL) AND isfinite(coalesce(@.lease_until, @.expires_at))",
        "(@.state = 0) = (@.ended_at IS NULL) AND isfinite(coalesce(@.ended_at, @.expires_at))",
        "(@.state = 3) = (@.response IS NOT NULL)",
        "(@.checkpoint IS NULL OR @.state IN (0, 1, 2))",
    ];
    parts.join(" AND ").replace('@', row)
}

/// Whether the row `t` is that of attempt `att` by `tok`, for the request `fp`, and counts.
fn holds() -> String {
    let counts = "t.token = tok AND t.attempt = att AND t.fingerprint = fp AND t.expires_at >= at";
    format!("{counts} AND {}", sound("t"))
}

/// What makes a record a completed one.
const COMPLETED: &str = "lease_until = NULL, expires_at = at + keep, \
    sweep_at = CASE WHEN t.sweep_at > at AND t.sweep_at <= at + keep + slack \
    THEN t.sweep_at ELSE at + keep END, \
    ended_at = at, retention_ms = keep_ms, sequence = 0, state = 3, checkpoint = NULL, \
    response = answer";

/// Rounded down, as all moments.
const STATEMENT_TIME: &str = "date_trunc('milliseconds', statement_timestamp())";

impl Statements {
    pub(crate) fn new(names: &Names) -> Self {
        let table = names.table();
        let call = |verb: &str, arguments: u32| {
            let places: Vec<_> = (1..=arguments).map(|n| format!("${n}")).collect();
            Sql::new(format!("SELECT {}({})", names.function(verb), places.join(", ")))
        };
        let function = |verb: &str| names.function(verb);
        Self {
            claim: call("claim", 7),
            claim_many: call("claim_many", 6),
            complete: call("complete", 8),
            complete_many: call("complete_many", 7),
            renew: call("renew", 7),
            release: call("release", 5),
            hold: Sql::new(format!("SELECT {}($1, $2, $3, $4)", function("hold"))),
            // the time of the statement is before its snapshot: a deadline that is over by then was
            // over when the row was read
            lookup: Sql::new(format!(
                "SELECT ROW(0::int2, {STATEMENT_TIME}, {ROW}), pg_is_in_recovery() \
                 FROM (SELECT) one LEFT JOIN {table} t ON t.key = $1"
            )),
            sweep: Sql::new(format!(
                "SELECT removed, abandoned, more FROM {}($1)",
                function("sweep")
            )),
            list: Sql::new(format!(
                "SELECT ROW(0::int2, {STATEMENT_TIME}, {ROW}) FROM {table} t \
                 WHERE t.key > $1 AND t.key < $2 ORDER BY t.key LIMIT $3"
            )),
            replace: Sql::new(replace(&table)),
            // a row that a transaction holds cannot be marked: whoever waits for it only polls
            wait: Sql::new(format!(
                "WITH free AS (SELECT key FROM {table} \
                 WHERE key = $1 AND format = 1 AND state = 0 AND NOT waited FOR UPDATE SKIP LOCKED) \
                 UPDATE {table} t SET waited = true FROM free WHERE t.key = free.key"
            )),
        }
    }
}

/// Puts a record in the place of another one that has not changed since it was read: $2 to $7.
fn replace(table: &str) -> String {
    let moment = |n: u32| format!("timestamptz 'epoch' + ${n}::bigint * interval '1 ms'");
    let (lease_until, expires_at) = (moment(6), moment(7));
    let (new_expires_at, new_ended_at) = (moment(10), moment(11));
    format!(
        "UPDATE {table} SET state = $8, retention_ms = $9, expires_at = {new_expires_at}, \
         sweep_at = {new_expires_at}, ended_at = {new_ended_at}, lease_until = NULL, sequence = 0, \
         checkpoint = CASE WHEN $8 IN (1, 2) THEN checkpoint END, response = $12 \
         WHERE key = $1 AND format = 1 AND token = $2 AND attempt = $3 AND state = $4 \
         AND sequence = $5 AND lease_until IS NOT DISTINCT FROM {lease_until} \
         AND expires_at = {expires_at} RETURNING 1"
    )
}

const TEMPLATES: [&str; 9] = [
    include_str!("../migrations/1_table.sql"),
    include_str!("../migrations/2_claim.sql"),
    include_str!("../migrations/3_claim_many.sql"),
    include_str!("../migrations/4_complete.sql"),
    include_str!("../migrations/5_complete_many.sql"),
    include_str!("../migrations/6_renew.sql"),
    include_str!("../migrations/7_release.sql"),
    include_str!("../migrations/8_hold.sql"),
    include_str!("../migrations/9_sweep.sql"),
];

/// The functions that [`script`] makes.
pub(crate) const VERBS: [&str; 8] =
    ["claim", "claim_many", "complete", "complete_many", "renew", "release", "hold", "sweep"];

/// Everything that sets the table up, for `names`.
pub(crate) fn script(names: &Names) -> String {
    TEMPLATES.map(|template| render(template, names)).join("\n")
}

/// The functions as the server keeps them, in the order of [`VERBS`]: of each its settings, and its body.
pub(crate) fn functions(names: &Names) -> impl Iterator<Item = String> {
    TEMPLATES.iter().skip(1).map(move |template| {
        let text = render(template, names);
        let (head, rest) = text.split_once("$idempotency$").unwrap_or_default();
        let settings = head.lines().filter_map(|line| line.strip_prefix("SET "));
        let settings: Vec<_> =
            settings.map(|line| line.replace(" = ", "=").replace('\'', "")).collect();
        let body = rest.split("$idempotency$").next().unwrap_or_default();
        settings.join(",") + body
    })
}

/// Fills the names in. In one pass: a name that looks like a place is left alone.
fn render(template: &str, names: &Names) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    for (index, part) in template.split('@').enumerate() {
        if index % 2 == 0 {
            text.push_str(part);
            continue;
        }
        text.push_str(&match part {
            "table" => names.table(),
            "row" => ROW.to_owned(),
            "holds" => holds(),
            "sound_row" => sound("t"),
            "sound_seen" => sound("r"),
            "completed" => COMPLETED.to_owned(),
            "sweep_index" => names.sweep_index(),
            "channel" => literal(&names.channel()),
            verb => names.function(verb),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_the_templates_is_filled() {
        let names = Names::new("s", "t").unwrap();
        let script = script(&names);
        assert!(!script.contains('@'), "{script}");
        for verb in VERBS {
            let head = format!("CREATE OR REPLACE FUNCTION {}(", names.function(verb));
            assert!(script.contains(&head), "{verb}");
        }
        assert_eq!(functions(&names).count(), VERBS.len());
        let is_whole = |function: String| {
            function.starts_with("enable_seqscan=off") && function.trim_end().ends_with("END")
        };
        assert!(functions(&names).all(is_whole));
    }

    #[test]
    fn a_name_that_looks_like_a_place_is_left_alone() {
        let names = Names::new("s", "@table@").unwrap();
        assert!(script(&names).contains("CREATE TABLE IF NOT EXISTS \"s\".\"@table@\" ("));
        assert!(Statements::new(&names).claim.text().contains("\"s\".\"@table@_claim_v1\"("));
    }
}
