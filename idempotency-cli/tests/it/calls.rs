//! Wrong calls, wrong URLs, stores that cannot be reached or cannot do it.

use crate::{
    backend::redis,
    records::fill,
    support::{idempotency, program, ran},
};

/// The store in the memory of the process that ends with the call: empty, and the same words.
#[test]
fn memory_answers_every_verb() {
    let cases: [(&[&str], i32, &str); 8] = [
        (&["list", "memory:"], 0, "no records"),
        (&["lookup", "memory:", "k", "--scope", "s"], 1, "no record"),
        (&["settle", "memory:", "k", "--scope", "s", "--failed", "--yes"], 1, "no record"),
        (&["remove", "memory:", "k", "--global-scope", "--yes"], 1, "no record"),
        (&["sweep", "memory:"], 0, "removed 0 records"),
        (&["schema", "memory:"], 0, "memory needs no setting up"),
        (&["schema", "memory:", "--apply"], 0, "memory needs no setting up"),
        (&["doctor", "memory:"], 4, "the store memory cannot be examined"),
    ];
    for (arguments, code, text) in cases {
        let ran = idempotency(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(format!("{}{}", ran.out, ran.err).contains(text), "{arguments:?}: {ran:?}");
    }
}

/// Kind of fault: a secret in an error. Wherever the URL stands and whatever is wrong with it.
#[test]
fn no_error_shows_a_password() {
    let urls = [
        "redis://user:hunter2@127.0.0.1:1/",
        "redis://user:hunter2@127.0.0.1/?namespace=a%20b",
        "redis://user:hunter2@127.0.0.1/?colour=red",
        "redis+sentinel://user:hunter2@127.0.0.1:1,127.0.0.1:2/x",
        "postgres://user:hunter2@127.0.0.1:1/db",
        "postgres://user:hunter2@127.0.0.1:1/db?tabel=x",
        "postgres://user:hun/ter2@hunter2@127.0.0.1:1/db",
        "redsi://user:hunter2@127.0.0.1",
        "user:hunter2@127.0.0.1",
    ];
    for url in urls {
        for verb in [&["list", url][..], &["doctor", url], &["schema", url, "--apply"]] {
            let ran = idempotency(verb);
            assert!(matches!(ran.code, Some(2 | 3)), "{verb:?}: {ran:?}");
            assert!(!format!("{ran:?}").contains("hunter2"), "{verb:?}: {ran:?}");
            assert!(ran.err.starts_with("error: "), "{ran:?}");
        }
    }
    // not where a URL belongs; the parser repeats what it does not understand
    let url = urls[0];
    for wrong in [
        &[url][..],
        &["list", "memory:", "--format", url],
        &["list", "memory:", url],
        &["conformance", "memory:", "--seed", url],
        &["completions", url],
    ] {
        let ran = idempotency(wrong);
        assert!(ran.code == Some(2) && !ran.err.is_empty(), "{ran:?}");
        assert!(!format!("{ran:?}").contains("hunter2"), "{wrong:?}: {ran:?}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_ends_with_3() {
    for url in ["redis://127.0.0.1:1/", "postgres://postgres@127.0.0.1:1/postgres"] {
        for verb in ["list", "sweep", "doctor"] {
            let ran = idempotency(&[verb, url]);
            assert_eq!(ran.code, Some(3), "{verb} {url}: {ran:?}");
            assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
        }
    }
}

/// Kind of fault: a variable that is there is said to be missing. What it holds is not shown.
#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_told_apart_from_one_that_is_missing() {
    use std::os::unix::ffi::OsStrExt as _;
    let url = std::ffi::OsStr::from_bytes(b"redis://user:hunter2\xff@127.0.0.1/");
    let ran = ran(&program().env("STORE", url).args(["list", "env:STORE"]).output().unwrap());
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("`STORE`") && ran.err.contains("no UTF-8"), "{ran:?}");
    assert!(!ran.err.contains("hunter2"), "{ran:?}");
}

/// A password in an argument is in every list of processes.
#[test]
fn a_store_url_is_taken_from_the_environment() {
    let call = |name: &str| {
        let argument = format!("env:{name}");
        let output = program().env("STORE", "memory:").args(["list", &argument]).output();
        ran(&output.unwrap())
    };
    assert_eq!(call("STORE").code, Some(0));
    let missing = call("NO_SUCH_STORE");
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("no variable `NO_SUCH_STORE`"), "{missing:?}");
}

#[test]
fn wrong_keys_and_scopes_are_refused_and_not_shown() {
    let long = "k".repeat(256);
    for (key, scope, why) in
        [(long.as_str(), "s", "256 bytes"), ("", "s", "empty"), ("k", "", "empty")]
    {
        let ran = idempotency(&["lookup", "memory:", key, "--scope", scope]);
        assert!(ran.code == Some(2) && ran.err.contains(why), "{ran:?}");
        assert!(!ran.err.contains("kkk"), "{ran:?}");
    }
}

/// Kind of fault: a panic in the middle of a pipe, `idempotency … | head`.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = program()
        .args(["man"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = ran(&child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

/// With nobody who reads either output, from the beginning.
fn unheard(arguments: &[&str]) -> Option<i32> {
    let [out, err] = [(); 2].map(|()| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    });
    program().args(arguments).stdout(out).stderr(err).status().unwrap().code()
}

/// Kind of fault: an exit code that says "done" because nobody read the output. What was asked for is
/// done, and a no stays a no.
#[test]
fn a_reader_that_goes_away_changes_neither_the_work_nor_its_end() {
    let backend = redis();
    fill(&backend);
    let url = &backend.url;
    let there = |key| idempotency(&["lookup", url, key, "--scope", "shop"]);
    for (arguments, code) in [
        (&["remove", url, "paid", "--scope", "shop"][..], 5),
        (&["remove", url, "paid", "--scope", "shop", "--yes"], 0),
        (&["remove", url, "paid", "--scope", "shop", "--yes"], 1),
        (&["settle", url, "lost", "--scope", "shop", "--failed", "--yes"], 0),
        (&["settle", url, "lost", "--scope", "shop", "--failed", "--yes"], 1),
        // no replicas, no persistence: hazards
        (&["doctor", url], 1),
        (&["conformance", "memory:", "--filter", "C07"], 0),
        // every case fails: the report is the answer
        (&["conformance", "redis://127.0.0.1:1/", "--filter", "C07"], 1),
        (&["list", "redis://127.0.0.1:1/"], 3),
        (&["list", "--nonsense"], 2),
    ] {
        assert_eq!(unheard(arguments), Some(code), "{arguments:?}");
    }
    assert_eq!(there("paid").code, Some(1));
    assert!(there("lost").out.contains("failed"), "{:?}", there("lost"));
}
