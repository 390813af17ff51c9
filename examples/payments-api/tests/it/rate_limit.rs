//! Too many requests, told outside the idempotency layer and inside it.

use serde_json::Value;

use crate::service::{Service, charge, eventually};

/// Kind of fault: a refusal before the work burns the key (H-20). The limit stands outside the layer: a
/// refused request claims nothing, so its key is free for any request afterwards.
#[tokio::test]
async fn a_429_outside_the_layer_never_touches_the_key() {
    let service = Service::start(&["--rate-limit", "1/4s"]).await;
    let refused_call = |key: &str| charge("tok_visa").key(key).token("sk_test_acme_2");
    // of two at once only one can pass, whatever the machine is busy with
    let mut refused = None;
    eventually("one is refused", async || {
        let keys = [0, 1].map(|_| uuid::Uuid::new_v4().to_string());
        let [one, other] = keys.each_ref().map(|key| service.send(refused_call(key)));
        let (one, other) = tokio::join!(one, other);
        let of_one = (one.status == 429).then(|| (keys[0].clone(), one));
        refused = of_one.or_else(|| (other.status == 429).then(|| (keys[1].clone(), other)));
        refused.is_some()
    })
    .await;
    let (key, reply) = refused.unwrap();
    assert_eq!(reply.headers["content-type"], "application/problem+json");
    assert_eq!(reply.json()["type"], "https://payments.example/problems/rate-limited");
    assert!(!reply.headers.contains_key("idempotency-expires"), "{reply:?}");
    let wait: u64 = reply.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=5).contains(&wait), "{wait}");
    let before = service.effects().await.len();
    // the limit is the account's
    let stranger = service.send(refused_call(&key).token("sk_test_other")).await;
    assert_eq!(stranger.status, 201);
    // another request under the refused key: no mismatch, and attempt 1
    let mut passed = None;
    eventually("the account may ask again", async || {
        let reply = service.send(refused_call(&key).customer("cus_2")).await;
        let may = reply.status != 429;
        passed = Some(reply);
        may
    })
    .await;
    let passed = passed.unwrap();
    assert_eq!((passed.status.as_u16(), passed.is_replay()), (201, false), "{passed:?}");
    let effects = service.effects().await;
    assert_eq!(effects.len(), before + 2);
    assert_eq!(effects.last().unwrap()["attempt"], 1);
}

/// Kind of fault: a 429 of the handler is stored and replayed for a day (H-19, H-20).
#[tokio::test]
async fn a_429_of_the_handler_leaves_the_key_free_to_run() {
    let service = Service::start(&[]).await;
    let call = charge("tok_rate_limited_once").key("order-1");
    let refused = service.send(call.clone()).await;
    assert_eq!((refused.status.as_u16(), refused.is_replay()), (429, false));
    assert_eq!(refused.json()["type"], "https://payments.example/problems/sandbox");
    assert!(service.effects().await.is_empty());
    // it was claimed: the key stands for this request, and its next attempt runs at once
    let other = service.send(call.clone().customer("cus_2")).await;
    assert_eq!(other.status, 422);
    let ran = service.send(call.clone()).await;
    assert_eq!((ran.status.as_u16(), ran.is_replay()), (201, false));
    let replayed = service.send(call).await;
    assert!(replayed.is_replay() && replayed.body == ran.body);
    let effects = service.effects().await;
    assert_eq!((effects.len(), &effects[0]["attempt"]), (1, &Value::from(2)));
}
