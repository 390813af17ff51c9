//! The one dependency is enough.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use idempotency::{
    IdempotencyKey, Outcome,
    tower::{HttpBody, Service, http::Request},
};
use one_dependency::{Charge, Declined, Order, charge, executor, service};

#[tokio::test]
async fn typed_results_are_replayed() {
    let idempotency = executor("memory:").await.unwrap();
    let key = IdempotencyKey::new("merchant_42", "order-7").unwrap();
    let told = async |amount| charge(&idempotency, &key, &Order { amount }).await.unwrap();
    let charged = Charge { amount: 500, attempt: 1 };
    assert!(matches!(told(500).await, Outcome::Executed(Ok(first)) if first == charged));
    assert!(matches!(told(500).await, Outcome::Replayed(Ok(again)) if again == charged));
    assert!(matches!(told(501).await, Outcome::Mismatch(_)));
    let key = IdempotencyKey::new("merchant_42", "order-8").unwrap();
    let nothing = async || charge(&idempotency, &key, &Order { amount: 0 }).await.unwrap();
    assert!(matches!(nothing().await, Outcome::Executed(Err(Declined::Nothing))));
    assert!(matches!(nothing().await, Outcome::Replayed(Err(Declined::Nothing))));
}

#[tokio::test]
async fn a_tower_service_is_called_once() {
    let mut service = service(executor("memory:").await.unwrap());
    for replayed in [false, true] {
        let request = Request::post("/v1/charges").header("idempotency-key", "order-7");
        let response = service.call(request.body(String::new()).unwrap()).await.unwrap();
        assert_eq!(response.headers().contains_key("idempotent-replayed"), replayed);
        let body: HttpBody<String> = response.into_body();
        assert_eq!(one_dependency::text(body).await, "call 1");
    }
}
