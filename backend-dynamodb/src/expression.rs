//! The conditional writes. Every name is written as `#name` and every value as `:name`.
//!
//! An operation that is not decided by its condition comes back with the item, and the state machine
//! decides; so each condition holds only where the machine would write just this. That includes what
//! cannot be read: an item without one of its attributes, with one that is out of bounds, or of another
//! format meets no condition. What conditions cannot see, a fraction of a number, the reader lets pass.

use std::collections::HashMap;

use crate::{
    layout::{Attribute, Layout},
    wire::Item,
};

/// A write and the names that it uses.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    /// None for what puts or deletes a whole item.
    pub(crate) update: Option<String>,
    pub(crate) condition: String,
    pub(crate) names: HashMap<String, String>,
}

/// The writes that do not depend on what was read before.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    pub(crate) claim: Statement,
    pub(crate) complete: Statement,
    /// Of the holder only: in a transaction nothing is stored anew.
    pub(crate) complete_held: Statement,
    pub(crate) renew: Statement,
    pub(crate) renew_with_checkpoint: Statement,
    pub(crate) release: Statement,
    pub(crate) forget: Statement,
}

/// The record of an attempt, not past its retention, with all that a reader needs.
const OWN: &str = "#format = :format AND #token = :token AND #attempt = :attempt \
     AND #expires_at_ms BETWEEN :cutoff AND :latest \
     AND attribute_type(#fingerprint, :binary) AND size(#fingerprint) = :fingerprint_bytes \
     AND #retention_ms BETWEEN :one AND :longest_ms AND #retention_s BETWEEN :one AND :longest_s \
     AND #first_claimed_at_ms BETWEEN :zero AND :latest \
     AND #claimed_at_ms BETWEEN :zero AND :latest \
     AND (attribute_not_exists(#checkpoint) OR attribute_type(#checkpoint, :binary)) \
     AND attribute_not_exists(#response)";

/// … that is in progress.
const HELD: &str = "#state = :in_progress AND #lease_until_ms BETWEEN :zero AND :latest \
     AND #sequence BETWEEN :zero AND :latest";

/// … that was given back.
const RELEASED: &str = "#state IN (:failed, :unknown) AND #ended_at_ms BETWEEN :zero AND :latest";

const COMPLETE: &str = "SET #format = :format, #state = :completed, #token = :token, \
     #attempt = :attempt, #fingerprint = :fingerprint, #retention_ms = :retention_ms, \
     #retention_s = :retention_s, \
     #first_claimed_at_ms = if_not_exists(#first_claimed_at_ms, :now), \
     #claimed_at_ms = if_not_exists(#claimed_at_ms, :now), #ended_at_ms = :now, \
     #expires_at_ms = :expires_at, #delete_after_s = :delete_after, #response = :response \
     REMOVE #lease_until_ms, #sequence, #checkpoint, #unsettled";

const RENEW: &str = "SET #sequence = :sequence, #lease_until_ms = :lease_until, \
     #expires_at_ms = #retention_ms + :lease_until, #delete_after_s = #retention_s + :delete_base";

const RELEASE: &str = "SET #state = :released, #ended_at_ms = :now, \
     #expires_at_ms = #retention_ms + :now, #delete_after_s = #retention_s + :delete_base \
     REMOVE #lease_until_ms, #sequence";

/// The item stays until the end of its lease, or what is left of its old life: later than it counts.
const FORGET: &str = "SET #state = :unused, #expires_at_ms = #lease_until_ms \
     REMOVE #lease_until_ms, #sequence, #checkpoint, #unsettled";

