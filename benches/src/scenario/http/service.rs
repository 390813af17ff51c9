use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::post,
};
use idempotency::{Scope, tower::IdempotencyLayer};
use redis::{Client, Value, aio::MultiplexedConnection, cmd};
use tokio::net::TcpListener;

use super::Address;
use crate::load::RESPONSE_BYTES;

/// Starts a service with one handler on several routes: with the layer, without it, and over Redis with
/// one plain `GET` in the layer's place.
pub(super) async fn start(store: &str) -> anyhow::Result<Address> {
    let mut plain = None;
    if store.starts_with("redis:") {
        plain = Some(Client::open(store)?.get_multiplexed_async_connection().await?);
    }
    let store = idempotency::connect(store).await?;
    let layer = IdempotencyLayer::new(store, |request| {
        let token = request.headers.get("authorization")?.to_str().ok()?;
        Scope::new(token.strip_prefix("Bearer ")?).ok()
    });
    let mut app = Router::new()
        .route("/layered", post(handle))
        .route_layer(layer)
        .route("/bare", post(handle));
    if let Some(connection) = plain {
        let get = from_fn_with_state(connection.clone(), get);
        let set = from_fn_with_state(connection, set);
        app = app
            .merge(Router::new().route("/get", post(handle)).route_layer(get))
            .merge(Router::new().route("/set", post(handle)).route_layer(set));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// The least that a layer over Redis could do for a replay: one round trip by the same driver.
async fn get(
    State(mut connection): State<MultiplexedConnection>,
    request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let mut get = cmd("GET");
    get.arg(key_of(&request)?);
    let _value: Value = get.query_async(&mut connection).await.map_err(|_| DOWN)?;
    Ok(next.run(request).await)
}

/// The least for a new key: a round trip before the handler and one behind it.
async fn set(
    State(mut connection): State<MultiplexedConnection>,
    request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let key = key_of(&request)?;
    let mut claim = cmd("SET");
    claim.arg(&key).arg(&[b'p'; 120]).arg("NX").arg("PX").arg(DAY_MS);
    let _claimed: Value = claim.query_async(&mut connection).await.map_err(|_| DOWN)?;
    let response = next.run(request).await;
    let mut complete = cmd("SET");
    complete.arg(&key).arg(&[b'r'; RESPONSE_BYTES]).arg("PX").arg(DAY_MS);
    let _completed: Value = complete.query_async(&mut connection).await.map_err(|_| DOWN)?;
    Ok(response)
}

const DOWN: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
const DAY_MS: u64 = 86_400_000;

fn key_of(request: &Request) -> Result<Vec<u8>, StatusCode> {
    let key = request.headers().get("idempotency-key").ok_or(StatusCode::BAD_REQUEST)?;
    Ok([b"plain/", key.as_bytes()].concat())
}

async fn handle(body: String) -> (StatusCode, String) {
    let mut answer = body;
    while answer.len() < RESPONSE_BYTES {
        answer.push('r');
    }
    (StatusCode::CREATED, answer)
}
