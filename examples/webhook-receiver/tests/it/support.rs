//! A running receiver, and senders that sign.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use clap::Parser;
use hmac::{Hmac, KeyInit, Mac};
use idempotency::{Clock, SystemClock};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use sha2::Sha256;
use webhook_receiver::{Arguments, Receiver};

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const STRIPE_SECRET: &str = "whsec_test_secret";
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a receiver in this process.
pub(crate) async fn receiver(options: &[&str]) -> SocketAddr {
    let secrets = ["--secret", SECRET, "--stripe-secret", STRIPE_SECRET];
    let ours = ["webhook-receiver", "--listen", "127.0.0.1:0"];
    let arguments = Arguments::parse_from(ours.iter().chain(&secrets).chain(options));
    let receiver = Receiver::bind(&arguments).await.unwrap();
    let address = receiver.address();
    tokio::spawn(receiver.serve(std::future::pending(), std::future::pending()));
    address
}

pub(crate) fn client() -> Client {
    Client::builder().no_proxy().timeout(PATIENCE).build().unwrap()
}

pub(crate) fn now() -> u64 {
    SystemClock::new().now().as_unix_millis() / 1_000
}

fn mac(key: &[u8], parts: &[&str]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    let mac = parts.iter().fold(mac, Mac::chain_update);
    mac.finalize().into_bytes().to_vec()
}

/// A delivery as Standard Webhooks describes it.
pub(crate) fn standard(to: SocketAddr, id: &str, body: &Value) -> RequestBuilder {
    let (at, body) = (now().to_string(), body.to_string());
    let key = BASE64_STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let signature = BASE64_STANDARD.encode(mac(&key, &[id, ".", &at, ".", &body]));
    client()
        .post(format!("http://{to}/webhooks/standard"))
        .header("webhook-id", id)
        .header("webhook-timestamp", at)
        .header("webhook-signature", format!("v1,{signature}"))
        .body(body)
}

/// A delivery as Stripe makes it; the id is in the body.
pub(crate) fn stripe(to: SocketAddr, body: &Value) -> RequestBuilder {
    let (at, body) = (now().to_string(), body.to_string());
    let signature = mac(STRIPE_SECRET.as_bytes(), &[&at, ".", &body]);
    let hex = signature.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}")[..]);
    client()
        .post(format!("http://{to}/webhooks/stripe"))
        .header("stripe-signature", format!("t={at},v1={hex},v0=00"))
        .body(body)
}

pub(crate) fn event(name: &str, object: &str) -> Value {
    json!({ "type": name, "data": { "id": object } })
}

pub(crate) fn stripe_event(id: &str, name: &str, object: &str) -> Value {
    json!({ "id": id, "object": "event", "type": name, "data": { "object": { "id": object } } })
}

/// Sends it; the status, and whether it was a replay.
pub(crate) async fn deliver(delivery: RequestBuilder) -> (u16, bool) {
    let reply = delivery.send().await.unwrap();
    (reply.status().as_u16(), reply.headers().contains_key("idempotent-replayed"))
}

pub(crate) async fn get(url: String) -> Value {
    let reply = client().get(url).send().await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
    reply.json().await.unwrap()
}

/// What the receiver has handled.
pub(crate) async fn inbox(of: SocketAddr) -> Value {
    get(format!("http://{of}/inbox")).await
}

/// Looks again and again until `condition` holds.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "never: {what}");
}