impl Statements {
    pub(crate) fn new(layout: &Layout) -> Self {
        let statement = |update: Option<&str>, condition: String| {
            let names = names(layout, &[update.unwrap_or_default(), &condition]);
            Statement { update: update.map(str::to_owned), condition, names }
        };
        let absent = "attribute_not_exists(#key)";
        let may_complete =
            format!("{OWN} AND #fingerprint = :fingerprint AND (({HELD}) OR ({RELEASED}))");
        let may_renew = format!(
            "{OWN} AND {HELD} AND #sequence <= :sequence AND #lease_until_ms <= :lease_until"
        );
        let with_checkpoint = format!("{RENEW}, #checkpoint = :checkpoint");
        Self {
            claim: statement(None, absent.to_owned()),
            complete: statement(Some(COMPLETE), format!("{absent} OR ({may_complete})")),
            complete_held: statement(
                Some(&COMPLETE.replacen("SET ", "SET #joined = :joined, ", 1)),
                format!("{OWN} AND #fingerprint = :fingerprint AND {HELD}"),
            ),
            renew: statement(Some(RENEW), may_renew.clone()),
            renew_with_checkpoint: statement(Some(&with_checkpoint), may_renew),
            release: statement(Some(RELEASE), format!("{OWN} AND {HELD}")),
            // later than the end of its lease the record would count until now
            forget: statement(
                Some(FORGET),
                format!("{OWN} AND {HELD} AND #lease_until_ms >= :now"),
            ),
        }
    }
}

/// What a reader looks at, but for the bytes whose length is free: those are written along with one of
/// these.
const PINNED: [Attribute; 12] = [
    Attribute::Format,
    Attribute::State,
    Attribute::Token,
    Attribute::Attempt,
    Attribute::Fingerprint,
    Attribute::RetentionMs,
    Attribute::FirstClaimedAt,
    Attribute::ClaimedAt,
    Attribute::LeaseUntil,
    Attribute::EndedAt,
    Attribute::ExpiresAt,
    Attribute::Sequence,
];

/// The condition of a put that replaces the record in `seen` and nothing else: the very values that were
/// read are there still. And the values that it compares with.
pub(crate) fn unchanged(layout: &Layout, seen: &Item) -> (Statement, Item) {
    let there = |attribute: &Attribute| seen.get(layout.name(*attribute)).cloned();
    let pins: Vec<_> = PINNED.iter().filter_map(|pin| Some((*pin, there(pin)?))).collect();
    let equal = |(pin, _): &(Attribute, _)| format!("#{0} = :{0}", pin.default_name());
    let condition = pins.iter().map(equal).collect::<Vec<_>>().join(" AND ");
    let names = names(layout, &[&condition]);
    let value = |(pin, value): (Attribute, _)| (format!(":{}", pin.default_name()), value);
    (Statement { update: None, condition, names }, pins.into_iter().map(value).collect())
}

/// The names that expressions use: the service refuses others.
pub(crate) fn names(layout: &Layout, expressions: &[&str]) -> HashMap<String, String> {
    let used = |alias: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '#' | ':');
        expressions.iter().any(|text| text.split(|c| !is_word(c)).any(|word| word == alias))
    };
    let attributes = Attribute::ALL.map(|attribute| {
        (format!("#{}", attribute.default_name()), layout.name(attribute).to_owned())
    });
    let key = ("#key".to_owned(), layout.partition_key.clone());
    attributes.into_iter().chain([key]).filter(|(alias, _)| used(alias)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_names_what_it_uses_and_nothing_else() {
        let mut layout = Layout::new("table").unwrap();
        layout.set_partition_key("key").unwrap();
        layout.set_name(Attribute::State, "status").unwrap();
        let all = Statements::new(&layout);
        assert_eq!(all.claim.names, HashMap::from([("#key".to_owned(), "key".to_owned())]));
        for statement in [all.complete, all.complete_held, all.renew, all.release, all.forget] {
            let text = format!("{} {}", statement.update.unwrap_or_default(), statement.condition);
            assert_eq!(statement.names.get("#state").map(String::as_str), Some("status"));
            for alias in statement.names.keys() {
                assert!(text.contains(alias.as_str()), "{alias}");
            }
            // 4 KB is the limit of the service
            assert!(text.len() < 2_048, "{}", text.len());
        }
    }
}
