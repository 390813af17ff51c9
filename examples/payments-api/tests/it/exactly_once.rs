//! Charges and keys in one database: the effect happens once, whatever breaks.

use std::{sync::OnceLock, time::Duration};

use futures_util::future::join_all;
use serde_json::Value;
use test_servers::postgres::{CommitProxy, Cut, PostgresServer};

use crate::service::{Call, Reply, Service, charge, eventually};

/// The server of these tests; each has customers of its own.
pub(crate) fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| PostgresServer::start().unwrap())
}

async fn start(url: &str) -> Service {
    let store = format!("{url}?create=on");
    let options = ["--store", &store, "--lease", "3s", "--rate-limit", "1000/1s"];
    Service::start(&options).await
}

pub(crate) fn call(source: &str, customer: &str) -> Call {
    charge(source).key(customer).customer(customer)
}

/// The lines of the ledger about a customer.
async fn effects_of(service: &Service, customer: &str) -> Vec<Value> {
    let all = service.effects().await;
    all.into_iter().filter(|effect| effect["customer"] == customer).collect()
}

/// Repeats a request until it is answered with a success.
pub(crate) async fn insist(service: &Service, call: &Call) -> Reply {
    let mut answer = None;
    eventually("a success", async || {
        let reply = service.send(call.clone()).await;
        answer = Some(reply).filter(|reply| reply.status.is_success());
        answer.is_some()
    })
    .await;
    answer.unwrap()
}

pub(crate) fn count(usual: u32, full: u32) -> u32 {
    if std::env::var("IDEMPOTENCY_TEST").is_ok_and(|value| value == "full") { full } else { usual }
}

/// Kinds of fault: a commit whose answer is lost is run again, or an own success looks like a failure
/// (H-50). A client that waits never meets the cut after the commit.
#[tokio::test]
async fn a_connection_cut_around_the_commit_charges_once() {
    let proxy = CommitProxy::start(server().address(), Duration::ZERO).await.unwrap();
    let service = start(&proxy.url()).await;
    for round in 0..count(20, 200) {
        let customer = format!("cut_{round}");
        let call = call("tok_visa", &customer);
        let after = round % 2 == 0;
        proxy.cut(if after { Cut::AfterCommit } else { Cut::BeforeCommit });
        let first = service.send(call.clone()).await;
        assert!(proxy.has_cut(), "no commit was seen");
        if after {
            assert!(first.status == 201 && !first.is_replay(), "{first:?}");
            let second = service.send(call).await;
            assert!(second.is_replay() && second.body == first.body, "{second:?}");
        } else {
            assert_eq!(first.status, 503, "{first:?}");
            let second = insist(&service, &call).await;
            assert!(second.status == 201 && !second.is_replay(), "{second:?}");
        }
        let effects = effects_of(&service, &customer).await;
        assert_eq!(effects.len(), 1, "{effects:?}");
        assert_eq!(effects[0]["attempt"], if after { 1 } else { 2 });
    }
}

/// Kind of fault: the effect is done and its answer is not stored (H-10). Killed on the spot, before, in and
/// after the commits of 30 charges.
#[tokio::test]
async fn a_service_that_is_killed_charges_once() {
    let url = server().url();
    let customers: Vec<String> = (0..30).map(|number| format!("killed_{number}")).collect();
    let service = start(&url).await;
    let calls: Vec<_> = customers
        .iter()
        .enumerate()
        .map(|(number, customer)| call(&format!("tok_slow_{}", 10 * number), customer))
        .collect();
    let address = service.addr;
    let sent = join_all(calls.iter().map(|call| crate::service::try_send(address, call.clone())));
    let killed = async {
        eventually("some are charged", async || service.effects().await.len() >= 10).await;
        service.kill().await;
    };
    let (sent, ()) = tokio::join!(sent, killed);
    assert!(sent.iter().any(Option::is_none), "nobody was cut off");
    let service = start(&url).await;
    for (customer, call) in customers.iter().zip(&calls) {
        let reply = insist(&service, call).await;
        assert_eq!(effects_of(&service, customer).await.len(), 1, "{customer}: {reply:?}");
        let again = service.send(call.clone()).await;
        assert!(again.is_replay() && again.body == reply.body, "{again:?}");
    }
}

/// Kind of fault: a panic after the effect (H-10). Here the effect has not happened.
#[tokio::test]
async fn what_was_not_committed_is_not_in_the_ledger() {
    let service = start(&server().url()).await;
    let panicking = call("tok_panic", "panics");
    for _ in 0..2 {
        assert_eq!(service.send(panicking.clone()).await.status, 500);
    }
    assert!(effects_of(&service, "panics").await.is_empty());
    let cases = [
        ("tok_card_declined", 402, 402, 0),
        ("tok_visa", 201, 201, 1),
        ("tok_cookies", 201, 201, 1),
        ("tok_binary", 200, 200, 1),
        ("tok_empty", 204, 204, 1),
        ("tok_large_2000000", 200, 410, 1),
        ("tok_stream_2", 200, 410, 1),
    ];
    for (source, first_told, second_told, effects) in cases {
        let call = call(source, source);
        let first = service.send(call.clone()).await;
        let second = service.send(call).await;
        assert_eq!(first.status, first_told, "{source}");
        assert_eq!(second.status, second_told, "{source}");
        if second_told != 410 {
            assert!(second.is_replay() && second.body == first.body, "{source}");
        }
        assert_eq!(first.lines("set-cookie").len(), if source == "tok_cookies" { 2 } else { 0 });
        assert_eq!(effects_of(&service, source).await.len(), effects, "{source}");
    }
    let list = service.send(charge("").get("/v1/charges")).await.json();
    assert!(list["data"].as_array().unwrap().len() >= 6, "{list}");
}
