//! The same twelve exchanges through each profile, against golden answers.

use std::{fmt::Write, path::Path, time::Duration};

use axum::{Router, extract::State, response::IntoResponse, routing::any};
use futures_util::future::join_all;
use http::{Method, StatusCode, Uri};
use idempotency_core::{ErrorKind, Idempotency};
use idempotency_tower::{IdempotencyLayer, KeySource, Profile};

use crate::{
    demo::{Gate, Runs, account},
    faulty_store::{FaultyStore, Mood},
    support::{Call, Reply, Server, eventually, post},
};

async fn handler(State((runs, gate)): State<(Runs, Gate)>, uri: Uri) -> impl IntoResponse {
    let run = runs.count();
    let status = match uri.path() {
        "/declined" => StatusCode::PAYMENT_REQUIRED,
        "/broken" => StatusCode::INTERNAL_SERVER_ERROR,
        "/slow" => {
            gate.pass().await;
            StatusCode::OK
        }
        _ => StatusCode::CREATED,
    };
    (status, [("request-id", format!("req_{run}"))])
}

/// One profile in front of a service that counts.
struct Bench {
    profile: Profile,
    server: Server,
    store: FaultyStore,
    runs: Runs,
    gate: Gate,
}

impl Bench {
    async fn new(profile: Profile) -> Self {
        let (runs, gate, store) = (Runs::default(), Gate::closed(), FaultyStore::new(Mood::Well));
        let quick = Idempotency::builder(store.clone())
            .store_timeout(Duration::from_secs(1))
            .store_deadline(Duration::from_secs(1));
        let layer = IdempotencyLayer::new(quick.build().unwrap(), account).profile(profile.clone());
        let app = Router::new()
            .fallback(any(handler))
            .with_state((runs.clone(), gate.clone()))
            .layer(layer);
        Self { profile, server: Server::start(app).await, store, runs, gate }
    }

    /// A request of `method` to `path` with this key and a body that says `text`.
    fn call(&self, path: &str, key: &str, text: &str) -> Call {
        let body = |member: &str| format!("{{\"{member}\":\"{key}\",\"text\":\"{text}\"}}");
        match &self.profile.key_source {
            KeySource::Header(name) => post(path).named(name.clone(), key).body(text.to_owned()),
            KeySource::JsonPointer(_) => post(path).body(body("id")),
            KeySource::BodyParameter(name) => post(path).body(body(name)),
            other => panic!("{other:?}"),
        }
    }

    /// What a request comes to: its answer and whether it ran.
    async fn send(&self, call: Call) -> String {
        let before = self.runs.get();
        let reply = self.server.send(call).await;
        describe(&reply, self.runs.get() - before)
    }

    /// What the second of two equal requests comes to.
    async fn twice(&self, call: Call) -> String {
        self.send(call.clone()).await;
        self.send(call).await
    }
}

/// The answer in one line.
fn describe(reply: &Reply, ran: usize) -> String {
    let mut text = reply.status.as_str().to_owned();
    text.push_str(if ran == 1 { ", ran" } else { "" });
    if reply.headers.get("content-type").is_some_and(|kind| kind == "application/problem+json") {
        write!(text, ", {}", reply.problem()).unwrap();
        if let Some((_, code)) = reply.text().split_once("\"code\":\"") {
            write!(text, ", code {}", code.split_once('"').unwrap().0).unwrap();
        }
    }
    for name in [
        "idempotent-replayed",
        "original-request",
        "request-id",
        "idempotency-key",
        "transient-error",
    ] {
        if let Some(value) = reply.headers.get(name) {
            write!(text, ", {name}: {}", value.to_str().unwrap()).unwrap();
        }
    }
    // of these the value depends on the time
    for name in ["retry-after", "idempotency-expires"] {
        if reply.headers.contains_key(name) {
            write!(text, ", {name}").unwrap();
        }
    }
    text
}

/// A key that each rule accepts.
fn key(number: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{number:02}")
}

async fn while_it_runs(bench: &Bench) -> String {
    let before = bench.runs.get();
    let call = bench.call("/slow", &key(5), "a");
    let second = async {
        eventually("the first runs", async || bench.runs.get() == before + 1).await;
        let second = bench.server.send(call.clone()).await;
        bench.gate.open();
        second
    };
    let (_, second) = tokio::join!(bench.server.send(call.clone()), second);
    describe(&second, bench.runs.get() - before - 1)
}

async fn exchanges(bench: &Bench) -> [(&'static str, String); 12] {
    let too_long = "k".repeat(bench.profile.key_rule.max_bytes + 1);
    let ok = |key: u8, text: &str| bench.call("/ok", &self::key(key), text);
    let without = bench.send(post("/ok").body("{}")).await;
    let first = bench.send(ok(2, "a")).await;
    let repeated = bench.send(ok(2, "a")).await;
    let deletion = ok(8, "a").method(Method::DELETE);
    let mut table = [
        ("without a key", without),
        ("the first request", first),
        ("repeated", repeated),
        ("another body under its key", bench.send(ok(2, "b")).await),
        ("repeated while it runs", while_it_runs(bench).await),
        ("a key one byte too long", bench.send(bench.call("/ok", &too_long, "a")).await),
        ("a key that is no UUID", bench.send(bench.call("/ok", "k", "a")).await),
        ("DELETE, repeated", bench.twice(deletion).await),
        ("answered with 402, repeated", bench.twice(bench.call("/declined", &key(9), "a")).await),
        ("answered with 500, repeated", bench.twice(bench.call("/broken", &key(10), "a")).await),
        ("the key of another account", bench.send(ok(2, "a").token("Bearer other")).await),
        ("the store is down", String::new()),
    ];
    bench.store.becomes(Mood::Fails(ErrorKind::Unavailable));
    table[11].1 = bench.send(ok(12, "a")).await;
    table
}

/// Kind of fault: a profile that says one thing and does another. The answers are pinned; look at what
/// changes before writing them anew with `UPDATE_GOLDEN=1`.
#[tokio::test]
async fn each_profile_answers_the_same_exchanges_as_the_golden_file_says() {
    let tables = Profile::all().into_iter().map(async |profile| {
        let mut table = format!("{}\n", profile.name);
        for (what, answer) in exchanges(&Bench::new(profile).await).await {
            writeln!(table, "  {what:<28} {answer}").unwrap();
        }
        table
    });
    let text = join_all(tables).await.join("\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/profiles.golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, golden, "\n{text}");
}
