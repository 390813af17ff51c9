use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::{BillingMode, MultiRegionConsistency, TableDescription, TableStatus};
use idempotency_core::{Doctor, Finding, Operation, Severity, StoreError};

use crate::{
    Attribute, DynamoDbStore,
    layout::Layout,
    schema::{check_key, has_index},
};

/// Looks at the table, its time to live, and the clocks. Needs `DescribeTable` and `DescribeTimeToLive`.
#[async_trait]
impl Doctor for DynamoDbStore {
    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let inner = &*self.inner;
        let call = inner.call(Operation::Doctor);
        let work = async {
            let Some(table) = inner.describe(&call).await? else {
                let advice = "set it up: `idempotency schema`, or `create=on` in the store URL";
                return Ok(vec![finding(Severity::Hazard, "the table is missing", advice)]);
            };
            let mut findings = vec![
                clocks(call.last_difference(), inner.keeper.skew_bound),
                status(table.table_status()),
                key(&inner.layout, &table),
                index(&inner.layout, &table),
                billing(&table),
                replicas(&table),
                deletion(&table),
            ];
            let (is_on, attribute) = inner.time_to_live(&call).await?;
            let wanted = inner.layout.name(Attribute::DeleteAfter);
            findings.push(time_to_live(is_on, attribute.as_deref(), wanted));
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
            Ok(findings)
        };
        call.within(inner.timeout, work).await
    }
}

fn finding(severity: Severity, subject: impl Into<String>, advice: &str) -> Finding {
    Finding { severity, subject: subject.into(), advice: advice.to_owned() }
}

fn fine(subject: impl Into<String>) -> Finding {
    finding(Severity::Fine, subject, "")
}

/// `off_by`: none when replies have no date; zero within the bound.
fn clocks(off_by: Option<Duration>, bound: Duration) -> Finding {
    match off_by {
        None => {
            let advice = "a clock that is off is not noticed: the service itself sends dates, so look \
                at what is between here and there";
            finding(Severity::Warning, "the replies have no date", advice)
        }
        Some(Duration::ZERO) => fine(format!("this clock and the service's are within {bound:?}")),
        Some(off_by) => {
            let subject = format!("this clock and the service's differ by {off_by:?} or more");
            let advice = "operations are refused until it is synchronized (chrony, the Amazon Time Sync \
                Service)";
            finding(Severity::Hazard, subject, advice)
        }
    }
}

fn status(status: Option<&TableStatus>) -> Finding {
    match status {
        Some(TableStatus::Active | TableStatus::Updating) => fine("the table is active"),
        other => {
            let status = other.map_or("unknown", TableStatus::as_str);
            let subject = format!("the table's status is {status}");
            finding(Severity::Hazard, subject, "operations fail until it is ACTIVE")
        }
    }
}

fn key(layout: &Layout, table: &TableDescription) -> Finding {
    if check_key(layout, table).is_ok() {
        return fine("the table's key is as the store is told");
    }
    let advice = "every operation fails: name the table's partition key and sort key";
    finding(Severity::Hazard, "the table's key has other names or parts", advice)
}

fn index(layout: &Layout, table: &TableDescription) -> Finding {
    match &layout.index {
        None => fine("there is no list index: listing reads the whole table"),
        Some(_) if has_index(layout, table) => fine("the list index is there"),
        Some(_) => {
            let advice =
                "listing records without an outcome fails: set it up with `idempotency schema`";
            finding(Severity::Warning, "the list index is missing", advice)
        }
    }
}

fn billing(table: &TableDescription) -> Finding {
    let mode = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    if mode == Some(&BillingMode::PayPerRequest) {
        return fine("the table is billed by request");
    }
    let advice = "operations are throttled when its capacity is used up, and the work waits: watch \
        ThrottledRequests, or bill by request";
    finding(Severity::Warning, "the table has provisioned capacity", advice)
}

fn replicas(table: &TableDescription) -> Finding {
    if table.replicas().is_empty() {
        return fine("the table is in one region");
    }
    if table.multi_region_consistency() == Some(&MultiRegionConsistency::Strong) {
        return fine("the table is in several regions, with strong consistency");
    }
    let advice = "the last writer wins between regions: two of them can acquire one key. Let one region \
        write, or make the table strongly consistent between regions";
    finding(Severity::Hazard, "the table is a global table without strong consistency", advice)
}

fn deletion(table: &TableDescription) -> Finding {
    if table.deletion_protection_enabled() == Some(true) {
        return fine("the table is protected from deletion");
    }
    let advice = "whoever deletes it makes everything run again: switch deletion protection on";
    finding(Severity::Warning, "the table is not protected from deletion", advice)
}

fn time_to_live(is_on: bool, attribute: Option<&str>, wanted: &str) -> Finding {
    match attribute {
        Some(attribute) if is_on && attribute == wanted => {
            fine(format!("the time to live is set on `{wanted}`"))
        }
        Some(attribute) if is_on => {
            let subject = format!("the time to live is set on `{attribute}`, not on `{wanted}`");
            let advice = "expired records stay, and cost storage: give that name to the attribute \
                DeleteAfter, or set the time to live anew";
            finding(Severity::Warning, subject, advice)
        }
        _ => {
            let advice = "expired records count as absent but stay, and cost storage: switch it on";
            finding(Severity::Warning, format!("no time to live on `{wanted}`"), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_the_contract_is_a_hazard() {
        let bound = Duration::from_secs(1);
        let severity = |off_by| clocks(off_by, bound).severity;
        assert_eq!(severity(Some(Duration::ZERO)), Severity::Fine);
        assert_eq!(severity(Some(Duration::from_secs(3))), Severity::Hazard);
        assert_eq!(severity(None), Severity::Warning);
        assert_eq!(status(Some(&TableStatus::Deleting)).severity, Severity::Hazard);
        assert_eq!(status(Some(&TableStatus::Active)).severity, Severity::Fine);
        let replica = aws_sdk_dynamodb::types::ReplicaDescription::builder().build();
        let global = TableDescription::builder().replicas(replica).build();
        assert_eq!(replicas(&global).severity, Severity::Hazard);
        let strong = MultiRegionConsistency::Strong;
        let global = TableDescription::builder().multi_region_consistency(strong).build();
        assert_eq!(replicas(&global).severity, Severity::Fine);
        assert_eq!(time_to_live(true, Some("ttl"), "ttl").severity, Severity::Fine);
        assert_eq!(time_to_live(true, Some("other"), "ttl").severity, Severity::Warning);
        assert_eq!(time_to_live(false, None, "ttl").severity, Severity::Warning);
    }
}
