//! Whether a `PromQL` query asks for something that a scrape has.

use std::collections::BTreeSet;

use promql_parser::{
    label::{MatchOp, Matcher},
    parser::{self, Expr, LabelModifier, VectorSelector},
    util::{ExprVisitor, walk_expr},
};

use crate::scrape::{Scrape, Series};

/// Labels that Prometheus adds to what it scrapes.
const OF_TARGET: [&str; 2] = ["job", "instance"];

/// What Grafana puts in the place of its variables.
const VARIABLES: [(&str, &str); 5] = [
    ("$__rate_interval", "5m"),
    ("$__range", "1h"),
    ("$job", ".*"),
    ("$backend", ".*"),
    ("$profile", ".*"),
];

/// The names of the metrics it asks for, or what is wrong with it.
pub(crate) fn check(query: &str, scrape: &Scrape) -> Result<BTreeSet<String>, String> {
    let mut text = query.to_owned();
    for (variable, value) in VARIABLES {
        text = text.replace(variable, value);
    }
    if let Some((_, rest)) = text.split_once('$') {
        return Err(format!("an unknown variable: ${rest}"));
    }
    let query = parser::parse(&text)?;
    let mut checker = Checker { scrape, names: BTreeSet::new(), labels: vec![BTreeSet::new()] };
    walk_expr(&mut checker, &query)?;
    if checker.names.is_empty() {
        return Err("it asks for no metric".into());
    }
    Ok(checker.names)
}

struct Checker<'a> {
    scrape: &'a Scrape,
    names: BTreeSet<String>,
    /// Of what is inside each aggregation that is open.
    labels: Vec<BTreeSet<String>>,
}

impl ExprVisitor for Checker<'_> {
    type Error = String;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, String> {
        match expr {
            Expr::VectorSelector(selector) => self.select(selector)?,
            Expr::MatrixSelector(matrix) => self.select(&matrix.vs)?,
            Expr::Call(call) if ["rate", "increase"].contains(&call.func.name) => {
                for argument in &call.args.args {
                    let Expr::MatrixSelector(matrix) = &**argument else { continue };
                    let name = matrix.vs.name.as_deref().unwrap_or_default();
                    if self.kind_of(name) == Some("gauge") {
                        return Err(format!("{} of the gauge {name}", call.func.name));
                    }
                }
            }
            Expr::Aggregate(_) => self.labels.push(BTreeSet::new()),
            _ => {}
        }
        Ok(true)
    }

    fn post_visit(&mut self, expr: &Expr) -> Result<bool, String> {
        if let Expr::Aggregate(aggregate) = expr {
            let inside = self.labels.pop().unwrap_or_default();
            if let Some(LabelModifier::Include(by)) = &aggregate.modifier {
                let known = |label: &str| inside.contains(label) || OF_TARGET.contains(&label);
                if let Some(label) = by.labels.iter().find(|label| !known(label)) {
                    return Err(format!("no series inside has the label {label}"));
                }
            }
            if let Some(outside) = self.labels.last_mut() {
                outside.extend(inside);
            }
        }
        Ok(true)
    }
}

impl Checker<'_> {
    fn kind_of(&self, name: &str) -> Option<&str> {
        self.scrape.types.get(name).map(String::as_str)
    }

    fn select(&mut self, selector: &VectorSelector) -> Result<(), String> {
        let name = selector.name.clone().ok_or("a selector without a name")?;
        let all: Vec<_> = self.scrape.of(&name).collect();
        if all.is_empty() {
            return Err(format!("there is no {name}"));
        }
        let own = |m: &&Matcher| !OF_TARGET.contains(&m.name.as_str());
        let matchers: Vec<_> = selector.matchers.matchers.iter().filter(own).collect();
        for matcher in &matchers {
            has_values(matcher, &name, &all)?;
        }
        let fits = |series: &&Series| {
            matchers
                .iter()
                .all(|m| m.is_match(series.labels.get(&m.name).map_or("", String::as_str)))
        };
        if !all.iter().any(fits) {
            return Err(format!("no {name} fits all of {matchers:?}"));
        }
        if let Some(labels) = self.labels.last_mut() {
            labels.extend(all.iter().flat_map(|series| series.labels.keys().cloned()));
        }
        self.names.insert(name);
        Ok(())
    }
}

/// The label is there, and so is every value that is asked for by name.
fn has_values(matcher: &Matcher, name: &str, all: &[&Series]) -> Result<(), String> {
    let values: BTreeSet<_> =
        all.iter().filter_map(|series| series.labels.get(&matcher.name)).collect();
    if values.is_empty() {
        return Err(format!("{name} has no label {}", matcher.name));
    }
    let named: Vec<&str> = match &matcher.op {
        MatchOp::Equal | MatchOp::NotEqual => vec![&matcher.value],
        MatchOp::Re(_) | MatchOp::NotRe(_) => {
            matcher.value.split('|').filter(|value| *value != ".*").collect()
        }
    };
    match named.iter().find(|value| !values.iter().any(|known| known == *value)) {
        None => Ok(()),
        Some(value) => Err(format!("{name} never has {}={value}", matcher.name)),
    }
}
