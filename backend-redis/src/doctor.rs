use std::collections::HashMap;

use async_trait::async_trait;
use idempotency_core::{
    Clock, Doctor, Finding, Operation, Severity, StoreError, SystemClock, Timestamp,
};
use redis::{RedisResult, Value, cmd};

use crate::{RedisStore, nodes::Node};

/// What a server says of itself, as far as it may be asked.
#[derive(Debug, Default)]
struct Facts {
    info: HashMap<String, String>,
    /// `save` of its configuration; none when it may not be read.
    save: Option<String>,
    /// How far its clock is ahead of ours or behind it, in ms.
    clock_off: u64,
}

/// Looks at every server that takes writes.
#[async_trait]
impl Doctor for RedisStore {
    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let examined = async {
            let link = &self.inner.link;
            let failed = |error| self.failed_to_read(Operation::Doctor, &error);
            let mut findings = Vec::new();
            for node in link.primaries().await.map_err(failed)? {
                let facts = self.facts(&node).await.map_err(failed)?;
                findings.extend(findings_of(&facts).into_iter().map(|finding| at(&node, finding)));
            }
            Ok(findings)
        };
        let mut findings = self.within_timeout(Operation::Doctor, examined).await?;
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings.dedup();
        Ok(findings)
    }
}

impl RedisStore {
    async fn facts(&self, node: &Node) -> RedisResult<Facts> {
        let link = &self.inner.link;
        let text = link.command_to(node, cmd("INFO")).await?;
        let text: String = redis::from_redis_value(text)?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let info = lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        let mut get = cmd("CONFIG");
        get.arg("GET").arg("save");
        // many services forbid it: then it is said that it was not seen
        let save = link.command_to(node, get).await.ok();
        let save =
            save.and_then(|save| redis::from_redis_value::<HashMap<String, String>>(save).ok());
        let time = link.command_to(node, cmd("TIME")).await?;
        let here = SystemClock::new().now();
        Ok(Facts {
            info,
            save: save.and_then(|mut save| save.remove("save")),
            clock_off: difference(here, moment(&time)),
        })
    }
}

fn moment(time: &Value) -> Timestamp {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(time.clone()).unwrap_or_default();
    Timestamp::from_unix_millis(seconds * 1_000 + micros / 1_000)
}

fn difference(a: Timestamp, b: Timestamp) -> u64 {
    a.as_unix_millis().abs_diff(b.as_unix_millis())
}

/// In a Cluster it is said of which node.
fn at(node: &Node, finding: Finding) -> Finding {
    match node {
        Node::Only => finding,
        node @ Node::Of { .. } => {
            Finding { subject: format!("{node}: {}", finding.subject), ..finding }
        }
    }
}

fn findings_of(facts: &Facts) -> Vec<Finding> {
    vec![version(facts), eviction(facts), persistence(facts), replicas(facts), clock(facts)]
}

impl Facts {
    fn get(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }
}

fn finding(severity: Severity, subject: String, advice: &str) -> Finding {
    Finding { severity, subject, advice: advice.to_owned() }
}

fn version(facts: &Facts) -> Finding {
    let valkey = facts.get("valkey_version");
    let redis = facts.get("redis_version");
    let subject = match valkey {
        "" => format!("the server is Redis {redis}"),
        valkey => format!("the server is Valkey {valkey}"),
    };
    let mut numbers = redis.split('.').map(|number| number.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        (7.., _) => finding(Severity::Fine, subject, "all operations take the fast path"),
        (6, 2..) => finding(
            Severity::Fine,
            subject,
            "claims take a script instead of SET NX GET: about three times the server's time; \
             upgrade to 7.0 when you can",
        ),
        _ => finding(Severity::Hazard, subject, "not supported: upgrade to 6.2 or newer"),
    }
}

fn eviction(facts: &Facts) -> Finding {
    let policy = facts.get("maxmemory_policy");
    let limited = !matches!(facts.get("maxmemory"), "" | "0");
    let subject = format!("maxmemory-policy is {policy}");
    match (policy, limited) {
        ("noeviction", _) => finding(
            Severity::Fine,
            subject,
            "a full server refuses new claims instead of forgetting live ones",
        ),
        (_, true) => finding(
            Severity::Hazard,
            subject,
            "a full server drops records, live claims and answers among them, and work runs again: \
             set noeviction, or use a server of its own",
        ),
        (_, false) => finding(
            Severity::Warning,
            subject,
            "there is no maxmemory, so nothing is evicted yet; set noeviction before there is one",
        ),
    }
}

fn persistence(facts: &Facts) -> Finding {
    let log = facts.get("aof_enabled") == "1";
    match (log, facts.save.as_deref()) {
        (true, _) => finding(
            Severity::Fine,
            "the append-only file is on".to_owned(),
            "a crash of the server loses at most what appendfsync allows: a second, as a rule",
        ),
        (false, Some("")) => finding(
            Severity::Hazard,
            "persistence is off".to_owned(),
            "a restart of the server forgets every record, and retries run again: \
             set appendonly yes",
        ),
        (false, Some(save)) => finding(
            Severity::Warning,
            format!("only snapshots are written ({save})"),
            "a crash of the server forgets what came after the last one: set appendonly yes",
        ),
        (false, None) => finding(
            Severity::Warning,
            "the append-only file is off, and CONFIG GET save is refused".to_owned(),
            "find out whether snapshots are written; with neither a restart forgets every record",
        ),
    }
}

fn replicas(facts: &Facts) -> Finding {
    let count = facts.get("connected_slaves");
    let subject = format!("replicas connected: {count}");
    if matches!(count, "" | "0") {
        return finding(
            Severity::Warning,
            subject,
            "when this server is lost, so is every record on it",
        );
    }
    finding(
        Severity::Fine,
        subject,
        "replication is asynchronous: a failover can lose the last claims and answers; wait_replicas \
         makes claims wait for replicas",
    )
}

/// More than this is no network delay.
const CLOCK_LIMIT_MS: u64 = 1_000;

fn clock(facts: &Facts) -> Finding {
    let off = facts.clock_off;
    let subject = format!("the server's clock and this machine's differ by {off} ms");
    if off > CLOCK_LIMIT_MS {
        return finding(
            Severity::Warning,
            subject,
            "leases count by the server's clock alone; but where a replica's clock is as wrong, a \
             failover makes leases longer or shorter by the difference: run NTP on all of them",
        );
    }
    finding(Severity::Fine, subject, "leases count by the server's clock alone")
}

#[cfg(test)]
mod tests;
