//! The payments API sends, the receiver handles: from the charge to its one effect over there.

use std::net::SocketAddr;

use clap::Parser;
use payments_api::Service;
use serde_json::{Value, json};

use crate::{
    lossy,
    support::{SECRET, client, eventually, get, inbox, receiver},
};

/// A payments API in this process that sends to `endpoint`.
async fn payments(endpoint: SocketAddr) -> SocketAddr {
    let url = format!("http://{endpoint}/webhooks/standard");
    let arguments = payments_api::Arguments::parse_from([
        "payments-api",
        "--listen",
        "127.0.0.1:0",
        "--webhook-url",
        &url,
        "--webhook-secret",
        SECRET,
        "--webhook-backoff",
        "20ms",
    ]);
    let service = Service::bind(&arguments).await.unwrap();
    let address = service.address();
    tokio::spawn(service.serve(std::future::pending(), std::future::pending()));
    address
}

async fn charge(api: SocketAddr, key: &str) -> (u16, bool, Value) {
    let order = json!({ "amount": 500, "currency": "eur", "source": "tok_visa", "customer": "c" });
    let call = client().post(format!("http://{api}/v1/charges")).bearer_auth("sk_test_acme");
    let reply = call.header("idempotency-key", key).json(&order).send().await.unwrap();
    let is_replay = reply.headers().contains_key("idempotent-replayed");
    (reply.status().as_u16(), is_replay, reply.json().await.unwrap())
}

async fn delivered(api: SocketAddr, events: usize) -> Vec<Value> {
    let mut page = Value::Null;
    eventually("all events are delivered", async || {
        page = get(format!("http://{api}/webhooks")).await;
        let events_now = page["events"].as_array().unwrap();
        events_now.len() == events && events_now.iter().all(|event| event["state"] == "delivered")
    })
    .await;
    page["events"].as_array().unwrap().clone()
}

/// The whole way: a client that repeats its charge, an API that repeats its webhook, a receiver that first
/// fails, and one effect at each end.
#[tokio::test]
async fn a_charge_that_is_repeated_has_one_effect_at_both_ends() {
    let to = receiver(&["--fail-first", "2"]).await;
    let api = payments(to).await;
    let (status, _, receipt) = charge(api, "order-1").await;
    assert_eq!(status, 201);
    assert_eq!(charge(api, "order-1").await, (201, true, receipt.clone()));
    let events = delivered(api, 1).await;
    assert_eq!(events[0]["tries"], 3);
    assert_eq!(charge(api, "order-1").await, (201, true, receipt.clone()));
    let inbox = inbox(to).await;
    let handled = json!([{ "event": "charge.succeeded", "object": receipt["id"], "attempt": 3 }]);
    assert_eq!((&inbox["handled"], &inbox["begun"]), (&handled, &json!(3)));
    let ledger = get(format!("http://{api}/ledger")).await;
    assert_eq!(ledger["effects"].as_array().unwrap().len(), 1);
}

/// Kind of fault: the answer of the receiver gets lost, the sender tries again, and the event is handled
/// twice (H-66, H-68).
#[tokio::test]
async fn an_acknowledgement_that_gets_lost_is_given_again_without_a_second_run() {
    let to = receiver(&[]).await;
    let api = payments(lossy::way_to(to, 2).await).await;
    let (status, _, receipt) = charge(api, "order-1").await;
    assert_eq!(status, 201);
    let events = delivered(api, 1).await;
    assert!(events[0]["tries"].as_u64().unwrap() >= 3, "{events:?}");
    let inbox = inbox(to).await;
    assert_eq!((&inbox["begun"], &inbox["handled"][0]["attempt"]), (&json!(1), &json!(1)));
    assert_eq!(inbox["objects"], json!({ (receipt["id"].as_str().unwrap()): "charge.succeeded" }));
}
