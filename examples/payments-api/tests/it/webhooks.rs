//! What the API tells others of its charges, and how often.

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use serde_json::Value;
use sha2::Sha256;

use crate::{
    receiver::{Receiver, SECRET, states},
    service::{Service, charge, eventually},
};

fn is_signed(headers: &HeaderMap, body: &[u8]) -> bool {
    let line = |name: &str| headers[name].to_str().unwrap();
    let key = BASE64_STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let signed = [line("webhook-id"), line("webhook-timestamp"), ""].join(".");
    let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap().chain_update(signed);
    let signature = line("webhook-signature").strip_prefix("v1,").unwrap();
    let signature = BASE64_STANDARD.decode(signature).unwrap();
    mac.chain_update(body).verify_slice(&signature).is_ok()
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
    for webhook in &got {
        assert_eq!((webhook.id(), &webhook.body), (got[0].id(), &got[0].body));
        assert!(is_signed(&webhook.headers, &webhook.body), "{webhook:?}");
        assert_eq!(webhook.headers["content-type"], "application/json");
    }
    let event = got[0].json();
    assert_eq!((&event["type"], &event["data"]), (&"charge.succeeded".into(), &first.json()));
    assert_eq!(event["id"], got[0].id());
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

/// Kind of fault: a panic between an effect and its event (H-10). Each of the two effects is told.
#[tokio::test]
async fn a_panic_after_the_effect_does_not_lose_its_event() {
    let receiver = Receiver::answering([]).await;
    let service = receiver.service(&[]).await;
    for _ in 0..2 {
        assert_eq!(service.send(charge("tok_panic").key("order-1")).await.status, 500);
    }
    eventually("both are told", async || receiver.got().len() == 2).await;
    assert_eq!(receiver.charges(), service.charges().await);
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
