//! The storm, as it is called: in simulated time, and on real servers with real kills.

use std::{
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use test_servers::redis::RedisServer;

use crate::{
    backend::{Backend, on_backend, on_every_backend},
    support::{Ran, assert_golden, idempotency, program, ran},
};

on_every_backend!(
    no_payment_runs_twice_untold_when_handlers_crash,
    no_payment_runs_twice_untold_when_processes_are_killed,
);

/// Few and faulty, or as many as a storm has by default.
fn size() -> [&'static str; 4] {
    if std::env::var("IDEMPOTENCY_TEST").as_deref() == Ok("full") {
        ["--payments", "10000", "--timeout-rate", "0.02"]
    } else {
        ["--payments", "300", "--timeout-rate", "0.1"]
    }
}

/// The report of a storm that found nothing wrong.
fn green(arguments: &[&str]) -> Value {
    let ran = idempotency(&[&["storm"], arguments, &["--format", "json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = ran.json();
    let ours = &report["with_keys"];
    assert_eq!(report["is_green"], true, "{report:#}");
    assert_eq!(ours["undisclosed"], Value::Array(Vec::new()), "{report:#}");
    let [charged_twice, replays] = ["charged_twice", "replays"].map(|name| ours[name].as_u64());
    assert!(replays.unwrap() > 0, "{report:#}");
    assert!(report["without_keys"]["charged_twice"].as_u64() > charged_twice, "{report:#}");
    report
}

fn no_payment_runs_twice_untold_when_handlers_crash(backend: &Backend) {
    let report = green(&[&[backend.url.as_str()], &size()[..]].concat());
    let ours = &report["with_keys"];
    assert!(ours["crashes"].as_u64().unwrap() > 0, "{report:#}");
    assert!(ours["take_overs"].as_u64().unwrap() > 0, "{report:#}");
}

fn no_payment_runs_twice_untold_when_processes_are_killed(backend: &Backend) {
    let report = green(&[&[backend.url.as_str(), "--processes", "3"], &size()[..]].concat());
    let ours = &report["with_keys"];
    assert!(ours["killed"].as_u64().unwrap() >= 3, "{report:#}");
    assert!(ours["take_overs"].as_u64().unwrap() > 0, "{report:#}");
    assert!(report["store"].as_str().unwrap().contains("3 worker processes"), "{report:#}");
}

#[test]
fn the_first_storm_of_a_newcomer_needs_nothing_and_is_short() {
    let ran = idempotency(&["storm", "--seed", "7"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.out.lines().count() <= 20, "{ran:?}");
    assert_golden("storm", &ran.transcript("storm --seed 7", crate::support::Order::AsTheyCame));
}

/// In memory everything is decided by the seed: the report is the same to the byte. On a server the
/// faults are.
#[test]
fn a_seed_reproduces_the_storm() {
    let of = |seed: &str| {
        idempotency(&["storm", "--payments", "500", "--seed", seed, "--format", "json"]).out
    };
    assert_eq!(of("5"), of("5"));
    assert_ne!(of("5"), of("6"));
    // drawn at random, and named, it can be given again
    let drawn = idempotency(&["storm", "--payments", "500", "--format", "json"]).out;
    let seed = serde_json::from_str::<Value>(&drawn).unwrap()["seed"].to_string();
    assert_eq!(of(&seed), drawn);
}

#[test]
fn wrong_storms_are_refused() {
    let cases: [(&[&str], &str); 6] = [
        (&["--processes", "2"], "memory: end with their process"),
        (&["--processes", "0"], "--processes"),
        (&["--payments", "0"], "--payments"),
        (&["--timeout-rate", "1.5"], "from 0 to 1"),
        (&["--timeout-rate", "often"], "from 0 to 1"),
        (&["memory:?capcity=1"], "`capcity`"),
    ];
    for (arguments, hint) in cases {
        let ran = idempotency(&[&["storm"], arguments].concat());
        assert!(ran.code == Some(2) && ran.err.contains(hint), "{arguments:?}: {ran:?}");
    }
    // a worker is started by a storm only
    assert_eq!(idempotency(&["storm-worker", "--ledger", "x", "--lease-ms", "1"]).code, Some(2));
    assert!(!idempotency(&["--help"]).out.contains("storm-worker"));
    let unreachable = idempotency(&["storm", "redis://127.0.0.1:1/"]);
    assert_eq!(unreachable.code, Some(3), "{unreachable:?}");
}

fn start(url: &str, more: &[&str]) -> Child {
    let call = ["storm", url, "--payments", "400", "--timeout-rate", "0.2", "--format", "json"];
    program().args(call).args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Does `meanwhile` again and again until the storm has ended.
fn ended(mut storm: Child, mut meanwhile: impl FnMut()) -> Ran {
    #[expect(clippy::disallowed_methods, reason = "a deadline of the test itself")]
    let begin = Instant::now();
    while storm.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_mins(3) {
            storm.kill().unwrap();
            panic!("the storm goes on and on");
        }
        meanwhile();
        std::thread::sleep(Duration::from_millis(5));
    }
    ran(&storm.wait_with_output().unwrap())
}

/// Kind of fault: a proof that cannot fail. A server that forgets its records under the storm, as one
/// with an eviction policy does, is found out from the outside, in one process and in several.
#[test]
fn a_server_that_forgets_is_found_out() {
    let server = RedisServer::start().unwrap();
    for more in [&[][..], &["--processes", "2"]] {
        let storm = start(&server.url(), more);
        let ran = ended(storm, || drop(server.ask(&["FLUSHALL"]).unwrap()));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let report = ran.json();
        assert_eq!(report["is_green"], false, "{report:#}");
        assert!(!report["with_keys"]["undisclosed"].as_array().unwrap().is_empty(), "{report:#}");
    }
}

/// A store that is gone ends the storm, instead of hours of tries.
#[test]
fn a_server_that_goes_away_ends_the_storm_with_3() {
    for more in [&[][..], &["--processes", "2"]] {
        let server = RedisServer::start().unwrap();
        let storm = start(&server.url(), more);
        let mut server = Some(server);
        let clients = |server: &RedisServer| {
            server.ask(&["INFO", "commandstats"]).unwrap().contains("cmdstat_set:")
        };
        // once claims come in
        let ran = ended(storm, || {
            if server.as_ref().is_some_and(clients) {
                server.take();
            }
        });
        assert!(server.is_none(), "the storm ended before: {ran:?}");
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(ran.err.contains("the storm ended"), "{ran:?}");
    }
}
