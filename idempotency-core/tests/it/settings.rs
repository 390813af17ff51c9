use idempotency_core::{Idempotency, Outcome};

use crate::support::*;

/// Settings are checked against each other, and the refusal names the setting, its value and the
/// rule.
#[tokio::test]
async fn settings_that_cannot_work_together_are_refused() {
    let base = || Idempotency::builder(store()).lease(lease(3_000));
    let cases = [
        (base().heartbeat(ms(1_501)), "heartbeat of 1.501s"),
        (base().heartbeat(ms(0)), "heartbeat of 0ns"),
        (base().store_timeout(ms(1_501)), "store_timeout of 1.501s"),
        (base().store_timeout(ms(0)), "store_timeout of 0ns"),
        (base().store_deadline(ms(10)), "store_deadline of 10ms"),
        (base().max_hold(ms(2_999)), "max_hold of 2.999s"),
        (base().retention(retention(2_999)), "retention of 2.999s"),
    ];
    for (builder, begins) in cases {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.starts_with(begins), "{error}");
    }
    assert!(base().build().is_ok());
}

/// What follows from the lease follows it, also in an executor made from another one.
#[tokio::test]
async fn a_short_lease_brings_its_own_heartbeat() {
    let long = Idempotency::new(store());
    let short = long.to_builder().lease(lease(100)).max_hold(ms(1_000)).build();
    assert!(short.is_ok(), "{short:?}");
    let odd = long.to_builder().heartbeat(ms(10_000)).build().unwrap();
    assert!(odd.to_builder().lease(lease(100)).build().is_err(), "a set heartbeat stays");
}

/// The documented default of `max_hold`: a lease that is longer brings its own.
#[tokio::test]
async fn a_long_lease_brings_its_own_hold_limit() {
    let hour = || Idempotency::builder(store()).lease(lease(3_600_000));
    let built = hour().build();
    assert!(built.is_ok(), "{built:?}");
    assert!(hour().max_hold(ms(900_000)).build().is_err(), "a set limit stays");
}

/// The futures are `Send`, for all shapes of closures, and can be spawned.
#[tokio::test(start_paused = true)]
async fn runs_can_be_spawned() {
    let idempotency = executor(store());
    let spawned = tokio::spawn(async move {
        let order = String::from("order-7");
        let work = async |attempt: idempotency_core::Attempt| {
            tokio::task::yield_now().await;
            Ok::<_, Refused>(format!("{order} {}", attempt.number()))
        };
        let first = idempotency.run(&key("k"), request(&order), work).await.unwrap();
        let second = idempotency
            .run(&key("k"), request(&order), |_| async { Ok::<String, Refused>(String::new()) })
            .await
            .unwrap();
        (first, second)
    });
    let (first, second) = spawned.await.unwrap();
    assert!(matches!(first, Outcome::Executed(Ok(text)) if text == "order-7 1"));
    assert!(matches!(second, Outcome::Replayed(Ok(text)) if text == "order-7 1"));
}
