//! What the documentation tells people to type.

use clap::{Parser, error::ErrorKind};

use crate::cli::Cli;

const PAGE: &str = include_str!("../../docs/operations.md");

/// Kind of fault: a runbook whose commands do not exist, found out at night.
#[test]
fn every_command_of_the_operations_page_is_understood() {
    let spans = PAGE.split('`').skip(1).step_by(2);
    let commands: Vec<_> = spans.filter(|span| span.starts_with("idempotency ")).collect();
    assert!(commands.len() > 10, "{commands:?}");
    for verb in ["doctor", "list", "lookup", "settle", "sweep", "schema"] {
        let is_verb = |command: &&str| command.split(' ').nth(1) == Some(verb);
        assert!(commands.iter().any(is_verb), "no {verb}: {commands:?}");
    }
    for command in commands {
        // the environment of a test has no such variable
        let arguments = command.replace("env:STORE_URL", "memory:");
        match Cli::try_parse_from(arguments.split_whitespace()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{command}: {error}"),
        }
    }
}
