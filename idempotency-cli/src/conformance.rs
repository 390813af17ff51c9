//! `idempotency conformance`

use anyhow::Context;
use idempotency_conformance::{CASES, Suite};

use crate::{
    cli::{Conformance, Format},
    console::Console,
    ended::Ended,
    url_harness::UrlHarness,
};

pub(crate) async fn run(options: &Conformance, console: &mut Console<'_>) -> anyhow::Result<Ended> {
    let mut chosen = CASES.iter().filter(|case| case.matches(&options.filter)).peekable();
    anyhow::ensure!(chosen.peek().is_some(), "no case matches the filter {:?}", options.filter);
    if options.list {
        for case in chosen {
            writeln!(console.out, "{} {}", case.clause(), case.name())?;
        }
        return Ok(Ended::Done);
    }
    let url = options.store_url.as_ref().context("which store? give its URL")?.as_str();
    let suite = suite(options, UrlHarness::connect(url).await?);
    let report = suite.run().await;
    match options.format {
        Format::Text => console.say(report.to_string()),
        Format::Json => console.say(report.to_json()),
        Format::Junit => console.say(report.to_junit()),
    }?;
    Ok(if report.is_green() { Ended::Done } else { Ended::No })
}

fn suite(options: &Conformance, harness: UrlHarness) -> Suite {
    let mut suite = Suite::new(harness).filter(&options.filter);
    if let Some(seed) = options.seed {
        suite = suite.seed(seed);
    }
    if options.thorough {
        suite = suite.thorough();
    }
    if options.format == Format::Text {
        suite = suite.progress();
    }
    suite
}
