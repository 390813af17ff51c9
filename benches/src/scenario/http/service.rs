use axum::{Router, http::StatusCode, routing::post};
use idempotency::{Scope, tower::IdempotencyLayer};
use tokio::net::TcpListener;

use super::Address;
use crate::load::RESPONSE_BYTES;

/// Starts a service with one handler on two routes: with the layer, and without it.
pub(super) async fn start(store: &str) -> anyhow::Result<Address> {
    let store = idempotency::connect(store).await?;
    let layer = IdempotencyLayer::new(store, |request| {
        let token = request.headers.get("authorization")?.to_str().ok()?;
        Scope::new(token.strip_prefix("Bearer ")?).ok()
    });
    let app = Router::new()
        .route("/layered", post(handle))
        .route_layer(layer)
        .route("/bare", post(handle));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

async fn handle(body: String) -> (StatusCode, String) {
    let mut answer = body;
    while answer.len() < RESPONSE_BYTES {
        answer.push('r');
    }
    (StatusCode::CREATED, answer)
}
