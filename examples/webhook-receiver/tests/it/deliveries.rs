//! What each delivery is answered with, and how often the handler ran.

use serde_json::json;

use crate::support::{client, deliver, event, inbox, receiver, standard, stripe, stripe_event};

/// Kind of fault: an event is marked as seen before it was handled, and lost when that fails (H-66); or it
/// is handled again at each delivery.
#[tokio::test]
async fn a_failed_delivery_runs_again_and_a_handled_one_is_acknowledged_without_running() {
    let to = receiver(&["--fail-first", "2"]).await;
    let paid = event("charge.succeeded", "ch_1");
    let deliver_it = async || deliver(standard(to, "msg_1", &paid)).await;
    assert_eq!(deliver_it().await, (500, false));
    assert_eq!(deliver_it().await, (500, false));
    assert_eq!(deliver_it().await, (204, false));
    for _ in 0..3 {
        assert_eq!(deliver_it().await, (204, true));
    }
    let inbox = inbox(to).await;
    assert_eq!(inbox["begun"], 3);
    let handled = json!([{ "event": "charge.succeeded", "object": "ch_1", "attempt": 3 }]);
    assert_eq!(inbox["handled"], handled);
}

/// The same of Stripe, whose id is in the body.
#[tokio::test]
async fn events_of_stripe_are_handled_once_too() {
    let to = receiver(&["--fail-first", "1"]).await;
    let paid = stripe_event("evt_1", "charge.succeeded", "ch_1");
    assert_eq!(deliver(stripe(to, &paid)).await, (500, false));
    assert_eq!(deliver(stripe(to, &paid)).await, (204, false));
    // Stripe writes the event anew for each delivery
    let mut anew = paid.clone();
    anew["pending_webhooks"] = 0.into();
    assert_eq!(deliver(stripe(to, &anew)).await, (204, true));
    // an id of Stripe's is not an id of somebody else
    let other = event("charge.succeeded", "ch_2");
    assert_eq!(deliver(standard(to, "evt_1", &other)).await, (204, false));
    assert_eq!(inbox(to).await["handled"].as_array().unwrap().len(), 2);
}

/// Kind of fault: only the latest event of an object is remembered, so a late retry of an older one is
/// applied again (H-67).
#[tokio::test]
async fn a_late_retry_of_an_older_event_is_replayed_and_changes_nothing() {
    let to = receiver(&[]).await;
    let [paused, resumed] =
        ["subscription.paused", "subscription.resumed"].map(|name| event(name, "sub_1"));
    assert_eq!(deliver(standard(to, "msg_1", &paused)).await, (204, false));
    assert_eq!(deliver(standard(to, "msg_2", &resumed)).await, (204, false));
    assert_eq!(deliver(standard(to, "msg_1", &paused)).await, (204, true));
    assert_eq!(inbox(to).await["objects"], json!({ "sub_1": "subscription.resumed" }));
    // nor when there is nothing left to pause
    let closed = event("subscription.closed", "sub_1");
    for (id, delivery, is_replay) in [("msg_3", &closed, false), ("msg_1", &paused, true)] {
        assert_eq!(deliver(standard(to, id, delivery)).await, (204, is_replay));
    }
    assert_eq!(inbox(to).await["objects"], json!({ "sub_1": "subscription.closed" }));
    let [paused, resumed] = [("evt_1", "paused"), ("evt_2", "resumed")]
        .map(|(id, name)| stripe_event(id, name, "sub_2"));
    for (delivery, is_replay) in [(&paused, false), (&resumed, false), (&paused, true)] {
        assert_eq!(deliver(stripe(to, delivery)).await, (204, is_replay));
    }
    assert_eq!(inbox(to).await["objects"]["sub_2"], "resumed");
}

/// Kind of fault: a duplicate that comes while the first delivery runs is acknowledged, and the event is
/// lost when that one fails (H-66).
#[tokio::test]
async fn a_duplicate_of_a_running_delivery_is_sent_back() {
    let to = receiver(&["--work", "500ms"]).await;
    let paid = event("charge.succeeded", "ch_1");
    let (one, other) =
        tokio::join!(deliver(standard(to, "msg_1", &paid)), deliver(standard(to, "msg_1", &paid)),);
    let mut statuses = [one.0, other.0];
    statuses.sort_unstable();
    // on a machine that stands still the second may come when the first is done
    assert!(matches!(statuses, [204, 409]) || one.1 != other.1, "{one:?} {other:?}");
    assert_eq!(inbox(to).await["begun"], 1);
}

/// Kind of fault: a forger uses up the id of an event, so that the true one is acknowledged unseen; or
/// learns from the answer that it was handled (H-33).
#[tokio::test]
async fn a_bad_signature_is_refused_before_anything_is_claimed() {
    let to = receiver(&[]).await;
    let paid = event("charge.succeeded", "ch_1");
    let of_stripe = stripe_event("evt_1", "charge.succeeded", "ch_2");
    let unsigned = |path: &str| client().post(format!("http://{to}/webhooks/{path}"));
    let forgeries = || {
        [
            (standard(to, "msg_1", &paid).body("another body"), 401),
            (unsigned("standard").header("webhook-id", "msg_1").body(paid.to_string()), 400),
            (stripe(to, &of_stripe).body(of_stripe.to_string() + " "), 401),
            (unsigned("stripe").body(of_stripe.to_string()), 400),
        ]
    };
    let refuse_all = async || {
        for (number, (forgery, status)) in forgeries().into_iter().enumerate() {
            assert_eq!(deliver(forgery).await, (status, false), "{number}");
        }
    };
    refuse_all().await;
    assert_eq!(inbox(to).await["begun"], 0);
    assert_eq!(deliver(standard(to, "msg_1", &paid)).await, (204, false));
    assert_eq!(deliver(stripe(to, &of_stripe)).await, (204, false));
    refuse_all().await;
    let too_large = standard(to, "msg_2", &paid).body("x".repeat((256 << 10) + 1));
    assert_eq!(deliver(too_large).await, (413, false));
}

/// What is signed and is no event is refused at each delivery, and told why.
#[tokio::test]
async fn what_is_no_event_is_not_kept_as_one() {
    let to = receiver(&[]).await;
    for _ in 0..2 {
        let reply = standard(to, "msg_1", &json!({ "no": "event" })).send().await.unwrap();
        assert_eq!(reply.status(), 400);
        let told: serde_json::Value = reply.json().await.unwrap();
        assert!(told["detail"].as_str().unwrap().contains("missing field"), "{told}");
    }
    assert_eq!(deliver(stripe(to, &json!({ "type": "x" }))).await, (400, false));
    assert_eq!(inbox(to).await["begun"], 2);
}
