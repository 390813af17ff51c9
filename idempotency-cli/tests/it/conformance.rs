use std::process::{Command, Output};

fn idempotency(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_idempotency")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn memory_keeps_the_whole_contract() {
    let output = idempotency(&["conformance", "memory:", "--format", "json", "--seed", "7"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["failed"], &report["seed"]), (&0.into(), &7.into()), "{report:#}");
    assert_eq!(report["store"], "memory");
    assert!(output.status.success());
    let cases = report["cases"].as_array().unwrap();
    let passed = report["passed"].as_u64().unwrap();
    let skipped = report["skipped"].as_u64().unwrap();
    assert_eq!(passed + skipped, cases.len() as u64);
    assert!(passed > 150, "{passed}");
    for case in cases {
        let skipped = case["outcome"] == "skipped";
        assert_eq!(skipped, case["detail"].is_string(), "a skip has its reason: {case}");
        assert!(case["clause"].as_str().unwrap().starts_with('C') && case["millis"].is_u64());
    }
}

/// The whole suite through the program.
fn keeps_the_whole_contract(name: &str, url: &str) {
    let output = idempotency(&["conformance", url, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["failed"], &report["store"]), (&0.into(), &name.into()), "{report:#}");
    assert!(output.status.success());
    let passed = report["passed"].as_u64().unwrap();
    assert!(passed > 100, "{passed}");
}

/// In the suite's time, as a user would run it.
fn url(backend: &crate::backend::Backend) -> String {
    backend.url.replace(crate::backend::PATIENT, "timeout_ms=4000")
}

/// On a table that it creates in the emulator.
#[test]
fn dynamodb_keeps_the_whole_contract() {
    let backend = crate::backend::dynamodb();
    // one machine has one clock, and many cases wait for the bound
    keeps_the_whole_contract(backend.name, &format!("{}&skew_bound_ms=200", url(&backend)));
}

#[test]
fn postgres_keeps_the_whole_contract() {
    let backend = crate::backend::postgres();
    // a table of its own: what expires in it is not for the other tests' sweepers
    let url = url(&backend).replace(crate::backend::Backend::TABLE, "conformance");
    keeps_the_whole_contract(backend.name, &url);
}

#[test]
fn redis_keeps_the_whole_contract() {
    let backend = crate::backend::redis();
    keeps_the_whole_contract(backend.name, &url(&backend));
}

#[test]
fn a_filtered_run_prints_a_table_and_its_seed() {
    let output = idempotency(&["conformance", "memory:", "--filter", "C22", "--seed", "5"]);
    assert!(output.status.success());
    let text = text(&output.stdout);
    assert!(text.contains("an older renewal changes nothing"), "{text}");
    assert!(text.contains("memory: 2 passed, 0 failed, 0 skipped (seed 5)"), "{text}");
}

#[test]
fn junit_has_one_test_case_a_case() {
    let arguments = ["conformance", "memory:", "--filter", "renew::", "--format", "junit"];
    let output = idempotency(&arguments);
    assert!(output.status.success());
    let text = text(&output.stdout);
    assert_eq!(text.matches("<testcase ").count(), 16, "{text}");
    assert!(text.contains("classname=\"C20\""), "{text}");
}

#[test]
fn the_list_needs_no_store_and_names_every_case_with_its_clause() {
    let output = idempotency(&["conformance", "--list"]);
    assert!(output.status.success());
    let text = text(&output.stdout);
    assert!(text.lines().any(|line| line == "C02 claim::concurrent_claims_have_one_winner"));
    assert_eq!(text.lines().count(), idempotency_conformance::CASES.len());
}

#[test]
fn wrong_calls_end_with_2_and_say_what_is_wrong() {
    let cases: [(&[&str], &str); 4] = [
        (&["conformance"], "<STORE_URL>"),
        (&["conformance", "nowhere:"], "`nowhere`"),
        (&["conformance", "memory:", "--filter", "no such case"], "no such case"),
        (&["conformance", "memory:", "--format", "yaml"], "junit"),
    ];
    for (arguments, hint) in cases {
        let output = idempotency(arguments);
        let text = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(hint), "{arguments:?}: {text}");
    }
}

/// What a store with room for one record cannot keep shows as failures, not as a crash and not as a skip.
#[test]
fn a_store_that_fails_a_case_ends_with_1() {
    let output = idempotency(&[
        "conformance",
        "memory:?capacity=1",
        "--filter",
        "keys::",
        "--format",
        "json",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed: Vec<_> = report["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case["outcome"] == "failed")
        .collect();
    assert!(!failed.is_empty());
    assert!(failed[0]["detail"].as_str().unwrap().contains("store full"), "{}", failed[0]);
}
