//! `GET /metrics`, read as Prometheus reads it.

use crate::{
    scrape::Scrape,
    service::{Service, charge},
};

/// Counters say what clients were told, and nothing says who they are.
#[tokio::test]
async fn metrics_count_what_happened_and_show_no_key_and_no_account() {
    let service = Service::start(&[]).await;
    let visa = || charge("tok_visa").key("hush-1").token("sk_test_hush");
    for _ in 0..3 {
        assert_eq!(service.send(visa()).await.status, 201);
    }
    assert_eq!(service.send(visa().customer("cus_2")).await.status, 422);
    let passing = || charge("tok_unavailable_once").key("hush-2").token("sk_test_hush");
    assert_eq!(service.send(passing()).await.status, 503);
    assert_eq!(service.send(passing()).await.status, 201);
    // a key that cannot be used never comes to the store
    assert_eq!(service.send(visa().key("")).await.status, 400);
    // without a key it is no request under a key
    assert_eq!(service.send(charge("tok_visa")).await.status, 201);

    let reply = service.send(charge("").get("/metrics")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    assert!(!text.contains("hush"), "{text}");
    let scrape = Scrape::parse(&text);
    for (name, labels, value) in [
        ("idempotency_requests_total", "outcome=first", 2.0),
        ("idempotency_requests_total", "outcome=taken_over", 1.0),
        ("idempotency_requests_total", "outcome=replayed", 2.0),
        ("idempotency_requests_total", "outcome=mismatch", 1.0),
        ("idempotency_requests_total", "outcome=refused", 0.0),
        ("idempotency_turned_away_total", "reason=key_invalid", 1.0),
        ("idempotency_turned_away_total", "reason=overloaded", 0.0),
        ("idempotency_attempts_total", "outcome=completed", 2.0),
        ("idempotency_attempts_total", "outcome=failed", 1.0),
        ("idempotency_attempts_total", "outcome=unrecorded", 0.0),
        ("idempotency_attempts_in_flight", "", 0.0),
        ("idempotency_store_call_duration_seconds_count", "operation=claim", 6.0),
        ("idempotency_store_call_duration_seconds_count", "operation=complete", 2.0),
        ("idempotency_retry_age_seconds_count", "outcome=replayed", 2.0),
        ("idempotency_retry_age_seconds_bucket", "outcome=executed,le=60", 1.0),
        ("idempotency_lease_losses_total", "", 0.0),
    ] {
        let labels = format!("backend=memory,profile=ietf,{labels}");
        assert_eq!(scrape.value(name, &labels), Some(value), "{name}{{{labels}}}\n{text}");
    }
    assert_eq!(scrape.value("idempotency_swept_records_total", "backend=memory"), Some(0.0));
}

/// What is in flight is shown while it is.
#[tokio::test]
async fn a_charge_under_way_is_in_flight() {
    let service = Service::start(&[]).await;
    let in_flight = async || {
        let reply = service.send(charge("").get("/metrics")).await;
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        Scrape::parse(&text).value("idempotency_attempts_in_flight", "backend=memory")
    };
    let slow = service.send(charge("tok_slow_300").key("slow"));
    let seen =
        crate::service::eventually("one is in flight", async || in_flight().await == Some(1.0));
    let (reply, ()) = tokio::join!(slow, seen);
    assert_eq!(reply.status, 201);
    assert_eq!(in_flight().await, Some(0.0));
}
