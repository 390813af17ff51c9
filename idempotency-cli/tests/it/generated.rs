//! Completions and man pages.

use std::fs;

use crate::support::{assert_golden, idempotency};

const VERBS: [&str; 11] = [
    "lookup",
    "list",
    "settle",
    "remove",
    "sweep",
    "schema",
    "doctor",
    "conformance",
    "storm",
    "completions",
    "man",
];

#[test]
fn every_shell_gets_a_script_that_knows_the_verbs() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = idempotency(&["completions", shell]);
        assert_eq!(ran.code, Some(0));
        for verb in VERBS {
            assert!(ran.out.contains(verb), "{shell}: {verb}");
        }
    }
    assert_eq!(idempotency(&["completions", "csh"]).code, Some(2));
}

#[test]
fn man_pages_are_printed_or_written_into_a_folder() {
    let page = idempotency(&["man"]).out;
    assert!(page.contains(".TH idempotency 1"), "{page}");
    assert!(page.contains("Exit codes"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("pages");
    assert_eq!(idempotency(&["man", "--dir", pages.to_str().unwrap()]).code, Some(0));
    for verb in VERBS {
        let page = fs::read_to_string(pages.join(format!("idempotency-{verb}.1"))).unwrap();
        assert!(page.contains(&format!("idempotency\\-{verb}")), "{page}");
    }
    let ran = idempotency(&["man", "--dir", "/dev/null/pages"]);
    assert!(ran.code == Some(2) && ran.err.contains("/dev/null/pages"), "{ran:?}");
}

/// What a newcomer reads first does not change by accident.
#[test]
fn help_names_every_verb_and_exit_code() {
    let ran = idempotency(&["--help"]);
    assert_golden("help", &ran.out);
    for verb in VERBS {
        let ran = idempotency(&[verb, "--help"]);
        assert_eq!(ran.code, Some(0), "{verb}");
    }
}
