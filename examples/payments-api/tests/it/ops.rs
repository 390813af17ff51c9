//! Dashboard and alerts ask for what the exporter really shows.

use std::collections::{BTreeMap, BTreeSet};

use idempotency::metrics::METRICS;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    queries::check,
    scrape::Scrape,
    service::{Service, charge},
};

const DASHBOARD: &str = include_str!("../../../../ops/dashboard.json");
const ALERTS: &str = include_str!("../../../../ops/alerts.yaml");
const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

/// One executed charge: from then on all series are there.
async fn scrape() -> Scrape {
    let service = Service::start(&[]).await;
    assert_eq!(service.send(charge("tok_visa").key("order-1")).await.status, 201);
    let reply = service.send(charge("").get("/metrics")).await;
    Scrape::parse(std::str::from_utf8(&reply.body).unwrap())
}

#[derive(Debug, Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    rules: Vec<Rule>,
}

/// Prometheus refuses a file with anything else in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(default, rename = "for")]
    lasts: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn alerts() -> Vec<Rule> {
    let rules: Rules = serde_saphyr::from_str(ALERTS).unwrap();
    let names: BTreeSet<_> = rules.groups.iter().map(|group| &group.name).collect();
    assert_eq!(names.len(), rules.groups.len());
    rules.groups.into_iter().flat_map(|group| group.rules).collect()
}

/// Every `expr` of the dashboard, wherever it stands.
fn expressions(json: &Value, found: &mut Vec<String>) {
    match json {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(expr) if name == "expr" => found.push(expr.clone()),
                    other => expressions(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_query_finds_what_it_asks_for() {
    let scrape = scrape().await;
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries = Vec::new();
    expressions(&dashboard, &mut queries);
    assert!(queries.len() > 30, "{}", queries.len());
    let mut shown = BTreeSet::new();
    for query in &queries {
        let names = check(query, &scrape).unwrap_or_else(|wrong| panic!("{query}: {wrong}"));
        shown.extend(names);
    }
    for rule in alerts() {
        let wrong = |wrong| panic!("{}: {wrong}", rule.alert);
        let _names = check(&rule.expr, &scrape).unwrap_or_else(wrong);
    }
    // nothing is emitted that the dashboard does not show, nor without an explanation
    for metric in METRICS {
        let is_shown = shown.iter().any(|name| name.starts_with(metric.name));
        assert!(is_shown, "{} is on no panel", metric.name);
        assert!(scrape.explained.contains(metric.name), "{} has no help", metric.name);
    }
}

/// The variables of the dashboard are filled from labels that are there.
#[tokio::test]
async fn the_dashboards_variables_have_values() {
    let scrape = scrape().await;
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let queries: Vec<_> =
        variables.iter().filter_map(|variable| variable["query"]["query"].as_str()).collect();
    assert_eq!(queries.len(), 3);
    for query in queries {
        let inside = query.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
        let (name, label) = inside.split_once(", ").unwrap();
        let is_there = scrape.of(name).any(|series| series.labels.contains_key(label));
        assert!(is_there || label == "job", "{query}");
    }
}

/// Who is woken by an alert finds the chapter that says what to do.
#[test]
fn every_alert_names_a_chapter_of_the_runbook() {
    let anchor = |heading: &str| heading.to_lowercase().replace(' ', "-");
    let headings = OPERATIONS.lines().filter_map(|line| line.strip_prefix("### "));
    let anchors: BTreeSet<_> = headings.map(anchor).collect();
    let alerts = alerts();
    let names: BTreeSet<_> = alerts.iter().map(|rule| &rule.alert).collect();
    assert_eq!(names.len(), alerts.len(), "names are not unique");
    for rule in &alerts {
        let chapter = rule.annotations["runbook_url"].strip_prefix("docs/operations.md#").unwrap();
        assert!(anchors.contains(chapter), "{}: {chapter} is none of {anchors:?}", rule.alert);
        assert!(OPERATIONS.contains(&rule.alert), "the runbook does not name {}", rule.alert);
        assert!(["page", "ticket"].contains(&rule.labels["severity"].as_str()), "{rule:?}");
        assert!(rule.annotations.contains_key("summary"), "{rule:?}");
        // what `increase` and `rate` work out is hardly ever a whole number
        let raw = rule.annotations.values().any(|text| text.replace(' ', "").contains("$value}}"));
        assert!(!raw, "{} shows a number as it was worked out", rule.alert);
        if let Some(lasts) = &rule.lasts {
            assert!(humantime::parse_duration(lasts).is_ok(), "{rule:?}");
        }
    }
}

/// The check itself: what it has to refuse.
#[tokio::test]
async fn queries_that_ask_in_vain_are_refused() {
    let scrape = scrape().await;
    for (query, wrong) in [
        ("sum(rate(idempotency_requests_total[5m])", "unclosed left parenthesis"),
        ("idempotency_request_total", "there is no idempotency_request_total"),
        ("idempotency_store_call_duration_seconds", "there is no"),
        ("idempotency_requests_total{result=\"first\"}", "no label result"),
        ("idempotency_requests_total{outcome=\"firts\"}", "never has outcome=firts"),
        ("idempotency_requests_total{outcome=~\"first|takenover\"}", "never has outcome=takenover"),
        ("idempotency_requests_total{outcome!=\"refuse\"}", "never has outcome=refuse"),
        ("sum by (operation) (rate(idempotency_requests_total[5m]))", "no series inside has"),
        ("rate(idempotency_waiters[5m])", "rate of the gauge"),
        ("idempotency_retry_age_seconds_bucket{le=\"7\"}", "never has le=7"),
        ("idempotency_waiters{profile=~\"$tenant\"}", "unknown variable"),
        ("1 + 1", "no metric"),
    ] {
        let refused = check(query, &scrape).unwrap_err();
        assert!(refused.contains(wrong), "{query}: {refused}");
    }
}
