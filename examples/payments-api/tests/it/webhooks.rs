//! What the API tells others of its charges, and how often.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{Router, extract::State, routing::post};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use sha2::Sha256;

use crate::service::{Service, charge, eventually};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// An endpoint that answers as it is told, with 204 in the end, and keeps what it got.
#[derive(Clone)]
struct Receiver {
    addr: SocketAddr,
    got: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
}

type Script = Arc<Mutex<Vec<StatusCode>>>;

impl Receiver {
    async fn answering(statuses: impl IntoIterator<Item = u16>) -> Self {
        let mut script: Vec<_> =
            statuses.into_iter().map(|status| StatusCode::from_u16(status).unwrap()).collect();
        script.reverse();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self { addr: listener.local_addr().unwrap(), got: Arc::default() };
        let state = (receiver.clone(), Arc::new(Mutex::new(script)));
        let app = Router::new().route("/hooks", post(Self::take)).with_state(state);
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    #[expect(clippy::unused_async, reason = "axum's handlers are")]
    async fn take(
        State((receiver, script)): State<(Self, Script)>,
        headers: HeaderMap,
        body: Bytes,
    ) -> StatusCode {
        receiver.got.lock().unwrap().push((headers, body));
        script.lock().unwrap().pop().unwrap_or(StatusCode::NO_CONTENT)
    }

    fn got(&self) -> Vec<(HeaderMap, Bytes)> {
        self.got.lock().unwrap().clone()
    }

    fn ids(&self) -> Vec<String> {
        self.got().iter().map(|(head, _)| head["webhook-id"].to_str().unwrap().to_owned()).collect()
    }

    async fn service(&self, options: &[&str]) -> Service {
        let url = format!("http://{}/hooks", self.addr);
        let ours = ["--webhook-url", &url, "--webhook-secret", SECRET, "--webhook-backoff", "20ms"];
        Service::start(&[&ours, options].concat()).await
    }
}

fn is_signed(headers: &HeaderMap, body: &[u8]) -> bool {
    let line = |name: &str| headers[name].to_str().unwrap();
    let key = BASE64_STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let signed = [line("webhook-id"), line("webhook-timestamp"), ""].join(".");
    let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap().chain_update(signed);
    let signature = line("webhook-signature").strip_prefix("v1,").unwrap();
    let signature = BASE64_STANDARD.decode(signature).unwrap();
    mac.chain_update(body).verify_slice(&signature).is_ok()
}

async fn states(service: &Service) -> Vec<Value> {
    let page = service.send(charge("").get("/webhooks")).await.json();
    page["events"].as_array().unwrap().clone()
}

/// Kind of fault: a retry of the sender looks like another event, and a replay sends one more (H-64).
#[tokio::test]
async fn a_charge_is_told_once_with_one_id_over_all_tries() {
    let receiver = Receiver::answering([500, 302, 429]).await;
    let service = receiver.service(&[]).await;
    let call = charge("tok_visa").key("order-1");
    let first = service.send(call.clone()).await;
    assert_eq!(first.status, 201);
    assert!(service.send(call.clone()).await.is_replay());
    eventually("it is delivered", async || states(&service).await[0]["state"] == "delivered").await;
    assert!(service.send(call).await.is_replay());
    let got = receiver.got();
    assert_eq!(got.len(), 4, "three that failed, and one");
    for (head, body) in &got {
        assert_eq!((&head["webhook-id"], body), (&got[0].0["webhook-id"], &got[0].1));
        assert!(is_signed(head, body), "{head:?}");
        assert_eq!(head["content-type"], "application/json");
    }
    let event: Value = serde_json::from_slice(&got[0].1).unwrap();
    assert_eq!((&event["type"], &event["data"]), (&"charge.succeeded".into(), &first.json()));
    assert_eq!(event["id"], got[0].0["webhook-id"].to_str().unwrap());
    let states = states(&service).await;
    assert_eq!((states.len(), &states[0]["tries"]), (1, &Value::from(4)));
    // neither declines nor refunds are charges that succeeded; another charge is another event
    service.send(charge("tok_card_declined").key("order-2")).await;
    service.send(charge("tok_visa").path("/v1/refunds").key("refund-1")).await;
    service.send(charge("tok_visa").key("order-3")).await;
    eventually("the other is delivered", async || receiver.got().len() > 4).await;
    let ids = receiver.ids();
    assert!(ids.len() == 5 && ids[4] != ids[0], "{ids:?}");
}

/// Kind of fault: a dead endpoint is called for ever, or one that said that it is gone.
#[tokio::test]
async fn an_endpoint_that_never_accepts_is_given_up() {
    for (statuses, tries) in [(vec![500; 9], 3), (vec![410], 1)] {
        let receiver = Receiver::answering(statuses).await;
        let service = receiver.service(&["--webhook-tries", "3"]).await;
        service.send(charge("tok_visa").key("order-1")).await;
        eventually("given up", async || states(&service).await[0]["state"] == "given_up").await;
        assert_eq!(states(&service).await[0]["tries"], tries);
        assert_eq!(receiver.got().len(), tries);
    }
}

/// Kind of fault: a deploy loses the events of the charges it still finishes.
#[tokio::test]
async fn the_charges_of_the_last_moment_are_told_too() {
    let receiver = Receiver::answering([]).await;
    let mut service = receiver.service(&[]).await;
    let call = charge("tok_slow_200").key("order-1");
    let (reply, ()) = tokio::join!(service.send(call), async {
        eventually("the charge", async || service.effects().await.len() == 1).await;
        service.terminate();
    });
    assert_eq!(reply.status, 201);
    let (status, output) = service.ended().await;
    assert!(status.success(), "{output}");
    assert_eq!(receiver.got().len(), 1);
}

/// Kind of fault: a secret is repeated in an error message.
#[tokio::test]
async fn webhooks_that_cannot_be_sent_are_refused_when_starting() {
    let with = |url: &'static str, secret: &'static str| {
        ["--webhook-url", url, "--webhook-secret", secret]
    };
    for (options, told) in [
        (&["--webhook-url", "http://127.0.0.1:9/"][..], "--webhook-secret"),
        (&with("https://127.0.0.1:9/", SECRET)[..], "http://"),
        (&with("127.0.0.1", SECRET)[..], "--webhook-url"),
        (&with("http://127.0.0.1:9/", "whsec_a-bad-one")[..], "openssl"),
    ] {
        let output = Service::refused(options).await;
        assert!(output.contains(told), "{options:?}: {output}");
        assert!(!output.contains("a-bad-one") && !output.contains(SECRET), "{output}");
    }
}
